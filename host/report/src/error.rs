//! What can go wrong with a report.

use mst_store::StoreError;

/// What can go wrong with a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The run can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record and the cases do not agree on the plan.
    #[error(
        "the run's record plans {recorded} {what} and its cases make {found}: `run.json` and `cases.jsonl` are not of one run"
    )]
    Plan {
        /// `cases` or `trials`.
        what: &'static str,
        /// In `run.json`.
        recorded: u64,
        /// From `cases.jsonl`.
        found: u64,
    },
}
