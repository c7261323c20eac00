//! What is to be run, and how it ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What a child reads from its stdin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// These bytes, then the end. A child need not read them.
    Bytes(Vec<u8>),
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program, as an absolute path: [`crate::resolve_program`] finds it.
    pub program: PathBuf,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// Its whole environment, but for [`crate::MARKER`], which is added. Nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Whether `cwd` is this run's alone, as a fresh workspace is. A process that left the group
    /// and hid its environment is then known by standing in it.
    pub cwd_is_own: bool,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may take. At the end of that time its group is killed at once.
    /// [`Duration::MAX`] is no bound.
    pub time: Duration,
    /// Bytes of stdout that are kept.
    pub max_stdout_bytes: u64,
    /// Bytes of stderr that are kept.
    pub max_stderr_bytes: u64,
    /// How long its processes may take to be gone, once they are killed.
    pub cleanup: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// What brought a program's end about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself, or somebody else ended it.
    Itself,
    /// Its time was up, and it was killed.
    TimeUp,
    /// [`crate::Running::kill`].
    Killed,
}

/// What a program wrote to one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stream {
    /// The first bytes, up to the bound, exactly as they came.
    pub bytes: Vec<u8>,
    /// How many bytes came after the bound and were dropped.
    pub cut: u64,
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    /// How the program itself ended. One that is not gone at the end of the clean-up time
    /// (`left` says so) counts as ended by the SIGKILL that it was sent.
    pub exit: Exit,
    /// Whether the time was up before the program ended. All its processes were then killed.
    pub timed_out: bool,
    /// What the program and its group wrote to stdout.
    pub stdout: Stream,
    /// What they wrote to stderr.
    pub stderr: Stream,
    /// From the start until the processes were gone, or given up on.
    pub took: Duration,
    /// What could not be cleaned up. It stands beside the outcome and changes nothing of it.
    pub left: Option<crate::Left>,
}

/// How a program ended that was talked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the program itself ended; as [`Finished::exit`].
    pub exit: Exit,
    /// What brought that about.
    pub cause: Cause,
    /// From the start until the processes were gone, or given up on.
    pub took: Duration,
    /// What could not be cleaned up.
    pub left: Option<crate::Left>,
}
