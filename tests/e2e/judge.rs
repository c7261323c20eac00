//! The first-party judges, as an eval meets them.

use serde_json::{Value, json};

use crate::support::{Eval, Run, Space, before_its_deadline, case, sh};

fn text(id: &str, options: Value) -> Value {
    json!({"id": id, "plugin": "mst/judge/text", "options": options})
}

fn command(id: &str, script: &str, result: &str) -> Value {
    json!({"id": id, "plugin": "mst/judge/command", "options": {"command": sh(script), "result": result}})
}

/// What each judge said, a line each.
fn said(run: &Run, judges: &Value, trial: &str) -> String {
    let names = judges.as_array().expect("a list").iter().map(|judge| judge["id"].as_str().expect("an id"));
    names
        .map(|name| {
            let result = run.grade(name, trial);
            let verdict = &result["verdict"];
            match &result["error"]["message"] {
                Value::Null => format!("{name}: {} {}\n", verdict["finding"], verdict["reason"]),
                message => format!("{name}: error {message}\n"),
            }
        })
        .collect()
}

#[test]
fn text_in_all_its_modes() {
    let space = Space::new();
    let judges = json!([
        text("exact", json!({"mode": "exact"})),
        text("exact-not", json!({"mode": "exact", "trim": false})),
        text("contains", json!({"mode": "contains", "value": "ANSWER", "ignore_case": true})),
        text("contains-not", json!({"mode": "contains", "value": "ANSWER"})),
        text("regex", json!({"mode": "regex", "pattern": "^the .* \\d+$"})),
        text("regex-not", json!({"mode": "regex", "pattern": "^\\d+$"})),
        text("number", json!({"mode": "number", "value": 42, "extract": "last"})),
        text("number-near", json!({"mode": "number", "value": 42.5, "extract": "last", "tolerance": 0.5})),
        text("number-not", json!({"mode": "number", "value": 41, "extract": "last"})),
        text("json", json!({"mode": "json-equal", "value": {"b": [1], "a": 2}, "against": "files/out.json"})),
        text("json-not", json!({"mode": "json-equal", "value": {"a": 1}, "against": "files/out.json"})),
        text("no-file", json!({"mode": "exact", "against": "files/none"})),
        text("no-pattern", json!({"mode": "regex", "pattern": "("})),
    ]);
    Eval::new()
        .client("echo 'the answer is 42'; echo '{\"a\":2,\"b\":[1]}' > out.json")
        .cases([json!({"id": "a", "prompt": "p", "expected": "the answer is 42"})])
        .judges(judges.clone())
        .run(&space)
        .exits(106);
    insta::assert_snapshot!(said(&space.run(), &judges, "a/v/0"), @r#"
    exact: "pass" "the report is `the answer is 42`, as expected"
    exact-not: "fail" "the report is `the answer is 42\\n` where `the answer is 42` was expected"
    contains: "pass" "the report contains `ANSWER`"
    contains-not: "fail" "the report is `the answer is 42` and does not contain `ANSWER`"
    regex: "pass" "`the answer is 42` of the report matches `^the .* \\d+$`"
    regex-not: "fail" "the report is `the answer is 42`, and nothing in it matches `^\\d+$`"
    number: "pass" "the last number of the report is `42`; 42 was expected"
    number-near: "pass" "the last number of the report is `42`; 42.5 was expected"
    number-not: "fail" "the last number of the report is `42` where 41 was expected"
    json: "pass" "the file `out.json` is the expected JSON"
    json-not: "fail" "the file `out.json` is JSON, but `/a` is `2` where `1` was expected"
    no-file: "fail" "the client left no file `none`"
    no-pattern: error "`mst/judge/text`: `(` is no pattern: found open group without closing ')'"
    "#);
}

#[test]
fn a_report_that_is_no_text_is_judged_all_the_same() {
    let space = Space::new();
    let judges = json!([
        text("contains", json!({"mode": "contains", "value": "answer"})),
        text("exact", json!({"mode": "exact", "value": "answer"})),
        command(
            "bytes",
            "test \"$(od -An -tx1 < $MST_REPORT_FILE | tr -d ' \\n')\" = ff00616e73776572fe",
            "exit"
        ),
    ]);
    Eval::new().client(r"printf '\377\000answer\376'").judges(judges.clone()).run(&space).exits(0);
    insta::assert_snapshot!(said(&space.run(), &judges, "a/v/0"), @r#"
    contains: "pass" "the report contains `answer`"
    exact: "fail" "the report is `�\\u{0}answer�` where `answer` was expected"
    bytes: "pass" "the check ended with code 0"
    "#);
}

#[test]
fn a_command_decides_by_how_it_ends_or_by_what_it_prints() {
    let space = Space::new();
    let judges = json!([
        command("code-0", "true", "exit"),
        command("code-1", "echo out; echo err >&2; exit 1", "exit"),
        command("signal", "kill -SEGV $$", "exit"),
        command("not-found", "no-such-program", "exit"),
        {"id": "no-program", "plugin": "mst/judge/command", "options": {"command": "./no-such-check"}},
        command("score", "echo building; echo '{\"score\": 0.5, \"measures\": {\"took\": {\"value\": 3, \"unit\": \"ms\"}}}'", "json"),
        command("abstains", "echo '{\"abstain\": \"no network\"}'", "json"),
        command("malformed", "echo '{\"score\": '", "json"),
        command("other-code", "echo '{\"pass\": true}'; exit 3", "json"),
        command("too-much", "echo '{\"score\": 1.5}'", "json"),
    ]);
    Eval::new().judges(judges.clone()).run(&space).exits(106);
    let run = space.run();
    let said = space.normal(&said(&run, &judges, "a/v/0"));
    insta::assert_snapshot!(said, @r#"
    code-0: "pass" "the check ended with code 0"
    code-1: "fail" "the check ended with code 1; stderr: err; stdout: out"
    signal: "fail" "signal 11 ended the check"
    not-found: error "`mst/judge/command`: the check could not be run: a program in it was not found (code 127); is it installed where grading happens?; stderr: /usr/bin/sh: 1: no-such-program: not found"
    no-program: error "`mst/judge/command`: not found: the check could not be run: no program `./no-such-check`: looked in `[DIR]`"
    score: {"score":0.5} "the check scores it 0.5"
    abstains: {"abstain":"no network"} "no network"
    malformed: error "`mst/judge/command`: what the check printed is no verdict: neither the whole of it nor its last line is a JSON object (EOF while parsing a value at line 1 column 9); stdout begins: `{\"score\":`"
    other-code: error "`mst/judge/command`: the check ended with code 3, where `result: json` wants code 0 and a JSON object; stdout: {\"pass\": true}"
    too-much: error "`mst/judge/command`: what the check printed is no verdict: `score` is 1.5, and must be from 0.0 to 1.0; stdout begins: `{\"score\": 1.5}`"
    "#);
    let score = run.grade("score", "a/v/0");
    insta::assert_snapshot!(score, @r#"{"verdict":{"finding":{"score":0.5},"measures":[{"name":"took","unit":"ms","value":3.0}],"reason":"the check scores it 0.5"}}"#);
}

#[test]
fn a_check_past_its_deadline_is_an_instruments_error_and_gone() {
    let (space, output, seconds) = before_its_deadline([3, 50], |seconds| {
        let space = Space::new();
        let check = "echo $$ >> $SPACE/pids; sleep 600 & echo $! >> $SPACE/pids; touch $SPACE/told; wait";
        let output = Eval::new()
            .check(&check.replace("$SPACE", &space.text("")))
            .set("deadlines", json!({"scoring": format!("{seconds}s")}))
            .run(&space);
        space.path("told").exists().then_some((space, output, seconds))
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
    let pids = space.read("pids");
    assert_eq!(pids.lines().count(), 2);
    assert!(pids.lines().all(crate::support::gone), "{pids}");
    space.assert_tidy();
}

#[test]
fn a_check_sees_the_trial_and_nothing_else() {
    let space = Space::new();
    let judges = json!([
        command("env", "env | cut -d= -f1 | sort | tr '\\n' ' ' >&2; exit 1", "exit"),
        command("files", "cat $MST_CASE_FILE $MST_REPORT_FILE kept; echo; ls -a; exit 1", "exit")
    ]);
    Eval::new()
        .client("echo said; echo kept > kept")
        .cases([json!({"id": "a", "prompt": "p", "expected": "EXPECTED", "metadata": {"m": "META"}})])
        .judges(judges.clone())
        .run(&space)
        .exits(0);
    insta::assert_snapshot!(said(&space.run(), &judges, "a/v/0"), @r#"
    env: "fail" "the check ended with code 1; stderr: HOME LANG MST_CASE_FILE MST_CASE_ID MST_PROCESS MST_REPORT_FILE MST_TRIAL MST_VARIANT PATH PWD TMPDIR"
    files: "fail" "the check ended with code 1; stdout: {\"id\":\"a\",\"prompt\":[{\"role\":\"user\",\"content\":\"p\"}],\"expected\":\"EXPECTED\",\"metadata\":{\"m\":\"META\"}}said\nkept\n\n.\n..\nkept"
    "#);
    space.assert_tidy();
}

#[test]
fn what_one_judge_does_to_the_workspace_no_other_sees() {
    let space = Space::new();
    let check = "test \"$(cat kept)\" = kept && test ! -e mark && rm kept && touch mark";
    let judges = json!([command("one", check, "exit"), command("other", check, "exit")]);
    Eval::new().client("echo kept > kept").judges(judges).run(&space).exits(0);
    space.run().assert_whole();
    space.run().assert_passed();
}

#[test]
fn abstaining_is_neither_passed_nor_failed() {
    let space = Space::new();
    let output = Eval::new()
        .check("test $MST_CASE_ID = a && echo '{\"abstain\": \"x\"}' || echo '{\"pass\": true}'")
        .set("judges.0.options.result", json!("json"))
        .cases(["a", "b"].map(case))
        .run(&space)
        .exits(0);
    insta::assert_snapshot!(output.stdout, @"

    [RUN]
    2 cases, 2 trials, complete

     variant  judge  passed  failed  abstained  instrument errors  missing                  pass rate
     v        check       1       0          1                  0        0  100.0 % [20.7 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)
    ");
}
