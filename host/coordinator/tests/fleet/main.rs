//! The fleet in one process: the real coordinator, over real run directories, against up to a thousand
//! simulated workers on a clock that costs nothing. What they talk to counts by itself, from outside.
//!
//! `MST_FLEET_SEED=n cargo test -p mst-coordinator --test fleet seeds` repeats one of the seeded runs,
//! `MST_FLEET_SEEDS=n` goes through so many.

mod bank;
#[path = "../common/bench.rs"]
mod bench;
#[path = "../common/chance.rs"]
mod chance;
mod hour;
mod line;
mod plan;
mod run;
mod runner;
mod seeds;
#[path = "../common/transcript.rs"]
mod transcript;
mod worker;
mod world;
