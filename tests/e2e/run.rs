//! What a run leaves, whatever is asked.

use serde_json::{Value, json};

use crate::support::{Eval, Run, Space, case, files_below};

fn run_of(eval: &Eval) -> (Space, Run) {
    let space = Space::new();
    eval.run(&space).exits(0);
    let run = space.run();
    (space, run)
}

#[test]
fn the_record_has_the_plan_and_what_it_stands_on() {
    let eval = Eval::new().cases(["a", "b"].map(case)).set("trials", json!(2));
    let (space, run) = run_of(&eval);
    let record = run.record();
    assert_eq!(record["schema"], "mst.run/v1");
    assert_eq!(record["id"], run.name().as_str());
    assert_eq!(
        (&record["trials"], &record["cases"]["count"], &record["collect"]),
        (&json!(4), &json!(2), &json!("complete"))
    );
    let plugins: Vec<&Value> =
        record["plugins"].as_array().expect("a list").iter().map(|used| &used["id"]).collect();
    assert_eq!(plugins, ["mst/dataset/jsonl", "mst/judge/text"]);
    assert_eq!(record["eval"]["deadlines"]["client"], "10m");
    assert_eq!(run.transcript("a/v/0")["schema"], "mst.transcript/v1");
    assert_eq!(run.transcript("a/v/0")["run"], run.name().as_str());
    run.assert_whole();
    assert!(files_below(&run.dir().join("tmp")).is_empty());
    space.assert_tidy();
}

#[test]
fn runs_go_where_they_are_told_to() {
    let space = Space::new();
    Eval::new().write(&space);
    space.mst(["run", "eval.yaml", "--runs", "elsewhere/deep"]).exits(0);
    assert!(space.path("elsewhere/deep").is_dir() && !space.path("runs").exists());
    space.write("file", "");
    insta::assert_snapshot!(space.mst(["run", "eval.yaml", "--runs", "file"]).exits(105).said(), @"
    error: can't make a run in `file`
      - can't make directory `file`
      - File exists (os error 17)
    ");
}

#[test]
fn concurrency_changes_nothing_but_time() {
    let eval = Eval::new().cases((0..20).map(|n| case(&n.to_string()))).client("cat").set("trials", json!(2));
    eval.value();
    let space = Space::new();
    eval.write(&space);
    let one = space.mst(["run", "eval.yaml", "--concurrency", "8"]).exits(0);
    let other = space.mst(["run", "eval.yaml", "--runs", "others"]).exits(0);
    assert_eq!(one.stdout, other.stdout);
    space.run().assert_whole();
}

#[test]
fn messages_become_one_prompt() {
    let eval = Eval::new()
        .cases([json!({"id": "a", "prompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
        ]})])
        .judges(json!([{"plugin": "mst/judge/text", "options": {"mode": "contains", "value": "brief"}}]));
    let (_space, run) = run_of(&eval);
    insta::assert_snapshot!(run.report_text("a/v/0"), @"
    System:
    Be brief.

    User:
    Hello
    ");
}

#[test]
fn two_variants_are_two_arms() {
    let space = Space::new();
    let output = Eval::new()
        .set("client", json!({"kind": "command", "argv": ["sh", "-c", "echo $WORD"], "env": {"WORD": "a"}}))
        .set("variants", json!([{"id": "own"}, {"id": "other", "env": {"WORD": "b"}}, {"id": "echo", "client": {"kind": "echo"}}]))
        .run(&space)
        .exits(0);
    insta::assert_snapshot!(output.stdout, @"

    [RUN]
    1 case, 3 trials, complete

     variant  judge  passed  failed  instrument errors  missing                  pass rate
     own      text        1       0                  0        0  100.0 % [20.7 %, 100.0 %]
     other    text        0       1                  0        0      0.0 % [0.0 %, 79.3 %]
     echo     text        1       0                  0        0  100.0 % [20.7 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)
    ");
}
