//! Runners of a stranger's that do what none should, by `tests/guests/machine`: what is said of it and how
//! the run ends. The shard beside has its trials, and nothing is left.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{
    Eval, Output, Space, before_its_deadline, case, guest, need, processes_with, wait_until,
};

/// A run of two shards; the runner does wrong for the first.
fn command(space: &Space, runner: &Path, behaviour: &str) -> Command {
    fs::create_dir(space.path("machines")).expect("made");
    Eval::new().client("cat").cases((0..6).map(|n| case(&n.to_string()))).write(space);
    space.add(runner);
    let mut command = space.command(["run", "eval.yaml", "--runner", "test/runner/machine", "--shards", "2"]);
    command.args(["--runner-option", "base=machines", "--runner-option", &format!("behaviour={behaviour}")]);
    command
}

/// The machines that are there.
fn machines(space: &Space) -> Vec<String> {
    let entries = fs::read_dir(space.path("machines")).expect("lists");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
}

/// What no terminal may get from a plugin.
#[track_caller]
fn assert_plain(output: &Output) {
    for bytes in [&output.raw.0, &output.raw.1] {
        let text = String::from_utf8_lossy(bytes);
        let wicked = text.chars().find(|&c| (c.is_control() && c != '\n') || c == '\u{202e}');
        assert_eq!(wicked, None, "{text}");
    }
}

/// Names of machines end with what chance gave.
fn normal(text: &str) -> String {
    let machine = regex_lite::Regex::new(r"(mst|MST)-\[RUN\]-(\d)-[a-z2-9]{4}").expect("valid");
    machine.replace_all(text, "[$1 $2]").into_owned()
}

#[track_caller]
fn assert_nothing_left(space: &Space, behaviour: &str) {
    assert_eq!(machines(space), [""; 0], "{behaviour}");
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "", "{behaviour}");
    assert!(idle(space).is_empty(), "{behaviour}");
    space.assert_tidy();
}

/// What a runner of this space's started beside the worker, and is still there.
fn idle(space: &Space) -> Vec<i32> {
    let root = space.dir().parent().expect("a root").to_owned();
    let mut found = processes_with(|argv| argv == ["sleep", "2718"]);
    // Its directory may be gone already; the name says where it was.
    found.retain(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&root)));
    found
}

#[test]
fn what_is_idle_is_found() {
    let space = Space::new();
    let mut child = space.any_command("sleep", ["2718"]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    wait_until("the child", || idle(&space) == [child.id() as i32]);
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(idle(&space).is_empty());
}

/// Shard 0 broke: what is said of it. The other's trials are there, its own are missing.
#[track_caller]
fn broke(runner: &Path, behaviour: &str) -> String {
    let space = Space::new();
    let output = space.finish(command(&space, runner, behaviour)).exits(106);
    assert_plain(&output);
    let run = space.run();
    run.assert_whole();
    let mut trials = run.all_trials();
    trials.retain(|trial| trial["shard"] == 1);
    assert!(!trials.is_empty() && trials.len() == run.trials(), "{behaviour}: {output}");
    assert!(output.stdout.contains(&format!("partial: {} missing", 6 - trials.len())), "{output}");
    assert_nothing_left(&space, behaviour);
    let said = output.stderr.lines().find_map(|line| line.split_once("shard 0 broke: "));
    let (_, said) = said.unwrap_or_else(|| panic!("{behaviour}: {output}"));
    format!("{behaviour}: {}\n", normal(said))
}

/// Nothing was wrong with it: the run is whole.
#[track_caller]
fn went(runner: &Path, behaviour: &str) -> Space {
    let space = Space::new();
    let output = space.finish(command(&space, runner, behaviour)).exits(0);
    assert_plain(&output);
    let run = space.run();
    run.assert_whole();
    assert_eq!(run.trials(), 6, "{output}");
    assert_nothing_left(&space, behaviour);
    space
}

#[test]
fn a_machine_that_was_not_asked_for_is_none() {
    let runner = need!(guest("machine"));
    let behaviours = [
        "name-of-none",
        "name-of-another-shard",
        "name-of-another-run",
        "name-in-other-letters",
        "name-with-escapes",
        "root-empty",
        "root-relative",
        "root-of-all",
        "root-with-dots",
        "root-with-a-dot",
        "root-doubled",
        "root-with-a-command",
        "root-with-escapes",
        "root-long",
    ];
    insta::assert_snapshot!(behaviours.map(|behaviour| broke(runner, behaviour)).concat(), @"
    name-of-none: `test/runner/machine` gave a wrong answer from `create-machine`: a machine called ``, where `[mst 0]` was asked for
    name-of-another-shard: `test/runner/machine` gave a wrong answer from `create-machine`: a machine called `[mst 1]`, where `[mst 0]` was asked for
    name-of-another-run: `test/runner/machine` gave a wrong answer from `create-machine`: a machine called `mst-of-another-run-0-aaaa`, where `[mst 0]` was asked for
    name-in-other-letters: `test/runner/machine` gave a wrong answer from `create-machine`: a machine called `[MST 0]`, where `[mst 0]` was asked for
    name-with-escapes: `test/runner/machine` gave a wrong answer from `create-machine`: a machine called `[mst 0]a�[2Jb�c d�e�31mf`, where `[mst 0]` was asked for
    root-empty: `test/runner/machine` gave a wrong answer from `create-machine`: a root ``, where an absolute path of plain characters is admitted
    root-relative: `test/runner/machine` gave a wrong answer from `create-machine`: a root `machines/[mst 0]`, where an absolute path of plain characters is admitted
    root-of-all: `test/runner/machine` gave a wrong answer from `create-machine`: a root `/`, where an absolute path of plain characters is admitted
    root-with-dots: `test/runner/machine` gave a wrong answer from `create-machine`: a root `[DIR]/machines/[mst 0]/../../home`, where an absolute path of plain characters is admitted
    root-with-a-dot: `test/runner/machine` gave a wrong answer from `create-machine`: a root `[DIR]/machines/[mst 0]/.`, where an absolute path of plain characters is admitted
    root-doubled: `test/runner/machine` gave a wrong answer from `create-machine`: a root `/[DIR]/machines/[mst 0]`, where an absolute path of plain characters is admitted
    root-with-a-command: `test/runner/machine` gave a wrong answer from `create-machine`: a root `[DIR]/machines/[mst 0]/$(id)`, where an absolute path of plain characters is admitted
    root-with-escapes: `test/runner/machine` gave a wrong answer from `create-machine`: a root `[DIR]/machines/[mst 0]/a�[2Jb�c d�e�31mf`, where an absolute path of plain characters is admitted
    root-long: `test/runner/machine` gave a wrong answer from `create-machine`: a root `/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`, where an absolute path of plain characters is admitted
    ");
}

#[test]
fn a_handle_that_can_not_be_kept_is_none() {
    let runner = need!(guest("machine"));
    let behaviours = ["handle-empty", "handle-no-json", "handle-long", "handle-deep"];
    insta::assert_snapshot!(behaviours.map(|behaviour| broke(runner, behaviour)).concat(), @"
    handle-empty: `test/runner/machine` gave a wrong answer from `create-machine`: a handle that is no JSON: EOF while parsing a value at line 1 column 0
    handle-no-json: `test/runner/machine` gave a wrong answer from `create-machine`: a handle that is no JSON: expected value at line 1 column 1
    handle-long: `test/runner/machine` gave a wrong answer from `create-machine`: a handle of 16386 bytes, where at most 16384 are admitted
    handle-deep: `test/runner/machine` gave a wrong answer from `create-machine`: a handle that is no JSON: recursion limit exceeded at line 1 column 128
    ");
    // It is the runner's own, whatever stands in it, and comes back as it was.
    went(runner, "handle-with-escapes");
}

#[test]
fn a_making_that_fails_or_crashes_leaves_nothing() {
    let runner = need!(guest("machine"));
    let behaviours = ["create-fails", "create-crashes"];
    insta::assert_snapshot!(behaviours.map(|behaviour| broke(runner, behaviour)).concat(), @"
    create-fails: `test/runner/machine`: a�[2Jb�c d�e�31mf
    create-crashes: `test/runner/machine` crashed in `create-machine`: wasm trap: wasm `unreachable` instruction executed
    ");
}

#[test]
fn a_making_without_end_is_cut_off_and_stays_in_the_list_until_it_is_reaped() {
    let runner = need!(guest("machine"));
    // The machine beside it needs a moment as well.
    let (space, output) = before_its_deadline([10, 60], |seconds| {
        let space = Space::new();
        let mut command = command(&space, runner, "create-loops");
        command.args(["--deadline", &format!("machine={seconds}s")]);
        let output = space.finish(command);
        (output.code == 106 && space.run().trials() > 0).then_some((space, output))
    });
    let run = space.run();
    run.assert_whole();
    assert!(run.all_trials().iter().all(|trial| trial["shard"] == 1), "{output}");
    assert_eq!(machines(&space), [""; 0], "{output}");
    // Nobody knows what comes of it later.
    insta::assert_snapshot!(normal(&space.mst(["machines", "list"]).exits(0).stdout), @"[RUN]  shard 0  [mst 0]  could not be removed: its making was cut off, and may still come to something");
    let reaped = space.mst(["machines", "reap", &run.name()]).exits(0);
    insta::assert_snapshot!(normal(&reaped.stderr), @"[mst 0]: removed");
    assert_nothing_left(&space, "create-loops");
}

#[test]
fn what_a_machine_is_said_to_be_made_from_is_text_and_bounded() {
    let runner = need!(guest("machine"));
    for (behaviour, reference, digest) in [
        (
            "image-with-escapes",
            "a\u{fffd}[2Jb\u{fffd}c d\u{fffd}e\u{fffd}31mf".to_owned(),
            "a\u{fffd}[2Jb\u{fffd}c d\u{fffd}e\u{fffd}31mf".to_owned(),
        ),
        ("image-long", "x".repeat(512) + "…", "y".repeat(128) + "…"),
    ] {
        let space = went(runner, behaviour);
        let image = &space.run().record()["shards"][0]["image"];
        assert_eq!((&image["reference"], &image["digest"]), (&reference.into(), &digest.into()));
    }
}

#[test]
fn a_child_that_it_does_not_have_or_that_has_ended_is_no_worker() {
    let runner = need!(guest("machine"));
    let behaviours = [
        "child-forged",
        "child-idle",
        "child-ended",
        "child-given-twice",
        "command-forged",
        "directory-forged",
    ];
    insta::assert_snapshot!(behaviours.map(|behaviour| broke(runner, behaviour)).concat(), @"
    child-forged: `test/runner/machine` gave a wrong answer from `run-command`: it breaks the component model's rules: unknown handle index 4242
    child-idle: `test/runner/machine` gave a wrong answer from `run-command`: a child that bears no command of the host's: only one of a template with `{command...}` or `{command:shell}` is handed on
    child-ended: machine `[mst 0]` can't be asked what it is: signal 9 ended it
    child-given-twice: `test/runner/machine` gave a wrong answer from `run-command`: it breaks the component model's rules: unknown handle index 2
    command-forged: `test/runner/machine` crashed in `run-command`: unknown handle index 4242
    directory-forged: `test/runner/machine` crashed in `copy-to`: unknown handle index 4242
    ");
}

#[test]
fn what_it_started_beside_the_worker_ends_with_the_call() {
    went(need!(guest("machine")), "child-of-three");
}

/// The first machine is there after the run; what the run said, and what `reap` says.
#[track_caller]
fn not_removed(runner: &Path, behaviour: &str) -> String {
    let space = Space::new();
    let ran = space.finish(command(&space, runner, behaviour));
    assert_plain(&ran);
    assert_eq!(space.run().trials(), 6, "{ran}");
    space.run().assert_whole();
    let [left] = &machines(&space)[..] else { panic!("{behaviour}: {ran}") };
    let run = space.run().name();
    assert!(left.starts_with(&format!("mst-{run}-0-")), "{left}");
    let says = |line: &&str| line.contains("could not be removed");
    let said: Vec<&str> = ran.stderr.lines().filter(says).collect();
    let reaped = space.mst(["machines", "reap", &run]).exits(106);
    assert_plain(&reaped);
    let listed = space.mst(["machines", "list"]).exits(0);
    assert_plain(&listed);
    space.assert_tidy();
    normal(&format!(
        "{behaviour}: exit {}: {}\nreap: {}list: {}\n",
        ran.code,
        said.join("\n"),
        reaped.stderr,
        listed.stdout
    ))
}

#[test]
fn a_machine_that_is_not_removed_is_told() {
    let runner = need!(guest("machine"));
    let behaviours = ["destroy-fails", "destroy-crashes", "destroy-lies"];
    insta::assert_snapshot!(behaviours.map(|behaviour| not_removed(runner, behaviour)).concat(), @"
    destroy-fails: exit 0: shard 0: machine `[mst 0]` could not be removed: `test/runner/machine`: unavailable: a�[2Jb�c d�e�31mf; `mst machines reap [RUN]` tries again
    reap: [mst 0]: could not be removed: `test/runner/machine`: unavailable: a�[2Jb�c d�e�31mf
    list: [RUN]  shard 0  [mst 0]  could not be removed: `test/runner/machine`: unavailable: a�[2Jb�c d�e�31mf

    destroy-crashes: exit 0: shard 0: machine `[mst 0]` could not be removed: `test/runner/machine` crashed in `destroy-machine`: wasm trap: wasm `unreachable` instruction executed; `mst machines reap [RUN]` tries again
    reap: [mst 0]: could not be removed: `test/runner/machine` crashed in `destroy-machine`: wasm trap: wasm `unreachable` instruction executed
    list: [RUN]  shard 0  [mst 0]  could not be removed: `test/runner/machine` crashed in `destroy-machine`: wasm trap: wasm `unreachable` instruction executed

    destroy-lies: exit 0: 
    reap: [mst 0]: could not be removed: the runner says that it is gone, and lists it still
    list: [RUN]  shard 0  [mst 0]  could not be removed: the runner says that it is gone, and lists it still
    ");
}

/// The run's machines are kept, one of nobody's is there too; what `reap` says.
#[track_caller]
fn reaped(runner: &Path, behaviour: &str) -> String {
    let space = Space::new();
    let mut kept = command(&space, runner, behaviour);
    kept.args(["--keep", "always"]);
    space.finish(kept).exits(0);
    fs::create_dir(space.path("machines/mst-of-another-run-0-aaaa")).expect("made");
    let output = space.mst(["machines", "reap", &space.run().name()]).exits(0);
    assert_plain(&output);
    // What is another run's is there as it was.
    assert_eq!(machines(&space), ["mst-of-another-run-0-aaaa"], "{behaviour}: {output}");
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "");
    space.assert_tidy();
    // The shards have no order.
    let mut lines: Vec<String> = normal(&output.stderr).lines().map(|line| format!("  {line}\n")).collect();
    lines.sort();
    format!("{behaviour}:\n{}", lines.concat())
}

#[test]
fn whatever_it_lists_only_the_runs_own_machines_are_removed() {
    let runner = need!(guest("machine"));
    let behaviours = ["list-others", "list-escapes", "list-many", "list-flood", "list-huge", "list-crashes"];
    insta::assert_snapshot!(behaviours.map(|behaviour| reaped(runner, behaviour)).concat(), @"
    list-others:
      [mst 0]: removed
      [mst 1]: removed
      mst-of-another-run-0-aaaa: the runner lists it, the run's ledger does not: left alone
    list-escapes:
      [mst 0]: removed
      [mst 1]: removed
      a�[2Jb�c d�e�31mf: the runner lists it, the run's ledger does not: left alone
    list-many:
      [mst 0]: removed
      [mst 1]: removed
      and 992 more that the runner lists and the ledger does not: left alone
      mst-nobodys-0: the runner lists it, the run's ledger does not: left alone
      mst-nobodys-1: the runner lists it, the run's ledger does not: left alone
      mst-nobodys-2: the runner lists it, the run's ledger does not: left alone
      mst-nobodys-3: the runner lists it, the run's ledger does not: left alone
      mst-nobodys-4: the runner lists it, the run's ledger does not: left alone
      mst-nobodys-5: the runner lists it, the run's ledger does not: left alone
      mst-nobodys-6: the runner lists it, the run's ledger does not: left alone
      mst-nobodys-7: the runner lists it, the run's ledger does not: left alone
    list-flood:
      [mst 0]: removed
      [mst 1]: removed
      the runner can't list its machines: `test/runner/machine` gave a wrong answer from `list-machines`: 100002 machines, where at most 100000 are admitted
    list-huge:
      [mst 0]: removed
      [mst 1]: removed
      the runner can't list its machines: `test/runner/machine` met a limit in `list-machines`: one call passed more than 64.0 MiB to the host, its limit
      whether they are gone can't be looked at: `test/runner/machine` met a limit in `list-machines`: one call passed more than 64.0 MiB to the host, its limit
    list-crashes:
      [mst 0]: removed
      [mst 1]: removed
      the runner can't list its machines: `test/runner/machine` crashed in `list-machines`: wasm trap: wasm `unreachable` instruction executed
      whether they are gone can't be looked at: `test/runner/machine` crashed in `list-machines`: wasm trap: wasm `unreachable` instruction executed
    ");
}
