//! Runs that somebody wrote to: nothing of it is believed, and what is whole can be had again.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::support::{Eval, Output, Space, case};

/// A finished run of two cases.
fn finished() -> (Space, PathBuf) {
    let space = Space::new();
    Eval::new().client("cat").cases([case("0"), case("1")]).write(&space);
    space.mst(["run", "eval.yaml"]);
    let dir = space.run().dir().to_owned();
    (space, dir)
}

fn resume(space: &Space) -> Output {
    space.mst(["run", "--resume", &space.run().name()])
}

fn replace(path: PathBuf, from: &str, to: &str) {
    let text = fs::read_to_string(&path).expect("reads");
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replacen(from, to, 1)).expect("written");
}

#[test]
fn altered_cases_are_not_resumed() {
    let (space, dir) = finished();
    replace(dir.join("cases.jsonl"), "\"0\"", "\"7\"");
    let output = resume(&space).exits(105);
    assert!(output.stderr.contains("its `cases.jsonl` was altered since it was written"), "{output}");
}

#[test]
fn an_altered_plan_is_not_resumed() {
    let (space, dir) = finished();
    replace(dir.join("run.json"), "\"trials\": 1", "\"trials\": 3");
    let output = resume(&space).exits(105);
    assert!(output.stderr.contains("its `run.json` was altered since it was written"), "{output}");
}

#[test]
fn an_altered_report_is_not_judged_and_its_trial_can_be_collected_again() {
    let (space, dir) = finished();
    let trial = dir.join("trials/0/v/0");
    let was = fs::read(trial.join("report")).expect("reads");
    let altered: Vec<u8> = was.iter().map(|byte| byte ^ 1).collect();
    fs::write(trial.join("report"), altered).expect("written");
    fs::remove_dir_all(dir.join("grades")).expect("removed");
    let output = resume(&space).exits(106);
    assert!(output.stderr.contains("report` has digest"), "{output}");
    assert!(output.stderr.contains("hint: remove `runs/[RUN]/trials/0/v/0` and resume the run"), "{output}");
    fs::remove_dir_all(&trial).expect("removed");
    resume(&space);
    space.run().assert_whole();
    assert_eq!(space.run().trials(), 2);
    assert_eq!(fs::read(trial.join("report")).expect("reads"), was);
}

#[test]
fn a_link_in_a_reports_place_shows_no_judge_anything() {
    let (space, dir) = finished();
    let report = dir.join("trials/0/v/0/report");
    fs::remove_file(&report).expect("removed");
    std::os::unix::fs::symlink("/etc/passwd", &report).expect("linked");
    fs::remove_dir_all(dir.join("grades")).expect("removed");
    let output = resume(&space).exits(106);
    assert!(output.stderr.contains("neither a file nor a directory"), "{output}");
}

#[test]
fn a_damaged_transcript_says_how_to_go_on() {
    let (space, dir) = finished();
    fs::write(dir.join("trials/0/v/0/transcript.json"), "").expect("written");
    let output = space.mst(["report", &space.run().name()]).exits(105);
    assert!(output.stderr.contains("hint: remove `runs/[RUN]/trials/0/v/0` and resume the run"), "{output}");
}

#[test]
fn a_ledger_that_can_not_be_read_hides_no_other_runs_machines() {
    let (space, dir) = finished();
    fs::write(dir.join("machines.jsonl"), "garbage\n").expect("written");
    let other = space.path("runs/20260101-000000-aaaa");
    fs::create_dir_all(&other).expect("made");
    let line = json!({"schema": "mst.ledger/v1", "at": "2026-01-01T00:00:00Z", "machine": "mst-x", "shard": 0, "event": "intent"});
    fs::write(other.join("machines.jsonl"), format!("{line}\n")).expect("written");
    let output = space.mst(["machines", "list"]).exits(106);
    assert!(output.stdout.contains("mst-x  may be there"), "{output}");
    assert!(output.stderr.contains("error: the machines of `runs/[RUN]` can't be read"), "{output}");
}

#[test]
fn a_summary_that_can_not_be_written_is_no_success() {
    let space = Space::new();
    Eval::new().client("cat").cases([case("0")]).write(&space);
    for args in [&["run", "eval.yaml"][..], &["run", "eval.yaml", "--json"]] {
        let mut command = space.command(args);
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").expect("opens"));
        let output = command.stderr(std::process::Stdio::piped()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(106), "{said}");
        assert!(said.contains("hint: the run is kept; `mst report runs/"), "{said}");
    }
}

#[test]
fn an_eval_that_is_no_file_is_refused() {
    let space = Space::new();
    std::os::unix::fs::symlink("/dev/zero", space.path("eval.yaml")).expect("linked");
    let output = space.mst(["run", "eval.yaml"]).exits(105);
    assert!(output.stderr.contains("`eval.yaml` is no file"), "{output}");
    let output = space.mst(["run", "/dev/full"]).exits(105);
    assert!(output.stderr.contains("is no file"), "{output}");
}
