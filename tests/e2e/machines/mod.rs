//! Runs on machines that a runner component makes: here directories, by `examples/plugins/dir-runner`.

mod denied;
mod stop;

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::faults;
use crate::support::{Eval, Output, Running, Space, case, example, holds, need, wait_until, wasm};

/// A place with a directory for machines.
fn space() -> Space {
    let space = Space::new();
    fs::create_dir(space.path("machines")).expect("made");
    space
}

fn command(space: &Space, runner: &Path, more: &[&str]) -> Command {
    space.add(runner);
    let mut command = space.command(["run", "eval.yaml", "--runner", "example/runner/dir"]);
    command.args(["--runner-option", "base=machines"]).args(more);
    command
}

fn run(space: &Space, runner: &Path, more: &[&str]) -> Output {
    space.finish(command(space, runner, more))
}

/// The machines that are there.
fn machines(space: &Space) -> Vec<String> {
    let entries = fs::read_dir(space.path("machines")).expect("lists");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
}

/// The events of the run's ledger, in order, each with its shard.
fn ledger(space: &Space) -> Vec<(u64, String)> {
    let text = fs::read_to_string(space.run().dir().join("machines.jsonl")).expect("a ledger");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let event = |line: Value| {
        (line["shard"].as_u64().expect("a shard"), line["event"].as_str().expect("an event").to_owned())
    };
    lines.map(event).collect()
}

fn eval(cases: usize) -> Eval {
    Eval::new().client("cat").cases((0..cases).map(|n| case(&n.to_string())))
}

/// A client that says that it began and waits for the file `gate/go`.
const WAITS: &str = "cat; echo $$ > $GATE/new-$MST_CASE_ID; mv $GATE/new-$MST_CASE_ID $GATE/pid-$MST_CASE_ID; \
     while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done";

fn gated(space: &Space, cases: usize) {
    fs::create_dir(space.path("gate")).expect("made");
    eval(cases).client(WAITS).set("client.env", json!({"GATE": space.text("gate")})).write(space);
}

fn begun(space: &Space) -> usize {
    let entries = fs::read_dir(space.path("gate")).expect("lists");
    entries
        .filter(|entry| {
            entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("pid-"))
        })
        .count()
}

#[test]
fn shards_give_what_one_process_gives_and_leave_nothing() {
    let runner = need!(example("dir-runner"));
    let space = space();
    eval(12).write(&space);
    let output = run(&space, runner, &["--shards", "3"]).exits(0);
    let there = space.run();
    there.assert_whole();
    assert_eq!(there.trials(), 12);
    assert_eq!(machines(&space), [""; 0]);
    let record = there.record();
    assert_eq!(record["runner"]["id"], "example/runner/dir");
    assert_eq!(record["runner"]["options"]["base"], space.text("machines"));
    assert_eq!(record["runner"]["shards"], 3);
    assert_eq!(record["collect"], "complete");
    for (index, shard) in record["shards"].as_array().expect("shards").iter().enumerate() {
        assert_eq!(shard["index"], index);
        assert_eq!(shard["ending"]["how"], "complete");
        assert_eq!(shard["worker_mst"], env!("CARGO_PKG_VERSION"));
        let name = shard["machine"].as_str().expect("a machine");
        assert!(name.starts_with(&format!("mst-{}-{index}-", there.name())), "{name}");
    }
    // Each trial says which shard it ran in, and a case never splits.
    let shards: Vec<u64> =
        (0..12).map(|n| there.transcript(&format!("{n}/v/0"))["shard"].as_u64().expect("a shard")).collect();
    assert!((0..3).all(|shard| shards.contains(&shard)), "{shards:?}");
    for shard in 0..3 {
        let events: Vec<String> =
            ledger(&space).into_iter().filter(|(at, _)| *at == shard).map(|(_, event)| event).collect();
        assert_eq!(events, ["intent", "created", "destroyed"]);
    }
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "");
    space.assert_tidy();

    let alone = Space::new();
    eval(12).write(&alone);
    assert_eq!(alone.mst(["run", "eval.yaml"]).exits(0).stdout, output.stdout);
}

#[test]
fn a_clients_program_beside_the_eval_goes_to_the_machine() {
    let runner = need!(example("dir-runner"));
    let space = space();
    space.script("agent.sh", "#!/bin/sh\necho here: $(cat)\n");
    eval(1).set("client.argv", json!(["./agent.sh"])).write(&space);
    run(&space, runner, &[]);
    assert!(space.run().report_text("0/v/0").starts_with("here: "));
}

#[test]
fn mst_speaks_with_no_child_that_bears_none_of_its_commands() {
    let bytes = fs::read(need!(example("dir-runner"))).expect("reads");
    let mut manifest = wasm::manifest(&bytes);
    let exec =
        manifest["exec"].as_array_mut().expect("templates").iter_mut().find(|exec| exec["id"] == "exec");
    exec.expect("the channel's")["argv"] = json!(["sleep", "60"]);
    let space = space();
    space.write("idle.wasm", wasm::with_manifest(&bytes, &manifest));
    eval(1).write(&space);
    let output = run(&space, &space.path("idle.wasm"), &[]).exits(105);
    assert!(output.stderr.contains("a child that bears no command of the host's"), "{output}");
    assert!(machines(&space).is_empty());
}

#[test]
fn what_the_command_line_asks_of_a_runner_is_checked_before_anything_is_made() {
    let runner = need!(example("dir-runner"));
    let space = space();
    eval(1).write(&space);
    space.add(runner);
    let said = |args: &[&str]| {
        let output = space.mst([&["run", "eval.yaml"], args].concat()).exits(105);
        assert!(space.runs().is_empty());
        output.stderr
    };
    insta::assert_snapshot!(said(&["--runner", "example/runner/dir"]), @"
    error: `--runner-option` does not fit the runner `example/runner/dir`
      - `base` is missing
    hint: `mst plugin inspect example/runner/dir` shows the options
    ");
    insta::assert_snapshot!(said(&["--runner", "example/runner/dir", "--runner-option", "bsae=x"]), @"
    error: `--runner-option` does not fit the runner `example/runner/dir`
      - unknown key `bsae` (did you mean `base`?)
      - `base` is missing
    hint: `mst plugin inspect example/runner/dir` shows the options
    ");
    insta::assert_snapshot!(said(&["--shards", "2"]), @"
    error: the runner `local` has one shard, not 2
    hint: more shards need a runner that makes machines, as `--runner mst/runner/docker`
    ");
    insta::assert_snapshot!(said(&["--runner", "dokcer"]), @"
    error: `dokcer` is no plugin id: it must be `org/kind/name`, as `mst/judge/text`
    hint: a runner is `local` or a plugin's id, as `mst/runner/docker`
    ");
    insta::assert_snapshot!(said(&["--runner", "mst/judge/text"]), @"error: `mst/judge/text` is a judge, not a runner");
    insta::assert_snapshot!(said(&["--runner", "mst/runner/dokcer"]), @"
    error: there is no plugin `mst/runner/dokcer`
    hint: did you mean `mst/runner/docker`?
    ");
    let twice = ["--runner", "example/runner/dir", "--runner-option", "base=a", "--runner-option", "base=b"];
    insta::assert_snapshot!(said(&twice), @"error: `--runner-option base` is given twice");
    let many = ["--runner", "example/runner/dir", "--runner-option", "base=machines", "--shards", "65"];
    insta::assert_snapshot!(said(&many), @"error: `example/runner/dir` has at most 64 shards, not 65");
}

#[test]
fn a_machine_that_is_lost_loses_its_own_trials_and_resume_brings_them() {
    let runner = need!(example("dir-runner"));
    let space = space();
    gated(&space, 8);
    let running = Running::start(&space, command(&space, runner, &["--shards", "2"]));
    wait_until("a trial on each machine", || begun(&space) == 2);
    // The machine goes, and with it the worker: as when a container is removed.
    let lost = machines(&space).into_iter().find(|name| name.contains("-0-")).expect("shard 0's machine");
    let is_of_lost =
        |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|argv| holds(&argv, &lost));
    let workers: Vec<i32> = faults::dir::workers(&space).into_iter().filter(is_of_lost).collect();
    let [worker] = workers[..] else { panic!("one worker on `{lost}`: {workers:?}") };
    kill_process(Pid::from_raw(worker).expect("a process"), Signal::KILL).expect("it is there");
    // mst may be removing it already.
    let _ = fs::remove_dir_all(space.path("machines").join(&lost));
    space.write("gate/go", "");
    let output = running.end().exits(106);
    assert!(output.stderr.contains("shard 0 broke: "), "{output}");
    let there = space.run();
    there.assert_whole();
    let kept = there.trials();
    assert!(kept > 0 && kept < 8, "{kept} trials");
    assert_eq!(there.record()["collect"], "partial");
    assert!(output.stdout.contains(&format!("8 trials, partial: {} missing", 8 - kept)), "{output}");
    // The lost machine could still be asked to go: nothing is left.
    assert_eq!(machines(&space), [""; 0]);

    let output = space.mst(["run", "--resume", &there.name()]).exits(0);
    assert_eq!(output.stderr.matches("\ncollect ").count(), 8 - kept, "{output}");
    there.assert_whole();
    assert_eq!(there.trials(), 8);
    assert_eq!(there.record()["collect"], "complete");
    assert_eq!(there.record()["shards"].as_array().expect("shards").len(), 4);
    assert_eq!(machines(&space), [""; 0]);
}

#[test]
fn a_run_that_asks_something_else_is_not_resumed() {
    let runner = need!(example("dir-runner"));
    let space = space();
    eval(2).write(&space);
    run(&space, runner, &[]).exits(0);
    let name = space.run().name();
    eval(3).set("trials", json!(2)).write(&space);
    let output = space.mst(["run", "--resume", &name]).exits(105);
    insta::assert_snapshot!(output.said(), @"
    error: the run `[RUN]` asked something else
      - the eval changed in `trials`
      - the cases changed: 2 then, 3 now
    hint: start a new run, or bring back what changed
    ");
}

#[test]
fn variables_for_clients_do_not_go_to_machines() {
    let runner = need!(example("dir-runner"));
    let space = space();
    eval(1).set("client.pass_env", json!(["HOME"])).write(&space);
    let output = run(&space, runner, &[]);
    assert_eq!(output.code, 105, "{output}");
    assert!(output.stderr.contains("gets variables by `pass_env`"), "{output}");
    assert_eq!(machines(&space), [""; 0]);
}

#[test]
fn a_clients_machine_does_not_hold_the_expected_answer() {
    let runner = need!(example("dir-runner"));
    let space = space();
    eval(0)
        .client("cat >/dev/null; grep -r the-[s]ecret $BASE/*/bundle || echo none")
        .set("client.env", json!({"BASE": space.text("machines")}))
        .cases([
            json!({"id": "0", "prompt": "q", "expected": "the-secret", "metadata": {"hint": "the-secret"}}),
        ])
        .write(&space);
    run(&space, runner, &[]);
    assert_eq!(space.run().report_text("0/v/0"), "none\n");
}

#[test]
fn what_passes_over_the_channel_is_in_no_line_of_the_runners() {
    let runner = need!(example("dir-runner"));
    let space = space();
    let (there, back) = ("marker-to-the-client-4f1d", "marker-from-the-client-9c2e");
    eval(0)
        .client(&format!("cat >/dev/null; echo {back}"))
        .cases([json!({"id": "0", "prompt": there})])
        .write(&space);
    let output = run(&space, runner, &["--json"]);
    assert_eq!(space.run().report_text("0/v/0"), format!("{back}\n"));
    for event in output.events().into_iter().filter(|event| event["event"] != "summary") {
        let text = event.to_string();
        assert!(!text.contains(there) && !text.contains(back), "{text}");
    }
    let ledger = fs::read_to_string(space.run().dir().join("machines.jsonl")).expect("reads");
    assert!(!ledger.contains(there) && !ledger.contains(back), "{ledger}");
}

#[test]
fn the_runners_there_are_can_be_listed() {
    let space = Space::new();
    insta::assert_snapshot!(space.mst(["runner", "list"]).exits(0).stdout, @"
    local                    up to 1 shards; the trials run in this process
    mst/runner/docker        up to 256 shards; A container for each shard, by the CLI of docker or podman.
    ");
}

#[test]
fn the_locks_runners_are_among_them() {
    let runner = need!(example("dir-runner"));
    let space = space();
    space.add(runner);
    let listed = space.mst(["runner", "list", "--json"]).exits(0).json();
    let listed: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|line| line["id"].as_str()).collect();
    assert_eq!(listed, ["local", "mst/runner/docker", "example/runner/dir"]);
    let lock = space.read("mst.lock").replace(&*runner.to_string_lossy(), "/no/such/file.wasm");
    space.write("mst.lock", lock);
    let output = space.mst(["runner", "list"]).exits(0);
    assert!(!output.stdout.contains("example"), "{output}");
    assert!(output.said().contains("`example/runner/dir` of the lock is left out: "), "{output}");
}

#[test]
fn a_case_with_a_long_or_wicked_id_comes_back_like_any_other() {
    let runner = need!(example("dir-runner"));
    let space = space();
    let ids = ["x".repeat(200), "../../x".to_owned(), "CON".to_owned(), "é ü/~+=%".to_owned()];
    eval(0).cases(ids.iter().map(|id| case(id))).write(&space);
    let output = run(&space, runner, &["--shards", "2"]);
    assert_eq!(space.run().trials(), 4, "{output}");
    space.run().assert_whole();
}

#[test]
fn a_run_that_can_make_no_machine_is_none() {
    let runner = need!(example("dir-runner"));
    let space = space();
    eval(4).write(&space);
    fs::remove_dir(space.path("machines")).expect("removed");
    let output = run(&space, runner, &["--shards", "2"]).exits(105);
    assert!(output.stderr.contains("error: no worker could be started"), "{output}");
    // The runner had its program run: that stays to be read.
    let run = space.run();
    let says = "hint: nothing began; start it again once that is mended; `mst audit runs/[RUN]` tells what";
    assert!(output.said().contains(says), "{output}");
    assert_eq!((run.trials(), run.record()["collect"].as_str()), (0, Some("partial")));
    let told = space.mst(["audit", &run.name()]).exits(0);
    assert!(told.stdout.contains("process.run") && told.stdout.contains("exec:create"), "{told}");
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "");
}

#[test]
fn what_a_killed_mst_left_in_its_tmpdir_is_removed_by_the_next() {
    let runner = need!(example("dir-runner"));
    let space = space();
    gated(&space, 1);
    let running = Running::start(&space, command(&space, runner, &[]));
    wait_until("a trial", || begun(&space) == 1);
    running.signal(Signal::KILL);
    running.end();
    let pid = fs::read_to_string(space.path("gate/pid-0")).expect("reads");
    wait_until("the end of the client", || crate::support::gone(&pid));
    let left = || fs::read_dir(space.tmp()).expect("lists").count();
    assert!(left() > 0, "a killed process cleans nothing up");
    // Whose the rest is nobody knows.
    fs::create_dir(space.tmp().join("mst-other")).expect("made");
    space.mst(["machines", "reap", &space.run().name()]).exits(0);
    wait_until("its worker's end", || {
        eval(1).write(&space);
        space.mst(["run", "eval.yaml"]).exits(0);
        left() == 1
    });
}
