//! What an instrument's error kept from finishing is done again where somebody says so, and what was
//! is kept.

use std::fs;

use serde_json::json;

use crate::faults;
use crate::support::{Eval, Running, Space, case, example, need, sh, sha256, wait_until};

#[test]
fn an_instruments_error_is_done_again_as_a_next_attempt_and_nothing_else_is() {
    let space = Space::new();
    // Variant `late` has no program yet: its instrument breaks. `fails` fails, which is a result.
    Eval::new()
        .set(
            "variants",
            json!([
                {"id": "late", "client": {"kind": "command", "argv": ["./agent"]}},
                {"id": "fails", "client": {"kind": "command", "argv": sh("echo wrong; exit 3")}},
            ]),
        )
        .cases(["a", "b"].map(case))
        .write(&space);
    space.mst(["run", "eval.yaml"]).exits(106);
    let run = space.run();
    let name = run.name();
    let first = fs::read(run.dir().join("trials/a/late/0/transcript.json")).expect("reads");
    space.script("agent", "#!/bin/sh\ncat\n");

    let resume = |more: &[&str]| space.mst([&["run", "--resume", &name], more].concat());
    let said = resume(&["--explain"]).exits(106).stderr;
    assert!(
        said.contains("a late #0: reused: its instrument broke, and `--retry-unfinished` was not said: "),
        "{said}"
    );
    assert!(said.contains("a fails #0: reused: it ended, by a crash"), "{said}");
    assert!(!run.dir().join("trials/a/late/0.1").exists());

    let output = resume(&["--explain", "--retry-unfinished"]).exits(0);
    assert!(output.stderr.contains("a late #0: run again: attempt 1, as its instrument broke: "), "{output}");
    assert!(
        output.stdout.contains("2 earlier attempts kept beside the trials that were done again"),
        "{output}"
    );
    assert_eq!(
        fs::read(run.dir().join("trials/a/late/0/transcript.json")).expect("reads"),
        first,
        "it stays"
    );
    assert!(!run.dir().join("trials/a/fails/0.1").exists());
    let again = run.transcript("a/late/0.1");
    assert_eq!((&again["attempt"], &again["previous"]), (&json!(1), &json!(sha256(&first))));
    assert_eq!(run.report_text("a/late/0.1"), "a");
    assert_eq!(run.grade("text", "a/late/0")["verdict"]["finding"], "pass");
    run.assert_whole();

    let summary = space.mst(["report", &name, "--json"]).exits(0).json();
    assert_eq!(
        (&summary["trials"]["finished"], &summary["trials"]["earlier_attempts"]),
        (&json!(4), &json!(2))
    );
    let row = &summary["rows"][0];
    assert_eq!((&row["passed"], &row["instrument_errors"]), (&json!(2), &json!(0)), "one a trial is counted");
    // There is nothing more to do.
    resume(&["--retry-unfinished"]).exits(0);
    assert!(!run.dir().join("trials/a/late/0.2").exists());
}

#[test]
fn a_judge_that_broke_is_asked_again_and_its_error_is_kept() {
    let space = Space::new();
    Eval::new()
        .client("cat")
        .judges(json!([{"id": "check", "plugin": "mst/judge/command", "options": {"command": ["./judge"]}}]))
        .write(&space);
    space.mst(["run", "eval.yaml"]).exits(106);
    let run = space.run();
    let path = run.dir().join("grades/check/a.v.0.json");
    let first = fs::read(&path).expect("reads");
    space.script("judge", "#!/bin/sh\nexit 0\n");
    space.mst(["run", "--resume", &run.name()]).exits(106);
    assert_eq!(fs::read(&path).expect("reads"), first, "nobody asked for it");
    space.mst(["run", "--resume", &run.name(), "--retry-unfinished"]).exits(0);
    assert_eq!(fs::read(run.dir().join("grades/check/earlier/a.v.0.0.json")).expect("reads"), first);
    assert_eq!(run.grade("check", "a/v/0")["verdict"]["finding"], "pass");
}

#[test]
fn only_a_run_that_is_resumed_can_be_done_again() {
    let space = Space::new();
    Eval::new().write(&space);
    space.mst(["run", "eval.yaml", "--retry-unfinished"]).exits(2);
    space.mst(["run", "eval.yaml", "--explain"]).exits(2);
}

#[test]
fn a_retry_whose_worker_dies_half_way_is_done_by_the_next_and_counted_once() {
    let runner = need!(example("dir-runner"));
    let space = Space::new();
    for dir in ["machines", "gate"] {
        fs::create_dir(space.path(dir)).expect("made");
    }
    // Its program is no program that can be started.
    space.script("agent", "#!/no/such/shell\n");
    Eval::new()
        .set("client", json!({"kind": "command", "argv": ["./agent"], "env": {"GATE": space.text("gate")}}))
        .cases(["a", "b"].map(case))
        .write(&space);
    space.add(runner);
    let args = ["run", "eval.yaml", "--runner", "example/runner/dir", "--runner-option", "base=machines"];
    space.mst(args).exits(106);
    let run = space.run();
    let transcripts = ["a", "b"].map(|case| run.dir().join(format!("trials/{case}/v/0/transcript.json")));
    let first = transcripts.each_ref().map(|path| fs::read(path).expect("reads"));
    let retry = ["run", "--resume", &run.name(), "--retry-unfinished"];

    let agent = "#!/bin/sh\ncat\ntouch $GATE/$MST_CASE_ID\ntest $MST_CASE_ID = a || while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done\n";
    space.script("agent", agent);
    let running = Running::start(&space, space.command(retry));
    wait_until("the second trial, after the first is kept", || {
        space.path("gate/b").exists() && run.dir().join("trials/a/v/0.1/transcript.json").exists()
    });
    for worker in faults::dir::workers(&space) {
        let pid = rustix::process::Pid::from_raw(worker).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
    }
    let output = running.end().exits(106);
    assert!(output.stderr.contains("shard 0 broke: "), "{output}");
    assert!(!run.dir().join("trials/b/v/0.1").exists(), "nothing half-made");
    run.assert_whole();
    let counts = || {
        let summary = space.mst(["report", &run.name(), "--json"]).json();
        let (trials, row) = (&summary["trials"], &summary["rows"][0]);
        [&trials["finished"], &trials["earlier_attempts"], &row["passed"], &row["instrument_errors"]]
            .map(|count| count.as_u64().unwrap_or_else(|| panic!("a number in {summary}")))
    };
    assert_eq!(counts(), [2, 1, 1, 1], "the second is as it was before");

    space.write("gate/go", "");
    space.mst(retry).exits(0);
    run.assert_whole();
    assert_eq!(counts(), [2, 2, 2, 0]);
    for (at, case) in ["a", "b"].iter().enumerate() {
        assert_eq!(fs::read(&transcripts[at]).expect("reads"), first[at], "it stays");
        let again = run.transcript(&format!("{case}/v/0.1"));
        assert_eq!((&again["attempt"], &again["previous"]), (&json!(1), &json!(sha256(&first[at]))));
        assert!(!run.dir().join(format!("trials/{case}/v/0.2")).exists());
    }
}
