//! `mst plugin add`, `grant`, `revoke`, `list`: what `mst.lock` says.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use mst_model::PluginId;
use mst_plugin::lock::is_own;
use mst_plugin::{Capability, Diff, Key, Pinned, PluginFile, Policy, Source};
use serde::Serialize;

use super::ask::{Question, ask};
use super::bindings::{Binding, bind};
use super::page;
use crate::error::Failure;
use crate::exit::Exit;
use crate::lockfile::LockFile;
use crate::{plugins, policies, show};

/// The longest line of a summary, in bytes.
const LINE: usize = 400;

#[derive(Debug, Args)]
pub(crate) struct LockArg {
    /// The lock
    #[arg(long = "lock", value_name = "FILE", default_value = mst_plugin::lock::FILE)]
    path: PathBuf,
}

impl LockArg {
    pub(crate) fn open(&self) -> Result<LockFile, Failure> {
        LockFile::at(&self.path)
    }
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The plugin's file
    source: PathBuf,
    /// What to grant, without being asked: requests by their keys, as exec:create; `all`; `none`; and
    /// `wider` for what an upgrade widens and has no key
    #[arg(long, value_name = "KEY", num_args = 1..)]
    grant: Vec<Wanted>,
    /// Where a directory is, or where a secret comes from: dir:NAME=PATH, secret:NAME=env:VARIABLE,
    /// secret:NAME=file:PATH, secret:NAME=keyring:SERVICE/USERNAME, secret:NAME=command:PROGRAM ARGUMENTS
    #[arg(long, value_name = "KEY=VALUE")]
    bind: Vec<Binding>,
    #[command(flatten)]
    lock: LockArg,
}

#[derive(Debug, Args)]
pub(crate) struct GrantArgs {
    /// The plugin's id
    plugin: PluginId,
    /// The requests to grant, as exec:create
    #[arg(value_name = "KEY", required_unless_present = "bind")]
    keys: Vec<Key>,
    /// Where a directory is, or where a secret comes from: dir:NAME=PATH, secret:NAME=env:VARIABLE,
    /// secret:NAME=file:PATH, secret:NAME=keyring:SERVICE/USERNAME, secret:NAME=command:PROGRAM ARGUMENTS
    #[arg(long, value_name = "KEY=VALUE")]
    bind: Vec<Binding>,
    #[command(flatten)]
    lock: LockArg,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The plugin's id
    plugin: PluginId,
    /// The requests to refuse from now on; where absent, the plugin is taken out of the lock
    #[arg(value_name = "KEY")]
    keys: Vec<Key>,
    #[command(flatten)]
    lock: LockArg,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    lock: LockArg,
}

/// What `--grant` names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    All,
    None,
    /// What is wider and has no key.
    Wider,
    Key(Key),
}

impl FromStr for Wanted {
    type Err = mst_plugin::request::NoKey;

    fn from_str(text: &str) -> Result<Wanted, Self::Err> {
        Ok(match text {
            "all" => Wanted::All,
            "none" => Wanted::None,
            "wider" => Wanted::Wider,
            key => Wanted::Key(key.parse()?),
        })
    }
}

pub(crate) fn add(args: AddArgs) -> Result<Exit, Failure> {
    let file = plugins::read(&args.source)?;
    let id = &file.manifest().id;
    if is_own(id) {
        return Err(Failure::new(format!(
            "`{}` says that it is `{id}`, a plugin of mst's own",
            args.source.display()
        ))
        .hint("mst's own need not be added; build another with an id of your own organisation"));
    }
    let mut lock = args.lock.open()?;
    let policy = policies::found(lock.dir(), Path::new(""))?;
    if let Some(rule) = policy.refuses_plugin(id) {
        return Err(Failure::new(rule).hint("whoever keeps the policy can change it"));
    }
    let fresh = Pinned::new(&file, lock.relative(&args.source)?);
    let earlier = lock.lock.get(id).cloned();
    let (mut pinned, diff) = match &earlier {
        Some(earlier) => {
            let (pinned, diff) = fresh.taking_over(earlier);
            (pinned, Some(diff.explained(file.manifest())))
        }
        None => (fresh, None),
    };
    bind(&mut pinned, &args.bind, &lock, &policy)?;
    let pending = pending(&file, &pinned, diff.as_ref());
    let wider = diff.as_ref().is_some_and(|diff| !diff.wider.is_empty());
    let names_wider = args.grant.iter().any(|wanted| matches!(wanted, Wanted::All | Wanted::Wider));
    let wanted = if !args.grant.is_empty() && (names_wider || !wider) {
        named(&pinned, &args.grant, &policy)
    } else if pending.is_empty() && !wider {
        Vec::new()
    } else if args.grant.is_empty() && io::stdin().is_terminal() && io::stderr().is_terminal() {
        let page = page(&file, &lock, &policy);
        let text = match &diff {
            Some(diff) => format!("{id} {}\n\n{diff}\n", pinned.version),
            None => format!("{page}\n"),
        };
        let (input, output) = (&mut io::stdin().lock(), &mut io::stderr().lock());
        let about =
            Question { text: &text, page: &page, pinned: &pinned, pending: &pending, wider, policy: &policy };
        let answer = ask(&about, input, output)?;
        bind(&mut pinned, &answer.bindings, &lock, &policy)?;
        answer.keys
    } else {
        return Err(unanswered(&pinned, diff.as_ref(), &pending, &args.source));
    };
    grant_keys(&mut pinned, &wanted, &policy)?;
    let mut said = summary(&pinned, &lock, &policy);
    // Whatever became of it: other bytes than somebody looked at are told, and all that they change.
    if let Some(diff) = diff.filter(|diff| diff.is_another_file()) {
        said += &format!("in place of another file:\n{diff}");
    }
    lock.lock.put(pinned);
    lock.write()?;
    // Who was asked has seen it; who said it beforehand should have.
    if !args.grant.is_empty() {
        let short = page(&file, &lock, &policy).short();
        let more = format!("`mst plugin inspect {}` shows all of it", args.source.display());
        show::aside(&mst_sandbox::clean(&format!("{}\n{more}\n", short.trim_end()), usize::MAX, true));
    }
    show::result(&mst_sandbox::clean(&said, usize::MAX, true))?;
    Ok(Exit::Done)
}

/// What a person has to decide, in the order of the page: all that a new plugin asks for, and what
/// an upgrade widened.
pub(super) fn pending(file: &PluginFile, pinned: &Pinned, diff: Option<&Diff>) -> Vec<Key> {
    let undecided = |key: &Key| match diff {
        Some(diff) => diff.widened_keys().any(|widened| widened == *key),
        None => true,
    };
    let open = |key: &Key| {
        let asked = pinned.requests.get(key);
        asked.is_some_and(|asked| !asked.granted && !asked.request.is_granted_by_use())
    };
    let keys = file.manifest().requests().into_iter().map(|request| request.key());
    keys.filter(|key| open(key) && undecided(key)).collect()
}

fn named(pinned: &Pinned, grant: &[Wanted], policy: &Policy) -> Vec<Key> {
    let mut keys = Vec::new();
    for wanted in grant {
        match wanted {
            Wanted::Key(key) => keys.push(key.clone()),
            Wanted::None | Wanted::Wider => {}
            Wanted::All => {
                for (key, asked) in &pinned.requests {
                    match policy.refuses(&asked.request) {
                        Some(rule) => show::aside(&format!("{key}: not granted: {rule}")),
                        None => keys.push(key.clone()),
                    }
                }
            }
        }
    }
    keys
}

fn unanswered(pinned: &Pinned, diff: Option<&Diff>, pending: &[Key], source: &Path) -> Failure {
    let id = &pinned.id;
    let mut failure = Failure::new(match diff {
        Some(_) => {
            format!("`{id}` {} asks for more than was granted, and nobody is here to ask", pinned.version)
        }
        None => format!("`{id}` asks for what nobody granted, and nobody is here to ask"),
    });
    failure.causes = match diff {
        Some(diff) => vec![diff.to_string().trim_end().to_owned()],
        None => pending.iter().map(ToString::to_string).collect(),
    };
    let wider = match diff {
        Some(diff) if !diff.wider.is_empty() => ", with `wider` for what has no key",
        _ => "",
    };
    failure.hint(format!(
        "`mst plugin inspect {}` shows all of it; say `--grant KEY` for each, `--grant all` or `--grant none`{wider}",
        source.display()
    ))
}

/// Grants these, where they are asked for, bound, and refused by no policy.
fn grant_keys(pinned: &mut Pinned, keys: &[Key], policy: &Policy) -> Result<(), Failure> {
    for key in keys {
        let asked = pinned.asked(key).map_err(|error| Failure::from_error(&error).hint(error.hint()))?;
        if let Some(rule) = policy.refuses(&asked.request) {
            return Err(Failure::new(format!("`{key}` can't be granted: {rule}"))
                .hint("whoever keeps the policy can change it"));
        }
        asked.granted = true;
        let source = pinned.bindings.secrets.get(key.name());
        let source = source.filter(|_| key.capability() == Capability::Secret);
        if let Some(rule) = source.and_then(|source| policy.refuses_source(source)) {
            return Err(Failure::new(format!("`{key}` can't be granted: {rule}"))
                .hint("bind it to another source; whoever keeps the policy can change it"));
        }
    }
    let unbound: Vec<&Key> = keys.iter().filter(|key| pinned.unbound(key)).collect();
    if unbound.is_empty() {
        return Ok(());
    }
    let mut failure = Failure::new("what can't be granted before somebody says what it is");
    failure.causes = unbound
        .iter()
        .map(|key| match key.capability() {
            Capability::Dir => format!("`{key}`: where the directory is"),
            _ => format!("`{key}`: where its value comes from"),
        })
        .collect();
    let say = unbound.iter().map(|key| match key.capability() {
        Capability::Dir => format!("--bind {key}=PATH"),
        _ => format!("--bind {key}=env:NAME"),
    });
    Err(failure.hint(format!("say it by `{}`", say.collect::<Vec<_>>().join(" "))))
}

pub(crate) fn grant(args: GrantArgs) -> Result<Exit, Failure> {
    let mut lock = args.lock.open()?;
    let policy = policies::found(lock.dir(), Path::new(""))?;
    let pinned = pinned(&lock, &args.plugin)?;
    let path = pinned.file(lock.dir());
    let file = plugins::read(&path)?;
    pinned.check(&file).map_err(|error| plugins::changed(&error, &path, &lock))?;
    // What is granted is what the file asks for, whatever the lock's text has become.
    let (mut pinned, _) = Pinned::new(&file, pinned.source.clone()).taking_over(&pinned);
    bind(&mut pinned, &args.bind, &lock, &policy)?;
    grant_keys(&mut pinned, &args.keys, &policy)?;
    let said = summary(&pinned, &lock, &policy);
    lock.lock.put(pinned);
    lock.write()?;
    show::result(&said)?;
    Ok(Exit::Done)
}

pub(crate) fn revoke(args: RevokeArgs) -> Result<Exit, Failure> {
    let mut lock = args.lock.open()?;
    let mut pinned = pinned(&lock, &args.plugin)?;
    if args.keys.is_empty() {
        lock.lock.remove(&args.plugin);
        lock.write()?;
        show::result(&format!("{} is no more in {}\n", args.plugin, lock.path().display()))?;
        return Ok(Exit::Done);
    }
    for key in &args.keys {
        let asked = pinned.asked(key).map_err(|error| Failure::from_error(&error).hint(error.hint()))?;
        if asked.request.is_granted_by_use() {
            return Err(Failure::new(format!(
                "`{key}` can't be revoked: naming it in an option is its grant"
            ))
            .hint("take it out of the eval's options"));
        }
        asked.granted = false;
    }
    // What is taken back is taken back whatever a policy says, and where none can be read.
    let policy = policies::found(lock.dir(), Path::new("")).unwrap_or_else(|failure| {
        show::aside(&failure.one_line());
        Policy::default()
    });
    let said = summary(&pinned, &lock, &policy);
    lock.lock.put(pinned);
    lock.write()?;
    show::result(&said)?;
    Ok(Exit::Done)
}

fn pinned(lock: &LockFile, id: &PluginId) -> Result<Pinned, Failure> {
    if plugins::first_party(id.as_str()).is_some() {
        return Err(Failure::new(format!("`{id}` is mst's own: it is granted all that it asks for"))
            .hint("a policy says what even mst's own plugins may not do"));
    }
    lock.lock.get(id).cloned().ok_or_else(|| {
        let known: Vec<String> = lock.lock.plugins().map(|plugin| format!("`{}`", plugin.id)).collect();
        let failure = Failure::new(format!("`{id}` is not in the lock `{}`", lock.path().display()));
        match &known[..] {
            [] => failure.hint("`mst plugin add FILE` puts it there; `--lock FILE` names another lock"),
            known => failure.hint(format!("it has {}", known.join(", "))),
        }
    })
}

/// What the lock says of a plugin now, and what a policy takes of that. What a plugin's manifest has in it
/// makes no line of its own and moves no terminal.
fn summary(pinned: &Pinned, lock: &LockFile, policy: &Policy) -> String {
    let mut lines = vec![format!("{} {} in {}", pinned.id, pinned.version, lock.path().display())];
    if let Some(rule) = policy.refuses_plugin(&pinned.id) {
        lines.push(format!("  x refused all the same: {rule}"));
    }
    let sources = policy.refused_sources(&pinned.bindings);
    for (key, asked) in &pinned.requests {
        let stands = asked.granted || asked.request.is_granted_by_use();
        let word = match asked {
            asked if asked.granted => "granted",
            asked if asked.request.is_granted_by_use() => "by option",
            _ => "not granted",
        };
        let bound = match key.capability() {
            Capability::Dir => {
                pinned.bindings.dirs.get(key.name()).map(|path| format!(" is {}", path.display()))
            }
            Capability::Secret => {
                pinned.bindings.secrets.get(key.name()).map(|source| format!(" from {source}"))
            }
            _ => None,
        };
        lines.push(format!("  {word:<11}  {key}{}", bound.unwrap_or_default()));
        let rule = policy.refuses(&asked.request).or_else(|| sources.get(key).cloned());
        if let Some(rule) = rule.filter(|_| stands) {
            lines.push(format!("    x refused all the same: {rule}"));
        }
        for (program, rule) in policy.refuses_some(&asked.request).into_iter().filter(|_| stands) {
            lines.push(format!("    x refused with `{program}`: {rule}"));
        }
    }
    lines.iter().map(|line| mst_sandbox::clean(line, LINE, false) + "\n").collect()
}

/// A plugin, as `list` shows it.
#[derive(Debug, Serialize)]
struct Line {
    id: String,
    version: String,
    sha256: String,
    /// None for mst's own, which are in mst itself.
    source: Option<String>,
    granted: usize,
    /// How many of what is granted a policy refuses.
    refused: usize,
    requests: usize,
    state: &'static str,
    /// What mst runs, as the user, to get secrets of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<String>,
}

pub(crate) fn list(args: ListArgs) -> Result<Exit, Failure> {
    let lock = args.lock.open()?;
    let policy = policies::found(lock.dir(), Path::new(""))?;
    let mut lines = Vec::new();
    for file in plugins::all_first_party()? {
        let manifest = file.manifest();
        let requests = manifest.requests().len();
        lines.push(Line {
            id: manifest.id.to_string(),
            version: manifest.version.to_string(),
            sha256: file.digest().to_string(),
            source: None,
            granted: requests,
            refused: match policy.refuses_plugin(&manifest.id) {
                Some(_) => requests,
                None => policy.refused(manifest).len(),
            },
            requests,
            state: "mst's own",
            runs: Vec::new(),
        });
    }
    for pinned in lock.lock.plugins() {
        let path = pinned.file(lock.dir());
        // Only its bytes: a list says what is, and fails for none of it.
        let bytes = Some(&path).filter(|path| path.is_file()).and_then(|path| std::fs::read(path).ok());
        let state = match bytes {
            Some(bytes) if mst_model::Digest::of(&bytes) == pinned.sha256 => "as pinned",
            Some(_) => "changed",
            None => "not there",
        };
        let granted: Vec<_> = pinned
            .requests
            .iter()
            .filter(|(_, asked)| asked.granted || asked.request.is_granted_by_use())
            .collect();
        let whole = policy.refuses_plugin(&pinned.id).is_some();
        let sources = policy.refused_sources(&pinned.bindings);
        let refused = granted.iter().filter(|(key, asked)| {
            whole || sources.contains_key(key) || policy.refuses(&asked.request).is_some()
        });
        let secrets = pinned.bindings.secrets.iter();
        let runs = secrets.filter(|(_, source)| matches!(source, Source::Command(_)));
        lines.push(Line {
            id: pinned.id.to_string(),
            version: pinned.version.to_string(),
            sha256: pinned.sha256.to_string(),
            source: Some(pinned.source.to_string_lossy().into_owned()),
            granted: granted.len(),
            refused: refused.count(),
            requests: pinned.requests.len(),
            state,
            runs: runs.map(|(name, source)| format!("secret:{name} from {source}")).collect(),
        });
    }
    if args.json {
        return show::json(&lines);
    }
    let width = |of: &dyn Fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or_default();
    let (ids, versions) = (width(&|line| line.id.len()), width(&|line| line.version.len()));
    let text: String = lines
        .iter()
        .map(|line| {
            let Line { id, version, granted, refused, requests, state, source, runs, .. } = line;
            let source = source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
            let refused = match refused {
                0 => String::new(),
                refused => format!(", {refused} of them refused by a policy"),
            };
            let runs: String =
                runs.iter().map(|run| format!("    ! mst runs a program, as you: {run}\n")).collect();
            format!(
                "{id:<ids$}  {version:<versions$}  {granted} of {requests} granted{refused}  {state}{source}\n{runs}"
            )
        })
        .collect();
    show::result(&mst_sandbox::clean(&text, usize::MAX, true))?;
    Ok(Exit::Done)
}
