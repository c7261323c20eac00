//! `mst`: the only crate that prints, reads the environment and exits. It joins what knows
//! nothing of each other: the coordinator and the runner, the worker and the judge, the sandbox
//! and the run.

mod args;
mod audit;
mod begin;
mod command;
mod config;
mod dataset;
mod error;
mod exit;
mod interrupt;
mod judge;
mod leave;
mod local;
mod lockfile;
mod machines;
mod pace;
mod place;
mod plugins;
mod policies;
mod prepare;
mod runners;
mod scratch;
mod secrets;
mod show;
mod tokens;
mod until_signal;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are errors to clap, and none to a shell.
            let _ = error.print();
            return if error.use_stderr() { exit::Exit::Usage.into() } else { exit::Exit::Done.into() };
        }
    };
    let done = match args.command {
        Command::Run(args) => command::run::run(args),
        Command::Collect(args) => command::collect::collect(args),
        Command::Machines(args) => command::machines::machines(args),
        Command::Runner(args) => command::runner::runner(args),
        Command::Audit(args) => command::audit::audit(args),
        Command::Report(args) => command::report::report(args),
        Command::Plugin(args) => command::plugin::plugin(args),
        Command::Schema(args) => command::schema::schema(args),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            show::failure(&error);
            error.exit.into()
        }
    }
}
