//! The coordinator against everything that breaks around it: over real run directories, with
//! simulated machines and workers, on a clock that costs nothing. `MST_FAULT_SEED=n cargo test -p
//! mst-coordinator --test faults seeds` repeats one of the seeded runs.

mod breach;
mod chance;
mod cloud;
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
mod transcript;
mod whole;
mod worker;
mod worker_real;
