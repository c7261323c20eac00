//! `mst plugin tighten`: what a run says of a plugin's grants. Of a run that is whole, the narrowest of the
//! plugin's requests under which it would have passed; of one that is not, what it needed and has not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use mst_model::Kind;
use mst_model::audit::Decision;
use mst_plugin::lock::is_own;
use mst_plugin::{Access, Capability, Destination, Http, Key, Manifest, PluginFile, Request};
use mst_report::{CallRow, Summary};
use mst_store::{RunDir, StoreError};
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
use crate::lockfile::LockFile;
use crate::{plugins, show};

#[derive(Debug, Args)]
pub(crate) struct TightenArgs {
    /// The plugin: a first-party id, one in the lock, or a component's file
    plugin: String,
    #[command(flatten)]
    lock: super::plugin::LockArg,
    /// The run to go by: its name, or its directory
    #[arg(long, value_name = "RUN")]
    run: String,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// What a run says of what a plugin asks for.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Tighter {
    plugin: String,
    /// Requests by which a call was allowed.
    used: Vec<String>,
    /// Requests that were not granted when a call wanted them.
    denied: Vec<String>,
    /// Variables that are granted: the plugin gets all of them at once, and which it read nobody knows.
    given: Vec<String>,
    /// Requests that are granted, and were neither used nor denied.
    not_used: Vec<String>,
    /// Requests that are not granted, and were neither used nor denied.
    not_granted: Vec<String>,
    /// What was denied, and no grant would have allowed.
    no_grant_helps: Vec<Beyond>,
    /// Whether every trial of the run is there and graded, and no instrument broke. What another did
    /// without may be what it did not come to.
    run_is_whole: bool,
    /// The command that grants what the run needed and is not granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<String>,
    /// The command that takes back what was not used; of a run that is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoke: Option<String>,
    /// Requests that were used for less than they ask for: words for who writes the plugin, since what
    /// is granted is a whole request.
    narrower: Vec<String>,
}

/// A denied call that no grant would have allowed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Beyond {
    /// What it would have taken.
    request: String,
    /// Why it was denied.
    rule: String,
}

pub(crate) fn tighten(args: TightenArgs) -> Result<Exit, Failure> {
    let lock = args.lock.open()?;
    let file = plugins::find(&args.plugin, &lock)?;
    let manifest = file.manifest();
    let calls = super::audit::of(&args.run, &args.runs, false)?;
    let rows: Vec<CallRow> = calls.rows.into_iter().filter(|row| row.plugin == manifest.id).collect();
    let digests: BTreeSet<_> = rows.iter().map(|row| row.sha256).collect();
    if digests.is_empty() {
        return Err(Failure::new(format!("`{}` called nothing in the run `{}`", manifest.id, args.run))
            .hint("`mst audit RUN` shows which plugins did"));
    }
    if !digests.contains(&file.digest()) {
        let digests: Vec<String> = digests.iter().map(ToString::to_string).collect();
        return Err(Failure::new(format!(
            "the run `{}` used another `{}`: {}, and this is {}",
            args.run,
            manifest.id,
            digests.join(", "),
            file.digest()
        ))
        .hint("name the file that the run used"));
    }
    // What is not told apart may have been the one call that needed a grant.
    if calls.others > 0 {
        return Err(Failure::new(format!(
            "what `{}` did without in the run `{}` can't be said: its audit has {} of further kinds, which \
             are not told apart",
            manifest.id,
            args.run,
            show::counted(calls.others, "call")
        ))
        .hint("go by a run of fewer cases"));
    }
    let now = Now::of(&file, &lock)?;
    let tighter = of(manifest, &rows, &now, is_whole(&args.run, &args.runs)?);
    if args.json {
        return show::json(&tighter);
    }
    show::result(&in_words(&tighter, manifest))?;
    Ok(Exit::Done)
}

/// Whether the run passed, as far as instruments go.
fn is_whole(run: &str, runs: &Path) -> Result<bool, Failure> {
    let failed =
        |error: &dyn std::error::Error| Failure::because(format!("can't read the run `{run}`"), error);
    let dir = match RunDir::open_read(&super::find_run(run, runs)?) {
        // One that came to nothing may have no record, and an audit all the same.
        Err(StoreError::NoRun { .. }) => return Ok(false),
        opened => opened.map_err(|error| failed(&error))?,
    };
    let summary = Summary::of(&dir).map_err(|error| failed(&error))?;
    Ok(super::verdict(&summary) != Exit::Partial)
}

/// What a plugin is granted now.
struct Now {
    granted: BTreeSet<Key>,
    /// What can't be granted without saying what it is.
    unbound: BTreeSet<Key>,
    /// The `--lock` of commands.
    lock: String,
}

impl Now {
    fn of(file: &PluginFile, lock: &LockFile) -> Result<Now, Failure> {
        let id = &file.manifest().id;
        let keys: BTreeSet<Key> = file.manifest().requests().iter().map(Request::key).collect();
        if is_own(id) {
            return Ok(Now { granted: keys, unbound: BTreeSet::new(), lock: String::new() });
        }
        let pinned = lock.lock.get(id).ok_or_else(|| {
            Failure::new(format!("`{id}` is not in the lock `{}`", lock.path().display()))
                .hint("`--lock FILE` names the lock that the run went by")
        })?;
        let granted = pinned
            .granted(file, lock.dir())
            .map_err(|error| plugins::changed(&error, &pinned.file(lock.dir()), lock))?;
        let (granted, unbound) = (
            keys.iter().filter(|key| granted.has(key)).cloned().collect(),
            keys.iter().filter(|key| pinned.unbound(key)).cloned().collect(),
        );
        Ok(Now { granted, unbound, lock: plugins::lock_argument(lock) })
    }

    /// Whether this request stands now.
    fn has(&self, key: &Key) -> bool {
        self.granted.contains(key) && !self.unbound.contains(key)
    }
}

/// How far each request was used, by its key: methods with their address, `read`, `write`.
type Used = BTreeMap<Key, BTreeSet<(String, String)>>;

fn of(manifest: &Manifest, rows: &[CallRow], now: &Now, run_is_whole: bool) -> Tighter {
    let (mut used, mut denied) = (Used::new(), BTreeSet::new());
    let mut beyond = BTreeSet::new();
    for row in rows {
        let Some(request) = &row.request else { continue };
        let access = row.access.as_deref().unwrap_or_default();
        match (row.decision, asked(manifest, request, access, now)) {
            (Decision::Allowed, Some(key)) => {
                used.entry(key).or_default().insert((request.clone(), access.to_owned()));
            }
            (Decision::Allowed, None) => {}
            (Decision::Denied, Some(key)) if row.grant.is_some() => {
                denied.insert(key);
            }
            (Decision::Denied, _) => {
                beyond.insert(Beyond { request: request.clone(), rule: row.rule.clone() });
            }
        }
    }
    let mut tighter = Tighter {
        plugin: manifest.id.to_string(),
        no_grant_helps: beyond.into_iter().collect(),
        run_is_whole,
        ..Tighter::default()
    };
    let (mut grant, mut revoke) = (Vec::new(), Vec::new());
    for request in manifest.requests() {
        let key = request.key();
        let (is_used, was_denied) = (used.contains_key(&key), denied.contains(&key));
        let word = key.to_string();
        if is_used {
            tighter.used.push(word);
        } else if was_denied {
            tighter.denied.push(word);
        } else if request.is_granted_by_use() {
            // Naming it in an option is what grants it: there is nothing to take back.
        } else if !now.granted.contains(&key) {
            tighter.not_granted.push(word);
        } else if matches!(request, Request::Env(_)) {
            tighter.given.push(word);
        } else {
            tighter.not_used.push(word);
            revoke.push(key.quoted());
        }
        if let Some(how) = used.get(&key) {
            tighter.narrower.extend(narrower(&request, how));
        }
        if (is_used || was_denied) && !now.has(&key) && !request.is_granted_by_use() {
            grant.push(key);
        }
    }
    // What is built into mst has what it asks for, and no lock has a word on it.
    if !is_own(&manifest.id) {
        let id = &manifest.id;
        if !grant.is_empty() {
            let keys: Vec<String> = grant.iter().map(Key::quoted).collect();
            let binds = grant.iter().filter(|key| now.unbound.contains(key)).map(|key| {
                let what = if key.capability() == Capability::Dir { "PATH" } else { "env:NAME" };
                format!(" --bind {}={what}", key.quoted())
            });
            let binds: String = binds.collect();
            tighter.grant = Some(format!("mst plugin grant {id} {}{binds}{}", keys.join(" "), now.lock));
        }
        if run_is_whole && !revoke.is_empty() {
            tighter.revoke = Some(format!("mst plugin revoke {id} {}{}", revoke.join(" "), now.lock));
        }
    }
    tighter
}

/// The manifest's request that admits what a call asked for, or would: where several do, the first that is
/// granted, as the broker has it.
fn asked(manifest: &Manifest, request: &str, access: &str, now: &Now) -> Option<Key> {
    let Some(to) = request.strip_prefix("http:") else {
        let mut keys = manifest.requests().into_iter().map(|request| request.key());
        return keys.find(|key| key.to_string() == request);
    };
    let to: Destination = to.parse().ok()?;
    let admits =
        |http: &&Http| http.to.covers(&to) && http.methods.iter().any(|method| method.as_str() == access);
    let admitting = manifest.http.iter().filter(admits);
    let keys: Vec<Key> = admitting.map(|http| Key::new(Capability::Http, http.to.to_string())).collect();
    keys.iter().find(|key| now.has(key)).or(keys.first()).cloned()
}

/// For how much less than it asks for a request was used, in words.
fn narrower(request: &Request, how: &BTreeSet<(String, String)>) -> Vec<String> {
    let key = request.key().to_string();
    let uses = |access: &str| how.iter().any(|(_, used)| used == access);
    match request {
        Request::Dir(dir) if dir.access == Access::ReadWrite && !uses("write") => {
            vec![format!("`{key}` was only read")]
        }
        Request::Http(http) => {
            let mut words = Vec::new();
            let methods = http.methods.iter().map(|method| method.as_str());
            let idle: Vec<&str> = methods.filter(|method| !uses(method)).collect();
            if !idle.is_empty() {
                words.push(format!("`{key}` was not asked by {}", idle.join(", ")));
            }
            let exact: BTreeSet<&str> = how.iter().map(|(used, _)| used.as_str()).collect();
            if !exact.iter().eq([&key.as_str()]) {
                let exact: Vec<&str> = exact.into_iter().collect();
                words.push(format!("`{key}` was only {}", exact.join(", ")));
            }
            words
        }
        _ => Vec::new(),
    }
}

fn in_words(tighter: &Tighter, manifest: &Manifest) -> String {
    let mut text = format!("{}\n", tighter.plugin);
    for (title, list) in [
        ("used", &tighter.used),
        ("denied", &tighter.denied),
        ("given", &tighter.given),
        ("not used", &tighter.not_used),
        ("not granted", &tighter.not_granted),
    ] {
        for item in list {
            text.push_str(&format!("  {title:<16} {item}\n"));
        }
    }
    for Beyond { request, rule } in &tighter.no_grant_helps {
        text.push_str(&format!("  {:<16} {request}: {rule}\n", "no grant helps"));
    }
    if !tighter.given.is_empty() {
        text.push_str("\nwhich of the variables that it is given it reads is not known\n");
    }
    if tighter.run_is_whole {
        let commands: Vec<&String> = tighter.grant.iter().chain(&tighter.revoke).collect();
        if !commands.is_empty() {
            text.push_str("\nthe run would have gone the same after\n");
            for command in commands {
                text.push_str(&format!("  {command}\n"));
            }
            if tighter.revoke.is_some() && manifest.id.kind() == Kind::Runner {
                text.push_str(
                    "`mst machines reap`, after a run that was killed, may need more than a run does\n",
                );
            }
        } else if tighter.not_used.is_empty() {
            text.push_str("\nthere is nothing to take back\n");
        } else {
            text.push_str("\nit is built into mst: what it asks for can't be taken back\n");
        }
    } else {
        if let Some(command) = &tighter.grant {
            text.push_str(&format!("\nwhat the run needed and is not granted is granted by\n  {command}\n"));
        }
        if !tighter.no_grant_helps.is_empty() {
            text.push_str("\nno grant would have let the run pass: it was denied what none can allow\n");
        }
        text.push_str(
            "\nthe run is not whole: what it would have used beyond this is not known, and nothing is taken back\n\
             by it; run it again, and go by that run\n",
        );
    }
    if !tighter.narrower.is_empty() {
        text.push_str(
            "\nfor who writes the plugin (a grant is of a whole request, and no command narrows one):\n",
        );
        for words in &tighter.narrower {
            text.push_str(&format!("  {words}\n"));
        }
    }
    show::safe(&text)
}

#[cfg(test)]
mod tests {
    use mst_model::Digest;

    use super::*;

    fn manifest() -> Manifest {
        let manifest = Manifest::from_toml(
            r#"
            id = "acme/runner/box"
            version = "1.0.0"
            world = "machine-runner"
            description = "Boxes."
            env = ["BOX", "LID"]
            [[http]]
            to = "https://*.acme.com"
            methods = ["GET", "POST"]
            [[http]]
            to = "https://api.acme.com"
            methods = ["GET"]
            [[secret]]
            name = "key"
            about = "Opens boxes."
            to = ["https://api.acme.com"]
            [[dir]]
            name = "state"
            access = "read-write"
            [[exec]]
            id = "create"
            argv = ["box", "new"]
            timeout = "1m"
            [[exec]]
            id = "forward"
            argv = ["box", "forward"]
            timeout = "1m"
            [[exec]]
            id = "open"
            argv = ["box", "open"]
            timeout = "1m"
            "#,
        );
        manifest.expect("a manifest")
    }

    /// A call that was allowed, or denied: then with whether a command would have granted it.
    fn row(request: &str, access: &str, denied: Option<bool>) -> CallRow {
        CallRow {
            plugin: manifest().id,
            sha256: Digest::of(b"box"),
            call: "a call".to_owned(),
            request: Some(request.to_owned()),
            access: Some(access.to_owned()).filter(|access| !access.is_empty()),
            decision: if denied.is_some() { Decision::Denied } else { Decision::Allowed },
            rule: "the rule".to_owned(),
            grant: denied.filter(|mended| *mended).map(|_| "mst plugin grant".to_owned()),
            count: 1,
            unfinished: 0,
            not_ok: 0,
            bytes_in: 0,
            bytes_out: 0,
            duration_ns: 0,
        }
    }

    fn said(rows: &[CallRow], granted: &[&str], unbound: &[&str], whole: bool) -> String {
        let keys = |keys: &[&str]| keys.iter().map(|key| key.parse().expect("a key")).collect();
        let now =
            Now { granted: keys(granted), unbound: keys(unbound), lock: " --lock evals/mst.lock".to_owned() };
        in_words(&of(&manifest(), rows, &now, whole), &manifest())
    }

    #[test]
    fn of_a_whole_run_what_is_granted_and_was_not_used_is_taken_back() {
        let rows = [
            row("exec:create", "", None),
            row("dir:state", "read", None),
            row("http:https://api.acme.com", "GET", None),
            row("http:https://www.acme.com", "GET", None),
        ];
        let granted =
            ["exec:create", "exec:forward", "dir:state", "http:https://*.acme.com", "secret:key", "env:BOX"];
        insta::assert_snapshot!(said(&rows, &granted, &[], true), @"
        acme/runner/box
          used             exec:create
          used             dir:state
          used             http:https://*.acme.com
          given            env:BOX
          not used         exec:forward
          not used         secret:key
          not granted      exec:open
          not granted      http:https://api.acme.com
          not granted      env:LID

        which of the variables that it is given it reads is not known

        the run would have gone the same after
          mst plugin revoke acme/runner/box exec:forward secret:key --lock evals/mst.lock
        `mst machines reap`, after a run that was killed, may need more than a run does

        for who writes the plugin (a grant is of a whole request, and no command narrows one):
          `dir:state` was only read
          `http:https://*.acme.com` was not asked by POST
          `http:https://*.acme.com` was only http:https://api.acme.com, http:https://www.acme.com
        ");
        let rest = ["exec:create", "dir:state", "http:https://*.acme.com"];
        let text = said(&rows, &rest, &[], true);
        assert!(text.contains("\nthere is nothing to take back\n") && !text.contains("mst plugin"), "{text}");
    }

    #[test]
    fn what_was_denied_and_is_asked_for_is_needed_and_nothing_is_taken_back() {
        let rows = [
            row("exec:create", "", None),
            row("exec:open", "", Some(true)),
            row("secret:key", "", Some(true)),
            row("exec:shut", "", Some(false)),
            row("http:https://acme.org", "GET", Some(false)),
        ];
        let granted = ["exec:create", "exec:forward"];
        insta::assert_snapshot!(said(&rows, &granted, &["secret:key"], false), @"
        acme/runner/box
          used             exec:create
          denied           exec:open
          denied           secret:key
          not used         exec:forward
          not granted      dir:state
          not granted      http:https://*.acme.com
          not granted      http:https://api.acme.com
          not granted      env:BOX
          not granted      env:LID
          no grant helps   exec:shut: the rule
          no grant helps   http:https://acme.org: the rule

        what the run needed and is not granted is granted by
          mst plugin grant acme/runner/box exec:open secret:key --bind secret:key=env:NAME --lock evals/mst.lock

        no grant would have let the run pass: it was denied what none can allow

        the run is not whole: what it would have used beyond this is not known, and nothing is taken back
        by it; run it again, and go by that run
        ");
    }

    #[test]
    fn what_was_used_and_is_granted_no_more_is_needed() {
        let rows = [row("exec:create", "", None), row("http:https://api.acme.com", "POST", None)];
        insta::assert_snapshot!(said(&rows, &["exec:open", "http:https://api.acme.com"], &[], true), @"
        acme/runner/box
          used             exec:create
          used             http:https://*.acme.com
          not used         exec:open
          not used         http:https://api.acme.com
          not granted      exec:forward
          not granted      dir:state
          not granted      secret:key
          not granted      env:BOX
          not granted      env:LID

        the run would have gone the same after
          mst plugin grant acme/runner/box exec:create 'http:https://*.acme.com' --lock evals/mst.lock
          mst plugin revoke acme/runner/box exec:open http:https://api.acme.com --lock evals/mst.lock
        `mst machines reap`, after a run that was killed, may need more than a run does

        for who writes the plugin (a grant is of a whole request, and no command narrows one):
          `http:https://*.acme.com` was not asked by GET
          `http:https://*.acme.com` was only http:https://api.acme.com
        ");
    }

    #[test]
    fn an_address_is_of_the_first_request_that_is_granted() {
        let get = [row("http:https://api.acme.com", "GET", None)];
        let text = said(&get, &["http:https://api.acme.com"], &[], true);
        assert!(text.contains("used             http:https://api.acme.com\n"), "{text}");
        assert!(text.contains("not granted      http:https://*.acme.com\n"), "{text}");
        // As the broker has it: in the manifest's order.
        let text = said(&get, &["http:https://*.acme.com", "http:https://api.acme.com"], &[], true);
        assert!(text.contains("used             http:https://*.acme.com\n"), "{text}");
        assert!(text.contains("not used         http:https://api.acme.com\n"), "{text}");
    }
}
