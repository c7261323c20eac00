//! Leaving at once: nobody waits any more, and what is left is seen to by a process of its own.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mst_model::ledger::{MachineState, MachineStatus};
use mst_store::RunWriter;
use rustix::io::Errno;

use crate::tokens::Renewals;

/// In a run's directory, what the process that sees to its machines says.
const LOG: &str = "reap.log";

/// How long a server that gives tokens is waited for.
const ANSWER: Duration = Duration::from_secs(1);

/// What is left where mst ends at once.
#[derive(Debug, Clone)]
pub(crate) struct Leave {
    run: Arc<Mutex<Option<Run>>>,
    renewals: Renewals,
    /// Whether that has begun.
    begun: Arc<AtomicBool>,
}

/// A run whose machines are not kept.
#[derive(Debug, Clone)]
struct Run {
    writer: Arc<RunWriter>,
    lock: Option<PathBuf>,
    keeps: bool,
}

impl Leave {
    /// Nothing yet but what is renewed.
    pub(crate) fn new(renewals: Renewals) -> Leave {
        Leave { run: Arc::default(), renewals, begun: Arc::default() }
    }

    /// From here on machines of this run may be left.
    pub(crate) fn run(&self, writer: Arc<RunWriter>, lock: Option<&Path>, keeps: bool) {
        let run = Run { writer, lock: lock.map(Path::to_owned), keeps };
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
    }

    /// Nothing that ends from here on has ended by itself, and the process goes by [`at_once`](Leave::at_once).
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.iter().for_each(|run| run.writer.close());
    }

    /// Returns where nobody leaves at once; else whoever does ends the process, and nobody goes before.
    pub(crate) fn hold(&self) {
        while self.begun.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }

    /// Ends what runs on this machine, and has other machines removed by a process that outlives this one
    /// and its terminal. Says what there is to know.
    pub(crate) fn at_once(&self) -> String {
        self.renewals.end();
        mst_process::kill_all();
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut said = run.as_ref().map_or_else(|| "ended at once".to_owned(), Run::left);
        if !self.renewals.settle(Some(ANSWER)) {
            said.push_str("; a server that gives tokens did not answer: you may have to log in again");
        }
        if let Some(run) = run {
            run.writer.try_flush_calls();
        }
        said
    }
}

/// Whether it may be there, and nobody said that it should be.
fn is_left(state: &MachineState) -> bool {
    state.may_exist() && !matches!(state.status, MachineStatus::Kept { .. })
}

impl Run {
    /// Sees to its machines, and says what becomes of them.
    fn left(&self) -> String {
        let (path, dir) = (self.writer.path(), self.writer.path().display());
        // A ledger that can't be read hides machines, and has none removed.
        let left = match self.writer.machines() {
            Ok(states) => states.iter().filter(|state| is_left(state)).count(),
            Err(_) => 1,
        };
        match (left, self.keeps) {
            (0, _) => format!("ended at once; `mst run --resume {dir}` collects the rest"),
            (_, true) => format!("ended at once; `mst machines list {dir}` shows the machines that are kept"),
            (_, false) => match self.reap() {
                Ok(()) => format!(
                    "ended at once; its machines are removed meanwhile, and `{}` says how that goes",
                    path.join(LOG).display()
                ),
                Err(error) => format!(
                    "ended at once; nobody removes its machines ({error}): `mst machines reap {dir}` does"
                ),
            },
        }
    }

    fn reap(&self) -> io::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.writer.path().join(LOG))?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["machines", "reap", "--wait", "--left-behind"])
            .arg(std::path::absolute(self.writer.path())?);
        if let Some(lock) = &self.lock {
            command.arg("--lock").arg(lock);
        }
        // Of another group, no signal of this terminal's reaches it.
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().map(drop)
    }
}

/// Puts this process into a session of its own. Says whether it is this process that goes on: the leader
/// of a group has to leave that to a child, which does the same.
pub(crate) fn into_own_session() -> io::Result<bool> {
    match rustix::process::setsid() {
        Ok(_) => Ok(true),
        Err(Errno::PERM) => {
            let mut again = Command::new(std::env::current_exe()?);
            again.args(std::env::args_os().skip(1)).stdin(Stdio::null()).spawn()?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
