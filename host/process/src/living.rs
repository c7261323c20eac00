//! The groups that are there, for a program that ends at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::orphans;

/// The leaders that were not reaped yet, until when a group's number is nobody else's; and whether each
/// is talked with.
static LEADERS: Mutex<BTreeMap<i32, bool>> = Mutex::new(BTreeMap::new());

/// How often descendants that left their group are looked for, and with which pause: they are ours once
/// their parents are dead.
const LOOKS: (u32, Duration) = (100, Duration::from_millis(10));

/// Held while a leader is reaped, so that none is killed that is a stranger by then.
pub(crate) struct Leaders(MutexGuard<'static, BTreeMap<i32, bool>>);

impl Leaders {
    pub(crate) fn hold() -> Leaders {
        Leaders(LEADERS.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&mut self, leader: Pid, talked_with: bool) {
        self.0.insert(leader.as_raw_pid(), talked_with);
    }

    pub(crate) fn remove(&mut self, leader: Pid) {
        self.0.remove(&leader.as_raw_pid());
    }
}

/// Kills all that was started and is still there, those that left their group too where
/// [`adopt_orphans`](crate::adopt_orphans) was called. What is talked with is let be: it sees its stdin
/// end when this process does, and may have others to see out. For a program that ends then and there:
/// whoever waits for one of them sees it killed. Blocks the thread, for a second or so at the most.
pub fn kill_all() {
    let leaders = Leaders::hold();
    let (spared, killed): (Vec<_>, Vec<_>) = leaders.0.iter().partition(|(_, talked_with)| **talked_with);
    let numbers = |some: Vec<(&i32, &bool)>| some.into_iter().map(|(leader, _)| *leader).collect();
    let (spared, killed): (BTreeSet<i32>, BTreeSet<i32>) = (numbers(spared), numbers(killed));
    for leader in killed.iter().filter_map(|leader| Pid::from_raw(*leader)) {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    drop(leaders);
    for _ in 0..LOOKS.0 {
        // Only when the groups are gone are all that left them ours to see.
        let there = orphans::any_of(&killed);
        if !orphans::kill_ours(&spared) && !there {
            return;
        }
        thread::sleep(LOOKS.1);
    }
}
