//! What the exit code says of a run that came to its end.

use serde_json::json;

use crate::support::{Eval, Space, case};

#[test]
fn a_missed_pass_rate_exits_with_100() {
    let space = Space::new();
    let eval = Eval::new()
        .client("cat; test $MST_CASE_ID = b && echo no; true")
        .cases(["a", "b"].map(case))
        .set("judges.0.min_pass_rate", json!(0.9));
    insta::assert_snapshot!(eval.run(&space).exits(100).stdout, @"

    [RUN]
    2 cases, 2 trials, complete

     variant  judge  passed  failed  instrument errors  missing               pass rate
     v        text        1       1                  0        0  50.0 % [9.5 %, 90.5 %]
    pass rates with their 95 % interval (Wilson)
    missed: 50.0 % of v by text, the eval asks for 90.0 %
    ");
    space.mst(["report", &space.run().name()]).exits(100);
    // Failing trials alone are no fault of the run's.
    let space = Space::new();
    eval.set("judges.0.min_pass_rate", json!(0.5)).run(&space).exits(0);
}

#[test]
fn a_score_passes_from_pass_score_on() {
    let space = Space::new();
    let eval = Eval::new()
        .check("echo \"{\\\"score\\\": 0.$MST_CASE_ID}\"")
        .set("judges.0.options.result", json!("json"))
        .set("judges.0.pass_score", json!(0.5))
        .cases(["25", "75"].map(case));
    insta::assert_snapshot!(eval.run(&space).exits(0).stdout, @"

    [RUN]
    2 cases, 2 trials, complete

     variant  judge  passed  failed  instrument errors  missing               pass rate  mean score
     v        check       1       1                  0        0  50.0 % [9.5 %, 90.5 %]       0.500
    pass rates with their 95 % interval (Wilson)
    ");
}

#[test]
fn a_broken_instrument_exits_with_106_and_is_nobodys_failure() {
    let space = Space::new();
    let eval = Eval::new()
        .cases(["a", "b"].map(case))
        .judges(json!([
            {"plugin": "mst/judge/text", "options": {"mode": "exact"}, "min_pass_rate": 1.0},
            {"plugin": "mst/judge/command", "options": {"command": "no-such-check"}, "min_pass_rate": 1.0},
        ]))
        .set("client", json!({"kind": "command", "argv": ["cat"], "env": {"PATH": "/usr/bin:/bin"}}));
    eval.write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("PATH", "/usr/bin:/bin");
    insta::assert_snapshot!(space.finish(command).exits(106).stdout, @"

    [RUN]
    2 cases, 2 trials, complete

     variant  judge    passed  failed  instrument errors  missing                  pass rate
     v        text          2       0                  0        0  100.0 % [34.2 %, 100.0 %]
     v        command       0       0                  2        0                          –
    pass rates with their 95 % interval (Wilson)
    missed: no rate of v by command, the eval asks for 100.0 %

    instrument errors:
         2 × command: `mst/judge/command`: not found: the check could not be run: no program `no-such-check`: looked in `/usr/bin`, `/bin`
             first at a v #0
    ");
    space.mst(["report", &space.run().name()]).exits(106);
}
