//! mst while it runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Output, Space};

/// Far more than anything takes, even on a machine that does ten other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that others do.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what} did not happen within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there no more; a zombie does nothing and is as good as gone.
pub(crate) fn gone(pid: &str) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
    }
}

/// The processes with such a command line.
pub(crate) fn processes_with(is_one: impl Fn(&[String]) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("Linux").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of = |pid: &i32| {
        let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let argv: Vec<String> =
            text.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        is_one(&argv)
    };
    pids.filter(of).collect()
}

/// Processes that have a value in their arguments; or in their environment, those apart whose command line
/// is of somebody who `may` have it there.
pub(crate) fn processes_that_hold(
    holds: impl Fn(&[u8]) -> Option<&'static str>,
    may: impl Fn(&str) -> bool,
) -> Vec<String> {
    let look = |process: &Path| {
        let file = |name: &str| fs::read(process.join(name)).unwrap_or_default();
        let arguments = file("cmdline");
        let shown = String::from_utf8_lossy(&arguments).replace('\0', " ");
        match (holds(&arguments), holds(&file("environ"))) {
            (Some(value), _) => Some(format!("{value} in the arguments {shown}")),
            (None, Some(value)) if !may(&shown) => Some(format!("{value} in the environment of {shown}")),
            _ => None,
        }
    };
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").expect("Linux").flatten() {
        if look(&process.path()).is_some() {
            // On its way to another program a process has the environment of the one before, and for a
            // moment no arguments that would say whose that is.
            thread::sleep(Duration::from_millis(50));
            found.extend(look(&process.path()));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// A process that was started. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    root: PathBuf,
}

impl Running {
    /// Starts a command of this place. What it says goes to files, which never fill up.
    pub(crate) fn start(space: &Space, mut command: Command) -> Running {
        let root = space.dir().parent().expect("a root").to_owned();
        let (out, err) = (root.join("stdout"), root.join("stderr"));
        command.stdout(File::create(&out).expect("made")).stderr(File::create(&err).expect("made"));
        Running { child: command.spawn().expect("it starts"), out, err, root }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.err).unwrap_or_default()).into_owned()
    }

    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Output {
        wait_until("the end", || self.ended());
        let output = std::process::Output {
            status: self.child.wait().expect("it is ours"),
            stdout: fs::read(&self.out).expect("reads"),
            stderr: fs::read(&self.err).expect("reads"),
        };
        Output::of(output, &self.root)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
