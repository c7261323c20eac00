//! Starting a child.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::RunError;
use crate::orphans::Marks;
use crate::spec::Spec;
use crate::tree::Tree;
use crate::watch::Watch;

/// Our ends of a child's pipes.
pub(crate) struct Pipes {
    /// Where it was asked for.
    pub(crate) stdin: Option<Sender>,
    pub(crate) stdout: Receiver,
    pub(crate) stderr: Receiver,
}

/// Starts what `spec` says, in a process group of its own; with a pipe for its stdin, or with an
/// empty one.
pub(crate) fn spawn(spec: &Spec, with_stdin: bool) -> Result<(Tree, Watch, Pipes), RunError> {
    let mark = Marks::fresh_mark();
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env(crate::MARKER, &mark)
        .current_dir(&spec.cwd)
        .process_group(0)
        .stdin(if with_stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = start(&mut command).map_err(|error| explain(spec, error))?;
    // From here on the tree's guard kills and reaps on every way out.
    let leader = Pid::from_child(&child);
    let mut tree = Tree::new(leader);
    let watched = |source| RunError::Watch { program: spec.program.clone(), source };
    let watch = Watch::new(leader).map_err(watched)?;
    let missing = || watched(io::Error::other("a pipe is missing"));
    let stdout = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
    let stderr = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
    tree.mark(Marks::new(mark, [&stdout, &stderr], spec.cwd_is_own.then_some(&spec.cwd)));
    let pipes = Pipes {
        stdin: child
            .stdin
            .take()
            .map(|stdin| Sender::from_owned_fd(stdin.into()))
            .transpose()
            .map_err(watched)?,
        stdout: Receiver::from_owned_fd(stdout).map_err(watched)?,
        stderr: Receiver::from_owned_fd(stderr).map_err(watched)?,
    };
    Ok((tree, watch, pipes))
}

/// Starts `command`. A program that was written a moment ago is tried again for a little while:
/// a child that another thread is just starting may for an instant still hold it open for writing.
fn start(command: &mut Command) -> io::Result<Child> {
    for _ in 0..20 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
    command.spawn()
}

/// The system has one word, `ENOENT`, for several things that a person would mend differently.
fn explain(spec: &Spec, source: io::Error) -> RunError {
    let program = spec.program.clone();
    let directory = fs::metadata(spec.cwd.join(".")).and_then(|found| match found.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    if let Err(source) = directory {
        return RunError::NoDirectory { cwd: spec.cwd.clone(), source };
    }
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::NOTDIR) if program.exists() => RunError::NoInterpreter { program },
        Some(Errno::NOENT | Errno::NOTDIR) => RunError::NotFound { program },
        Some(Errno::ACCESS | Errno::PERM | Errno::NOEXEC | Errno::ISDIR) => {
            RunError::NotExecutable { program, source }
        }
        _ => RunError::Spawn { program, source },
    }
}
