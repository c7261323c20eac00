//! Two processes and one run. The second process is this file's own test binary, told by an
//! environment variable to play its part.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::fixture::*;
use mst_store::{RunDir, StoreError};

const RUN: &str = "MST_STORE_TEST_RUN";

/// Trials that [`the_other_process`] has room for.
const ROOM: u32 = 100_000;

/// No test by itself: takes the lock of the run that [`RUN`] names, says so, and commits trials
/// until it is killed.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os(RUN) else {
        return;
    };
    let run = RunDir::open_write(Path::new(&path)).expect("opens");
    println!("\nlocked");
    for index in 0..ROOM {
        commit(run.path(), &key("x", "a", index)).expect("commits");
        println!("\ncommitted {index}");
    }
}

struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(run: &Path) -> Other {
        let mut child = Command::new(std::env::current_exe().expect("has one"))
            .args(["--exact", "lock::the_other_process", "--nocapture"])
            .env(RUN, run)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let stdout = child.stdout.take().expect("is piped");
        Other { child, lines: BufReader::new(stdout).lines() }
    }

    fn wait_for(&mut self, line: &str) {
        let found = self.lines.by_ref().any(|read| read.expect("reads") == line);
        assert!(found, "the other process ended before it said `{line}`");
    }

    /// As `kill -9` does.
    fn kill(&mut self) {
        self.child.kill().expect("is killed");
        self.child.wait().expect("ends");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_second_writer_learns_who_has_the_lock_and_the_lock_dies_with_its_holder() {
    let runs = tempfile::tempdir().expect("makes");
    let path = run(runs.path(), &["x"]).path().to_owned();
    let mut other = Other::start(&path);
    other.wait_for("locked");

    let error = RunDir::open_write(&path).expect_err("is locked");
    let pid = other.child.id();
    assert_eq!(
        error.to_string(),
        format!("the run in `{}` is being written by process {pid}", path.display())
    );
    assert!(error.hint().expect("has one").contains(&format!("kill {pid}")));
    RunDir::open_read(&path).expect("reading needs no lock");

    other.kill();
    // It is gone with its process,
    let run = reopened(&path);
    match RunDir::open_write(&path) {
        Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(run);
    // and with its value.
    reopened(&path);
}

#[test]
fn whatever_a_killed_writer_left_is_whole_or_not_there() {
    for round in [1, 7, 23] {
        let runs = tempfile::tempdir().expect("makes");
        let path = run(runs.path(), &["x"]).path().to_owned();
        let mut other = Other::start(&path);
        other.wait_for(&format!("committed {round}"));
        other.kill();

        let run = reopened(&path);
        assert_eq!(fs::read_dir(path.join("tmp")).expect("lists").count(), 0);
        let mut finished = 0;
        for index in 0..ROOM {
            let key = key("x", "a", index);
            if !run.has_trial(&key).expect("looks") {
                assert!(!run.trial_dir(&key).exists());
                break;
            }
            run.verify_trial(&key).expect("is whole");
            finished += 1;
        }
        assert!(finished > round, "{finished} trials after {round}");
    }
}
