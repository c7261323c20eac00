//! Exit codes: stable, and listed in the README.

use std::process::ExitCode;

/// How mst ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Done,
    /// The command line is wrong.
    Usage,
    /// A threshold that the user set was missed.
    Threshold,
    /// Nothing could start.
    NotStarted,
    /// Some trials are missing, or an instrument broke.
    Partial,
    /// A person stopped it.
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Usage => 2,
            Exit::Threshold => 100,
            Exit::NotStarted => 105,
            Exit::Partial => 106,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
