//! `mst report`: a run's summary, again.

use std::path::PathBuf;

use clap::Args;
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
    let path = super::find_run(&args.run, &args.runs)?;
    let failed = |error: &mst_report::ReportError| {
        let failure = Failure::because(format!("can't report `{}`", args.run), error);
        match error {
            mst_report::ReportError::Store(error) => failure.hint_if(error.hint()),
            _ => failure,
        }
    };
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
