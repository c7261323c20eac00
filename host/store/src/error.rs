//! What can go wrong with a run directory.

use std::io;
use std::path::{Path, PathBuf};

use mst_model::{CaseId, Digest, TrialKey};

/// What can go wrong with a run directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Whoever writes it said that it takes nothing more.
    #[error("the run takes nothing more: it is being left at once")]
    Closed,
    /// The file system refused.
    #[error("can't {what} `{}`", .path.display())]
    Io {
        /// What was tried: `read`, `write`, …
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file that is not what its name says.
    #[error("`{}` is damaged at line {line}, column {column}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// In bytes, from 1; 0 where the line as a whole is meant.
        column: u64,
        /// What does not fit there.
        #[source]
        source: serde_json::Error,
    },
    /// A file of a later version of its schema.
    #[error("`{}` is in `{found}`, and this mst reads up to `{known}`: it was written by a newer mst", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: String,
        /// The latest that is known here.
        known: &'static str,
    },
    /// A line of a ledger that says what no ledger of this version can say.
    #[error(
        "`{}` has the event `{event}` at line {line}, and this mst knows none of that name: it was written by a newer mst",
        .path.display()
    )]
    UnknownEvent {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What it says, escaped and cut to 64 characters.
        event: String,
    },
    /// A file of another schema altogether.
    #[error("`{}` must be in `{known}` but says that it is in `{found}`", .path.display())]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// What it says, cut to 64 characters.
        found: String,
        /// What belongs there.
        known: &'static str,
    },
    /// A file that says it belongs somewhere else.
    #[error("`{}` belongs to `{found}`, not to `{expected}`", .path.display())]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What its place says.
        expected: String,
    },
    /// A value that has no JSON.
    #[error("can't write `{}`: the value has no JSON", .path.display())]
    NoJson {
        /// Where it was to go.
        path: PathBuf,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// A score or a measure that JSON can't hold.
    #[error(
        "the grade of `{trial}` by `{judge}` holds a number that is not finite or a score outside 0.0 to 1.0"
    )]
    BadNumber {
        /// The trial.
        trial: TrialKey,
        /// The judge.
        judge: mst_model::JudgeId,
    },
    /// Somebody else writes the run.
    #[error("the run in `{}` is being written by {}", .path.display(), holder(.pid))]
    Locked {
        /// The run directory.
        path: PathBuf,
        /// The process that holds the lock, where it left its number.
        pid: Option<u32>,
    },
    /// A run that made machines, or was about to.
    #[error("the run in `{}` has machines, and only its ledger knows them", .path.display())]
    HasMachines {
        /// The run directory.
        path: PathBuf,
    },
    /// A run of which something finished.
    #[error("the run in `{}` has trials", .path.display())]
    HasTrials {
        /// The run directory.
        path: PathBuf,
    },
    /// A run of which nothing is left but what its plugins did meanwhile.
    #[error("the run in `{}` has calls of plugins that only its audit knows", .path.display())]
    HasCalls {
        /// The run directory.
        path: PathBuf,
    },
    /// The name is taken.
    #[error("there is a run in `{}` already", .path.display())]
    RunExists {
        /// The run directory.
        path: PathBuf,
    },
    /// No run, or one that was cut off before its plan was written.
    #[error("there is no run in `{}`: it holds no `run.json`", .path.display())]
    NoRun {
        /// The directory.
        path: PathBuf,
    },
    /// Two cases with one name.
    #[error("two cases are called `{id}`: a case's id must be unique in its dataset")]
    DuplicateCase {
        /// The name.
        id: CaseId,
    },
    /// The trial is there, finished.
    #[error("trial `{trial}` has finished already: `{}` stays as it is", .path.display())]
    TrialExists {
        /// The trial.
        trial: TrialKey,
        /// Its directory.
        path: PathBuf,
    },
    /// Something in a trial's directory that is neither a file nor a directory.
    #[error("`{}` is neither a file nor a directory, and a trial holds nothing else", .path.display())]
    NotPlain {
        /// The thing.
        path: PathBuf,
    },
    /// A file whose size is not what it should be at the most, or what the transcript says.
    #[error("`{}` has {found} bytes, where {expected} are admitted", .path.display())]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// A file in a trial's directory that its transcript does not list.
    #[error("`{}` is not listed in its trial's transcript", .path.display())]
    Unlisted {
        /// The file.
        path: PathBuf,
    },
    /// Something that must be there and is not.
    #[error("`{}` is missing", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file whose bytes are not those that were written.
    #[error("`{}` has digest `{found}`, and `{expected}` was recorded", .path.display())]
    Altered {
        /// The file.
        path: PathBuf,
        /// Of the bytes that are there.
        found: Digest,
        /// Of the bytes that should be.
        expected: Digest,
    },
}

fn holder(pid: &Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

impl StoreError {
    /// What a person can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            StoreError::Newer { .. } | StoreError::UnknownEvent { .. } => "upgrade mst".to_owned(),
            StoreError::Locked { pid: Some(pid), .. } => {
                format!("wait for it to end, or end it with `kill {pid}`; the lock goes with the process")
            }
            StoreError::Locked { pid: None, .. } => {
                "wait for it to end; the lock goes with the process".to_owned()
            }
            StoreError::Damaged { path, .. }
            | StoreError::Altered { path, .. }
            | StoreError::WrongSize { path, .. }
            | StoreError::NotPlain { path }
            | StoreError::Unlisted { path }
            | StoreError::Missing { path }
                if path
                    .components()
                    .any(|part| part.as_os_str() == "trials" || part.as_os_str() == "grades") =>
            {
                let trial = path.ancestors().find(|dir| dir.join("transcript.json").exists()).unwrap_or(path);
                format!("remove `{}` and resume the run: it is collected or graded again", trial.display())
            }
            StoreError::RunExists { .. } => {
                "choose another run id, or go on with this run with `--resume`".to_owned()
            }
            _ => return None,
        })
    }

    /// Whether the file system takes no more: who goes on writes what will be lost.
    pub fn no_room(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if no_room(source))
    }

    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::Io { what, path: path.as_ref().to_owned(), source }
    }
}

/// Whether a file system takes no more.
pub fn no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}
