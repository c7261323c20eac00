//! What is written lies where the layout says, and reads back.

use std::fs;
use std::io::Read as _;
use std::sync::Arc;

use crate::fixture::*;
use mst_model::audit::{Decision, Phase};
use mst_model::grade::Finding;
use mst_model::run::{Collect, RunRecord};
use mst_model::transcript::Transcript;
use mst_store::{Expected, ResultsDir, RunDir, StoreError};

fn expected(sha256: mst_model::Digest) -> Expected {
    let case_sha256 = transcript(&key("x", "a", 0)).case_sha256;
    Expected { sha256, case_sha256, shard: 0, attempt: 0, previous: None }
}

#[test]
fn a_whole_run_lies_where_the_layout_says_and_reads_back() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["HumanEval/0", "b"]);
    let key = key("HumanEval/0", "a", 1);
    let committed = commit(run.path(), &key).expect("commits");
    let given = grade(&key, Finding::Score(0.1 + 0.2));
    run.write_grade(&given).expect("writes");

    assert_eq!(
        listing(runs.path()),
        [
            "20261130-015240-k3f9",
            "20261130-015240-k3f9/cases.jsonl",
            "20261130-015240-k3f9/grades",
            "20261130-015240-k3f9/grades/text",
            "20261130-015240-k3f9/grades/text/HumanEval%2F0=21.a.1.json",
            "20261130-015240-k3f9/lock",
            "20261130-015240-k3f9/run.json",
            "20261130-015240-k3f9/tmp",
            "20261130-015240-k3f9/trials",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a/1",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a/1/files",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a/1/files/src",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a/1/files/src/main.rs",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a/1/report",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a/1/stderr",
            "20261130-015240-k3f9/trials/HumanEval%2F0=21/a/1/transcript.json",
        ]
    );

    // Read by somebody else while the writer still has the lock.
    let read = RunDir::open_read(run.path()).expect("opens");
    let record = read.read_record().expect("reads");
    assert_eq!(record, crate::fixture::record(record.cases));
    let (transcript, sha256) = read.transcript(&key).expect("reads").expect("is there");
    assert_eq!(transcript, crate::fixture::transcript(&key));
    assert_eq!(sha256, committed.sha256);
    assert_eq!(read.verify_trial(&key).expect("is whole"), (transcript, sha256));
    assert_eq!(read.read_report(&key).expect("reads").as_deref(), Some(&b"because"[..]));
    let mut code = String::new();
    read.open_file(&key, "src/main.rs")
        .expect("opens")
        .expect("is there")
        .read_to_string(&mut code)
        .expect("reads");
    assert_eq!(code, "fn main() {}");
    assert!(read.open_file(&key, "../report").is_err());
    assert_eq!(read.grade(&given.judge, &key).expect("reads"), Some(given.clone()));

    let other = crate::fixture::key("b", "a", 0);
    assert!(read.has_trial(&key).expect("looks") && !read.has_trial(&other).expect("looks"));
    assert_eq!(read.transcript(&other).expect("looks"), None);
    assert_eq!(read.grade(&given.judge, &other).expect("looks"), None);
    assert!(read.open_report(&other).expect("looks").is_none());
    assert!(read.open_stderr(&other).expect("looks").is_none());
}

#[test]
fn trials_go_by_the_plan() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["y", "x"]);
    fs::create_dir_all(run.path().join("trials/stray/a/0")).expect("makes");
    let eval = eval();
    let planned: Vec<String> =
        run.trials(&eval).expect("opens").map(|key| key.expect("reads").to_string()).collect();
    assert_eq!(planned, ["y a #0", "y a #1", "y b #0", "y b #1", "x a #0", "x a #1", "x b #0", "x b #1"]);
    commit(run.path(), &key("x", "b", 0)).expect("commits");
    let missing = |case: &str| -> Vec<String> {
        let case = case.parse().expect("an id");
        let missing = run.missing_trials(&eval, &case).expect("looks");
        missing.iter().map(ToString::to_string).collect()
    };
    assert_eq!(missing("y"), ["y a #0", "y a #1", "y b #0", "y b #1"]);
    assert_eq!(missing("x"), ["x a #0", "x a #1", "x b #1"]);
}

#[test]
fn cases_stream_back_and_are_held_to_their_digests() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x", "y"]);
    let set = run.read_record().expect("reads").cases;
    assert_eq!(set.count, 2);
    run.verify_cases(&set).expect("are whole");
    for (stored, head) in run.cases().expect("opens").zip(run.case_heads().expect("opens")) {
        let (stored, head) = (stored.expect("reads"), head.expect("reads"));
        assert_eq!(stored.case, case(stored.case.id.as_str()));
        assert_eq!(stored.sha256, stored.case.digest().expect("a digest"));
        assert_eq!((head.sha256, head.id), (stored.sha256, stored.case.id));
    }

    // Written once.
    let again = run.write_cases().expect("begins");
    assert!(again.finish().is_err());
    run.verify_cases(&set).expect("are whole still");

    let path = run.path().join("cases.jsonl");
    let text = fs::read_to_string(&path).expect("reads");
    fs::write(&path, text.replace("why?", "why!")).expect("writes");
    assert!(matches!(run.verify_cases(&set), Err(StoreError::Altered { .. })));
}

#[test]
fn a_case_id_stands_once() {
    let runs = tempfile::tempdir().expect("makes");
    let run = RunDir::create(runs.path(), &run_id()).expect("creates");
    let mut writer = run.write_cases().expect("begins");
    for id in ["x", "X", "x/", "x%2F"] {
        writer.push(&case(id)).expect("adds");
    }
    let error = writer.push(&case("X")).expect_err("stands twice");
    assert_eq!(error.to_string(), "two cases are called `X`: a case's id must be unique in its dataset");
    drop(writer);
    assert_eq!(listing(run.path()), ["lock", "tmp"], "nothing is left of it");
    let path = run.path().to_owned();
    run.discard().expect("removes");
    assert!(!path.exists());
}

#[test]
fn what_has_begun_is_not_discarded_or_created_twice() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let error = RunDir::create(runs.path(), &run_id()).expect_err("exists");
    assert!(matches!(error, StoreError::RunExists { .. }) && error.hint().is_some());
    let path = run.path().to_owned();
    assert!(run.discard().is_err());
    RunDir::open_read(&path).expect("stays").read_record().expect("stays");
}

#[test]
fn what_plugins_did_outside_outlives_a_run_that_came_to_nothing() {
    let cases = [
        (call(Phase::Begun, Decision::Allowed), true),
        (call(Phase::Ended, Decision::Denied), true),
        // As reading a file that the eval names.
        (call(Phase::Ended, Decision::Allowed), false),
    ];
    for (call, stays) in cases {
        let runs = tempfile::tempdir().expect("makes");
        let begun = RunDir::create(runs.path(), &run_id()).expect("creates");
        let path = begun.path().to_owned();
        begun.audit_log().expect("opens").append(&caller(), std::slice::from_ref(&call)).expect("appends");
        let discarded = begun.discard();
        assert_eq!(matches!(discarded, Err(StoreError::HasCalls { .. })), stays, "{discarded:?}");
        assert_eq!(RunDir::at(&path).audit().expect("opens").count(), usize::from(stays));

        let runs = tempfile::tempdir().expect("makes");
        let run = run(runs.path(), &["x"]);
        run.audit_log().expect("opens").append(&caller(), &[call]).expect("appends");
        let abandoned = run.abandon();
        assert_eq!(matches!(abandoned, Err(StoreError::HasCalls { .. })), stays, "{abandoned:?}");
        assert_eq!((run.read_record().is_ok(), run.path().exists()), (stays, stays));
    }
}

#[test]
fn a_worker_has_the_same_layout_and_the_run_adopts_its_trials() {
    let dir = tempfile::tempdir().expect("makes");
    let results = ResultsDir::open(&dir.path().join("results")).expect("opens");
    let run = run(dir.path(), &["x"]);
    let key = key("x", "a", 0);
    let committed = commit_in(results.stage().expect("begins"), &key).expect("commits");
    assert_eq!(committed.dir, results.trial_dir(&key));
    assert_eq!(
        committed.size_bytes,
        fs::metadata(committed.dir.join("transcript.json")).expect("is there").len()
    );
    assert_eq!(
        results.transcript(&key).expect("reads").expect("is there"),
        (transcript(&key), committed.sha256)
    );
    let adopted = run.adopt_synced(&key, &committed.dir, &expected(committed.sha256)).expect("adopts");
    assert_eq!(adopted, transcript(&key));
    assert_eq!(run.verify_trial(&key).expect("is whole").1, committed.sha256);
    assert_eq!(results.transcript(&key).expect("looks"), None);
}

#[cfg(target_os = "linux")]
#[test]
fn a_trial_on_another_file_system_is_adopted_too() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let here = tempfile::tempdir().expect("makes");
    let Ok(there) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let device = |path: &std::path::Path| path.metadata().expect("is there").dev();
    if device(here.path()) == device(there.path()) {
        return;
    }
    let run = run(here.path(), &["x"]);
    let key = key("x", "a", 0);
    let committed = commit(there.path(), &key).expect("commits");
    let code = "files/src/main.rs";
    fs::set_permissions(committed.dir.join(code), fs::Permissions::from_mode(0o755)).expect("sets");
    run.adopt(&key, &committed.dir, &expected(committed.sha256)).expect("adopts");
    run.verify_trial(&key).expect("is whole");
    let mode = fs::metadata(run.trial_dir(&key).join(code)).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(!committed.dir.exists());
    assert_eq!(fs::read_dir(run.path().join("tmp")).expect("lists").count(), 0);
}

#[test]
fn what_is_not_what_the_worker_said_is_not_adopted() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 14] = [
        ("`report` has digest", |dir| fs::write(dir.join("report"), "forged!").expect("writes")),
        ("`report` has 1099511627776 bytes, where 7 are admitted", |dir| {
            fs::File::create(dir.join("report")).and_then(|file| file.set_len(1 << 40)).expect("makes a hole")
        }),
        ("`transcript.json` has 1099511627776 bytes", |dir| {
            fs::File::create(dir.join("transcript.json"))
                .and_then(|file| file.set_len(1 << 40))
                .expect("a hole")
        }),
        ("`transcript.json` is neither a file nor a directory", |dir| {
            fs::remove_file(dir.join("transcript.json")).expect("removes");
            std::os::unix::fs::symlink("/dev/zero", dir.join("transcript.json")).expect("links")
        }),
        ("`files/src/main.rs` is missing", |dir| {
            fs::remove_file(dir.join("files/src/main.rs")).expect("removes")
        }),
        ("is not listed", |dir| fs::write(dir.join("files/more"), "").expect("writes")),
        ("neither a file nor a directory", |dir| {
            fs::remove_file(dir.join("report")).expect("removes");
            std::os::unix::fs::symlink("/etc/hostname", dir.join("report")).expect("links")
        }),
        ("belongs to", |dir| {
            let other = transcript(&key("x", "b", 0));
            let json = serde_json::to_vec(&other).expect("writes");
            fs::write(dir.join("transcript.json"), json).expect("writes")
        }),
        ("belongs to `run other`, not to `run 20261130-015240-k3f9`", |dir| {
            let mut of_another_run = transcript(&key("x", "a", 0));
            of_another_run.run = "other".parse().expect("a run's name");
            let json = serde_json::to_vec(&of_another_run).expect("writes");
            fs::write(dir.join("transcript.json"), json).expect("writes")
        }),
        ("belongs to `shard 5`, not to `shard 0`", |dir| {
            let other = Transcript { shard: 5, ..transcript(&key("x", "a", 0)) };
            fs::write(dir.join("transcript.json"), serde_json::to_vec(&other).expect("writes"))
                .expect("writes")
        }),
        ("belongs to `attempt 1`, not to `attempt 0`", |dir| {
            let other = Transcript { attempt: 1, ..transcript(&key("x", "a", 0)) };
            fs::write(dir.join("transcript.json"), serde_json::to_vec(&other).expect("writes"))
                .expect("writes")
        }),
        ("belongs to `the attempt before it, sha256:", |dir| {
            let previous = Some(mst_model::Digest::of(b"another attempt"));
            let other = Transcript { previous, ..transcript(&key("x", "a", 0)) };
            fs::write(dir.join("transcript.json"), serde_json::to_vec(&other).expect("writes"))
                .expect("writes")
        }),
        ("belongs to `case sha256:", |dir| {
            let case_sha256 = mst_model::Digest::of(b"another case");
            let other = Transcript { case_sha256, ..transcript(&key("x", "a", 0)) };
            fs::write(dir.join("transcript.json"), serde_json::to_vec(&other).expect("writes"))
                .expect("writes")
        }),
        ("transcript.json` has digest", |dir| {
            let path = dir.join("transcript.json");
            let mut bytes = fs::read(&path).expect("reads");
            bytes.push(b'\n');
            fs::write(path, bytes).expect("writes")
        }),
    ];
    for (words, change) in changes {
        let dir = tempfile::tempdir().expect("makes");
        let run = run(dir.path(), &["x"]);
        let key = key("x", "a", 0);
        let committed = commit(&dir.path().join("results"), &key).expect("commits");
        change(&committed.dir);
        let sha256 = match words.starts_with("belongs to `") {
            true => mst_model::Digest::of(&fs::read(committed.dir.join("transcript.json")).expect("reads")),
            false => committed.sha256,
        };
        let error = run.adopt(&key, &committed.dir, &expected(sha256)).expect_err(words).to_string();
        let error = error.replace(&format!("{}/", committed.dir.display()), "");
        assert!(error.contains(words), "{words}: {error}");
        assert!(!run.has_trial(&key).expect("looks"));
    }
}

#[test]
fn a_finished_trial_is_never_replaced() {
    let dir = tempfile::tempdir().expect("makes");
    let run = run(dir.path(), &["x"]);
    let key = key("x", "a", 0);
    let first = commit(run.path(), &key).expect("commits");
    assert!(matches!(commit(run.path(), &key), Err(StoreError::TrialExists { .. })));
    let late = commit(&dir.path().join("results"), &key).expect("commits");
    assert!(matches!(
        run.adopt(&key, &late.dir, &expected(late.sha256)),
        Err(StoreError::TrialExists { .. })
    ));
    assert!(late.dir.exists(), "what was refused stays where it was");
    assert_eq!(run.verify_trial(&key).expect("is whole").1, first.sha256);
    assert_eq!(fs::read_dir(run.path().join("tmp")).expect("lists").count(), 0);
}

#[test]
fn a_run_that_was_closed_takes_nothing_more() {
    let dir = tempfile::tempdir().expect("makes");
    let run = run(dir.path(), &["x"]);
    let keys = [key("x", "a", 0), key("x", "a", 1)];
    let results = dir.path().join("results");
    let [first, second] = keys.clone().map(|key| commit(&results, &key).expect("commits"));
    run.adopt(&keys[0], &first.dir, &expected(first.sha256)).expect("adopts");
    let record = run.read_record().expect("reads");
    run.close();
    let late = grade(&keys[0], Finding::Fail);
    for refused in [
        run.adopt(&keys[1], &second.dir, &expected(second.sha256)).map(drop),
        run.adopt_synced(&keys[1], &second.dir, &expected(second.sha256)).map(drop),
        run.write_grade(&late).map(drop),
        run.write_record(&record),
    ] {
        assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    }
    assert!(!run.has_trial(&keys[1]).expect("looks") && second.dir.exists());
    assert!(run.grade(&late.judge, &keys[0]).expect("looks").is_none());
    run.verify_trial(&keys[0]).expect("is whole");
}

#[test]
fn what_plugins_read_is_in_the_audit_with_what_came_of_it() {
    let dir = tempfile::tempdir().expect("makes");
    let run = run(dir.path(), &["x"]);
    let keys = [key("x", "a", 0), key("x", "a", 1)];
    let results = dir.path().join("results");
    let [first, second] = keys.clone().map(|key| commit(&results, &key).expect("commits"));
    let record = run.read_record().expect("reads");
    let given = grade(&keys[0], Finding::Pass);
    let (by, audit) = (Arc::new(caller()), run.audit_log().expect("opens"));
    let steps: [&dyn Fn(); 5] = [
        &|| drop(run.adopt(&keys[0], &first.dir, &expected(first.sha256)).expect("adopts")),
        &|| drop(run.adopt_synced(&keys[1], &second.dir, &expected(second.sha256)).expect("adopts")),
        &|| drop(run.write_grade(&given).expect("writes")),
        &|| run.write_record(&record).expect("writes"),
        &|| run.try_flush_calls(),
    ];
    for (number, step) in (1..).zip(steps) {
        audit.keep(&by, vec![call(Phase::Ended, Decision::Allowed)]).expect("kept");
        assert_eq!(run.audit().expect("opens").count(), number - 1);
        step();
        assert_eq!(run.audit().expect("opens").count(), number);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_has_its_place_before_the_calls_that_it_came_of_are_in_the_audit() {
    let dir = tempfile::tempdir().expect("makes");
    let run = run(dir.path(), &["x"]);
    let keys = [key("x", "a", 0), key("x", "a", 1)];
    let results = dir.path().join("results");
    let [first, second] = keys.clone().map(|key| commit(&results, &key).expect("commits"));
    let was = run.read_record().expect("reads");
    let record = RunRecord { collect: Collect::Partial, ..was.clone() };
    assert_ne!(record, was);
    let given = grade(&keys[0], Finding::Pass);
    // A disk that has no room for it, and for everything else.
    std::os::unix::fs::symlink("/dev/full", run.path().join("audit.jsonl")).expect("links");
    let audit = run.audit_log().expect("opens");
    audit.keep(&Arc::new(caller()), vec![call(Phase::Ended, Decision::Allowed)]).expect("kept");
    for refused in [
        run.adopt(&keys[0], &first.dir, &expected(first.sha256)).map(drop),
        run.adopt_synced(&keys[1], &second.dir, &expected(second.sha256)).map(drop),
        run.write_grade(&given).map(drop),
        run.write_record(&record),
    ] {
        assert!(matches!(refused, Err(StoreError::Io { .. })), "{refused:?}");
    }
    assert!(keys.iter().all(|key| !run.has_trial(key).expect("looks")));
    assert!(run.grade(&given.judge, &keys[0]).expect("looks").is_none());
    assert_eq!(run.read_record().expect("reads"), was);
}

#[test]
fn wicked_cases_have_trials_of_their_own_inside_the_run() {
    let wicked = [
        "../../../outside",
        "..",
        ".",
        "/etc/passwd",
        "CON",
        "con",
        "nul.txt",
        "a/b",
        "a%2Fb",
        "A",
        "a",
        "é",
        "e\u{301}",
        "a.",
        "a",
        " ",
        "~",
        "=",
        "a=1",
        "-rf",
        "x\\y",
        "💥",
        "\u{202e}x",
    ];
    let long = ["L".repeat(256), "l".repeat(256), "é".repeat(128)];
    let mut ids: Vec<&str> = wicked.into_iter().chain(long.iter().map(String::as_str)).collect();
    ids.sort_unstable();
    ids.dedup();
    let dir = tempfile::tempdir().expect("makes");
    let run = run(dir.path(), &ids);
    for id in &ids {
        commit(run.path(), &key(id, "a", 0)).expect("commits");
        run.write_grade(&grade(&key(id, "a", 0), Finding::Pass)).expect("writes");
    }
    for id in &ids {
        run.verify_trial(&key(id, "a", 0)).expect("is whole");
        assert!(run.grade(&"text".parse().expect("a judge"), &key(id, "a", 0)).expect("reads").is_some());
    }
    let folders = |path: &str| fs::read_dir(run.path().join(path)).expect("lists").count();
    assert_eq!(folders("trials"), ids.len());
    assert_eq!(folders("grades/text"), ids.len());
    assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1);
}

#[test]
fn a_grade_is_replaced_and_holds_numbers() {
    let dir = tempfile::tempdir().expect("makes");
    let run = run(dir.path(), &["x"]);
    let key = key("x", "a", 0);
    for finding in [Finding::Pass, Finding::Score(0.3)] {
        let given = grade(&key, finding);
        run.write_grade(&given).expect("writes");
        assert_eq!(run.grade(&given.judge, &key).expect("reads"), Some(given));
    }
    for score in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
        assert!(matches!(
            run.write_grade(&grade(&key, Finding::Score(score))),
            Err(StoreError::BadNumber { .. })
        ));
    }
}
