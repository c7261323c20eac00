//! What the benches share: the executable, clocks, medians and tables.
#![allow(dead_code, clippy::allow_attributes, reason = "each bench uses a part of it")]

use std::io::{Read as _, Seek as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// The `mst` to measure: `MST_BIN`, else the one that was built beside this bench.
pub(crate) fn mst() -> Option<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("mst"));
    let path = std::env::var_os("MST_BIN").map(PathBuf::from).or_else(beside).filter(|path| path.is_file());
    if path.is_none() {
        println!("skipped: there is no executable; `cargo build --release -p mst` makes it");
    }
    path
}

/// What a process used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) wall: Duration,
    /// User and system time of the process itself.
    pub(crate) own: Duration,
    /// The same of the children that it waited for.
    pub(crate) children: Duration,
}

/// Runs a command to its end.
pub(crate) fn used(command: &mut Command) -> Used {
    let mut said = tempfile::tempfile().expect("a file");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone().expect("the same"));
    let started = Instant::now();
    let mut child = command.spawn().expect("it starts");
    let pid = Pid::from_child(&child);
    // Its account is read while nobody has waited for it yet.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("it ends");
    let wall = started.elapsed();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("its account");
    let status = child.wait().expect("waited for");
    if !status.success() {
        let mut text = String::new();
        said.rewind().and_then(|()| said.read_to_string(&mut text)).expect("read");
        panic!("{command:?}: {status}\n{text}");
    }
    let ticks = ticks(&stat);
    Used { wall, own: ticks[0] + ticks[1], children: ticks[2] + ticks[3] }
}

/// utime, stime, cutime and cstime of a `/proc/PID/stat`, in hundredths of a second.
fn ticks(stat: &str) -> [Duration; 4] {
    let after_name = stat.rsplit_once(')').expect("a name").1;
    let fields: Vec<u64> =
        after_name.split_whitespace().skip(11).take(4).map(|f| f.parse().expect("a number")).collect();
    [0, 1, 2, 3].map(|n| Duration::from_millis(fields[n] * 10))
}

/// The time that this thread has been on a processor.
pub(crate) fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    Duration::from_nanos(stat.split_whitespace().next().expect("a field").parse().expect("a number"))
}

/// The processor time of the children that this process has waited for.
pub(crate) fn children_cpu() -> Duration {
    let ticks = ticks(&std::fs::read_to_string("/proc/self/stat").expect("an account"));
    ticks[2] + ticks[3]
}

/// The largest resident size that this process ever had, in bytes.
pub(crate) fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") << 10
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

pub(crate) fn of(count: u32, mut once: impl FnMut() -> Duration) -> Duration {
    median((0..count).map(|_| once()).collect())
}

/// A row: what, how much, and what of it is to be said.
pub(crate) fn row(what: &str, value: impl std::fmt::Display, note: &str) {
    println!("  {what:<52} {value:>14}  {note}");
}

pub(crate) fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

pub(crate) fn us(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

pub(crate) fn times(a: Duration, b: Duration) -> String {
    format!("{:.2} ×", a.as_secs_f64() / b.as_secs_f64())
}
