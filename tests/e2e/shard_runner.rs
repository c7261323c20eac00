//! Runners that carry whole shards, by `tests/guests/shard`.

use std::fs;

use crate::support::{Eval, Output, Space, case, guest, need};

fn run(space: &Space, behaviour: &str, shards: &str) -> Option<Output> {
    let runner = guest("shard")?;
    fs::create_dir(space.path("shards")).expect("made");
    Eval::new().client("cat").cases((0..6).map(|n| case(&n.to_string()))).write(space);
    let mut command =
        space.command(["run", "eval.yaml", "--runner", "test/runner/shard", "--shards", shards]);
    space.add(runner);
    command.args(["--runner-option", "base=shards"]);
    Some(space.finish({
        command.args(["--runner-option", &format!("behaviour={behaviour}")]);
        command
    }))
}

fn assert_nothing_left(space: &Space) {
    assert_eq!(fs::read_dir(space.path("shards")).expect("lists").count(), 0);
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "");
    space.assert_tidy();
}

#[test]
fn whole_shards_are_carried_and_gathered() {
    let space = Space::new();
    let output = need!(run(&space, "good", "3")).exits(0);
    let there = space.run();
    there.assert_whole();
    assert_eq!(there.trials(), 6, "{output}");
    assert_eq!(there.record()["collect"], "complete");
    assert_nothing_left(&space);
}

#[test]
fn where_no_shard_can_start_nothing_is_left() {
    let space = Space::new();
    let output = need!(run(&space, "no-attach", "2")).exits(105);
    let said = output.said();
    insta::assert_snapshot!(&said[said.find("error: ").expect("an error")..], @"
    error: no worker could be started
      - shard 0: `test/runner/shard`: unavailable: no machine is free
      - shard 1: `test/runner/shard`: unavailable: no machine is free
    hint: nothing began; start it again once that is mended; `mst audit runs/[RUN]` tells what plugins did meanwhile
    ");
    assert_only_calls(&space, &output);
    space.assert_tidy();
}

#[test]
fn a_second_worker_is_refused_and_changes_nothing() {
    let space = Space::new();
    let output = need!(run(&space, "twice", "1"));
    assert!(output.stderr.contains("the shard has had its worker"), "{output}");
    // What the first one did was announced, and did not come back.
    space.run().assert_whole();
    assert_nothing_left(&space);
}

/// Nothing began, and what the runner did before that stays to be read.
#[track_caller]
fn assert_only_calls(space: &Space, output: &Output) {
    assert!(output.said().contains("; `mst audit runs/[RUN]` tells what plugins did meanwhile"), "{output}");
    let run = space.run();
    assert_eq!((run.trials(), run.record()["collect"].as_str()), (0, Some("partial")));
    assert!(space.mst(["audit", &run.name()]).exits(0).stdout.contains("process.run"));
}

#[test]
fn what_the_host_moves_is_not_the_runners_to_read() {
    for (behaviour, words) in [
        ("run-the-worker", "template `worker` takes a command of the host's: it can be started, and not run"),
        ("peek", "it read 0 bytes and 2048 of stderr, cut: true"),
    ] {
        let space = Space::new();
        let output = need!(run(&space, behaviour, "1")).exits(105);
        assert!(output.stderr.contains(words), "{output}");
        assert_only_calls(&space, &output);
        assert_eq!(fs::read_dir(space.path("shards")).expect("lists").count(), 0);
    }
}

#[test]
fn results_that_do_not_come_back_are_missing_and_nothing_is_invented() {
    for behaviour in ["no-results", "error-after"] {
        let space = Space::new();
        let output = need!(run(&space, behaviour, "2")).exits(106);
        assert_eq!(space.run().trials(), 0, "{output}");
        assert!(output.stdout.contains("6 trials, partial: 6 missing"), "{output}");
        assert_nothing_left(&space);
    }
}

#[test]
fn a_child_that_was_ended_is_no_worker() {
    let space = Space::new();
    let output = need!(run(&space, "ended-child", "1")).exits(105);
    assert!(output.stderr.contains("  - shard 0: its worker failed: signal 9 ended it"), "{output}");
    assert_only_calls(&space, &output);
    assert_eq!(fs::read_dir(space.path("shards")).expect("lists").count(), 0);
    space.assert_tidy();
}

#[test]
fn a_child_that_bears_no_command_of_the_hosts_is_no_worker() {
    let space = Space::new();
    let output = need!(run(&space, "another-child", "1")).exits(105);
    assert!(
        output
            .stderr
            .contains("  - shard 0: `test/runner/shard`: a child that bears no command of the host's"),
        "{output}"
    );
    assert_only_calls(&space, &output);
    assert_eq!(fs::read_dir(space.path("shards")).expect("lists").count(), 0);
    space.assert_tidy();
}

#[test]
fn a_handle_that_the_host_never_gave_out_ends_the_call() {
    for behaviour in ["forged-child", "forged-directory"] {
        let space = Space::new();
        let output = need!(run(&space, behaviour, "1")).exits(105);
        assert!(
            output.stderr.contains("`test/runner/shard` crashed in `run-shard`: unknown handle index 4242"),
            "{output}"
        );
        assert_only_calls(&space, &output);
        assert_eq!(fs::read_dir(space.path("shards")).expect("lists").count(), 0);
        space.assert_tidy();
    }
}
