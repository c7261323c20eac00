//! `mst schema`.

use clap::Args;
use mst_model::eval::Eval;
use mst_plugin::policy;

use crate::error::Failure;
use crate::exit::Exit;
use crate::show;

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of what
    #[arg(value_enum)]
    of: Of,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Of {
    /// An eval's file
    Eval,
    /// A policy's file: what plugins may be granted at all
    Policy,
}

pub(crate) fn schema(args: SchemaArgs) -> Result<Exit, Failure> {
    show::json(&match args.of {
        Of::Eval => Eval::json_schema(),
        Of::Policy => policy::json_schema(),
    })
}
