//! How a trial ended, as `mst.outcome/v1`.

use serde::{Deserialize, Serialize};

use crate::Denial;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// What became of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ended by itself with code 0, or met a limit and is graded on what it left.
    Completed,
    /// It ended by itself with another code or by a signal. Graded on what it left.
    Crashed,
    /// It could not be asked, or what it left could not be kept: the instrument's error, not
    /// graded, and nobody's failure.
    Error,
}

/// A limit that the client met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Its deadline: it and all that it started were killed.
    Timeout,
}

/// The part of a trial in which something broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Making the workspace.
    Provision,
    /// Starting or driving the client.
    Client,
    /// Keeping what it left.
    Export,
    /// Ending its processes and removing its workspace.
    Cleanup,
    /// Grading.
    Scoring,
}

/// Something of ours that broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstrumentError {
    /// Where.
    pub stage: Stage,
    /// What, for people.
    pub message: String,
    /// What a plugin was denied, where that is what broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
}

impl InstrumentError {
    /// Something broke there.
    pub fn new(stage: Stage, message: impl Into<String>) -> InstrumentError {
        InstrumentError { stage, message: message.into(), denial: None }
    }
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// What became of the client.
    pub status: Status,
    /// The limit that it met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How its process ended, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Why the status is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<InstrumentError>,
    /// What went wrong in cleaning up. It stands beside the outcome and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<InstrumentError>,
}

impl Outcome {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.outcome/v1";

    /// The client ended so by itself.
    pub fn exited(exit: Exit) -> Outcome {
        let status = if exit == Exit::Code(0) { Status::Completed } else { Status::Crashed };
        Outcome { status, limit: None, exit: Some(exit), error: None, cleanup: None }
    }

    /// The client answered without a process of its own.
    pub fn answered() -> Outcome {
        Outcome { status: Status::Completed, limit: None, exit: None, error: None, cleanup: None }
    }

    /// The client met its deadline, and its process ended so.
    pub fn timed_out(exit: Option<Exit>) -> Outcome {
        Outcome { status: Status::Completed, limit: Some(Limit::Timeout), exit, error: None, cleanup: None }
    }

    /// Something of ours broke.
    pub fn broken(stage: Stage, message: impl Into<String>) -> Outcome {
        let error = InstrumentError::new(stage, message);
        Outcome { status: Status::Error, limit: None, exit: None, error: Some(error), cleanup: None }
    }
}
