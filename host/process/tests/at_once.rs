//! A program that ends at once leaves nothing. A test of its own process: what it kills is all there is.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mst_process::{Exit, Spec, Stdin};

fn is_gone(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// A shell that runs `script` in `dir`.
fn sh(dir: &Path, script: &str) -> Spec {
    Spec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        cwd: dir.to_owned(),
        cwd_is_own: true,
        stdin: Stdin::Null,
        time: Duration::from_secs(600),
        max_stdout_bytes: 100,
        max_stderr_bytes: 100,
        cleanup: Duration::from_secs(30),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_started_goes_and_who_waits_sees_it() {
    mst_process::adopt_orphans();
    let dir = tempfile::tempdir().expect("a directory");
    let script = "echo $$ >a; sleep 600 & echo $! >b; setsid sh -c 'echo $$ >c; exec sleep 600' & \
        while ! test -s c; do sleep 0.01; done; touch ready; wait";
    let waits = tokio::spawn(mst_process::run(sh(dir.path(), script)));
    let patience = Instant::now() + Duration::from_secs(60);
    while !dir.path().join("ready").exists() {
        assert!(Instant::now() < patience, "it begins");
        sleep(Duration::from_millis(5));
    }
    let pids = ["a", "b", "c"].map(|name| fs::read_to_string(dir.path().join(name)).expect("reads"));
    assert!(pids.iter().all(|pid| !is_gone(pid.trim())));
    let talked_with = sh(dir.path(), "cat; echo all seen out >end");
    let mut running = mst_process::start(talked_with).await.expect("it starts");
    tokio::task::spawn_blocking(mst_process::kill_all).await.expect("runs");
    while !pids.iter().all(|pid| is_gone(pid.trim())) {
        assert!(Instant::now() < patience, "{pids:?} are still there");
        sleep(Duration::from_millis(5));
    }
    let finished = waits.await.expect("runs").expect("it ended");
    assert_eq!(finished.exit, Exit::Signal(9));
    assert!(!dir.path().join("end").exists(), "it has its stdin yet");
    drop(running.take_stdin());
    while !dir.path().join("end").exists() {
        assert!(Instant::now() < patience, "it sees its stdin end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
