//! `mst plugin tighten`: the narrowest grants under which a run would have passed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use mst_model::audit::Decision;
use mst_plugin::lock::is_own;
use mst_plugin::{Access, Manifest, Request};
use mst_report::Calls;
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
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

/// What a run used of what a plugin asks for.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Tighter {
    plugin: String,
    /// Requests that were used.
    keep: Vec<String>,
    /// Requests that were not.
    drop: Vec<String>,
    /// Requests that were used for less than they ask for, in words.
    narrower: Vec<String>,
    /// What was tried, and is not asked for by the manifest.
    never_asked: Vec<String>,
    /// The command that takes back what was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

pub(crate) fn tighten(args: TightenArgs) -> Result<Exit, Failure> {
    let lock = args.lock.open()?;
    let file = plugins::find(&args.plugin, &lock)?;
    let manifest = file.manifest();
    let calls = super::audit::of(&args.run, &args.runs, false)?;
    let digests: BTreeSet<_> =
        calls.rows.iter().filter(|row| row.plugin == manifest.id).map(|row| row.sha256).collect();
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
    let asked = calls.requests_of(&manifest.id);
    let allowed = calls.rows.into_iter().filter(|row| row.decision == Decision::Allowed).collect();
    let used = Calls { rows: allowed, ..Calls::default() }.requests_of(&manifest.id);
    let tighter = of(manifest, &used, &asked, &plugins::lock_argument(&lock));
    if args.json {
        return show::json(&tighter);
    }
    show::result(&in_words(&tighter))?;
    Ok(Exit::Done)
}

/// Requests, each with how far they went.
type Requests = BTreeMap<String, BTreeSet<String>>;

/// `used` is what was allowed, `asked` what was denied too. `lock` is the `--lock` of commands.
fn of(manifest: &Manifest, used: &Requests, asked: &Requests, lock: &str) -> Tighter {
    let mut tighter = Tighter { plugin: manifest.id.to_string(), ..Tighter::default() };
    let mut known = BTreeSet::new();
    for request in manifest.requests() {
        let key = request.key().to_string();
        // An address that was asked is of every destination that covers it.
        let is_of_it = |used: &str| match &request {
            Request::Http(http) => {
                let to = used.strip_prefix("http:").and_then(|to| to.parse().ok());
                to.is_some_and(|to| http.to.covers(&to))
            }
            _ => used == key,
        };
        known.extend(asked.keys().filter(|asked| is_of_it(asked)).cloned());
        let of_it: Vec<(&String, &BTreeSet<String>)> =
            used.iter().filter(|(used, _)| is_of_it(used)).collect();
        // All of its variables are given at once: which of them it looked at nobody knows.
        if of_it.is_empty() && !matches!(request, Request::Env(_)) {
            if !request.is_granted_by_use() {
                tighter.drop.push(key);
            }
            continue;
        }
        let accesses: BTreeSet<&str> =
            of_it.iter().flat_map(|(_, accesses)| accesses.iter().map(String::as_str)).collect();
        match &request {
            Request::Dir(dir) if dir.access == Access::ReadWrite && !accesses.contains("write") => {
                tighter.narrower.push(format!("`{key}` was only read"));
            }
            Request::Http(http) => {
                let idle: Vec<&str> = http
                    .methods
                    .iter()
                    .map(|method| method.as_str())
                    .filter(|method| !accesses.contains(method))
                    .collect();
                if !idle.is_empty() {
                    tighter.narrower.push(format!("`{key}` was not asked by {}", idle.join(", ")));
                }
                let exact: Vec<&str> = of_it.iter().map(|(used, _)| used.as_str()).collect();
                if exact != [key.as_str()] {
                    tighter.narrower.push(format!("`{key}` was only {}", exact.join(", ")));
                }
            }
            _ => {}
        }
        tighter.keep.push(key);
    }
    tighter.never_asked = asked.keys().filter(|asked| !known.contains(*asked)).cloned().collect();
    // What is built into mst has what it asks for, and no lock has a word on it.
    if !tighter.drop.is_empty() && !is_own(&manifest.id) {
        let keys: Vec<String> = manifest
            .requests()
            .iter()
            .map(Request::key)
            .filter(|key| tighter.drop.contains(&key.to_string()))
            .map(|key| key.quoted())
            .collect();
        tighter.command = Some(format!("mst plugin revoke {} {}{lock}", manifest.id, keys.join(" ")));
    }
    tighter
}

fn in_words(tighter: &Tighter) -> String {
    let mut text = format!("{}\n", tighter.plugin);
    for (title, list) in [
        ("used", &tighter.keep),
        ("not used", &tighter.drop),
        ("narrower", &tighter.narrower),
        ("never asked for", &tighter.never_asked),
    ] {
        for item in list {
            text.push_str(&format!("  {title:<16} {item}\n"));
        }
    }
    match &tighter.command {
        Some(command) => text.push_str(&format!("\nthe run would have passed after\n  {command}\n")),
        None if tighter.drop.is_empty() => text.push_str("\nthe run used all that is granted\n"),
        None => text.push_str("\nit is built into mst: what it asks for can't be taken back\n"),
    }
    show::safe(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_is_taken_back_and_what_was_used_for_less_is_said() {
        let manifest = Manifest::from_toml(
            r#"
            id = "acme/runner/box"
            version = "1.0.0"
            world = "machine-runner"
            description = "Boxes."
            env = ["BOX"]
            [[http]]
            to = "https://*.acme.com"
            methods = ["GET", "POST"]
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
            "#,
        );
        let manifest = manifest.expect("a manifest");
        let used = [("exec:create", ""), ("dir:state", "read"), ("http:https://api.acme.com", "GET")];
        // What was denied is no use of a grant.
        let denied = [("exec:other", ""), ("exec:forward", "")];
        let requests = |calls: &[(&str, &str)]| -> Requests {
            let one = |(request, access): &(&str, &str)| {
                let accesses = Some(*access).filter(|access| !access.is_empty()).map(str::to_owned);
                ((*request).to_owned(), accesses.into_iter().collect())
            };
            calls.iter().map(one).collect()
        };
        let asked = requests(&[&used[..], &denied[..]].concat());
        let tighter = of(&manifest, &requests(&used), &asked, " --lock evals/mst.lock");
        insta::assert_snapshot!(in_words(&tighter), @r"
        acme/runner/box
          used             exec:create
          used             dir:state
          used             http:https://*.acme.com
          used             env:BOX
          not used         exec:forward
          narrower         `dir:state` was only read
          narrower         `http:https://*.acme.com` was not asked by POST
          narrower         `http:https://*.acme.com` was only http:https://api.acme.com
          never asked for  exec:other

        the run would have passed after
          mst plugin revoke acme/runner/box exec:forward --lock evals/mst.lock
        ");
    }
}
