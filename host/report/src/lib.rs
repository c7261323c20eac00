//! Reads runs and says what they found.
//!
//! For: counts, pass rates with their intervals, thresholds, and what broke on the way, as data
//! (`mst.summary/v1`).
//! Not for: showing it (`mst`), grading, or mending a run.
//! Must never know: a terminal, a clock, a plugin, how a trial was made.
//!
//! # The rules
//!
//! - A trial is, for each judge, exactly one of: passed, failed, abstained on, broken by its
//!   instrument (the trial's own or the judge), missing, or ungraded. The six are never added up
//!   into one another, and together they are the plan.
//! - A case is *incomplete* when any of its planned trials is missing, in whatever variant: a
//!   comparison of variants is a comparison on the same cases. Incomplete cases are counted and
//!   left out of every rate and mean. For one judge, so is a case of which it has still to
//!   grade a trial: half-graded is half-collected.
//! - A grade of another transcript than the one that is there (an earlier attempt's) is no grade.
//! - A pass rate is passes over passes and failures. What a judge abstained on and what broke is
//!   in neither.
//! - Where nothing was scored there is no rate, and a threshold is missed.

mod audit;
mod broken;
mod error;
pub mod interval;
mod read;
mod summary;
mod tally;

pub use audit::{CallRow, Calls};
pub use broken::{Broken, BrokenGroup, DeniedShards};
pub use error::ReportError;
pub use summary::{CaseCounts, Counts, Mean, Method, Rate, Row, Summary, Threshold, TrialCounts};
