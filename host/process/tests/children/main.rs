//! Real children: what `run` promises, held to what the system then shows.

#![cfg(target_os = "linux")]

mod capture;
mod ending;
mod refusal;
mod strays;
mod talking;

use std::path::Path;
use std::time::Duration;

use mst_process::{Finished, Spec, Stdin};
use rustix::process::{Pid, test_kill_process};

/// Long enough never to be met; a test that meets it has failed.
const LONG: Duration = Duration::from_secs(60);

/// Deadlines that are met, in seconds: a short one, and where the machine was too busy for a child to come as
/// far as it should before that, one that is longer.
const MORE_AND_MORE: [u64; 2] = [2, 20];

/// A shell that runs `script` in `dir`.
fn sh(dir: &Path, script: &str) -> Spec {
    mst_process::adopt_orphans();
    Spec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        cwd: dir.to_owned(),
        cwd_is_own: true,
        stdin: Stdin::Null,
        time: LONG,
        max_stdout_bytes: 1 << 20,
        max_stderr_bytes: 1 << 20,
        cleanup: LONG,
    }
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

async fn run(spec: Spec) -> Finished {
    mst_process::run(spec).await.expect("runs")
}

/// The process ids that a script printed.
fn pids(text: &[u8]) -> Vec<Pid> {
    let text = String::from_utf8_lossy(text);
    text.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("a pid")).expect("a pid")).collect()
}

/// Not even a zombie is left.
fn gone(pid: Pid) -> bool {
    test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

#[track_caller]
fn assert_gone(pids: &[Pid], expected: usize) {
    assert_eq!(pids.len(), expected, "the script said who it started: {pids:?}");
    for pid in pids {
        assert!(gone(*pid), "process {pid} is still there");
    }
}
