//! Reading one table of a manifest key by key, so that what is left over is a mistake.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::ManifestError;
use crate::legible::shown;

pub(crate) struct Fields {
    at: String,
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

/// What a value is, for a message.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

impl Fields {
    /// `at` is the table's place, empty for the manifest itself.
    pub(crate) fn new(at: impl Into<String>, value: Value) -> Result<Fields, ManifestError> {
        let at = at.into();
        match value {
            Value::Object(left) => Ok(Fields { at, left, known: Vec::new() }),
            other => Err(ManifestError::Type {
                at: if at.is_empty() { "the manifest".to_owned() } else { at },
                wanted: "a table",
                found: kind_of(&other),
            }),
        }
    }

    /// The table's own place.
    pub(crate) fn place(&self) -> &str {
        &self.at
    }

    /// The place of one of its keys.
    pub(crate) fn at(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    /// Whether a key is there that nobody took.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.left.contains_key(key)
    }

    pub(crate) fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.left.remove(key)
    }

    pub(crate) fn missing(&self, key: &'static str) -> ManifestError {
        ManifestError::Missing { at: self.at(key) }
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, ManifestError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, "text", &other)),
        }
    }

    /// A text that its type reads.
    pub(crate) fn parsed<T: FromStr>(&mut self, key: &'static str) -> Result<Option<T>, ManifestError>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        match self.text(key)? {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|source| ManifestError::Value {
                at: self.at(key),
                value: shown(&text, 80),
                source: Box::new(source),
            }),
        }
    }

    pub(crate) fn number(&mut self, key: &'static str) -> Result<Option<u64>, ManifestError> {
        match self.take(key) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "a whole number, 0 or more", &value)),
            },
        }
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ManifestError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(key, "true or false", &other)),
        }
    }

    pub(crate) fn list(&mut self, key: &'static str) -> Result<Vec<Value>, ManifestError> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.wrong(key, "a list", &other)),
        }
    }

    /// A table of whatever values.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<BTreeMap<String, Value>, ManifestError> {
        match self.take(key) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(table)) => Ok(table.into_iter().collect()),
            Some(other) => Err(self.wrong(key, "a table", &other)),
        }
    }

    pub(crate) fn texts(&mut self, key: &'static str) -> Result<Vec<String>, ManifestError> {
        let at = self.at(key);
        let text = |(index, item)| match item {
            Value::String(text) => Ok(text),
            other => Err(ManifestError::Type {
                at: format!("{at}[{index}]"),
                wanted: "text",
                found: kind_of(&other),
            }),
        };
        self.list(key)?.into_iter().enumerate().map(text).collect()
    }

    /// Refuses what nobody took.
    pub(crate) fn finish(self) -> Result<(), ManifestError> {
        let Some(key) = self.left.keys().next() else { return Ok(()) };
        Err(ManifestError::Unknown {
            at: self.at,
            key: shown(key, 64),
            near: mst_model::schema::near(key, self.known.iter().copied()).map(str::to_owned),
            known: self.known,
        })
    }

    fn wrong(&self, key: &str, wanted: &'static str, found: &Value) -> ManifestError {
        ManifestError::Type { at: self.at(key), wanted, found: kind_of(found) }
    }
}
