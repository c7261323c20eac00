//! `mst` as a person meets it: the program itself, run in a closed environment, on files and
//! processes that are really there. What can be shown at a smaller scale is tested in its crate.
//!
//! Where the machine lacks something, a test says `skipped: …` and passes; `MST_REQUIRE_GUESTS=1`,
//! `MST_REQUIRE_PYTHON=1`, `MST_REQUIRE_HUMANEVAL=1`, `MST_REQUIRE_DOCKER=1`, `MST_REQUIRE_SSHD=1` and
//! `MST_REQUIRE_ROOT=1` make that a failure.
//!
//! What a person reads stands here as inline snapshots: `cargo insta review` after a change.

mod altered;
mod audit;
mod client;
mod config;
mod copies;
mod dataset;
mod deadlines;
mod dir;
mod docker;
mod faults;
mod grants;
mod help;
mod hostile;
mod hostile_dataset;
mod hostile_runner;
mod humaneval;
mod judge;
mod killed;
mod limits;
mod machines;
mod memory;
mod oauth2;
mod plugin;
mod plugin_build;
mod quickstart;
mod report;
mod retry;
mod run;
mod secrets;
mod shard_runner;
mod ssh;
mod stop;
mod support;
mod threshold;
mod tighten;
mod tokens;
mod web;
