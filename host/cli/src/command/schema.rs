//! `mst schema`.

use clap::Args;
use mst_model::eval::Eval;

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
}

pub(crate) fn schema(args: SchemaArgs) -> Result<Exit, Failure> {
    let Of::Eval = args.of;
    show::json(&Eval::json_schema())
}
