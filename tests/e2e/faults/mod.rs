//! Seeded faults over real machines: whatever breaks, and however often mst itself is killed, no
//! finished trial is lost, done again or invented, every machine that is there can be found, and
//! none is left after `mst machines reap`.
//!
//! Under load there are tokens and limits beside.
//!
//! `MST_FAULT_SEEDS=300` runs so many seeds, `MST_FAULT_SEED=17` that one alone. A seed has the
//! same faults each time, each after as many lines of mst's; what it meets there is the machine's.

pub(crate) mod dir;
mod docker;
mod load;
mod stage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// Runs `each` for as many seeds as were asked for, or so many, a few at a time; says all that failed.
fn seeds(default: u64, each: impl Fn(u64) + Sync) {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    if let Some(seed) = number("MST_FAULT_SEED") {
        return each(seed);
    }
    let count = number("MST_FAULT_SEEDS").unwrap_or(default);
    let (next, failed) = (AtomicU64::new(0), std::sync::Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    if catch_unwind(AssertUnwindSafe(|| each(seed))).is_err() {
                        failed.lock().expect("nobody panics there").push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics there");
    assert!(failed.is_empty(), "of {count} seeds these failed: {failed:?}; MST_FAULT_SEED runs one again");
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may be gone by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}
