//! A child and all that it started, until it is gone.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid, waitpid,
};

use crate::living::Leaders;
use crate::orphans::{self, Marks};
use crate::spec::Exit;

/// Dropped before it is gone, a tree is abandoned.
pub(crate) struct Tree {
    /// None once it was abandoned.
    remains: Option<Remains>,
}

struct Remains {
    leader: Pid,
    /// Set when the leader is reaped. From then on the group's number may belong to others, and
    /// the group is asked about and no more signalled: each of its members has its SIGKILL.
    exit: Option<Exit>,
    marks: Marks,
    /// Processes outside the group that were killed and are to be reaped.
    hunted: Vec<Pid>,
    gone: bool,
    steps: u32,
}

impl Tree {
    pub(crate) fn new(leader: Pid) -> Tree {
        Leaders::hold().add(leader, false);
        let marks = Marks::none();
        let hunted = Vec::new();
        Tree { remains: Some(Remains { leader, exit: None, marks, hunted, gone: false, steps: 0 }) }
    }

    /// How descendants that left the group are known.
    pub(crate) fn mark(&mut self, marks: Marks) {
        if let Some(remains) = &mut self.remains {
            remains.marks = marks;
        }
    }

    /// Says that it is talked with.
    pub(crate) fn talk(&self) {
        if let Some(Remains { leader, exit: None, .. }) = &self.remains {
            Leaders::hold().add(*leader, true);
        }
    }

    /// How the leader ended, once that is known.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.remains.as_ref()?.exit
    }

    /// Sends SIGKILL to the whole group. It can't be outrun: a fork is refused to a process that
    /// has a SIGKILL waiting.
    pub(crate) fn kill(&self) {
        if let Some(remains) = &self.remains {
            remains.kill();
        }
    }

    /// Reaps what can be reaped and says whether all is gone. Never blocks. To be called after
    /// [`Tree::kill`].
    pub(crate) fn step(&mut self) -> bool {
        self.remains.as_mut().is_none_or(Remains::step)
    }

    /// What is not gone, for people.
    pub(crate) fn left(&self) -> String {
        self.remains.as_ref().map(Remains::left).unwrap_or_default()
    }

    /// Kills what is not gone and has it reaped in the background. From then on it is as if all
    /// were gone.
    pub(crate) fn abandon(&mut self) {
        if let Some(remains) = self.remains.take().filter(|remains| !remains.gone) {
            remains.kill();
            Background::reap(remains);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Remains {
    fn kill(&self) {
        if self.exit.is_none() {
            // There is a leader to be reaped, so there is a group; what can't be signalled
            // (a program that became another user's) is found by the steps.
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
    }

    fn step(&mut self) -> bool {
        if !self.gone {
            self.steps += 1;
            // In this order: only when the group is gone are all strays to be seen. Strays are
            // looked for before that, too, since one may be what keeps a zombie in the group.
            self.gone = self.leader_gone() && self.group_gone() & self.strays_gone();
        }
        self.gone
    }

    fn leader_gone(&mut self) -> bool {
        if self.exit.is_none() {
            let mut leaders = Leaders::hold();
            self.exit = match waitpid(Some(self.leader), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => Some(match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Exit::Code(code),
                    (None, signal) => Exit::Signal(signal.unwrap_or_default()),
                }),
                Ok(None) | Err(Errno::INTR) => None,
                // Somebody else reaped it: SIGCHLD is ignored, or a `wait` for any child.
                Err(_) => Some(Exit::Signal(Signal::KILL.as_raw())),
            };
            if self.exit.is_some() {
                leaders.remove(self.leader);
            }
        }
        self.exit.is_some()
    }

    fn group_gone(&self) -> bool {
        // Members whose parent is dead have become our children where orphans are adopted.
        while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
        match test_kill_process_group(self.leader) {
            Err(Errno::SRCH) => true,
            // So macOS says that there are only zombies.
            Err(_) if cfg!(target_os = "macos") => true,
            // A zombie that its parent leaves lying looks like a process from here. Looking
            // through all processes of the machine is dear, so it comes late and seldom.
            _ => {
                self.steps.is_multiple_of(8)
                    && matches!(orphans::members(self.leader), Ok(pids) if pids.is_empty())
            }
        }
    }

    fn strays_gone(&mut self) -> bool {
        orphans::sweep(&self.marks, &mut self.hunted)
    }

    fn left(&self) -> String {
        let mut pids: Vec<Pid> = orphans::members(self.leader).unwrap_or_default();
        pids.extend(&self.hunted);
        if pids.is_empty() {
            return format!("process group {} is still there", self.leader);
        }
        let shown: Vec<String> = pids.iter().take(8).map(Pid::to_string).collect();
        match pids.len() {
            1 => format!("process {} is still there", shown[0]),
            count => format!("{count} processes ({}) are still there", shown.join(", ")),
        }
    }
}

/// Trees that were dropped and are being reaped.
struct Background;

static WAITING: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

impl Background {
    fn reap(mut remains: Remains) {
        *WAITING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let work = move || {
            let mut nap = Duration::from_millis(1);
            while !remains.step() {
                thread::sleep(nap);
                nap = (nap * 2).min(Duration::from_secs(1));
            }
            Self::done();
        };
        let named = thread::Builder::new().name("mst-reaper".to_owned());
        if let Err(_no_thread) = named.spawn(work) as io::Result<_> {
            // Killed it is; its zombie stays until we end.
            Self::done();
        }
    }

    fn done() {
        *WAITING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CHANGED.notify_all();
    }
}

/// Waits until the processes of all runs that were dropped on the way are gone, at most for
/// `limit`, and returns how many runs still have some. For a program that is about to end: its
/// reaping threads end with it. Blocks the thread.
pub fn settle(limit: Duration) -> usize {
    let until = Instant::now() + limit;
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    while *waiting > 0 {
        let Some(rest) = until.checked_duration_since(Instant::now()) else { break };
        waiting = CHANGED.wait_timeout(waiting, rest).unwrap_or_else(PoisonError::into_inner).0;
    }
    *waiting
}
