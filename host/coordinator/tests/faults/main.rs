//! The coordinator against everything that breaks around it: over real run directories, with
//! simulated machines and workers, on a clock that costs nothing. `MST_FAULT_SEED=n cargo test -p
//! mst-coordinator --test faults seeds` repeats one of the seeded runs.

#[path = "../common/bench.rs"]
mod bench;
mod breach;
#[path = "../common/chance.rs"]
mod chance;
mod cloud;
mod copy;
mod crew;
mod limits;
mod machine;
mod pipe;
mod plan;
mod run;
mod seeds;
mod shards;
mod stop;
mod tokens;
#[path = "../common/transcript.rs"]
mod transcript;
mod whole;
mod worker;
mod worker_real;
