//! Orphans, as `/proc` shows them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use super::MARKER;

static ADOPTING: AtomicBool = AtomicBool::new(false);

/// The longest environment that is looked through, in bytes: what Linux admits by default.
const MAX_ENVIRON: u64 = 8 << 20;

pub(super) fn adopt() {
    let adopting = rustix::process::set_child_subreaper(Some(getpid()));
    ADOPTING.store(adopting.is_ok(), Ordering::Relaxed);
}

/// What all marks of this process begin with.
fn of_this_process() -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    // std's hash keys are the system's randomness.
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{process:016x}-")
}

/// How the descendants of one run are known.
pub(crate) struct Marks {
    /// `MST_PROCESS=…`, inherited unless somebody takes care to remove it.
    variable: Vec<u8>,
    /// The pipes that the run reads, by inode: who can write there is of the run.
    pipes: Vec<u64>,
    /// The directory that is the run's alone.
    own_dir: Option<PathBuf>,
}

impl Marks {
    /// A value that no other run has, of this or another mst.
    pub(crate) fn fresh_mark() -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{}{}", of_this_process(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn none() -> Marks {
        Marks { variable: Vec::new(), pipes: Vec::new(), own_dir: None }
    }

    pub(crate) fn new(mark: String, pipes: [&OwnedFd; 2], own_dir: Option<&PathBuf>) -> Marks {
        Marks {
            variable: format!("{MARKER}={mark}").into_bytes(),
            pipes: pipes.iter().filter_map(|pipe| Some(rustix::fs::fstat(pipe).ok()?.st_ino)).collect(),
            own_dir: own_dir.cloned(),
        }
    }

    /// Whether the living process `pid` is of this run; None where that will be seen only in a
    /// moment.
    fn are_on(&self, pid: Pid, stranger: bool) -> Option<bool> {
        let at = PathBuf::from(format!("/proc/{pid}"));
        let mut environ = Vec::new();
        let read =
            File::open(at.join("environ")).and_then(|file| file.take(MAX_ENVIRON).read_to_end(&mut environ));
        match read.map_err(|error| (error.kind(), Errno::from_io_error(&error))) {
            // Another user's. It could not be killed either.
            Err((io::ErrorKind::PermissionDenied, _)) => return Some(false),
            // It is ending.
            Err((io::ErrorKind::NotFound, _) | (_, Some(Errno::SRCH))) => return None,
            // In the middle of `execve` it has none, which is not an empty one, or has lost it
            // while it was being read.
            Ok(read) => {
                let whole = Stat::of(pid)?.env_bytes?.min(MAX_ENVIRON);
                if (read as u64) < whole {
                    return None;
                }
            }
            // It can't be read by anybody.
            Err(_) => {}
        }
        let name = format!("{MARKER}=");
        if let Some(found) = environ.split(|byte| *byte == 0).find(|entry| entry.starts_with(name.as_bytes()))
        {
            return Some(found == self.variable);
        }
        // It hid its environment, as `env -i` does, or a server that writes its state there.
        // A child that another thread is just starting has ours, too, and for an instant copies
        // of our descriptors and perhaps the directory; but it has no writing end of our pipes,
        // and it is in our session.
        Some(self.can_write_to(&at) || (stranger && self.stands_in(&at)))
    }

    fn can_write_to(&self, at: &Path) -> bool {
        let Ok(descriptors) = fs::read_dir(at.join("fd")) else { return false };
        descriptors.flatten().any(|entry| {
            let path = entry.path();
            let pipe = fs::read_link(&path).ok().is_some_and(|target| {
                let target = target.as_os_str().as_bytes();
                self.pipes.iter().any(|inode| target == format!("pipe:[{inode}]").as_bytes())
            });
            // The link's own mode says how the descriptor was opened.
            pipe && fs::symlink_metadata(&path).is_ok_and(|link| link.mode() & 0o200 != 0)
        })
    }

    fn stands_in(&self, at: &Path) -> bool {
        let own = self.own_dir.as_ref().and_then(|own| fs::canonicalize(own).ok());
        own.zip(fs::read_link(at.join("cwd")).ok()).is_some_and(|(own, cwd)| cwd.starts_with(own))
    }
}

/// Kills the adopted processes that carry `marks`, reaps those of `hunted` that are dead, and
/// says whether none is left. To be called when the group is gone: only then are all adopted.
pub(crate) fn sweep(marks: &Marks, hunted: &mut Vec<Pid>) -> bool {
    if !ADOPTING.load(Ordering::Relaxed) {
        return true;
    }
    hunted.retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
    let own = Stat::of(getpid()).map(|stat| stat.session);
    let mut unclear = false;
    for pid in adopted() {
        if hunted.contains(&pid) {
            continue;
        }
        let Some(stat) = Stat::of(pid) else {
            unclear = true;
            continue;
        };
        let stranger = own.is_some_and(|own| own != stat.session);
        if stat.dead {
            // Nobody can tell whose it was, but an orphan it is: a child that somebody here
            // waits for is in our session. It may have left us children a moment ago.
            unclear |= stranger && waitpid(Some(pid), WaitOptions::NOHANG).is_ok();
            continue;
        }
        match marks.are_on(pid, stranger) {
            Some(true) => {
                let _ = kill_process(pid, Signal::KILL);
                hunted.push(pid);
            }
            Some(false) => {}
            None => unclear = true,
        }
    }
    hunted.is_empty() && !unclear
}

/// Kills the adopted processes that carry any mark of this process and are in none of these groups; says
/// whether there was one.
pub(crate) fn kill_ours(spared: &BTreeSet<i32>) -> bool {
    let mark = format!("{MARKER}={}", of_this_process()).into_bytes();
    let mut found = false;
    let living = |pid: &Pid| Stat::of(*pid).is_some_and(|stat| !stat.dead && !spared.contains(&stat.group));
    for pid in adopted().into_iter().filter(living) {
        let mut environ = Vec::new();
        let read = File::open(format!("/proc/{pid}/environ"))
            .and_then(|file| file.take(MAX_ENVIRON).read_to_end(&mut environ));
        if read.is_ok() && environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(&mark)) {
            found = true;
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    found
}

/// Our children, as far as orphans can be among them: the kernel gives an orphan to the first
/// thread of the process that adopts it, so one list says it all.
fn adopted() -> Vec<Pid> {
    let children = fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    children
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect()
}

/// The living members of a process group, zombies apart, by looking at every process.
pub(crate) fn members(group: Pid) -> io::Result<Vec<Pid>> {
    members_of(&BTreeSet::from([group.as_raw_pid()]))
}

/// Whether a process of one of these groups lives.
pub(crate) fn any_of(groups: &BTreeSet<i32>) -> bool {
    !groups.is_empty() && members_of(groups).is_ok_and(|pids| !pids.is_empty())
}

fn members_of(groups: &BTreeSet<i32>) -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        let Some(pid) = pid else { continue };
        if Stat::of(pid).is_some_and(|stat| groups.contains(&stat.group) && !stat.dead) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    /// A zombie, or about to be reaped.
    dead: bool,
    group: i32,
    /// 0 for a session that began outside of this process's namespace, which is no error. Rustix's
    /// `getsid` admits no 0.
    session: i32,
    /// The size of the environment that it was started with; None where it has none yet.
    env_bytes: Option<u64>,
}

impl Stat {
    fn of(pid: Pid) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &[u8]) -> Option<Stat> {
        // `PID (NAME) STATE PARENT GROUP SESSION …`, and a name may hold anything.
        let after = stat.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(&stat[after + 1..]).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let dead = matches!(fields.next()?, "Z" | "X" | "x");
        let _parent = fields.next()?;
        let (group, session) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        // Where the environment starts and ends in memory: the 50th and 51st of all fields.
        let (start, end) = (fields.nth(43)?.parse::<u64>().ok()?, fields.next()?.parse().ok()?);
        let env_bytes = (end != 0).then(|| u64::saturating_sub(end, start));
        Some(Stat { dead, group, session, env_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let tail = " 0".repeat(43);
        let text = [b"17 (a) Z 1 (\xff) R) S 1 42 43", tail.as_bytes(), b" 7 9 0"].concat();
        let stat = Stat::parse(&text).expect("parses");
        assert_eq!((stat.dead, stat.group, stat.session, stat.env_bytes), (false, 42, 43, Some(2)));
        let stat = Stat::parse(format!("17 (x) Z 1 2 3{tail} 0 0").as_bytes()).expect("parses");
        assert_eq!((stat.dead, stat.env_bytes), (true, None));
        assert!(Stat::parse(b"").is_none());
        let own = Stat::of(getpid()).expect("is there");
        assert!(!own.dead && own.env_bytes.is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn marks_differ() {
        assert_ne!(Marks::fresh_mark(), Marks::fresh_mark());
    }
}
