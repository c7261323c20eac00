//! `mst report`: a run's summary, again.

use std::path::{Path, PathBuf};

use clap::Args;
use mst_model::RunId;
use mst_report::Summary;
use mst_store::RunDir;

use crate::error::Failure;
use crate::exit::Exit;
use crate::show;

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The run: its name, or its directory
    run: String,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn report(args: ReportArgs) -> Result<Exit, Failure> {
    let path = find(&args.run, &args.runs)?;
    let failed =
        |error: &mst_report::ReportError| Failure::because(format!("can't report `{}`", args.run), error);
    let run = RunDir::open_read(&path)
        .map_err(|error| Failure::because(format!("can't report `{}`", args.run), &error))?;
    let summary = Summary::of(&run).map_err(|error| failed(&error))?;
    if args.json {
        show::json(&summary)?;
    } else {
        show::result(&show::summary(&summary))?;
    }
    Ok(super::verdict(&summary))
}

/// A run's directory by its name or its path.
fn find(run: &str, runs: &Path) -> Result<PathBuf, Failure> {
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
