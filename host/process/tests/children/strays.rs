//! Descendants that left the group, and processes that are none of ours.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::*;

/// Starts `started` as a daemon, and ends when that has said its process id.
fn daemon(started: &str) -> String {
    format!("mkfifo ready; {started} & read daemon <ready; echo $daemon")
}

#[tokio::test]
async fn a_daemon_is_found_however_it_hides() {
    for started in [
        // It holds the output open.
        "setsid sh -c 'echo $$ >ready; exec sleep 1000'",
        // It does not.
        "setsid sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1",
        // It left the group, not the session.
        "timeout 1000 sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1",
        // It hides its environment, and holds the output.
        "env -i setsid sh -c 'echo $$ >ready; exec sleep 1000'",
        // It hides its environment and closes the output, and stands in the workspace.
        "env -i setsid sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1",
    ] {
        let dir = dir();
        let ended = run(sh(dir.path(), &daemon(started))).await;
        assert_eq!(ended.left, None, "{started}");
        assert_gone(&pids(&ended.stdout.bytes), 1);
    }
}

#[tokio::test]
async fn a_daemons_own_tree_goes_with_it() {
    let dir = dir();
    let script = daemon(
        "setsid sh -c 'sleep 1000 & one=$!; setsid sleep 1000 & two=$!; echo $$ $one $two >ready; wait' >/dev/null 2>&1",
    );
    let ended = run(sh(dir.path(), &script)).await;
    assert_eq!(ended.left, None);
    assert_gone(&pids(&ended.stdout.bytes), 3);
}

#[tokio::test]
async fn a_daemon_that_ended_by_itself_leaves_no_zombie() {
    let dir = dir();
    let script = daemon("(setsid sh -c 'echo $$ >ready' &)");
    let ended = run(sh(dir.path(), &script)).await;
    let pids = pids(&ended.stdout.bytes);
    // It may not yet have been dead when the run looked; the next run reaps it then.
    let began = Instant::now();
    while !gone(pids[0]) {
        assert!(began.elapsed() < LONG);
        run(sh(dir.path(), ":")).await;
    }
}

#[tokio::test]
async fn who_is_none_of_ours_is_left_alone() {
    let dir = dir();
    // A child of this process that somebody else waits for, in the same directory.
    let mut other = Command::new("/bin/sleep")
        .arg("1000")
        .current_dir(dir.path())
        .process_group(0)
        .spawn()
        .expect("starts");
    let mut dead =
        Command::new("/bin/sh").args(["-c", "exit 5"]).current_dir(dir.path()).spawn().expect("starts");
    // A daemon of another run that is under way, adopted by this process already.
    let theirs = super::dir();
    let script = "mkfifo ready go
        (setsid sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1 &)
        read daemon <ready; echo $daemon >told.tmp; mv told.tmp told; echo $daemon
        read x <go";
    let running = tokio::spawn(run(sh(theirs.path(), script)));
    let told = theirs.path().join("told");
    let began = Instant::now();
    while !told.exists() {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let daemon = pids(&fs::read(&told).expect("reads"))[0];

    let ended = run(sh(dir.path(), &daemon_of_ours())).await;
    assert_gone(&pids(&ended.stdout.bytes), 1);

    assert!(!gone(daemon), "another run's");
    assert!(other.try_wait().expect("waits").is_none(), "another child");
    assert_eq!(dead.wait().expect("still to be waited for").code(), Some(5));

    let go = theirs.path().join("go");
    tokio::task::spawn_blocking(move || File::create(go).and_then(|mut go| go.write_all(b"\n")))
        .await
        .expect("runs")
        .expect("written");
    assert_eq!(running.await.expect("ends").left, None);
    assert!(gone(daemon));
    other.kill().and_then(|()| other.wait()).expect("killed");
}

fn daemon_of_ours() -> String {
    daemon("setsid sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1")
}

#[tokio::test]
async fn what_can_not_be_cleaned_up_is_said_beside_the_outcome() {
    let dir = dir();
    // It carries another's mark and so is nobody's to kill, and it holds the output.
    let script =
        format!("{}; exit 6", daemon("MST_PROCESS=other setsid sh -c 'echo $$ >ready; exec sleep 1000'"));
    let mut spec = sh(dir.path(), &script);
    spec.cleanup = Duration::from_secs(1);
    let ended = run(spec).await;
    let left = ended.left.expect("something is left").to_string();
    assert_eq!(left, "a process that hid from its group holds the output open 1s after SIGKILL");
    assert_eq!((ended.exit, ended.timed_out), (mst_process::Exit::Code(6), false));
    let pids = pids(&ended.stdout.bytes);
    assert_eq!(pids.len(), 1, "what was written before is there");
    rustix::process::kill_process(pids[0], rustix::process::Signal::KILL).expect("killed");
}

/// As in a container or under a CI runner: the session began outside of this process's namespace
/// of process ids, and its number there is 0.
#[test]
fn where_the_session_has_no_number_strays_are_found_all_the_same() {
    let me = "where_the_session_has_no_number";
    let within = |script: &str, args: &[&std::ffi::OsStr]| {
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--"])
            .args(["/bin/sh", "-c", script])
            .args(args)
            .stdin(Stdio::null())
            .output()
    };
    // `PID (NAME) STATE PARENT GROUP SESSION`, of the shell.
    match within("read pid name state parent group session rest </proc/self/stat; echo $session", &[]) {
        Ok(probe) if probe.status.success() => assert_eq!(probe.stdout, b"0\n"),
        _ => return eprintln!("skipped: no namespace of process ids can be made here with `unshare`"),
    }
    let test = std::env::current_exe().expect("this test");
    let args = [test.as_os_str(), "strays::".as_ref(), "--skip".as_ref(), me.as_ref()];
    // The shell is there to be the init.
    let ended = within("\"$0\" \"$@\"; exit $?", &args).expect("starts");
    let (said, erred) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{said}{erred}");
    assert!(said.contains("5 passed"), "{said}");
}
