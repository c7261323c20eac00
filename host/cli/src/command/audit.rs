//! `mst audit`: what a run's plugins called, and what was decided.

use std::path::PathBuf;

use clap::Args;
use mst_model::audit::Decision;
use mst_report::{CallRow, Calls};
use mst_store::{RunDir, StoreError};

use crate::error::Failure;
use crate::exit::Exit;
use crate::show;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The run: its name, or its directory
    run: String,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Only what was denied
    #[arg(long)]
    denied: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn audit(args: AuditArgs) -> Result<Exit, Failure> {
    let calls = of(&args.run, &args.runs, args.denied)?;
    if args.json {
        return show::json(&calls);
    }
    show::result(&in_words(&calls, args.denied))?;
    Ok(Exit::Done)
}

/// The audit of a run by its name or directory.
pub(super) fn of(run: &str, runs: &std::path::Path, denied: bool) -> Result<Calls, Failure> {
    let failed = |error: &dyn std::error::Error, hint: Option<String>| {
        Failure::because(format!("can't read the audit of `{run}`"), error).hint_if(hint)
    };
    let path = super::find_run(run, runs)?;
    let dir = match RunDir::open_read(&path) {
        // One that came to nothing may have no record, and an audit all the same.
        Err(StoreError::NoRun { .. }) if path.join("audit.jsonl").is_file() => RunDir::at(&path),
        opened => opened.map_err(|error| failed(&error, None))?,
    };
    Calls::of(&dir, denied).map_err(|error| failed(&error, error.hint()))
}

fn in_words(calls: &Calls, denied: bool) -> String {
    let mut text = String::new();
    let mut last = None;
    for row in &calls.rows {
        if last != Some((&row.plugin, row.sha256)) {
            text.push_str(&format!("{}  {}\n", row.plugin, row.sha256));
            last = Some((&row.plugin, row.sha256));
        }
        text.push_str(&format!("  {}\n", line(row)));
    }
    if calls.rows.is_empty() {
        text.push_str(if denied { "nothing was denied\n" } else { "no plugin called anything\n" });
    }
    if calls.others > 0 {
        text.push_str(&format!("and {} of further kinds\n", show::counted(calls.others, "call")));
    }
    if !calls.grants.is_empty() {
        text.push_str("\nwhat was denied would be granted by\n");
        for grant in &calls.grants {
            text.push_str(&format!("  {grant}\n"));
        }
    }
    show::safe(&text)
}

fn line(row: &CallRow) -> String {
    let what = match (&row.request, &row.access) {
        (Some(request), Some(access)) => format!("{request} {access}"),
        (Some(request), None) => request.clone(),
        (None, _) => String::new(),
    };
    let mut line = format!("{:<28} {what:<32} {:>8}", row.call, row.count);
    match row.decision {
        Decision::Denied => line.push_str(&format!("  denied: {}", row.rule)),
        Decision::Allowed => {
            line.push_str("  allowed");
            if row.not_ok > 0 {
                line.push_str(&format!(", {} not ok", row.not_ok));
            }
            if row.unfinished > 0 {
                line.push_str(&format!(", {} without an end", row.unfinished));
            }
            if row.bytes_in + row.bytes_out > 0 {
                line.push_str(&format!(", {} bytes in, {} out", row.bytes_in, row.bytes_out));
            }
        }
    }
    line
}
