//! Summaries of runs on a disk, rule by rule.

use std::fs;

use mst_model::eval::Eval;
use mst_model::grade::{Finding, Grade, Graded, Verdict};
use mst_model::outcome::{Exit, InstrumentError, Outcome, Stage};
use mst_model::run::{Collect, Identity, RunRecord, RunnerUse};
use mst_model::transcript::{ClientInfo, Spent, Transcript};
use mst_model::{Case, Digest, RunId, TrialKey};
use mst_report::{Counts, Method, ReportError, Row, Summary};
use mst_store::{RunDir, RunWriter, StoreError};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Fixture {
    _runs: TempDir,
    run: RunWriter,
}

fn eval(trials: u32, judges: Value) -> Value {
    json!({
        "name": "demo",
        "dataset": {"plugin": "mst/dataset/jsonl"},
        "judges": judges,
        "client": {"kind": "echo"},
        "variants": [{"id": "a"}, {"id": "b"}],
        "trials": trials,
    })
}

fn text() -> Value {
    json!([{"plugin": "mst/judge/text"}])
}

fn key(case: &str, variant: &str, index: u32) -> TrialKey {
    TrialKey { case: case.parse().expect("a case id"), variant: variant.parse().expect("a variant"), index }
}

fn error(stage: Stage, message: &str) -> InstrumentError {
    InstrumentError::new(stage, message)
}

impl Fixture {
    fn new(eval: Value, cases: &[&str]) -> Fixture {
        let runs = tempfile::tempdir().expect("makes");
        let id: RunId = "r".parse().expect("a run");
        let run = RunDir::create(runs.path(), &id).expect("creates");
        let mut writer = run.write_cases().expect("begins");
        for case in cases {
            let case: Case =
                serde_json::from_value(json!({"id": case, "prompt": [{"role": "user", "content": "?"}]}))
                    .expect("a case");
            writer.push(&case).expect("adds");
        }
        let cases = writer.finish().expect("finishes");
        let eval = Eval::read(&eval).expect("an eval");
        let record = RunRecord {
            schema: RunRecord::SCHEMA.to_owned(),
            id,
            created_at: "2026-11-30T01:52:40Z".parse().expect("a time"),
            mst: semver::Version::new(0, 1, 0),
            eval_file: None,
            plugins: Vec::new(),
            identity: Identity::new(&eval, &cases, &[]).expect("an identity"),
            trials: cases.count * eval.variants.len() as u64 * u64::from(eval.trials),
            cases,
            eval,
            runner: RunnerUse { id: "local".to_owned(), options: Default::default(), shards: 1 },
            policy: Default::default(),
            shards: Vec::new(),
            collect: Collect::Partial,
        };
        run.write_record(&record).expect("writes");
        Fixture { _runs: runs, run }
    }

    fn trial(&self, key: &TrialKey, outcome: Outcome) -> Digest {
        let transcript = Transcript {
            schema: Transcript::SCHEMA.to_owned(),
            run: "r".parse().expect("a run"),
            trial: key.clone(),
            case_sha256: Digest::of(b"case"),
            shard: 0,
            attempt: 0,
            previous: None,
            client: ClientInfo { name: "echo".to_owned(), version: None },
            started_at: "2026-11-30T01:52:41Z".parse().expect("a time"),
            spent: Spent::default(),
            outcome,
            report: None,
            stderr: None,
            files: Vec::new(),
            scrubbed: Vec::new(),
            omitted: Vec::new(),
        };
        self.run.stage().expect("begins").commit(&transcript).expect("commits").sha256
    }

    fn grade(&self, judge: &str, key: &TrialKey, transcript_sha256: Digest, result: Graded) {
        let grade = Grade {
            schema: Grade::SCHEMA.to_owned(),
            judge: judge.parse().expect("a judge"),
            plugin: "mst/judge/text".parse().expect("a plugin"),
            plugin_sha256: Digest::of(b"component"),
            trial: key.clone(),
            transcript_sha256,
            result,
            spent_ms: 0,
        };
        self.run.write_grade(&grade).expect("writes");
    }

    /// A trial that `text` found so.
    fn found(&self, key: &TrialKey, finding: Finding) {
        let sha256 = self.trial(key, Outcome::answered());
        self.grade("text", key, sha256, verdict(finding));
    }

    fn summary(&self) -> Summary {
        Summary::of(&self.run).expect("reads")
    }
}

fn verdict(finding: Finding) -> Graded {
    let reason = String::new();
    Graded::Verdict(Verdict { finding, reason, citations: Vec::new(), measures: Vec::new(), usage: None })
}

fn row<'a>(summary: &'a Summary, variant: &str, judge: &str) -> &'a Row {
    summary
        .rows()
        .iter()
        .find(|row| row.variant.as_str() == variant && row.judge.as_str() == judge)
        .expect("has the row")
}

/// Passed of scored, in how many cases.
fn rate(row: &Row) -> Option<(u64, u64, u64)> {
    row.pass_rate.map(|rate| (rate.passed, rate.scored, rate.cases))
}

#[test]
fn every_trial_is_exactly_one_thing() {
    let fixture = Fixture::new(eval(7, text()), &["x"]);
    fixture.found(&key("x", "a", 0), Finding::Pass);
    fixture.found(&key("x", "a", 1), Finding::Fail);
    fixture.found(&key("x", "a", 2), Finding::Abstain("can't tell".to_owned()));
    fixture.trial(&key("x", "a", 3), Outcome::broken(Stage::Provision, "no room"));
    let sha256 = fixture.trial(&key("x", "a", 4), Outcome::answered());
    fixture.grade("text", &key("x", "a", 4), sha256, Graded::Error(error(Stage::Scoring, "trapped")));
    fixture.trial(&key("x", "a", 5), Outcome::answered());
    let summary = fixture.summary();
    let counts = Counts { passed: 1, failed: 1, abstained: 1, instrument_errors: 2, missing: 1, ungraded: 1 };
    assert_eq!(row(&summary, "a", "text").counts, counts);
    assert_eq!(row(&summary, "b", "text").counts, Counts { missing: 7, ..Counts::default() });
    assert!(summary.rows().iter().all(|row| row.counts.planned() == 7));
    let trials = summary.trials;
    assert_eq!((trials.planned, trials.finished, trials.missing), (14, 6, 8));
}

#[test]
fn a_missing_trial_leaves_its_case_out_of_every_variants_rate_and_not_out_of_the_counts() {
    let fixture = Fixture::new(eval(2, text()), &["whole", "part"]);
    for variant in ["a", "b"] {
        for index in 0..2 {
            fixture.found(&key("whole", variant, index), Finding::Pass);
            if (variant, index) != ("b", 1) {
                fixture.found(&key("part", variant, index), Finding::Fail);
            }
        }
    }
    let summary = fixture.summary();
    assert_eq!((summary.cases.complete, summary.cases.incomplete), (1, 1));
    for variant in ["a", "b"] {
        let row = row(&summary, variant, "text");
        assert_eq!(rate(row), Some((2, 2, 1)), "`{variant}`");
        assert_eq!(row.cases_left_out, 1);
    }
    assert_eq!(row(&summary, "a", "text").counts.failed, 2);
    assert_eq!(row(&summary, "b", "text").counts.failed, 1);
}

#[test]
fn a_case_that_a_judge_has_graded_in_part_is_left_out_for_that_judge_alone() {
    let judges = json!([{"plugin": "mst/judge/text"}, {"plugin": "mst/judge/text", "id": "slow"}]);
    let fixture = Fixture::new(eval(1, judges), &["x", "y"]);
    for case in ["x", "y"] {
        for variant in ["a", "b"] {
            let key = key(case, variant, 0);
            let sha256 = fixture.trial(&key, Outcome::answered());
            fixture.grade("text", &key, sha256, verdict(Finding::Pass));
            match (case, variant) {
                // Of an attempt that is not there any more.
                ("y", "b") => fixture.grade("slow", &key, Digest::of(b"other"), verdict(Finding::Pass)),
                _ => fixture.grade("slow", &key, sha256, verdict(Finding::Fail)),
            }
        }
    }
    let summary = fixture.summary();
    assert_eq!(summary.cases.incomplete, 0);
    assert_eq!(rate(row(&summary, "a", "text")), Some((2, 2, 2)));
    assert_eq!(rate(row(&summary, "a", "slow")), Some((0, 1, 1)));
    let late = row(&summary, "b", "slow");
    assert_eq!((rate(late), late.counts.ungraded, late.cases_left_out), (Some((0, 1, 1)), 1, 1));
}

#[test]
fn what_broke_or_was_abstained_on_is_in_no_rate_and_leaves_its_case_in() {
    let fixture = Fixture::new(eval(2, text()), &["x"]);
    fixture.found(&key("x", "a", 0), Finding::Pass);
    fixture.found(&key("x", "a", 1), Finding::Abstain(String::new()));
    for index in 0..2 {
        fixture.trial(&key("x", "b", index), Outcome::broken(Stage::Client, "no such program"));
    }
    let summary = fixture.summary();
    assert_eq!(summary.cases.complete, 1);
    assert_eq!(rate(row(&summary, "a", "text")), Some((1, 1, 1)));
    assert_eq!(rate(row(&summary, "b", "text")), None);
}

#[test]
fn a_client_that_crashed_or_met_its_deadline_is_graded() {
    let fixture = Fixture::new(eval(1, text()), &["x"]);
    let ends = [("a", Outcome::exited(Exit::Code(1))), ("b", Outcome::timed_out(Some(Exit::Signal(9))))];
    for (variant, outcome) in ends {
        let key = key("x", variant, 0);
        let sha256 = fixture.trial(&key, outcome);
        fixture.grade("text", &key, sha256, verdict(Finding::Fail));
    }
    let summary = fixture.summary();
    assert!(summary.rows().iter().all(|row| row.counts.failed == 1));
    assert!(summary.instrument_errors.groups.is_empty());
}

#[test]
fn a_score_passes_from_the_pass_score_on_and_has_a_mean() {
    let judges = json!([
        {"plugin": "mst/judge/text", "pass_score": 0.7},
        {"plugin": "mst/judge/text", "id": "full"},
    ]);
    let fixture = Fixture::new(eval(1, judges), &["x", "y", "z"]);
    for (case, score) in [("x", 0.7), ("y", 0.69), ("z", 1.0)] {
        for variant in ["a", "b"] {
            let key = key(case, variant, 0);
            let sha256 = fixture.trial(&key, Outcome::answered());
            fixture.grade("text", &key, sha256, verdict(Finding::Score(score)));
            fixture.grade("full", &key, sha256, verdict(Finding::Score(score)));
        }
    }
    let summary = fixture.summary();
    assert_eq!(rate(row(&summary, "a", "text")), Some((2, 3, 3)));
    assert_eq!(rate(row(&summary, "a", "full")), Some((1, 3, 3)));
    let mean = row(&summary, "a", "text").mean_score.expect("has one");
    assert!((mean.value - (0.7 + 0.69 + 1.0) / 3.0).abs() < 1e-12 && mean.trials == 3);
}

#[test]
fn a_threshold_is_missed_below_it_and_without_a_rate() {
    let judges = json!([
        {"plugin": "mst/judge/text", "min_pass_rate": 0.7},
        {"plugin": "mst/judge/text", "id": "free"},
    ]);
    let fixture = Fixture::new(eval(10, judges), &["x"]);
    for index in 0..10 {
        let key = key("x", "a", index);
        let sha256 = fixture.trial(&key, Outcome::answered());
        let finding = if index < 7 { Finding::Pass } else { Finding::Fail };
        fixture.grade("text", &key, sha256, verdict(finding));
        fixture.trial(&self::key("x", "b", index), Outcome::broken(Stage::Client, "gone"));
    }
    let summary = fixture.summary();
    let said: Vec<_> = summary
        .thresholds
        .iter()
        .map(|it| (it.variant.as_str(), it.judge.as_str(), it.pass_rate, it.met))
        .collect();
    assert_eq!(said, [("a", "text", Some(0.7), true), ("b", "text", None, false)]);
    assert_eq!(summary.missed().count(), 1);
}

#[test]
fn the_interval_takes_the_trials_of_a_case_together() {
    let interval = |trials: u32| {
        let fixture = Fixture::new(eval(trials, text()), &["x", "y", "z", "w"]);
        for (at, case) in ["x", "y", "z", "w"].into_iter().enumerate() {
            for variant in ["a", "b"] {
                for index in 0..trials {
                    let finding = if at % 2 == 0 { Finding::Pass } else { Finding::Fail };
                    fixture.found(&key(case, variant, index), finding);
                }
            }
        }
        let summary = fixture.summary();
        let rate = row(&summary, "a", "text").pass_rate.expect("has one");
        (summary.method, rate.low, rate.high)
    };
    let (once, low, high) = interval(1);
    assert_eq!(once, Method::Wilson);
    assert_eq!(interval(3), (Method::WilsonCluster, low, high), "three times the same is no news");
}

#[test]
fn what_broke_is_told_once_with_its_count() {
    let fixture = Fixture::new(
        eval(2, json!([{"plugin": "mst/judge/text"}, {"plugin": "mst/judge/text", "id": "two"}])),
        &["x"],
    );
    for index in 0..2 {
        let mut outcome = Outcome::broken(Stage::Provision, "no room");
        outcome.cleanup = Some(error(Stage::Cleanup, "busy"));
        fixture.trial(&key("x", "a", index), outcome);
    }
    let trial = key("x", "b", 0);
    let sha256 = fixture.trial(&trial, Outcome::answered());
    fixture.grade("two", &trial, sha256, Graded::Error(error(Stage::Scoring, "trapped")));
    let summary = fixture.summary();
    let groups: Vec<_> = summary
        .instrument_errors
        .groups
        .iter()
        .map(|it| (it.judges.first().map(|judge| judge.as_str()), it.message.as_str(), it.count))
        .collect();
    assert_eq!(groups, [(None, "no room", 2), (Some("two"), "trapped", 1)]);
    assert_eq!(row(&summary, "a", "text").counts.instrument_errors, 2);
    assert_eq!(row(&summary, "a", "two").counts.instrument_errors, 2);
    assert_eq!(summary.trials.cleanup_errors, 2);
}

#[test]
fn a_run_without_trials_or_cases_has_a_summary() {
    for cases in [&["x", "y"][..], &[]] {
        let fixture = Fixture::new(eval(1, text()), cases);
        let summary = fixture.summary();
        assert_eq!(summary.trials.missing, 2 * cases.len() as u64);
        assert!(summary.rows().iter().all(|row| row.pass_rate.is_none() && row.mean_score.is_none()));
    }
}

#[test]
fn what_is_damaged_is_an_error_and_never_missing() {
    let fixture = Fixture::new(eval(1, text()), &["x", "y"]);
    fixture.found(&key("x", "a", 0), Finding::Pass);
    let path = fixture.run.trial_dir(&key("x", "a", 0)).join("transcript.json");
    let whole = fs::read(&path).expect("reads");
    fs::write(&path, &whole[..whole.len() / 2]).expect("writes");
    assert!(matches!(Summary::of(&fixture.run), Err(ReportError::Store(StoreError::Damaged { .. }))));
    fs::write(&path, whole).expect("writes");

    let path = fixture.run.path().join("cases.jsonl");
    let cases = fs::read_to_string(&path).expect("reads");
    let first = cases.lines().next().expect("has one");
    fs::write(&path, format!("{first}\n")).expect("writes");
    let error = Summary::of(&fixture.run).expect_err("is another plan");
    assert_eq!(
        error.to_string(),
        "the run's record plans 2 cases and its cases make 1: `run.json` and `cases.jsonl` are not of one run"
    );
}

#[test]
fn the_summary_as_json() {
    let fixture =
        Fixture::new(eval(1, json!([{"plugin": "mst/judge/text", "min_pass_rate": 0.5}])), &["x", "y"]);
    fixture.found(&key("x", "a", 0), Finding::Score(1.0));
    fixture.found(&key("x", "b", 0), Finding::Score(0.25));
    fixture.trial(&key("y", "a", 0), Outcome::broken(Stage::Client, "no such program"));
    let mut json = serde_json::to_value(fixture.summary()).expect("writes");
    for end in ["low", "high"] {
        let value = json["rows"][0]["pass_rate"][end].as_f64().expect("a number");
        json["rows"][0]["pass_rate"][end] = json!((value * 1e4).round() / 1e4);
        let value = json["rows"][1]["pass_rate"][end].as_f64().expect("a number");
        json["rows"][1]["pass_rate"][end] = json!((value * 1e4).round() / 1e4);
    }
    assert_eq!(
        json,
        json!({
            "schema": "mst.summary/v1",
            "run": "r",
            "name": "demo",
            "collect": "partial",
            "trials": {"planned": 4, "finished": 3, "missing": 1, "cleanup_errors": 0},
            "cases": {"planned": 2, "complete": 1, "incomplete": 1},
            "method": "wilson",
            "level": 0.95,
            "rows": [
                {
                    "variant": "a", "judge": "text",
                    "passed": 1, "failed": 0, "abstained": 0, "instrument_errors": 1, "missing": 0, "ungraded": 0,
                    "cases_left_out": 1,
                    "pass_rate": {"value": 1.0, "low": 0.2065, "high": 1.0, "passed": 1, "scored": 1, "cases": 1},
                    "mean_score": {"value": 1.0, "trials": 1},
                },
                {
                    "variant": "b", "judge": "text",
                    "passed": 0, "failed": 1, "abstained": 0, "instrument_errors": 0, "missing": 1, "ungraded": 0,
                    "cases_left_out": 1,
                    "pass_rate": {"value": 0.0, "low": 0.0, "high": 0.7935, "passed": 0, "scored": 1, "cases": 1},
                    "mean_score": {"value": 0.25, "trials": 1},
                },
            ],
            "thresholds": [
                {"variant": "a", "judge": "text", "min_pass_rate": 0.5, "pass_rate": 1.0, "met": true},
                {"variant": "b", "judge": "text", "min_pass_rate": 0.5, "pass_rate": 0.0, "met": false},
            ],
            "instrument_errors": {
                "groups": [{
                    "stage": "client", "message": "no such program", "count": 1,
                    "first": {"case": "y", "variant": "a", "index": 0},
                }],
                "others": 0,
            },
        })
    );
}
