//! What an author of an [mst](https://github.com/mst-evals/mst) plugin imports.
//!
//! For: turning one `impl` into a WebAssembly component that `mst` can load. The crate brings
//! the bindings, parses options and cases, pages datasets, and says errors in the contract's
//! words. Not for: the manifest (`plugin.toml` beside your `Cargo.toml`, embedded by
//! `mst plugin build`), and not for the host. It must never know how the host does what it is
//! asked: `wit/` is all that the two share.
//!
//! # A whole judge
//!
//! `Cargo.toml`:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"]     # rlib for `cargo test`
//!
//! [dependencies]
//! mst-sdk = { version = "0.1", features = ["judge"] }
//! serde = { version = "1", features = ["derive"] }
//! ```
//!
//! `src/lib.rs`:
//!
//! ```
//! # #[cfg(feature = "judge")] mod example {
//! use mst_sdk::judge::{Error, Judge, Trial, Verdict};
//! use serde::Deserialize;
//!
//! /// What the eval may set; the manifest's `[options]` says the same as a JSON Schema.
//! #[derive(Deserialize)]
//! struct Options {
//!     at_most_words: usize,
//! }
//!
//! /// Passes short answers.
//! struct Brevity;
//!
//! impl Judge for Brevity {
//!     type Options = Options;
//!
//!     fn judge(trial: &Trial, options: Options) -> Result<Verdict, Error> {
//!         let Some(report) = trial.report() else {
//!             return Ok(Verdict::fail("the client gave no report"));
//!         };
//!         let words = report.split_whitespace().count();
//!         let limit = options.at_most_words;
//!         let verdict = if words <= limit {
//!             Verdict::pass(format!("{words} words, {limit} are allowed"))
//!         } else {
//!             Verdict::fail(format!("{words} words, more than {limit}"))
//!         };
//!         Ok(verdict.measure("words", words as f64, ""))
//!     }
//! }
//!
//! mst_sdk::export_judge!(Brevity);
//! # }
//! ```
//!
//! `plugin.toml`:
//!
//! ```toml
//! id = "acme/judge/brevity"
//! version = "0.1.0"
//! world = "judge"
//! description = "Passes answers of few words."
//! license = "Apache-2.0"
//!
//! [options]
//! type = "object"
//! additionalProperties = false
//! required = ["at_most_words"]
//! properties.at_most_words = { type = "integer", minimum = 1, description = "The most words that pass." }
//! ```
//!
//! Then `mst plugin build . -o brevity.wasm`.
//!
//! A dataset is as short: see [`dataset`]. So is a runner of machines: see [`runner`]. All
//! compile for the host's own target too, so that plain `cargo test` runs your logic; see
//! [`judge::testing`] and [`runner::testing`].
//!
//! # Errors
//!
//! [`Error`] says that the *instrument* failed: a wrong option, a service out of reach. It is
//! never how a judge says that an answer is wrong; that is `Verdict::fail`.

mod bindings;
mod case;
mod command;
mod error;
pub mod log;
mod options;

#[cfg(feature = "dataset")]
pub mod dataset;
#[cfg(feature = "judge")]
pub mod judge;
#[cfg(feature = "machine-runner")]
pub mod runner;

pub use case::{Case, File, Message, Role};
pub use command::{ExitStatus, Output};
pub use error::Error;
pub use options::parse_options;

#[doc(hidden)]
pub use wit_bindgen;
