//! A trial's workspace, restored for a judge's commands.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mst_process::{Finished, RunError, Spec, Stdin, resolve_program};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::grade::StoredTrial;
use crate::until::Until;

/// How long the end of a judge's command may take to be sure of.
const CLEANUP: Duration = Duration::from_secs(30);

/// What a judge's commands find around them.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Their PATH.
    pub path: String,
    /// Where a program with a `/` in its name is looked for: the eval file's directory.
    pub base_dir: PathBuf,
}

/// A command for a restored workspace.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it reads.
    pub stdin: Option<Vec<u8>>,
    /// After this it and all that it started are killed.
    pub time: Duration,
    /// Bytes of each stream that are kept.
    pub max_output_bytes: u64,
}

/// A command that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Its program is not there.
    #[error("{0}")]
    NotFound(String),
    /// The workspace can't be restored.
    #[error("the workspace can't be restored: {0}")]
    Restore(String),
    /// The program could not be run.
    #[error("{0}")]
    Run(String),
}

/// The workspace of one trial for one judge. It is restored at the first command, and what one
/// command leaves there the next one finds.
pub struct GradeWorkspace {
    trial: Arc<StoredTrial>,
    scratch: PathBuf,
    surroundings: Surroundings,
    restored: Mutex<Option<Restored>>,
}

/// `work/` is the workspace; `home/`, `tmp/`, `case.json` and `report` lie beside it.
struct Restored {
    root: TempDir,
}

impl Drop for GradeWorkspace {
    fn drop(&mut self) {
        if let Some(Restored { root }) = self.restored.get_mut().take() {
            // What can't be removed lies in the run's scratch directory, and goes with that.
            let _ = crate::workspace::remove_tree(root, Until::after(CLEANUP));
        }
    }
}

impl GradeWorkspace {
    /// The workspace of `trial`, to be made in `scratch`.
    pub fn new(trial: Arc<StoredTrial>, scratch: &Path, surroundings: Surroundings) -> GradeWorkspace {
        GradeWorkspace { trial, scratch: scratch.to_owned(), surroundings, restored: Mutex::new(None) }
    }

    /// Runs a command there. Dropping the future ends it and all that it started.
    pub async fn run(&self, command: Command) -> Result<Finished, WorkspaceError> {
        let mut restored = self.restored.lock().await;
        let restored = match &mut *restored {
            Some(restored) => restored,
            none => none.insert(self.restore().await?),
        };
        let root = restored.root.path();
        let Some((program, args)) = command.argv.split_first() else {
            return Err(WorkspaceError::NotFound("the command is empty".to_owned()));
        };
        let program = resolve_program(program, &self.surroundings.path, &self.surroundings.base_dir)
            .map_err(|error| WorkspaceError::NotFound(error.to_string()))?;
        let spec = Spec {
            program,
            args: args.iter().map(OsString::from).collect(),
            env: self.env(root),
            cwd: root.join("work"),
            cwd_is_own: true,
            stdin: command.stdin.map_or(Stdin::Null, Stdin::Bytes),
            time: command.time,
            max_stdout_bytes: command.max_output_bytes,
            max_stderr_bytes: command.max_output_bytes,
            cleanup: CLEANUP,
        };
        let finished = mst_process::run(spec).await.map_err(|error| {
            let text = crate::whole(&error);
            match error {
                RunError::NotFound { .. } => WorkspaceError::NotFound(text),
                _ => WorkspaceError::Run(text),
            }
        })?;
        // What a command left running could change the workspace under the next one.
        match finished.left {
            Some(left) => Err(WorkspaceError::Run(left.to_string())),
            None => Ok(finished),
        }
    }

    async fn restore(&self) -> Result<Restored, WorkspaceError> {
        let (trial, scratch) = (self.trial.clone(), self.scratch.clone());
        let made = tokio::task::spawn_blocking(move || make(&trial, &scratch)).await;
        match made {
            Ok(Ok(root)) => Ok(Restored { root }),
            Ok(Err(error)) => Err(WorkspaceError::Restore(error.to_string())),
            Err(error) => Err(WorkspaceError::Restore(error.to_string())),
        }
    }

    /// Closed: nothing of this process's own environment but the PATH.
    fn env(&self, root: &Path) -> Vec<(String, String)> {
        let key = self.trial.key();
        let at = |name: &str| root.join(name).to_string_lossy().into_owned();
        [
            ("PATH", self.surroundings.path.clone()),
            ("HOME", at("home")),
            ("TMPDIR", at("tmp")),
            ("LANG", "C.UTF-8".to_owned()),
            ("MST_CASE_FILE", at("case.json")),
            ("MST_REPORT_FILE", at("report")),
            ("MST_CASE_ID", key.case.to_string()),
            ("MST_VARIANT", key.variant.to_string()),
            ("MST_TRIAL", key.index.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

fn make(trial: &StoredTrial, scratch: &Path) -> io::Result<TempDir> {
    std::fs::create_dir_all(scratch)?;
    let root = tempfile::Builder::new().prefix("grade-").tempdir_in(scratch)?;
    for name in ["work", "home", "tmp"] {
        std::fs::create_dir(root.path().join(name))?;
    }
    crate::workspace::restore(trial.dir(), trial.transcript(), &root.path().join("work"))?;
    std::fs::write(root.path().join("case.json"), trial.case_json())?;
    let report = root.path().join("report");
    if trial.transcript().report.is_some() {
        std::fs::copy(trial.dir().join("report"), report)?;
    } else {
        std::fs::write(report, b"")?;
    }
    Ok(root)
}
