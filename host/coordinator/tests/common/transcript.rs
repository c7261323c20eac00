//! What a simulated worker leaves of a trial.

use mst_model::outcome::Outcome;
use mst_model::transcript::{Captured, ClientInfo, Spent, Transcript};
use mst_model::{Digest, RunId, TrialKey};
use mst_store::{Committed, ResultsDir};

/// Puts a finished trial into `results`.
pub(crate) fn leave(
    results: &ResultsDir,
    run: &RunId,
    key: &TrialKey,
    case: Digest,
    (shard, attempt): (u32, u32),
) -> Committed {
    let report = format!("the answer to {key}");
    let stage = results.stage().expect("begins");
    std::fs::write(stage.dir().join("report"), &report).expect("writes");
    let transcript = Transcript {
        schema: Transcript::SCHEMA.to_owned(),
        run: run.clone(),
        trial: key.clone(),
        case_sha256: case,
        shard,
        attempt,
        previous: None,
        client: ClientInfo { name: "echo".to_owned(), version: None },
        started_at: "2026-11-30T01:52:41Z".parse().expect("a time"),
        spent: Spent::default(),
        outcome: Outcome::answered(),
        report: Some(Captured {
            size_bytes: report.len() as u64,
            cut_bytes: 0,
            sha256: Digest::of(report.as_bytes()),
        }),
        stderr: None,
        files: Vec::new(),
        scrubbed: Vec::new(),
        omitted: Vec::new(),
    };
    stage.commit(&transcript).expect("commits")
}
