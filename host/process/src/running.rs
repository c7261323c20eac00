//! A program that is talked with while it runs.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::RunError;
use crate::capture::{Capture, Outputs};
use crate::see_out::{locked, see_out};
use crate::spawn::spawn;
use crate::spec::{Cause, Ended, Exit, Spec};
use crate::streams::{ChildStdin, ChildStdout};
use crate::tail::StderrTail;
use crate::tree::Tree;

/// Starts a program whose stdin and stdout are the caller's while it lives. As [`run`] it has a
/// closed environment, a process group of its own and a deadline ([`Spec::time`]); as soon as it
/// ends, what it started is killed, whether or not anybody waits. [`Spec::stdin`] and the bounds
/// on output say nothing here.
///
/// Nothing is read ahead: a child whose stdout nobody reads waits, as does a caller whose child
/// does not read. Its stderr never waits; the last of it is kept.
///
/// To be called within a tokio runtime, which then watches the child.
///
/// [`run`]: crate::run()
///
/// # Errors
/// Where it could not be started, each reason told apart as for [`run`].
pub async fn start(spec: Spec) -> Result<Running, RunError> {
    let started = Instant::now();
    let (tree, watch, pipes) = spawn(&spec, true)?;
    tree.talk();
    let watched = |source| RunError::Watch { program: spec.program.clone(), source };
    let stdin = pipes.stdin.ok_or_else(|| watched(io::Error::other("a pipe is missing")))?;
    let tail = StderrTail::default();
    let mut outputs = Outputs { stdout: None, stderr: Capture::new(pipes.stderr, tail.clone()) };
    let shared =
        Arc::new(Shared { tree: Mutex::new(tree), killed: AtomicBool::new(false), told: Notify::new() });
    let (say, ended) = watch::channel(None);
    let (over, is_over) = oneshot::channel();

    let theirs = shared.clone();
    let program = spec.program.clone();
    let supervisor = tokio::spawn(async move {
        let enough = async {
            tokio::select! {
                () = theirs.told.notified() => Cause::Killed,
                () = sleep(spec.time) => Cause::TimeUp,
            }
        };
        let seen = see_out(&theirs.tree, &watch, &mut outputs, enough, spec.cleanup).await;
        if seen.is_err() {
            locked(&theirs.tree).abandon();
        }
        let ended = seen.map_err(Arc::new).map(|seen| Ended {
            exit: seen.exit,
            cause: theirs.cause(seen.cause, seen.exit),
            took: started.elapsed(),
            left: seen.left,
        });
        // Nobody need be interested.
        let _ = say.send(Some(ended));
        let _ = over.send(());
    });
    Ok(Running {
        program,
        stdin: Some(ChildStdin::new(stdin)),
        stdout: Some(ChildStdout::new(pipes.stdout, is_over)),
        stderr: tail,
        shared,
        ended,
        supervisor,
    })
}

/// What the caller and the task that watches have in common.
struct Shared {
    tree: Mutex<Tree>,
    killed: AtomicBool,
    told: Notify,
}

impl Shared {
    /// The end that a kill brought about may be seen before the kill itself is; and a kill that
    /// came too late brought nothing about.
    fn cause(&self, cause: Cause, exit: Exit) -> Cause {
        let by_kill = exit == Exit::Signal(rustix::process::Signal::KILL.as_raw());
        match cause {
            Cause::Itself if by_kill && self.killed.load(Ordering::Relaxed) => Cause::Killed,
            cause => cause,
        }
    }
}

/// A program that runs, and the way to it. Dropped, it is killed with all that it started, at
/// once, and reaped in the background; [`settle`] waits for that. Streams that were taken out of
/// it live on and end.
///
/// [`settle`]: crate::settle
pub struct Running {
    program: PathBuf,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: StderrTail,
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Result<Ended, Arc<io::Error>>>>,
    supervisor: JoinHandle<()>,
}

impl Running {
    /// Its stdin, once. Dropping it, or shutting it down, is the end of the child's input.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Its stdout, once. A child that writes more than a pipe holds waits until it is read.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// The last bytes of its stderr, to be looked at whenever wanted, also after its end.
    pub fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    /// Kills it and all of its group at once; [`Running::wait`] says when they are gone. A child
    /// that has ended already is let be.
    pub fn kill(&self) {
        self.shared.killed.store(true, Ordering::Relaxed);
        locked(&self.shared.tree).kill();
        self.shared.told.notify_one();
    }

    /// Waits until it has ended, by itself or at its deadline, and all that it started is gone.
    /// Closes its stdin first, unless that was taken. May be dropped and asked again.
    ///
    /// # Errors
    /// Where it could not be watched; it was killed then.
    pub async fn wait(&mut self) -> Result<Ended, RunError> {
        drop(self.stdin.take());
        let ended = match self.ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone(),
            Err(_closed) => None,
        };
        let source = match ended {
            Some(Ok(ended)) => return Ok(ended),
            Some(Err(error)) => io::Error::new(error.kind(), error),
            None => {
                locked(&self.shared.tree).abandon();
                io::Error::other("the runtime that watched it has ended")
            }
        };
        Err(RunError::Watch { program: self.program.clone(), source })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.supervisor.abort();
        // Here and not in the task, which a runtime ends when it comes to it.
        locked(&self.shared.tree).abandon();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("program", &self.program).finish_non_exhaustive()
    }
}
