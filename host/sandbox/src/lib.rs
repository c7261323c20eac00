//! The sandbox that plugins run in.
//!
//! For: compiling and caching components, linking what a plugin may call, holding every bound,
//! calling the guests' functions, and starting a runner's programs from its manifest's templates.
//! Not for: reading a plugin's file or manifest (`mst-plugin`), or deciding what an eval runs.
//! What else a plugin may reach beyond its own memory comes in through the traits [`Evidence`],
//! [`Workspace`], [`Attach`], [`LogSink`] and [`AuditSink`] and [`Secrets`], so that whoever drives a plugin decides where a
//! call ends.
//! Must never know: a run's directory, mst.shard/v1, terminals, the environment.
//!
//! Architecture invariant: no other crate names wasmtime, and every function that a guest can
//! import, WASI's too, passes `broker::Broker::pass` before it acts.

mod address;
mod audit;
mod bindings;
mod broker;
mod cache;
mod call;
mod dataset;
mod engine;
mod error;
mod evidence;
mod files;
mod guest;
mod http;
mod judge;
mod limits;
mod link;
mod log;
mod permit;
mod process;
mod runner;
mod runner_call;
mod secret;
mod shard;
mod shard_runner;
mod text;
mod trust;
mod variables;
mod workspace;

pub use audit::{AuditSink, MAX_LEFT, Unrecorded};
pub use broker::Denial;
pub use cache::{Cache, CacheEvent};
pub use dataset::{Cursor, DatasetPlugin, OpenError};
pub use engine::{Sandbox, Settings};
pub use error::{CallError, GuestError, GuestErrorKind, LimitKind, LoadError};
pub use evidence::{Entry, Evidence, Part};
pub use guest::Sinks;
pub use judge::{JudgeError, JudgeOptions, JudgePlugin};
pub use limits::Limits;
pub use log::{Level, LogLine, LogSink, Quiet};
pub use permit::Permit;
pub use process::ExecEnvironment;
pub use runner::{MachineRequest, RunnerPlugin};
pub use runner_call::{RunnerCallError, RunnerSetup};
pub use secret::{NoSecrets, SecretValue, Secrets};
pub use shard::{Attach, ShardEnding};
pub use shard_runner::{ShardRunnerPlugin, WholeShard};
pub use text::clean;
pub use trust::{Trust, TrustError};
pub use workspace::{Command, Ended, Output, Workspace, WorkspaceError};
