//! The command line.

use clap::{Parser, Subcommand};

use crate::command;

/// Evals of LLM agents whose runners, datasets and judges are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "mst", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  2    the command line is wrong
  100  a threshold that the eval sets was missed
  105  nothing could start
  106  partial: some trials are missing, or an instrument broke
  130  interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an eval: ask every case in every variant, judge what came back, print a summary
    Run(command::run::RunArgs),
    /// Print the summary of a run again
    Report(command::report::ReportArgs),
    /// Show what the plugins of a run called, and what was decided
    Audit(command::audit::AuditArgs),
    /// Look into runners, and set them up
    Runner(command::runner::RunnerArgs),
    /// See and remove machines that runs left
    Machines(command::machines::MachinesArgs),
    /// Do the trials of a bundle, speaking mst.shard/v1 over stdin and stdout
    #[command(hide = true)]
    Collect(command::collect::CollectArgs),
    /// Build and look into plugins
    Plugin(command::plugin::PluginArgs),
    /// Print a JSON Schema
    Schema(command::schema::SchemaArgs),
}
