//! Using up what the host has: time, memory, stack, handles.

use std::hint::black_box;
use std::time::Duration;

use mst_sdk::judge::{Trial, Verdict};

pub(crate) fn spin() -> ! {
    loop {
        black_box(());
    }
}

/// Waits in WASI's poll, where no guest code runs that an epoch could interrupt.
pub(crate) fn sleep(seconds: u64) -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

pub(crate) fn memory() -> Verdict {
    const STEP: usize = 1 << 20;
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut block = Vec::new();
        if block.try_reserve_exact(STEP).is_err() {
            return Verdict::pass(format!("refused after {} MiB", blocks.len()));
        }
        // Not zeros, which could stay untouched pages.
        block.resize(STEP, 0xa5);
        blocks.push(black_box(block));
    }
}

/// Overruns the stack in linear memory, where Rust keeps what has an address: an access out of
/// bounds.
pub(crate) fn recursion() -> Verdict {
    fn down(depth: u64) -> u64 {
        if depth == u64::MAX {
            return 0;
        }
        let frame = black_box([depth; 64]);
        1 + down(black_box(depth + 1)) + frame[0]
    }
    Verdict::pass(format!("came back from {}", down(0)))
}

/// Overruns the engine's own stack: nothing here has an address.
pub(crate) fn plain_recursion() -> Verdict {
    #[inline(never)]
    fn down(depth: u64, step: u64) -> u64 {
        if depth == 0 { 0 } else { (depth ^ down(depth - step, step)).rotate_left(7) }
    }
    Verdict::pass(format!("came back with {}", down(black_box(u64::MAX), black_box(1))))
}

pub(crate) fn pollables(count: u64) -> Verdict {
    for _ in 0..count {
        std::mem::forget(wasip2::clocks::monotonic_clock::subscribe_duration(u64::MAX / 2));
    }
    Verdict::pass(format!("holds {count} pollables"))
}

pub(crate) fn streams(count: u64) -> Verdict {
    for _ in 0..count {
        std::mem::forget(wasip2::cli::stdout::get_stdout());
    }
    Verdict::pass(format!("holds {count} streams"))
}

pub(crate) fn host_calls(trial: &Trial<'_>, count: u64) -> Verdict {
    let bytes: usize = (0..count).map(|_| trial.entries().len() + trial.variant().len()).sum();
    Verdict::pass(format!("asked {count} times for {bytes}"))
}
