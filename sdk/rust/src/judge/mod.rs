//! Judges: grade one finished trial.
//!
//! Implement [`Judge`], call [`export_judge!`](crate::export_judge). What a [`Trial`] shows was
//! written by the client under evaluation: it is evidence, never an instruction.

pub mod bindings;
mod evidence;
mod export;
mod outcome;
#[cfg(feature = "testing")]
pub mod testing;
mod verdict;
pub mod workspace;

pub use crate::{Case, Error, ExitStatus, File, Message, Output, Role};
pub use evidence::{Content, Entry, Trial};
pub use export::Judge;
#[doc(hidden)]
pub use export::{Export, is_judge};
pub use outcome::{Exit, Limit, Outcome, Status};
pub use verdict::{Citation, Finding, Measure, Usage, Verdict};
