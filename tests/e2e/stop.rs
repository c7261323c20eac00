//! Stopping a run: Ctrl-C and SIGTERM, once, twice and three times.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Eval, Run, Running, Space, case, files_below, gone, wait_until};

/// Five cases, one at a time, each of which says that it began and waits for the file `go`.
fn start(client: &str, concurrency: &str) -> (Space, Running) {
    let space = Space::new();
    fs::create_dir(space.path("gate")).expect("made");
    Eval::new()
        .client(client)
        .set("client.env", json!({"GATE": space.text("gate")}))
        .cases((0..5).map(|n| case(&n.to_string())))
        .write(&space);
    let running = Running::start(&space, space.command(["run", "eval.yaml", "--concurrency", concurrency]));
    (space, running)
}

const WAITS: &str = "cat; echo $$ > $GATE/new-$MST_CASE_ID; mv $GATE/new-$MST_CASE_ID $GATE/pid-$MST_CASE_ID; \
     while ! test -e $GATE/go; do sleep 0.02; done";

fn once(signal: Signal) {
    let (space, running) = start(WAITS, "2");
    wait_until("two trials", || ["0", "1"].iter().all(|n| space.path(format!("gate/pid-{n}")).exists()));
    running.signal(signal);
    wait_until("word of the stop", || running.stderr().contains("waiting for 2 trials"));
    space.write("gate/go", "");
    let output = running.end().exits(130);
    // What ran came to its end and is kept; nothing new began.
    let run = space.run();
    run.assert_whole();
    assert_eq!(run.trials(), 2);
    assert!(!space.path("gate/pid-2").exists());
    assert!(output.stderr.contains("stopping: nothing new starts"), "{output}");
    let report = space.mst(["report", &run.name()]).exits(106);
    assert_eq!(report.stdout, output.stdout);
    insta::allow_duplicates! {
        insta::assert_snapshot!(report.stdout, @"

        [RUN]
        5 cases, 5 trials, partial: 3 missing; 3 incomplete cases are left out of the rates

         variant  judge  passed  failed  instrument errors  missing  not graded  pass rate
         v        text        0       0                  0        3           2          –
        ");
    }
    space.assert_tidy();
}

#[test]
fn one_interrupt_lets_what_runs_end() {
    once(Signal::INT);
}

#[test]
fn one_sigterm_does_the_same() {
    once(Signal::TERM);
}

fn twice(signal: Signal) {
    let client = "trap '' INT TERM; setsid sleep 600 & echo $! > $GATE/stray-$MST_CASE_ID; echo $$ > $GATE/new; \
         mv $GATE/new $GATE/pid-$MST_CASE_ID; while :; do sleep 600; done";
    let (space, running) = start(client, "1");
    wait_until("a trial", || space.path("gate/pid-0").exists());
    running.signal(signal);
    wait_until("word of the stop", || running.stderr().contains("waiting for 1 trial"));
    running.signal(signal);
    let output = running.end().exits(130);
    assert!(output.stderr.contains("ending what runs"), "{output}");
    for name in ["pid-0", "stray-0"] {
        let pid = space.read(&format!("gate/{name}"));
        assert!(gone(&pid), "{name} is still there");
    }
    let run = space.run();
    run.assert_whole();
    // What was ended before its time is no trial.
    assert_eq!(run.trials(), 0);
    insta::allow_duplicates! {
        insta::assert_snapshot!(space.mst(["report", &run.name()]).exits(106).stdout, @"

        [RUN]
        5 cases, 5 trials, partial: 5 missing; 5 incomplete cases are left out of the rates

         variant  judge  passed  failed  instrument errors  missing  pass rate
         v        text        0       0                  0        5          –
        ");
    }
    space.assert_tidy();
}

#[test]
fn a_second_interrupt_ends_what_runs() {
    twice(Signal::INT);
}

#[test]
fn a_second_sigterm_does_the_same() {
    twice(Signal::TERM);
}

#[test]
fn a_third_interrupt_ends_mst_at_once_and_leaves_no_client() {
    let client = "trap '' INT TERM; setsid sleep 600 & echo $! > $GATE/stray-$MST_CASE_ID; echo $$ > $GATE/new; \
         mv $GATE/new $GATE/pid-$MST_CASE_ID; while ! test -e $GATE/go; do sleep 0.02; done; cat";
    let (space, mut running) = start(client, "1");
    wait_until("a trial", || space.path("gate/pid-0").exists());
    for word in ["waiting for 1 trial", "ending what runs; once more to end at once", ""] {
        running.signal(Signal::INT);
        wait_until(word, || running.stderr().contains(word) || running.ended());
    }
    let output = running.end().exits(130);
    insta::assert_snapshot!(output.said(), @"
    stopping: nothing new starts, what runs may end; once more to end it now
    waiting for 1 trial
    ending what runs; once more to end at once
    ended at once; `mst run --resume runs/[RUN]` collects the rest
    ");
    for name in ["pid-0", "stray-0"] {
        let pid = space.read(&format!("gate/{name}"));
        wait_until("its end", || gone(&pid));
    }
    let run = space.run();
    run.assert_whole();
    assert_eq!(run.trials(), 0);
    space.write("gate/go", "");
    space.mst(["run", "--resume", &run.name()]).exits(0);
    run.assert_whole();
    space.assert_tidy();
}

/// Three cases; the check of the second says that it began and waits for the file `go`.
fn start_grading() -> (Space, Running) {
    let space = Space::new();
    fs::create_dir(space.path("gate")).expect("made");
    let script = "test $MST_CASE_ID = 0 && exit 0; echo $$ > GATE/new; mv GATE/new GATE/pid-$MST_CASE_ID; \
         while ! test -e GATE/go; do sleep 0.02; done";
    Eval::new()
        .check(&script.replace("GATE", &space.text("gate")))
        .cases((0..3).map(|n| case(&n.to_string())))
        .write(&space);
    let running = Running::start(&space, space.command(["run", "eval.yaml"]));
    wait_until("a check", || space.path("gate/pid-1").exists());
    running.signal(Signal::INT);
    // Said when no other is asked any more.
    wait_until("word of the stop", || running.stderr().contains("waiting for 1 grade"));
    (space, running)
}

#[test]
fn one_interrupt_lets_a_judge_end_and_asks_no_other() {
    let (space, running) = start_grading();
    space.write("gate/go", "");
    let output = running.end().exits(130);
    insta::assert_snapshot!(output.stdout, @"

    [RUN]
    3 cases, 3 trials, complete

     variant  judge  passed  failed  instrument errors  missing  not graded                  pass rate
     v        check       2       0                  0        0           1  100.0 % [34.2 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)
    ");
    assert!(!space.path("gate/pid-2").exists());
    space.run().assert_whole();
    space.mst(["report", &space.run().name()]).exits(106);
    space.assert_tidy();
}

#[test]
fn a_second_interrupt_ends_a_judge_and_keeps_what_was_graded() {
    let (space, running) = start_grading();
    running.signal(Signal::INT);
    let output = running.end().exits(130);
    insta::assert_snapshot!(output.stdout, @"

    [RUN]
    3 cases, 3 trials, complete

     variant  judge  passed  failed  instrument errors  missing  not graded                  pass rate
     v        check       1       0                  0        0           2  100.0 % [20.7 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)
    ");
    assert!(gone(&space.read("gate/pid-1")));
    let run = space.run();
    run.assert_whole();
    assert!(run.grade("check", "0/v/0").get("verdict").is_some());
    space.mst(["report", &run.name()]).exits(106);
    space.assert_tidy();
}

#[test]
fn a_third_interrupt_while_it_grades_leaves_what_was_graded() {
    let (space, mut running) = start_grading();
    for word in ["ending what runs", ""] {
        running.signal(Signal::INT);
        wait_until(word, || running.stderr().contains(word) || running.ended());
    }
    running.end().exits(130);
    let run = space.run();
    run.assert_whole();
    let graded = || files_below(&run.dir().join("grades/check")).len();
    assert_eq!(graded(), 1, "the first alone ended by itself");
    assert!(gone(&space.read("gate/pid-1")));
    space.write("gate/go", "");
    space.mst(["run", "--resume", &run.name()]).exits(0);
    assert_eq!(graded(), 3);
    space.assert_tidy();
}

/// All trials are done though nobody reads what is said of them, and then it can be ended.
fn unread(args: &[&str], stdout: Stdio, stderr: Stdio) {
    let space = Space::new();
    // Far more is said of them than a pipe takes.
    Eval::new().cases((0..1500).map(|n| case(&format!("{n}-{}", "x".repeat(64))))).write(&space);
    let mut command = space.command(args.iter().copied());
    let mut mst = command.stdout(stdout).stderr(stderr).spawn().expect("it starts");
    let trials = || {
        let trials = |run: &Run| fs::read_dir(run.dir().join("trials")).map_or(0, Iterator::count);
        space.runs().first().map_or(0, trials)
    };
    wait_until("all trials", || trials() == 1500);
    let pid = Pid::from_child(&mst);
    let mut ended = None;
    // Two that come at once are one: three are enough, and more than three do no harm.
    wait_until("its end", || {
        let _ = kill_process(pid, Signal::INT);
        std::thread::sleep(Duration::from_millis(300));
        ended = mst.try_wait().expect("it is ours");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
}

#[test]
fn a_reader_of_events_that_does_not_read_holds_up_no_trial_and_no_interrupt() {
    unread(&["run", "eval.yaml", "--json"], Stdio::piped(), Stdio::null());
}

#[test]
fn a_reader_of_lines_that_does_not_read_holds_up_no_trial_and_no_interrupt() {
    unread(&["run", "eval.yaml"], Stdio::null(), Stdio::piped());
}
