//! One file a command.

use mst_report::Summary;

use crate::exit::Exit;

pub(crate) mod plugin;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;

/// The exit code that a summary comes to. What is missing or broken is said before a threshold:
/// a rate over the rest is no answer to it.
fn verdict(summary: &Summary) -> Exit {
    let broken = summary.rows().iter().any(|row| row.counts.instrument_errors + row.counts.ungraded > 0);
    if summary.trials.missing > 0 || broken {
        Exit::Partial
    } else if summary.missed().next().is_some() {
        Exit::Threshold
    } else {
        Exit::Done
    }
}
