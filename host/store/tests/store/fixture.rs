//! A small run to try things on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mst_model::audit::{AuditCall, Caller, Decision, Phase};
use mst_model::eval::Eval;
use mst_model::grade::{Finding, Grade, Graded, Verdict};
use mst_model::outcome::{Exit, Outcome};
use mst_model::run::{CaseSet, Collect, Identity, RunRecord, RunnerUse};
use mst_model::transcript::{Captured, ClientInfo, FileEntry, Spent, Transcript};
use mst_model::{Case, Digest, RunId, TrialKey};
use mst_store::{Committed, RunDir, RunWriter, StoreError, TrialStage};
use serde_json::json;

pub(crate) fn run_id() -> RunId {
    "20261130-015240-k3f9".parse().expect("a run's name")
}

pub(crate) fn eval() -> Eval {
    Eval::read(&json!({
        "dataset": {"plugin": "mst/dataset/jsonl"},
        "judges": [{"plugin": "mst/judge/text"}],
        "client": {"kind": "echo"},
        "variants": [{"id": "a"}, {"id": "b"}],
        "trials": 2,
    }))
    .expect("an eval")
}

pub(crate) fn case(id: &str) -> Case {
    serde_json::from_value(json!({
        "id": id,
        "prompt": [{"role": "user", "content": "why?"}],
        "metadata": {"z": 0.1, "a": [1, {"y": null, "b": "é"}]},
    }))
    .expect("a case")
}

pub(crate) fn key(case: &str, variant: &str, index: u32) -> TrialKey {
    TrialKey { case: case.parse().expect("a case id"), variant: variant.parse().expect("a variant"), index }
}

pub(crate) fn record(cases: CaseSet) -> RunRecord {
    let eval = eval();
    RunRecord {
        schema: RunRecord::SCHEMA.to_owned(),
        id: run_id(),
        created_at: "2026-11-30T01:52:40Z".parse().expect("a time"),
        mst: semver::Version::new(0, 1, 0),
        eval_file: None,
        plugins: Vec::new(),
        identity: Identity::new(&eval, &cases, &[]).expect("an identity"),
        trials: cases.count * 4,
        cases,
        eval,
        runner: RunnerUse { id: "local".to_owned(), options: Default::default(), shards: 1 },
        policy: Default::default(),
        shards: Vec::new(),
        collect: Collect::Running,
    }
}

/// A run of these cases, without any trial.
pub(crate) fn run(runs: &Path, cases: &[&str]) -> RunWriter {
    let run = RunDir::create(runs, &run_id()).expect("creates");
    let mut writer = run.write_cases().expect("begins");
    for id in cases {
        writer.push(&case(id)).expect("adds");
    }
    let set = writer.finish().expect("finishes");
    run.write_record(&record(set)).expect("writes");
    run
}

/// A run that nobody writes to, opened again. A process that another test starts holds the lock too, from
/// its fork to its exec.
pub(crate) fn reopened(path: &Path) -> RunWriter {
    for _ in 0..1000 {
        match RunDir::open_write(path) {
            Err(StoreError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
            opened => return opened.expect("opens"),
        }
    }
    panic!("somebody else writes to `{}`", path.display());
}

fn captured(bytes: &[u8]) -> Captured {
    Captured { size_bytes: bytes.len() as u64, cut_bytes: 0, sha256: Digest::of(bytes) }
}

pub(crate) fn transcript(key: &TrialKey) -> Transcript {
    let code = b"fn main() {}";
    Transcript {
        schema: Transcript::SCHEMA.to_owned(),
        run: run_id(),
        trial: key.clone(),
        case_sha256: case(key.case.as_str()).digest().expect("a digest"),
        shard: 0,
        attempt: 0,
        previous: None,
        client: ClientInfo { name: "echo".to_owned(), version: None },
        started_at: "2026-11-30T01:52:41Z".parse().expect("a time"),
        spent: Spent::default(),
        outcome: Outcome::exited(Exit::Code(0)),
        report: Some(captured(b"because")),
        stderr: Some(captured(b"")),
        files: vec![FileEntry {
            path: "src/main.rs".to_owned(),
            size_bytes: code.len() as u64,
            sha256: Digest::of(code),
            executable: false,
        }],
        scrubbed: Vec::new(),
        omitted: Vec::new(),
    }
}

/// What [`transcript`] lists, in `dir`.
pub(crate) fn fill(dir: &Path) {
    fs::write(dir.join("report"), "because").expect("writes");
    fs::write(dir.join("stderr"), "").expect("writes");
    fs::create_dir_all(dir.join("files/src")).expect("makes");
    fs::write(dir.join("files/src/main.rs"), "fn main() {}").expect("writes");
}

pub(crate) fn commit(root: &Path, key: &TrialKey) -> mst_store::Result<Committed> {
    commit_in(TrialStage::begin(root).expect("begins"), key)
}

pub(crate) fn commit_in(stage: TrialStage, key: &TrialKey) -> mst_store::Result<Committed> {
    fill(stage.dir());
    stage.commit(&transcript(key))
}

pub(crate) fn grade(key: &TrialKey, finding: Finding) -> Grade {
    Grade {
        schema: Grade::SCHEMA.to_owned(),
        judge: "text".parse().expect("a judge"),
        plugin: "mst/judge/text".parse().expect("a plugin"),
        plugin_sha256: Digest::of(b"component"),
        trial: key.clone(),
        transcript_sha256: Digest::of(b"transcript"),
        result: Graded::Verdict(Verdict {
            finding,
            reason: "so".to_owned(),
            citations: Vec::new(),
            measures: Vec::new(),
            usage: None,
        }),
        spent_ms: 1,
    }
}

/// Every file and directory under `root`, relative, sorted.
pub(crate) fn listing(root: &Path) -> Vec<String> {
    fn walk(root: &Path, dir: &Path, out: &mut Vec<String>) {
        for entry in fs::read_dir(dir).expect("lists") {
            let path = entry.expect("lists").path();
            let relative = path.strip_prefix(root).expect("is under it");
            out.push(relative.display().to_string());
            if path.is_dir() {
                walk(root, &path, out);
            }
        }
    }
    let mut out = Vec::new();
    walk(root, root, &mut out);
    out.sort();
    out
}

pub(crate) fn caller() -> Caller {
    Caller { plugin: "a/runner/b".parse().expect("an id"), sha256: Digest::of(b"x"), about: None }
}

pub(crate) fn call(phase: Phase, decision: Decision) -> AuditCall {
    AuditCall {
        at: jiff::Timestamp::UNIX_EPOCH,
        within: "create-machine".into(),
        call: "process.run".into(),
        phase,
        asks: None,
        decision,
        rule: "a grant".into(),
        grant: None,
        args: String::new(),
        result: "ok".into(),
        bytes_in: 0,
        bytes_out: 0,
        duration_ns: 0,
        count: 1,
        counts: Default::default(),
    }
}
