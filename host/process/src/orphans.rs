//! Descendants that left their group.
//!
//! A process can leave its group (`setsid`, a shell with job control, a daemon) but not its
//! ancestry: once its parents are dead it becomes a child of the nearest process that adopts
//! orphans. It is then told apart from everybody else's by what it inherited.

#[cfg(target_os = "linux")]
pub(crate) use linux::{Marks, any_of, kill_ours, members, sweep};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Marks, any_of, kill_ours, members, sweep};

/// The environment variable by which the descendants of a run are known. Its value is the run's
/// own and says nothing.
pub const MARKER: &str = "MST_PROCESS";

/// Makes this process adopt its orphaned descendants, so that a run finds those that left its
/// group. To be called once, before the first run. Without it, and on systems other than Linux,
/// a daemon outlives its run, and the run sees that only if the daemon holds its output open.
///
/// From then on this process's children are not only those that it started. A zombie child in
/// another session than this process's own is taken for an orphan and reaped; a child that is
/// waited for elsewhere must therefore lead a process group (it can't then call `setsid`).
///
/// A kernel that knows no subreapers (before Linux 3.4) leaves things as if it had not been called.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    linux::adopt();
}

#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::collections::BTreeSet;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use rustix::process::Pid;

    pub(crate) struct Marks;

    impl Marks {
        pub(crate) fn fresh_mark() -> String {
            "1".to_owned()
        }

        pub(crate) fn none() -> Marks {
            Marks
        }

        pub(crate) fn new(_mark: String, _pipes: [&OwnedFd; 2], _own: Option<&PathBuf>) -> Marks {
            Marks
        }
    }

    pub(crate) fn sweep(_marks: &Marks, _hunted: &mut Vec<Pid>) -> bool {
        true
    }

    pub(crate) fn any_of(_groups: &BTreeSet<i32>) -> bool {
        false
    }

    pub(crate) fn kill_ours(_spared: &BTreeSet<i32>) -> bool {
        false
    }

    pub(crate) fn members(_group: Pid) -> io::Result<Vec<Pid>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
