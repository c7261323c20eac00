//! The worker: does trials and grades them, on whatever machine it was started.
//!
//! For: clients and the workspaces they work in, deadlines, keeping what they left, the worker's
//! side of mst.shard/v1, and judges over stored trials.
//! Not for: deciding what is to be done (the bundle says it), or how a judge works.
//! Must never know: runners, plugins, wasm, a terminal, its own environment.

mod client;
pub mod collect;
mod export;
pub mod grade;
pub mod tokens;
pub mod trial;
mod until;
mod version;
mod workspace;

/// An error and its causes, on one line.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
