//! What the eval may set; `plugin.toml` says it as a JSON Schema.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

/// The options, with their defaults.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub(crate) path: PathBuf,
    #[serde(default)]
    pub(crate) format: Format,
    #[serde(default)]
    pub(crate) fields: Fields,
}

/// How objects stand in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// As the first character says.
    #[default]
    Auto,
    /// One a line.
    Jsonl,
    /// In one array.
    Json,
}

/// Which field is which part of a case.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fields {
    pub(crate) id: Option<String>,
    pub(crate) prompt: Option<String>,
    pub(crate) expected: Choice<ExpectedFields>,
    pub(crate) metadata: Choice<Vec<String>>,
    pub(crate) tags: Choice<String>,
    pub(crate) files: Choice<BTreeMap<String, String>>,
    pub(crate) deadline_ms: Choice<String>,
}

/// Which fields make `expected`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ExpectedFields {
    /// One is it.
    One(String),
    /// Several make an object.
    Object(BTreeMap<String, String>),
}

/// What the user said of a part that a case need not have.
#[derive(Debug, Default)]
pub(crate) enum Choice<T> {
    /// Nothing: the field of the part's own name, where there is one.
    #[default]
    OwnName,
    /// null: no such part, whatever fields there are.
    None,
    /// This.
    Named(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Choice<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::None, Self::Named))
    }
}
