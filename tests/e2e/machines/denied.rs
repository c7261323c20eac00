//! What a runner was not granted is told once, however many shards met it: the plugin, the call, the rule and
//! the command.

use std::fs;

use serde_json::{Value, json};

use super::{eval, machines, space};
use crate::support::{Output, Space, example, need};

const ALL: [&str; 6] = ["create", "destroy", "list", "exec", "copy-to", "copy-from"];

/// Six cases in three shards, by a runner that was granted all but these of its templates.
fn without(denied: &[&str]) -> Option<(Space, Output)> {
    let runner = example("dir-runner")?;
    let space = space();
    eval(6).write(&space);
    let keys = ALL.iter().filter(|id| !denied.contains(id)).map(|id| format!("exec:{id}"));
    let words = ["plugin", "add", runner.to_str().expect("UTF-8"), "--grant"].map(str::to_owned);
    space.mst(words.into_iter().chain(keys)).exits(0);
    let output = run(&space);
    Some((space, output))
}

fn run(space: &Space) -> Output {
    let words = "run eval.yaml --runner example/runner/dir --runner-option base=machines --shards 3";
    space.mst(words.split(' '))
}

fn rule(function: &str, id: &str) -> String {
    format!(
        "`example/runner/dir` was denied `process.{function}(\"{id}\")`: its manifest asks for `exec:{id}`, which is \
         not granted"
    )
}

fn command(id: &str) -> String {
    format!("`mst plugin grant example/runner/dir exec:{id}` would grant it")
}

/// It is in the summary once, as an instrument's error of three shards: now, as JSON, and by `mst report`.
#[track_caller]
fn told_in_the_summary(space: &Space, output: &Output, function: &str, id: &str) {
    let said = format!("   3 × shard: {}; {}\n         first at shard 0\n", rule(function, id), command(id));
    assert!(output.stdout.contains(&said), "{output}");
    assert_eq!(output.to_string().matches(&command(id)).count(), 1, "{output}");
    // On the way each shard says that it was denied, and not the command.
    let notes = output.stderr.matches(&rule(function, id)).count();
    assert!(notes >= 3, "{output}");
    let run = space.run();
    let report = space.mst(["report", &run.name()]).exits(106);
    assert_eq!(report.stdout, output.stdout);
    let told = space.mst(["report", &run.name(), "--json"]).exits(106).json();
    let shards = told["instrument_errors"]["shards"].as_array().expect("shards");
    let shard =
        shards.iter().find(|shard| shard["denial"]["call"] == format!("process.{function}(\"{id}\")"));
    let shard = shard.expect("the denial");
    assert_eq!((&shard["count"], &shard["first"]), (&json!(3), &json!(0)));
    assert_eq!(shard["denial"]["plugin"], "example/runner/dir");
    assert_eq!(shard["denial"]["grant"], format!("mst plugin grant example/runner/dir exec:{id}"));
}

/// Nothing began: it is in the error once.
#[track_caller]
fn told_in_the_error(output: &Output, function: &str, id: &str) {
    let said = format!("  - 3 shards: {}; {}\n", rule(function, id), command(id));
    assert!(output.stderr.contains(&said), "{output}");
    assert_eq!(output.to_string().matches(&command(id)).count(), 1, "{output}");
    assert_eq!(output.stderr.matches(&rule(function, id)).count(), 4, "{output}");
}

#[test]
fn a_machine_that_may_not_be_made() {
    let (_, output) = need!(without(&["create"]));
    let output = output.exits(105);
    told_in_the_error(&output, "run", "create");
    let said = output.said();
    insta::assert_snapshot!(said[said.find("error: ").expect("an error")..], @r#"
    error: no worker could be started
      - 3 shards: `example/runner/dir` was denied `process.run("create")`: its manifest asks for `exec:create`, which is not granted; `mst plugin grant example/runner/dir exec:create` would grant it
    hint: nothing began; start it again once that is mended; `mst audit runs/[RUN]` tells what plugins did meanwhile
    "#);
}

#[test]
fn a_command_that_may_not_be_run() {
    let (space, output) = need!(without(&["exec"]));
    told_in_the_error(&output.exits(105), "start", "exec");
    assert!(machines(&space).is_empty());
}

#[test]
fn a_bundle_that_may_not_go_there() {
    let (space, output) = need!(without(&["copy-to"]));
    told_in_the_error(&output.exits(105), "run", "copy-to");
    assert!(machines(&space).is_empty());
}

#[test]
fn results_that_may_not_come_back() {
    let (space, output) = need!(without(&["copy-from"]));
    let output = output.exits(106);
    told_in_the_summary(&space, &output, "run", "copy-from");
    assert!(output.stdout.contains("6 trials, partial: 6 missing"), "{output}");
    assert!(machines(&space).is_empty());
    // Once it is granted, what is missing is collected, and what was denied before is told no more.
    space.mst(["plugin", "grant", "example/runner/dir", "exec:copy-from"]).exits(0);
    let resumed = space.mst(["run", "--resume", &space.run().name()]).exits(0);
    assert!(!resumed.stdout.contains("instrument errors:"), "{resumed}");
    space.mst(["report", &space.run().name()]).exits(0);
}

#[test]
fn the_first_result_that_may_not_come_back_ends_its_shard() {
    let (space, _) = need!(without(&["copy-from"]));
    eval(60).write(&space);
    fs::remove_dir_all(space.path("runs")).expect("removed");
    run(&space).exits(106);
    let told = space.mst(["audit", &space.run().name(), "--denied", "--json"]).exits(0).json();
    let row = told["rows"].as_array().and_then(|rows| rows.first()).expect("a row");
    assert_eq!(row["request"], "exec:copy-from");
    // Four may be on their way of each of three machines, while a fifth is done.
    let count = row["count"].as_u64().expect("a count");
    assert!((3..=18).contains(&count), "{told}");
    assert_eq!(row["grant"], "mst plugin grant example/runner/dir exec:copy-from");
}

#[test]
fn a_machine_that_may_not_be_removed() {
    let (space, output) = need!(without(&["destroy"]));
    let output = output.exits(106);
    told_in_the_summary(&space, &output, "run", "destroy");
    // All that was asked for is there, and an instrument broke all the same: the machines are left.
    assert!(output.stdout.contains("6 trials, complete"), "{output}");
    assert_eq!(machines(&space).len(), 3);
    let name = space.run().name();
    let reaped = space.mst(["machines", "reap", &name]);
    assert_ne!(reaped.code, 0);
    let grant = "`mst plugin grant example/runner/dir exec:destroy";
    assert_eq!(reaped.to_string().matches(grant).count(), 1, "{reaped}");
    space.mst(["plugin", "grant", "example/runner/dir", "exec:destroy"]).exits(0);
    space.mst(["machines", "reap", &name]).exits(0);
    assert!(machines(&space).is_empty());
}

#[test]
fn what_is_denied_at_both_ends_of_a_shard_is_told_of_each() {
    for (id, function) in [("create", "run"), ("copy-to", "run"), ("copy-from", "run")] {
        let (space, output) = need!(without(&[id, "destroy"]));
        let output = output.exits(106);
        told_in_the_summary(&space, &output, function, id);
        told_in_the_summary(&space, &output, "run", "destroy");
        let missing: Value = space.mst(["report", &space.run().name(), "--json"]).exits(106).json();
        assert_eq!(missing["trials"]["missing"], 6);
    }
}
