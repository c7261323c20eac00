//! One file a command.

use std::path::{Path, PathBuf};

use mst_model::RunId;
use mst_report::Summary;

use crate::error::Failure;
use crate::exit::Exit;

pub(crate) mod audit;
pub(crate) mod collect;
pub(crate) mod machines;
pub(crate) mod plugin;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod schema;
pub(crate) mod tighten;

/// The exit code that a summary comes to. What is missing or broken is said before a threshold:
/// a rate over the rest is no answer to it.
fn verdict(summary: &Summary) -> Exit {
    let broken = summary.rows().iter().any(|row| row.counts.instrument_errors + row.counts.ungraded > 0);
    if summary.trials.missing > 0 || broken || !summary.instrument_errors.shards.is_empty() {
        Exit::Partial
    } else if summary.missed().next().is_some() {
        Exit::Threshold
    } else {
        Exit::Done
    }
}

/// A run's directory by its name or its path.
fn find_run(run: &str, runs: &Path) -> Result<PathBuf, Failure> {
    let by_name = run.parse::<RunId>().ok().map(|id| runs.join(id.as_str()));
    let tried = by_name.into_iter().chain([PathBuf::from(run)]);
    for path in tried {
        if path.is_dir() {
            return Ok(path);
        }
    }
    let mut failure = Failure::new(format!("there is no run `{run}` in `{}`", runs.display()));
    let mut names: Vec<String> = std::fs::read_dir(runs)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.parse::<RunId>().is_ok())
        .collect();
    names.sort();
    failure.hint = match names.iter().rev().take(5).map(|name| format!("`{name}`")).collect::<Vec<_>>() {
        names if names.is_empty() => Some("`--runs DIR` says where runs are kept".to_owned()),
        names => Some(format!("the newest are {}", names.join(", "))),
    };
    Err(failure)
}
