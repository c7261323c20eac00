//! `mst/dataset/jsonl`: cases from JSONL or a JSON array, gzipped or not.
//!
//! For: turning objects of any shape into cases, and telling the person who wrote the file
//! where in it something is wrong. Not for: holding a file in memory; what is held is one
//! object, at most 16 MiB, whatever the size of the file.

mod array;
mod cases;
mod element;
mod fault;
mod field;
mod input;
mod lines;
mod mapping;
mod options;
mod workspace_path;

use std::fs::File;
use std::io::ErrorKind;

use mst_sdk::dataset::{Case, Dataset, Error};

use crate::cases::Cases;
use crate::mapping::Mapping;
pub use crate::options::Options;

/// The dataset.
pub struct Jsonl;

impl Dataset for Jsonl {
    type Options = Options;

    fn open(options: Options) -> Result<impl Iterator<Item = Result<Case, Error>> + 'static, Error> {
        let mapping = Mapping::new(options.fields)?;
        // The path is the sandbox's, which the user never wrote: only its last part is said.
        let name = options.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = File::open(&options.path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::not_found(format!("there is no file `{name}` where the option `path` says"))
            }
            _ => Error::from(error).map_text(|why| format!("`{name}` can't be opened: {why}")),
        })?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Error::invalid(format!(
                "`{name}` is a directory; the option `path` must name a file in it"
            )));
        }
        Cases::new(name, file, options.format, mapping)
    }
}

mst_sdk::export_dataset!(Jsonl);
