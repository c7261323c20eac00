//! mst while it runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Output, Space};

/// Far more than anything takes, even on a machine that does ten other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that others do.
#[track_caller]
pub(crate) fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_at_most(PATIENCE, what, done);
}

/// Waits for something that is long in itself.
#[track_caller]
pub(crate) fn wait_at_most(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < limit, "{what} did not happen within {limit:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Has something done that meets a deadline, of so many seconds, once it came as far as it should: it says
/// whether it did. The first deadline is short; a longer one is for a machine that does ten other things.
#[track_caller]
pub(crate) fn before_its_deadline<T>(seconds: [u64; 2], each: impl FnMut(u64) -> Option<T>) -> T {
    seconds.into_iter().find_map(each).expect("it came as far as it should before its deadline")
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
        // Each argument ends with one.
        let text = text.strip_suffix(&[0]).unwrap_or(&text);
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

/// Looks again and again, in a thread of its own, until it is asked what it found. Dropped, it ends.
pub(crate) struct Sampling {
    over: Arc<AtomicBool>,
    looked: Arc<AtomicU32>,
    thread: Option<JoinHandle<Vec<String>>>,
}

impl Sampling {
    pub(crate) fn start(look: fn() -> Vec<String>) -> Sampling {
        let (over, looked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (ends, counts) = (over.clone(), looked.clone());
        let thread = thread::spawn(move || {
            let mut found = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                found.extend(look());
                counts.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
            found
        });
        Sampling { over, looked, thread: Some(thread) }
    }

    /// How often it has looked.
    pub(crate) fn looked(&self) -> u32 {
        self.looked.load(Ordering::Relaxed)
    }

    pub(crate) fn found(mut self) -> Vec<String> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().expect("asked once").join().expect("looks")
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
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

    /// Interrupts it, and when it has said so much, again and again until it has ended. Who looks for what it
    /// says of the second may come with the third when everything has ended by itself.
    #[track_caller]
    pub(crate) fn interrupt_until_it_ends(&mut self, word: &str) {
        self.signal(Signal::INT);
        wait_until(word, || self.stderr().contains(word) || self.ended());
        wait_until("its end", || {
            let ended = self.ended();
            if !ended {
                self.signal(Signal::INT);
                thread::sleep(Duration::from_millis(300));
            }
            ended
        });
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
