//! What can go wrong in running a program.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A program that could not be run. A program that ran and failed is no error here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no such file.
    #[error("program `{}` is not there", program.display())]
    NotFound {
        /// The program.
        program: PathBuf,
    },
    /// The file is there, the interpreter that its first line names is not.
    #[error("program `{}` names an interpreter that is not there", program.display())]
    NoInterpreter {
        /// The program.
        program: PathBuf,
    },
    /// The file may not be, or can't be, executed.
    #[error("program `{}` can't be executed", program.display())]
    NotExecutable {
        /// The program.
        program: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The directory to start in is no directory.
    #[error("directory `{}` can't be started in", cwd.display())]
    NoDirectory {
        /// The directory.
        cwd: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It could not be started for another reason.
    #[error("program `{}` could not be started", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It was started and could not be watched; it was killed.
    #[error("program `{}` could not be watched", program.display())]
    Watch {
        /// The program.
        program: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

/// What of a run was not gone at the end of the clean-up time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {after:?} after SIGKILL")]
pub struct Left {
    /// What is left, as "process 17 is still there".
    pub what: String,
    /// How long was waited.
    pub after: Duration,
}
