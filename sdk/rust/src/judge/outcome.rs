//! How a client ended: `mst.outcome/v1`, as far as a judge has use for it.

use serde::Deserialize;

/// What became of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// It ended by itself with code 0, or met a limit and is graded on what it left.
    Completed,
    /// It ended by itself with another code or by a signal.
    Crashed,
    /// A later host's word.
    #[serde(other)]
    Unknown,
}

/// A limit that the client met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Its deadline.
    Timeout,
    /// A later host's word.
    #[serde(other)]
    Unknown,
}

/// How the client's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// What became of the client.
    pub status: Status,
    /// The limit that it met.
    #[serde(default)]
    pub limit: Option<Limit>,
    /// How its process ended, where it has one.
    #[serde(default)]
    pub exit: Option<Exit>,
}
