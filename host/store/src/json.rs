//! JSON files with a schema's name in them.

use std::fs;
use std::io;
use std::path::Path;

use mst_model::grade::Grade;
use mst_model::run::RunRecord;
use mst_model::transcript::Transcript;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Result, StoreError};

/// A record that names its schema.
pub(crate) trait Record: Serialize + DeserializeOwned {
    const SCHEMA: &'static str;
    fn schema(&self) -> &str;
}

macro_rules! record {
    ($type:ident) => {
        impl Record for $type {
            const SCHEMA: &'static str = $type::SCHEMA;

            fn schema(&self) -> &str {
                &self.schema
            }
        }
    };
}

record!(RunRecord);
record!(Transcript);
record!(Grade);

/// The bytes of the file at `path`; none where there is no file.
pub(crate) fn bytes(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// The record that `bytes`, which are the file at `path`, hold.
pub(crate) fn parse<T: Record>(path: &Path, bytes: &[u8]) -> Result<T> {
    let parsed = serde_json::from_slice::<T>(bytes);
    // A newer record need not parse as ours; its schema's name says so better than the field
    // that is not there any more.
    let found = match &parsed {
        Ok(record) => Some(record.schema().to_owned()),
        Err(_) => serde_json::from_slice::<Head>(bytes).ok().map(|head| head.schema),
    };
    if let Some(found) = found {
        check(path, found, T::SCHEMA)?;
    }
    parsed.map_err(|source| damaged(path, 1, source))
}

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// Whether `found` is the schema that belongs in the file at `path`.
pub(crate) fn check(path: &Path, found: String, known: &'static str) -> Result<()> {
    if found == known {
        return Ok(());
    }
    let path = path.to_owned();
    match (version(&found), version(known)) {
        (Some((family, theirs)), Some((ours_family, ours))) if family == ours_family && theirs > ours => {
            Err(StoreError::Newer { path, found, known })
        }
        _ => Err(StoreError::OtherSchema { path, found: found.chars().take(64).collect(), known }),
    }
}

/// `mst.run/v1` is version 1 of `mst.run`.
fn version(schema: &str) -> Option<(&str, u32)> {
    let (family, version) = schema.split_once("/v")?;
    Some((family, version.parse().ok()?))
}

/// The error of a text that starts at line `first` of `path`.
pub(crate) fn damaged(path: &Path, first: u64, source: serde_json::Error) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        line: first + (source.line() as u64).saturating_sub(1),
        column: source.column() as u64,
        source,
    }
}

/// One line for programs.
pub(crate) fn line<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>> {
    ended(path, serde_json::to_vec(value))
}

/// Several lines for people.
pub(crate) fn pretty<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>> {
    ended(path, serde_json::to_vec_pretty(value))
}

fn ended(path: &Path, json: serde_json::Result<Vec<u8>>) -> Result<Vec<u8>> {
    let mut bytes = json.map_err(|source| StoreError::NoJson { path: path.to_owned(), source })?;
    bytes.push(b'\n');
    Ok(bytes)
}
