//! `mst report`.

use std::fs;

use serde_json::json;

use crate::support::{Eval, Space, case};

#[test]
fn an_unknown_run_names_the_newest() {
    let space = Space::new();
    let unknown = || space.mst(["report", "20260101-000000-aaaa"]).exits(105);
    insta::assert_snapshot!(unknown(), @"
    exit 105
    -- stderr
    error: there is no run `[RUN]` in `runs`
    hint: `--runs DIR` says where runs are kept
    ");
    for day in 1..=7 {
        fs::create_dir_all(space.path(format!("runs/2025010{day}-000000-abcd"))).expect("made");
    }
    fs::create_dir(space.path("runs/No Run")).expect("made");
    let said = String::from_utf8(unknown().raw.1).expect("UTF-8");
    insta::assert_snapshot!(said, @"
    error: there is no run `20260101-000000-aaaa` in `runs`
    hint: the newest are `20250107-000000-abcd`, `20250106-000000-abcd`, `20250105-000000-abcd`, `20250104-000000-abcd`, `20250103-000000-abcd`
    ");
    insta::assert_snapshot!(space.mst(["report", "../../etc"]).exits(105), @"
    exit 105
    -- stderr
    error: there is no run `../../etc` in `runs`
    hint: the newest are `[RUN]`, `[RUN]`, `[RUN]`, `[RUN]`, `[RUN]`
    ");
}

#[test]
fn a_directory_without_a_record_is_no_run() {
    let space = Space::new();
    fs::create_dir_all(space.path("runs/20250101-000000-abcd/trials")).expect("made");
    insta::assert_snapshot!(space.mst(["report", "20250101-000000-abcd"]).exits(105), @"
    exit 105
    -- stderr
    error: can't report `[RUN]`
      - there is no run in `runs/[RUN]`: it holds no `run.json`
    ");
}

#[test]
fn a_damaged_file_is_named_and_never_a_missing_trial() {
    let space = Space::new();
    Eval::new().cases(["a", "b"].map(case)).run(&space).exits(0);
    let run = space.run();
    let transcript = run.dir().join("trials/b/v/0/transcript.json");
    let whole = fs::read(&transcript).expect("reads");
    let report = || space.mst(["report", &run.name()]);

    fs::write(&transcript, &whole[..whole.len() / 2]).expect("written");
    let half = report().exits(105);
    assert_eq!(half.stdout, "");
    assert!(
        half.stderr.contains("runs/[RUN]/trials/b/v/0/transcript.json` is damaged at line 1, column"),
        "{half}"
    );

    let mut newer: serde_json::Value = serde_json::from_slice(&whole).expect("JSON");
    newer["schema"] = json!("mst.transcript/v2");
    fs::write(&transcript, newer.to_string()).expect("written");
    insta::assert_snapshot!(report().exits(105), @"
    exit 105
    -- stderr
    error: can't report `[RUN]`
      - `runs/[RUN]/trials/b/v/0/transcript.json` is in `mst.transcript/v2`, and this mst reads up to `mst.transcript/v1`: it was written by a newer mst
    hint: upgrade mst
    ");

    fs::remove_file(&transcript).expect("removed");
    insta::assert_snapshot!(report().exits(106).stdout, @"

    [RUN]
    2 cases, 2 trials, partial: 1 missing; 1 incomplete case is left out of the rates

     variant  judge  passed  failed  instrument errors  missing                  pass rate
     v        text        1       0                  0        1  100.0 % [20.7 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)
    ");
}

#[test]
fn a_grade_of_another_transcript_does_not_count() {
    let space = Space::new();
    Eval::new().run(&space).exits(0);
    let run = space.run();
    let path = run.dir().join("trials/a/v/0/transcript.json");
    let text = fs::read_to_string(&path).expect("reads");
    fs::write(&path, format!("{}\n\n", text.trim_end())).expect("written");
    insta::assert_snapshot!(space.mst(["report", &run.name()]).exits(106).stdout, @"

    [RUN]
    1 case, 1 trial, complete

     variant  judge  passed  failed  instrument errors  missing  not graded  pass rate
     v        text        0       0                  0        0           1          –
    ");
}

#[test]
fn whoever_has_read_enough_breaks_nothing() {
    let space = Space::new();
    Eval::new().run(&space).exits(0);
    let name = space.run().name();
    let script = format!("{} report {name} | true; {} run eval.yaml --json | head -n 1", MST, MST);
    let output = space.finish(space.any_command("sh", ["-c", &script])).exits(0);
    assert_eq!(output.stderr, "");
    // The run whose reader left came to its end all the same.
    let newest = space.runs().into_iter().find(|run| run.name() != name).expect("a second run");
    space.mst(["report", &newest.name()]).exits(0);
}

const MST: &str = env!("CARGO_BIN_EXE_mst");
