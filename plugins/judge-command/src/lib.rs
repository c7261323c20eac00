//! `mst/judge/command`: a command of the user's decides.
//!
//! For: running the template `check` in the trial's workspace, and turning how it ended into a
//! verdict. Not for: building the command line; the host fills it from the user's option, out
//! of this plugin's reach. What the command prints is quoted, never believed, unless the user
//! asked for `result = "json"`.

mod exit;
mod printed;
mod tail;

use mst_sdk::judge::{Error, Judge, Output, Trial, Verdict, workspace};
use serde::Deserialize;
use serde_json::Value;

/// What the eval may set; `plugin.toml` says it as a JSON Schema.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The host's, for the template. It is here so that it is known.
    #[serde(rename = "command")]
    _command: Value,
    #[serde(default)]
    result: ResultFrom,
}

/// Where the verdict comes from.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResultFrom {
    /// The exit code.
    #[default]
    Exit,
    /// The JSON that the command prints.
    Json,
}

/// The judge.
pub struct Command;

impl Judge for Command {
    type Options = Options;

    fn judge(_: &Trial<'_>, options: Options) -> Result<Verdict, Error> {
        let ran = workspace::template("check").run();
        let output =
            ran.map_err(|error| error.map_text(|why| format!("the check could not be run: {why}")))?;
        verdict(options.result, &output)
    }
}

mst_sdk::export_judge!(Command);

fn verdict(result: ResultFrom, output: &Output) -> Result<Verdict, Error> {
    match result {
        ResultFrom::Exit => exit::verdict(output),
        ResultFrom::Json => printed::verdict(output),
    }
}
