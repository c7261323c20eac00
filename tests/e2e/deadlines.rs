//! Deadlines, as the eval and the command line say them, and what becomes of what meets one.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Eval, Output, Space, before_its_deadline, gone};

/// With these `--deadline`s.
fn run(space: &Space, deadlines: &[&str]) -> Output {
    let more = deadlines.iter().flat_map(|one| ["--deadline", one]);
    space.mst(["run", "eval.yaml"].into_iter().chain(more))
}

#[test]
fn one_that_is_said_on_the_command_line_is_what_the_run_is_and_is_kept_by_resume() {
    before_its_deadline([3, 50], |seconds| {
        let space = Space::new();
        let (deadline, begun) = (format!("{seconds}s"), space.text("begun"));
        let eval = Eval::new()
            .client("echo $$ > pid; touch $BEGUN; exec sleep 600")
            .check("test -s pid")
            .set("client.env", json!({"BEGUN": begun}))
            .set("deadlines", json!({"client": "20m", "export": "50s"}));
        eval.write(&space);
        // Whether the client began, which is so short of time.
        let begun = || fs::remove_file(&begun).ok();
        let first = run(&space, &[&format!("client={deadline}")]);
        begun()?;
        first.exits(0);
        let there = space.run();
        let record = there.record();
        assert_eq!(
            record["eval"]["deadlines"],
            json!({"machine": "10m", "provision": "2m", "client": deadline, "scoring": "3m", "export": "50s", "cleanup": "30s"})
        );
        assert_eq!(there.transcript("a/v/0")["outcome"]["limit"], "timeout");
        there.assert_passed();

        let trial = there.dir().join("trials/a/v/0");
        fs::remove_dir_all(&trial).expect("removed");
        let resume = |more: &[&str]| space.mst([&["run", "--resume", &there.name()], more].concat());
        let second = resume(&[]);
        begun()?;
        second.exits(0);
        assert_eq!(there.transcript("a/v/0")["outcome"]["limit"], "timeout");
        assert!(gone(&fs::read_to_string(trial.join("files/pid")).expect("reads")));
        resume(&["--deadline", &format!("client={deadline}")]).exits(0);
        // The file's own number is none that this run went by.
        eval.clone().set("deadlines.client", json!("7s")).write(&space);
        resume(&[]).exits(0);

        eval.set("deadlines.scoring", json!("1h")).set("trials", json!(2)).write(&space);
        let said = resume(&["--deadline", "client=6s"]).exits(105).said();
        let said = said.replace(&format!("changed: {deadline} then"), "changed: [DEADLINE] then");
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @"
            error: the run `[RUN]` asked something else
              - the eval changed in `trials`
              - the deadline of `client` changed: [DEADLINE] then, 6s now
              - the deadline of `scoring` changed: 3m then, 1h now
            hint: start a new run, or bring back what changed
            ");
        }
        assert_eq!(there.record()["identity"], record["identity"]);
        Some(())
    });
}

#[test]
fn what_has_no_deadline_and_what_is_no_time_are_told_with_a_way_out() {
    let space = Space::new();
    Eval::new().write(&space);
    let said = |text: &str| {
        let output = run(&space, &[text]).exits(2);
        output.stderr.lines().next().expect("a line").to_owned()
    };
    insta::assert_snapshot!(["clent=5m", "queue=5m", "client", "client=soon", "client=0s"].map(said).join("\n"), @"
    error: invalid value 'clent=5m' for '--deadline <PART=TIME>': `clent` has no deadline; what has one: `machine`, `provision`, `client`, `scoring`, `export`, `cleanup`; did you mean `client`?
    error: invalid value 'queue=5m' for '--deadline <PART=TIME>': `queue` has no deadline; what has one: `machine`, `provision`, `client`, `scoring`, `export`, `cleanup`
    error: invalid value 'client' for '--deadline <PART=TIME>': write it as PART=TIME, as client=20m
    error: invalid value 'client=soon' for '--deadline <PART=TIME>': `soon` is no length of time: write a number and a unit, as `90s`, `10m` or `1h 30m`; at least `1ms`, at most `30days`
    error: invalid value 'client=0s' for '--deadline <PART=TIME>': `0s` is no length of time: write a number and a unit, as `90s`, `10m` or `1h 30m`; at least `1ms`, at most `30days`
    ");
    assert!(!space.path("runs").exists());
}

/// The outcome of the trial `a`.
fn outcome(space: &Space) -> Value {
    space.run().transcript("a/v/0")["outcome"].clone()
}

#[test]
fn a_workspace_that_is_not_made_in_time_is_the_instruments_error() {
    let space = Space::new();
    let files: Vec<Value> = (0..3000).map(|n| json!({"path": format!("{n}"), "content": "x"})).collect();
    Eval::new().client("cat").cases([json!({"id": "a", "prompt": "a", "files": files})]).write(&space);
    let output = run(&space, &["provision=1ms"]).exits(106);
    insta::assert_snapshot!(output.stdout, @"

    [RUN]
    1 case, 1 trial, complete

     variant  judge  passed  failed  instrument errors  missing  pass rate
     v        text        0       0                  1        0          –

    instrument errors:
         1 × the workspace can't be made: not done after 1ms
             first at a v #0
    ");
    assert_eq!(outcome(&space)["error"]["stage"], "provision");
    space.assert_tidy();
}

#[test]
fn what_is_not_kept_in_time_is_the_instruments_error() {
    let space = Space::new();
    let client = "i=0; while [ $i -lt 2000 ]; do echo x > $i; i=$((i+1)); done";
    Eval::new().client(client).write(&space);
    let output = run(&space, &["export=1ms"]).exits(106);
    insta::assert_snapshot!(output.stdout, @"

    [RUN]
    1 case, 1 trial, complete

     variant  judge  passed  failed  instrument errors  missing  pass rate
     v        text        0       0                  1        0          –

    instrument errors:
         1 × what the client left can't be kept: not done after 1ms
             first at a v #0
    ");
    assert_eq!(outcome(&space)["error"]["stage"], "export");
    space.assert_tidy();
}

#[test]
fn a_judge_that_takes_too_long_is_an_instruments_error() {
    let (space, output, seconds) = before_its_deadline([3, 50], |seconds| {
        let space = Space::new();
        let check = format!("echo $$ > {}; exec sleep 600", space.text("pid"));
        Eval::new().check(&check).write(&space);
        let output = run(&space, &[&format!("scoring={seconds}s")]);
        space.path("pid").exists().then_some((space, output, seconds))
    });
    let output = output.exits(106);
    let stdout = output.stdout.replace(&format!("its limit is {seconds}.0 s"), "its limit is [DEADLINE]");
    insta::assert_snapshot!(stdout, @"

    [RUN]
    1 case, 1 trial, complete

     variant  judge  passed  failed  instrument errors  missing  pass rate
     v        check       0       0                  1        0          –

    instrument errors:
         1 × check: `mst/judge/command` met a limit in `judge`: the call took [TIME], its limit is [DEADLINE]
             first at a v #0
    ");
    assert!(gone(&space.read("pid")));
    space.assert_tidy();
}

/// What can't be cleaned up is a daemon under another's mark, which is nobody's to end.
#[test]
fn what_is_not_cleaned_up_in_time_stands_beside_the_outcome_and_changes_nothing() {
    let space = Space::new();
    let client = "mkfifo ready; MST_PROCESS=other setsid sh -c 'echo $$ > ready; exec sleep 600' &
        read daemon < ready; echo $daemon > $DAEMON; cat";
    Eval::new().client(client).set("client.env", json!({"DAEMON": space.text("daemon")})).write(&space);
    let output = run(&space, &["cleanup=200ms"]).exits(0);
    let daemon = space.read("daemon").trim().parse().expect("a pid");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(daemon).expect("a pid"),
        rustix::process::Signal::KILL,
    )
    .expect("it is there");
    insta::assert_snapshot!(output.stdout, @"

    [RUN]
    1 case, 1 trial, complete

     variant  judge  passed  failed  instrument errors  missing                  pass rate
     v        text        1       0                  0        0  100.0 % [20.7 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)
    ");
    assert!(output.stderr.contains("shard 0: its worker could not clean up after its trials"), "{output}");
    let outcome = outcome(&space);
    assert_eq!((&outcome["status"], &outcome["exit"]), (&json!("completed"), &json!({"code": 0})));
    assert_eq!(outcome["cleanup"]["stage"], "cleanup");
    assert_eq!(space.run().record()["shards"][0]["clean"], false);
    space.assert_tidy();
}
