//! Which version of each client a worker asks.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mst_model::VariantId;
use mst_model::eval::{Client, ClientKind};
use mst_model::transcript::ClientInfo;
use mst_process::{Exit, Finished, Spec, Stdin, resolve_program};

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

/// Each variant's client, as it stands in transcripts and in `hello`. Variants that ask for a version
/// in the same way ask once.
///
/// # Errors
/// Where a version can't be had, in words: nobody is asked anything before it is known who is asked.
pub(crate) async fn of_clients(
    clients: &BTreeMap<VariantId, Client>,
    environment: &ClientEnvironment,
    scratch: &Path,
    mst: &str,
) -> Result<BTreeMap<VariantId, ClientInfo>, String> {
    let mut infos = BTreeMap::new();
    let mut asked: Vec<(&Client, String)> = Vec::new();
    for (variant, client) in clients {
        let same = |(other, _): &&(&Client, String)| {
            other.version_argv == client.version_argv
                && other.env == client.env
                && other.pass_env == client.pass_env
        };
        let known = asked.iter().find(same).map(|(_, version)| version.clone());
        let version = match (client.kind, known) {
            // It is a part of mst.
            (ClientKind::Echo, _) => Some(mst.to_owned()),
            (ClientKind::Command, _) if client.version_argv.is_empty() => None,
            (ClientKind::Command, Some(version)) => Some(version),
            (ClientKind::Command, None) => {
                let version = ask(client, environment, scratch)
                    .await
                    .map_err(|why| format!("the version of the client of `{variant}` can't be had: {why}"))?;
                asked.push((client, version.clone()));
                Some(version)
            }
        };
        infos.insert(variant.clone(), ClientInfo { name: client.kind.as_str().to_owned(), version });
    }
    Ok(infos)
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
