//! Which version of each client a worker asks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use mst_model::VariantId;
use mst_model::eval::{Client, ClientKind};
use mst_model::transcript::ClientInfo;
use mst_process::{Exit, Finished, Spec, Stdin, resolve_program};
use tokio::task::JoinSet;

use crate::client::{ClientEnvironment, surroundings};
use crate::until::Until;
use crate::workspace::Workspace;

/// How long a program may take to say its version.
const TIME: Duration = Duration::from_secs(30);

/// How long its end may take to be sure of.
const CLEANUP: Duration = Duration::from_secs(10);

/// How much of what it says is looked at.
const MAX_OUTPUT: u64 = 4 << 10;

/// How much of its first line is kept, in characters.
const MAX_VERSION: usize = 200;

/// Each variant's client, as it stands in transcripts and in `hello`. Those that ask for a version in the
/// same way ask once, and all of them side by side. Dropping the future ends what was asked.
///
/// # Errors
/// Where a version can't be had, in words: nobody is asked anything before it is known who is asked.
pub(crate) async fn of_clients(
    clients: &BTreeMap<VariantId, Client>,
    environment: &ClientEnvironment,
    scratch: &Path,
    mst: &str,
) -> Result<BTreeMap<VariantId, ClientInfo>, String> {
    let mut groups: Vec<(&Client, Vec<&VariantId>)> = Vec::new();
    for (variant, client) in clients.iter().filter(|(_, client)| !client.version_argv.is_empty()) {
        let same = |(other, _): &&mut (&Client, Vec<&VariantId>)| {
            other.version_argv == client.version_argv && other.env == client.env
        };
        match groups.iter_mut().find(same) {
            Some((_, variants)) => variants.push(variant),
            None => groups.push((client, vec![variant])),
        }
    }
    let mut asking = JoinSet::new();
    for (at, (client, _)) in groups.iter().enumerate() {
        // What it says stands in transcripts and errors, so that it has no secret to say.
        let client = Client { pass_env: BTreeSet::new(), ..(*client).clone() };
        let (environment, scratch) = (environment.clone(), scratch.to_owned());
        asking.spawn(async move { (at, ask(&client, &environment, &scratch).await) });
    }
    let mut infos = unasked(clients, mst);
    while let Some(asked) = asking.join_next().await {
        let (at, version) = asked.map_err(|error| error.to_string())?;
        let variants = &groups[at].1;
        let version = version.map_err(|why| {
            let shown = variants.first().map_or("", |variant| variant.as_str());
            format!("the version of the client of `{shown}` can't be had: {why}")
        })?;
        for variant in variants {
            infos.entry((*variant).clone()).and_modify(|info| info.version = Some(version.clone()));
        }
    }
    Ok(infos)
}

/// The same, as far as it is known without asking.
pub(crate) fn unasked(clients: &BTreeMap<VariantId, Client>, mst: &str) -> BTreeMap<VariantId, ClientInfo> {
    let info = |(variant, client): (&VariantId, &Client)| {
        // `echo` is a part of mst.
        let version = (client.kind == ClientKind::Echo).then(|| mst.to_owned());
        (variant.clone(), ClientInfo { name: client.kind.as_str().to_owned(), version })
    };
    clients.iter().map(info).collect()
}

async fn ask(client: &Client, environment: &ClientEnvironment, scratch: &Path) -> Result<String, String> {
    let Some((program, args)) = client.version_argv.split_first() else {
        return Err("it has no program".to_owned());
    };
    let scratch = scratch.to_owned();
    let made = move || Workspace::fresh(&scratch, "", &[], Until::after(TIME));
    let made = tokio::task::spawn_blocking(made).await.map_err(|error| error.to_string())?;
    let workspace = made.map_err(|error| format!("a directory for it can't be made: {error}"))?;
    let env = surroundings(client, environment, &workspace);
    let path = env.get("PATH").map_or("", String::as_str);
    let program =
        resolve_program(program, path, &environment.base_dir).map_err(|missed| missed.to_string())?;
    let ran = mst_process::run(Spec {
        program,
        args: args.iter().map(Into::into).collect(),
        env: env.into_iter().collect(),
        cwd: workspace.dir(),
        cwd_is_own: true,
        stdin: Stdin::Null,
        time: TIME,
        max_stdout_bytes: MAX_OUTPUT,
        max_stderr_bytes: MAX_OUTPUT,
        cleanup: CLEANUP,
    });
    let said = ran.await.map_err(|error| crate::whole(&error)).and_then(read);
    let removed = tokio::task::spawn_blocking(move || workspace.remove(Until::after(CLEANUP))).await;
    let version = said?;
    removed
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("what it left can't be removed: {error}"))?;
    Ok(version)
}

fn read(finished: Finished) -> Result<String, String> {
    if finished.timed_out {
        return Err(format!("`version_argv` did not end within {} s", TIME.as_secs()));
    }
    if finished.exit != Exit::Code(0) {
        let said = line(&finished.stderr.bytes).map_or(String::new(), |said| format!(", and said: {said}"));
        let how = match finished.exit {
            Exit::Code(code) => format!("code {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
        };
        return Err(format!("`version_argv` ended with {how}{said}"));
    }
    line(&finished.stdout.bytes).ok_or_else(|| "`version_argv` printed nothing".to_owned())
}

/// The first line that says something, without what a terminal would obey.
fn line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let clean = |line: &str| -> String {
        let shown = line.trim().chars().filter(|c| !c.is_control());
        shown.take(MAX_VERSION).collect()
    };
    text.lines().map(clean).find(|line| !line.is_empty())
}
