//! The coordinator: plans a run's trials, has workers do them, and gathers what they left.
//!
//! For: shards, bundles, the coordinator's side of mst.shard/v1, gathering.
//! Not for: doing a trial (`mst-worker`), or knowing how a machine is made: a runner is a trait
//! here, whether it is wasm or the worker in this process.
//! Must never know: wasm, a terminal, the environment.

pub mod collect;
mod converse;
mod door;
mod drive;
pub mod event;
mod guard;
mod keep;
mod links;
pub mod machines;
mod notes;
pub mod plan;
mod pools;
mod room;
pub mod runner;
mod shard;
mod trials;
pub mod vault;
pub mod whole;

pub use collect::{CollectError, Collected, Options, Stop, collect};
pub use event::{Event, Events};
pub use notes::Notes;
pub use runner::{Results, Runner, RunnerError, Session, ShardSpec};
