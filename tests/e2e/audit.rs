//! What plugins called is in the run, and told as a person needs it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Eval, Running, Space, case, guest, need, wait_until};

#[test]
fn every_call_is_in_the_run_and_told_by_plugin() {
    let space = Space::new();
    Eval::new().cases(["a", "b"].map(case)).check("exit 0").write(&space);
    space.mst(["run", "eval.yaml"]).exits(0);
    let run = space.run();
    let lines = run.audit();
    for line in &lines {
        assert_eq!(line["schema"], "mst.audit/v1", "{line}");
        for field in ["at", "plugin", "sha256", "within", "call", "decision", "rule"] {
            assert!(line[field].is_string(), "`{field}` in {line}");
        }
        assert_eq!(line["decision"], "allowed", "{line}");
    }
    let about: Vec<_> = lines.iter().filter_map(|line| line["about"].as_str()).collect();
    assert!(about.contains(&"a v #0") && about.contains(&"b v #0"), "{about:?}");
    let commands = lines.iter().filter(|line| line["call"] == "workspace.run");
    let phases: Vec<_> = commands.map(|line| line["phase"].as_str().unwrap_or("ended")).collect();
    assert_eq!(phases, ["begun", "ended", "begun", "ended"]);

    let told = space.mst(["audit", &run.name(), "--json"]).exits(0).json();
    let rows = told["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["call"] == "workspace.run").expect("the command");
    assert_eq!(
        (&row["request"], &row["count"], &row["unfinished"]),
        (&json!("workspace:check"), &json!(2), &json!(0))
    );
    assert!(
        rows.iter().any(|row| row["plugin"] == "mst/dataset/jsonl" && row["request"] == "dir:data"),
        "{told}"
    );
    let text = space.mst(["audit", &run.name()]).exits(0);
    assert!(
        text.stdout
            .contains("workspace.run                workspace:check                         2  allowed"),
        "{text}"
    );
    assert_eq!(space.mst(["audit", &run.name(), "--denied"]).exits(0).stdout, "nothing was denied\n");

    let tighter = space.mst(["plugin", "tighten", "mst/judge/command", "--run", &run.name()]).exits(0);
    assert!(tighter.stdout.contains("used             workspace:check"), "{tighter}");
    space.mst(["plugin", "tighten", "mst/runner/docker", "--run", &run.name()]).exits(105);
}

#[test]
fn what_was_denied_is_told_once_and_with_its_rule() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let judge = json!({"plugin": "test/judge/hostile", "options": {"behaviour": "workspace-undeclared"}});
    Eval::new().cases(["a", "b", "c"].map(case)).judges(json!([judge])).write(&space);
    space.add(file);
    let output = space.mst(["run", "eval.yaml"]).exits(106);
    assert_eq!(output.stdout.matches("was denied").count(), 1, "however many trials met it: {output}");
    let run = space.run();
    let denied = space.mst(["audit", &run.name(), "--denied"]).exits(0);
    assert_eq!(denied.stdout.lines().filter(|line| line.contains("workspace:nope")).count(), 1, "{denied}");
    let row = denied.stdout.lines().find(|line| line.contains("workspace:nope")).expect("a row");
    assert!(row.contains("  3  denied: its manifest has no `[[workspace]]` template of that id"), "{row}");
}

#[test]
fn what_left_the_host_is_there_after_kill_9() {
    let space = Space::new();
    let gate = space.text("gate");
    Eval::new().check(&format!("touch {gate}; sleep 60")).write(&space);
    let running = Running::start(&space, space.command(["run", "eval.yaml"]));
    wait_until("the judge's command", || space.path("gate").exists());
    running.signal(Signal::KILL);
    drop(running.end());
    let run = space.run();
    let left: Vec<Value> = run.audit().into_iter().filter(|line| line["call"] == "workspace.run").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(
        (&left[0]["phase"], &left[0]["asks"]["request"]),
        (&json!("begun"), &json!("workspace:check"))
    );
    let told = space.mst(["audit", &run.name()]).exits(0);
    assert!(told.stdout.contains("1  allowed, 1 without an end"), "{told}");
}
