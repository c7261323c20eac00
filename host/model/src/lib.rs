//! Data at rest: what an eval is, what a run plans, what a trial leaves, what a judge says.
//!
//! For: the types, their JSON Schemas, their identity hashes, and the rules that hold inside
//! one value (an id's alphabet, a deadline's bounds).
//! Not for: reading or writing files, talking to anything, or rules between a run's parts.
//! Must never know: a file system, a clock, wasm.

pub mod audit;
pub mod bundle;
pub mod bytes;
pub mod case;
pub mod deadlines;
pub mod denial;
pub mod digest;
pub mod eval;
pub mod grade;
pub mod id;
pub mod ledger;
pub mod limits;
pub mod machine;
pub mod outcome;
pub mod run;
pub mod schema;
pub mod strict_json;
pub mod time;
pub mod tokens;
pub mod transcript;

pub use bytes::Bytes;
pub use case::Case;
pub use denial::Denial;
pub use digest::Digest;
pub use id::{CaseId, JudgeId, Kind, PluginId, RunId, ServiceId, TokenId, TrialKey, VariantId};
pub use time::Span;
