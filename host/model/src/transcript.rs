//! What a trial left, as `mst.transcript/v1`: this record, and beside it the files `report`,
//! `stderr` and `files/…` that it lists.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::{Digest, RunId, TokenId, TrialKey};

/// A stream as it was captured: byte for byte up to the bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Bytes that were kept.
    pub size_bytes: u64,
    /// Bytes that came after the bound and were dropped.
    pub cut_bytes: u64,
    /// Of the bytes that were kept.
    pub sha256: Digest,
}

/// A file of the workspace, as the client left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Relative, with `/`; its bytes are at `files/PATH`.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Of its bytes.
    pub sha256: Digest,
    /// Whether its owner may execute it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// Something in the workspace that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Relative, with `/`; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// Why.
    pub why: String,
}

/// A token that the client gave away, and that was taken out of what is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// `report`, `stderr` or `files/PATH`.
    pub entry: String,
    /// Which token; `[token NAME]` stands in its place.
    pub token: TokenId,
    /// How often.
    pub times: u64,
}

/// What each part of the trial took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Making the workspace.
    pub provision_ms: u64,
    /// The client, from its start until its processes were gone.
    pub client_ms: u64,
    /// Keeping what it left.
    pub export_ms: u64,
    /// Before all that: from when it asked leave until it had it. It counts in no deadline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ms: u64,
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

/// Which client answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its kind, as `command`.
    pub name: String,
    /// Its version, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What a trial left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// [`Transcript::SCHEMA`].
    pub schema: String,
    /// The run it belongs to.
    pub run: RunId,
    /// The trial.
    pub trial: TrialKey,
    /// Of the case that was asked.
    pub case_sha256: Digest,
    /// The shard it ran in.
    pub shard: u32,
    /// Which attempt at this trial, from 0.
    pub attempt: u32,
    /// Of the `transcript.json` of the attempt before, which is kept; absent in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
    /// The client.
    pub client: ClientInfo,
    /// When the workspace was begun.
    pub started_at: Timestamp,
    /// What each part took.
    pub spent: Spent,
    /// How it ended.
    pub outcome: Outcome,
    /// The client's answer, at `report`; absent where it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Captured>,
    /// What the client said beside it, at `stderr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Captured>,
    /// The workspace, in the order of the paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEntry>,
    /// Where a token stood in what the client left, and was taken out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scrubbed: Vec<Scrubbed>,
    /// What of the workspace was not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omitted>,
}

impl Transcript {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.transcript/v1";
}
