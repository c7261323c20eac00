//! Every state that a writer killed at some instruction, or a power cut, may leave: none of them
//! reads as whole, and none of them is in the way of the next writer.

use std::fs;

use crate::fixture::*;
use mst_model::grade::Finding;
use mst_store::{ResultsDir, RunDir, StoreError, TrialStage};

#[test]
fn a_run_without_its_plan_is_no_run() {
    let runs = tempfile::tempdir().expect("makes");
    let path = runs.path().join(run_id().as_str());
    // Killed after each step of creating a run.
    let steps: [&dyn Fn(); 5] = [
        &|| fs::create_dir(&path).expect("makes"),
        &|| fs::write(path.join("lock"), "1\n").expect("writes"),
        &|| fs::create_dir(path.join("tmp")).expect("makes"),
        &|| fs::write(path.join("tmp/.tmp-x"), r#"{"sha256":"#).expect("writes"),
        &|| fs::write(path.join("cases.jsonl"), "").expect("writes"),
    ];
    for step in steps {
        step();
        assert!(matches!(RunDir::open_read(&path), Err(StoreError::NoRun { .. })));
        assert!(matches!(RunDir::open_write(&path), Err(StoreError::NoRun { .. })));
    }
}

#[test]
fn leftovers_are_read_by_nobody_and_removed_by_the_next_writer() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let key = key("x", "a", 0);
    let path = run.path().to_owned();
    drop(run);
    let before = listing(&path);

    // A trial that was complete but for its rename, one that had hardly begun, half a grade, half
    // a record.
    let stage = TrialStage::begin(&path).expect("begins");
    fill(stage.dir());
    let json = serde_json::to_vec(&transcript(&key)).expect("writes");
    fs::write(stage.dir().join("transcript.json"), json).expect("writes");
    std::mem::forget(stage);
    std::mem::forget(TrialStage::begin(&path).expect("begins"));
    fs::write(path.join("tmp/.tmp-grade"), r#"{"schema":"mst.grade/v1""#).expect("writes");
    fs::write(path.join("tmp/.tmp-run"), r#"{"schema":"mst.run/v1""#).expect("writes");

    let read = RunDir::open_read(&path).expect("opens");
    read.read_record().expect("is the old one");
    assert_eq!(read.transcript(&key).expect("looks"), None);
    assert!(!read.has_trial(&key).expect("looks"));
    assert!(listing(&path).len() > before.len(), "a reader removes nothing");

    let run = reopened(&path);
    assert_eq!(listing(&path), before);
    commit(run.path(), &key).expect("commits");
}

#[test]
fn a_workers_leftovers_are_removed_when_it_starts_again() {
    let dir = tempfile::tempdir().expect("makes");
    let results = ResultsDir::open(dir.path()).expect("opens");
    let (done, cut_off) = (key("x", "a", 0), key("x", "a", 1));
    commit_in(results.stage().expect("begins"), &done).expect("commits");
    let before = listing(dir.path());
    let stage = results.stage().expect("begins");
    fill(stage.dir());
    std::mem::forget(stage);
    let results = ResultsDir::open(dir.path()).expect("opens");
    assert_eq!(listing(dir.path()), before);
    assert!(results.transcript(&done).expect("looks").is_some());
    assert_eq!(results.transcript(&cut_off).expect("looks"), None);
}

#[test]
fn a_stage_that_is_dropped_leaves_nothing() {
    let dir = tempfile::tempdir().expect("makes");
    let stage = TrialStage::begin(dir.path()).expect("begins");
    fill(stage.dir());
    drop(stage);
    assert_eq!(listing(dir.path()), ["tmp"]);
}

#[test]
fn a_trial_directory_without_its_transcript_is_missing_and_not_in_the_way() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    for (index, left) in [None, Some("report"), Some("transcript.json.part")].into_iter().enumerate() {
        let key = key("x", "a", index as u32);
        let dir = run.trial_dir(&key);
        fs::create_dir_all(&dir).expect("makes");
        if let Some(name) = left {
            fs::write(dir.join(name), "half").expect("writes");
        }
        assert_eq!(run.transcript(&key).expect("looks"), None);
        assert!(!run.has_trial(&key).expect("looks"));
        commit(run.path(), &key).expect("takes its place");
        run.verify_trial(&key).expect("is whole");
    }
    assert_eq!(fs::read_dir(run.path().join("tmp")).expect("lists").count(), 0);
}

#[test]
fn no_prefix_of_a_file_reads_as_whole() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let key = key("x", "a", 0);
    commit(run.path(), &key).expect("commits");
    let given = grade(&key, Finding::Pass);
    let graded = run.write_grade(&given).expect("writes");
    type Read<'a> = &'a dyn Fn() -> Result<(), StoreError>;
    let files: [(_, Read); 3] = [
        (run.path().join("run.json"), &|| run.read_record().map(drop)),
        (run.trial_dir(&key).join("transcript.json"), &|| run.transcript(&key).map(drop)),
        (graded, &|| run.grade(&given.judge, &key).map(drop)),
    ];
    for (path, read) in files {
        let whole = fs::read(&path).expect("reads");
        let is_grade = path.starts_with(run.path().join("grades"));
        // The line's end is no part of the JSON; without it the file is whole all the same.
        for size in usize::from(is_grade)..whole.len() - 1 {
            fs::write(&path, &whole[..size]).expect("writes");
            match read() {
                Err(StoreError::Damaged { path: named, line, .. }) => {
                    assert_eq!(named, path);
                    assert!(line >= 1);
                }
                other => panic!("{size} bytes of `{}`: {other:?}", path.display()),
            }
        }
        fs::write(&path, whole).expect("writes");
        read().expect("is whole again");
    }
}

#[test]
fn a_grade_that_a_power_cut_took_is_missing() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    // More than wait to be synced at a time, and a few more.
    let keys: Vec<_> = (0..70).map(|index| key("x", "a", index)).collect();
    let judge = grade(&keys[0], Finding::Pass).judge;
    for key in &keys {
        run.write_grade(&grade(key, Finding::Pass)).expect("writes");
        assert!(run.grade(&judge, key).expect("reads").is_some(), "it is there before it is synced");
    }
    run.sync_grades().expect("syncs");
    let path = run.write_grade(&grade(&keys[0], Finding::Fail)).expect("writes");
    for left in [&b""[..], &[0; 512]] {
        fs::write(&path, left).expect("writes");
        assert_eq!(run.grade(&judge, &keys[0]).expect("reads"), None);
    }
    run.write_grade(&grade(&keys[0], Finding::Pass)).expect("writes over it");
    assert!(run.grade(&judge, &keys[0]).expect("reads").is_some());
    run.sync_grades().expect("syncs one");
}

#[test]
fn half_a_list_of_cases_is_told_from_a_whole_one() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x", "y"]);
    let set = run.read_record().expect("reads").cases;
    let path = run.path().join("cases.jsonl");
    let whole = fs::read(&path).expect("reads");
    let first = whole.iter().position(|byte| *byte == b'\n').expect("has one") + 1;
    for size in 0..whole.len() {
        fs::write(&path, &whole[..size]).expect("writes");
        assert!(matches!(run.verify_cases(&set), Err(StoreError::Altered { .. })));
    }
    fs::write(&path, &whole[..first + 10]).expect("writes");
    let mut cases = run.cases().expect("opens");
    assert!(matches!(cases.next(), Some(Ok(_))));
    match cases.next() {
        Some(Err(StoreError::Damaged { line: 2, column: 10, .. })) => {}
        other => panic!("{other:?}"),
    }
    assert!(cases.next().is_none(), "an error is the last item");
    fs::remove_file(&path).expect("removes");
    assert!(matches!(run.cases(), Err(StoreError::Missing { .. })));
}

#[test]
fn newer_foreign_and_damaged_files_say_so() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let path = run.path().join("run.json");
    let said = |text: &str| {
        fs::write(&path, text).expect("writes");
        let error = run.read_record().expect_err("is no record");
        (error.to_string().replace(&path.display().to_string(), "run.json"), error.hint())
    };
    // As a whole, and with nothing in it that this version knows.
    let whole = fs::read_to_string(&path).expect("reads");
    for newer in
        [whole.replace("mst.run/v1", "mst.run/v2"), r#"{"schema": "mst.run/v2", "plan": []}"#.to_owned()]
    {
        let (error, hint) = said(&newer);
        assert_eq!(
            error,
            "`run.json` is in `mst.run/v2`, and this mst reads up to `mst.run/v1`: it was written by a newer mst"
        );
        assert_eq!(hint.as_deref(), Some("upgrade mst"));
    }
    assert_eq!(
        said(r#"{"schema": "mst.grade/v1"}"#).0,
        "`run.json` must be in `mst.run/v1` but says that it is in `mst.grade/v1`"
    );
    assert_eq!(
        said(r#"{"schema": "mst.run/v0"}"#).0,
        "`run.json` must be in `mst.run/v1` but says that it is in `mst.run/v0`"
    );
    assert_eq!(said(&whole.replacen("\"id\":", "\"id\" ", 1)).0, "`run.json` is damaged at line 3, column 9");
}

#[test]
fn a_file_in_the_wrong_place_says_so() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let (a, b) = (key("x", "a", 0), key("x", "b", 0));
    commit(run.path(), &a).expect("commits");
    fs::create_dir_all(run.path().join("trials/x/b")).expect("makes");
    fs::rename(run.trial_dir(&a), run.trial_dir(&b)).expect("moves");
    assert!(matches!(run.transcript(&b), Err(StoreError::Misplaced { .. })));
    let given = grade(&a, Finding::Pass);
    let path = run.write_grade(&given).expect("writes");
    fs::rename(path, run.path().join("grades/text/x.b.0.json")).expect("moves");
    assert!(matches!(run.grade(&given.judge, &b), Err(StoreError::Misplaced { .. })));
}
