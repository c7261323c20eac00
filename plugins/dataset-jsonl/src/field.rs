//! Where in an object a part of a case is found.

use std::fmt;

use serde_json::Value;

use crate::element::kind;

/// Names of an object that a message lists.
const LISTED: usize = 12;

/// A member's name or a JSON Pointer, and the option that says so.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    name: String,
    option: String,
}

impl Field {
    pub(crate) fn new(name: impl Into<String>, option: impl Into<String>) -> Self {
        Self { name: name.into(), option: option.into() }
    }

    pub(crate) fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        if self.name.starts_with('/') { object.pointer(&self.name) } else { object.get(&self.name) }
    }

    /// The value, or that it is missing.
    pub(crate) fn get<'v>(&self, object: &'v Value) -> Result<&'v Value, String> {
        self.find(object).ok_or_else(|| {
            let names: Vec<_> = object.as_object().into_iter().flat_map(|object| object.keys()).collect();
            let listed =
                names.iter().take(LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let more = if names.len() > LISTED { ", …" } else { "" };
            format!("missing field {self}; the fields here are {listed}{more}")
        })
    }

    /// That the value is not what it should be.
    pub(crate) fn wrong(&self, expected: &str, found: &Value) -> String {
        format!("the field {self} must be {expected}, and is {}", kind(found))
    }

    pub(crate) fn string<'v>(&self, value: &'v Value) -> Result<&'v str, String> {
        value.as_str().ok_or_else(|| self.wrong("a string", value))
    }

    /// The name under which its value is kept: a pointer's last part, unescaped.
    pub(crate) fn own_name(&self) -> String {
        match self.name.rsplit_once('/') {
            Some((_, last)) if self.name.starts_with('/') => last.replace("~1", "/").replace("~0", "~"),
            _ => self.name.clone(),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (option `{}`)", self.name, self.option)
    }
}
