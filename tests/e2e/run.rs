//! What a run leaves, whatever is asked.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

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
    run.assert_passed();
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

#[test]
fn a_run_is_resumed_with_its_eval_wherever_that_is_now() {
    let (space, run) = run_of(&Eval::new().cases([case("a")]));
    fs::rename(space.path("eval.yaml"), space.path("moved.yaml")).expect("moved");
    insta::assert_snapshot!(space.mst(["run", "--resume", &run.name()]).exits(105).said(), @"
    error: the run's eval is not at `[DIR]/eval.yaml` any more
    hint: name its file too: `mst run EVAL --resume RUN`
    ");
    space.mst(["run", "moved.yaml", "--resume", &run.name()]).exits(0);
}

#[test]
fn an_eval_in_a_place_that_no_text_can_say_is_run_and_resumed() {
    let space = Space::new();
    let place = space.dir().join(std::ffi::OsStr::from_bytes(b"pl\xffce"));
    fs::create_dir(&place).expect("made");
    Eval::new().cases([case("a")]).write(&space);
    for entry in fs::read_dir(space.dir()).expect("listed").map(|entry| entry.expect("an entry").path()) {
        if entry.is_file() {
            fs::rename(&entry, place.join(entry.file_name().expect("a name"))).expect("moved");
        }
    }
    let mst = |args: &[&str]| {
        let mut command = space.command(args.iter().copied());
        command.current_dir(&place);
        space.finish(command)
    };
    mst(&["run", "eval.yaml"]).exits(0);
    let run = fs::read_dir(place.join("runs")).expect("listed").next().expect("a run").expect("an entry");
    let run = run.file_name().into_string().expect("a name");
    insta::assert_snapshot!(mst(&["run", "--resume", &run]).exits(105).said(), @"
    error: the run does not say where its eval is
    hint: name its file too: `mst run EVAL --resume RUN`
    ");
    mst(&["run", "eval.yaml", "--resume", &run]).exits(0);
}
