//! Everything at once, as a seed has it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::bench::paused;
use crate::plan::Plan;
use crate::run::go;

const SEEDS: u64 = 2000;

#[test]
fn seeds_exceed_no_limit_lose_no_room_and_come_to_an_end() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse().expect("a number"));
    if let Some(seed) = number("MST_FLEET_SEED") {
        println!("{:#?}", Plan::of(seed));
        return run(seed);
    }
    let seeds = number("MST_FLEET_SEEDS").unwrap_or(SEEDS);
    // What fails here fails by a panic, which is told below.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) else { continue };
                    let said = panic.downcast_ref::<String>().cloned();
                    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.push(format!("MST_FLEET_SEED={seed}: {}", said.unwrap_or_default()));
                }
            });
        }
    });
    std::panic::set_hook(told);
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(failed.is_empty(), "{} of {seeds}: {:#?}", failed.len(), &failed[..failed.len().min(10)]);
}

fn run(seed: u64) {
    paused(async {
        go(Plan::of(seed), seed).await;
    });
}
