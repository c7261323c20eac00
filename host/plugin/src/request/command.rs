//! `[[exec]]` and `[[workspace]]`: a command that a plugin may have run, with its bounds.

use std::collections::BTreeMap;

use mst_model::Span;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::template::Template;

/// A command that a plugin may have run, with its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandTemplate {
    /// What the plugin calls it.
    pub id: String,
    /// The command.
    pub template: Template,
    /// How long it may take.
    pub timeout: Span,
    /// What its stdin is.
    pub stdin: Stdin,
    /// The most bytes of stdout and of stderr that are kept, each.
    pub max_output_bytes: u64,
    /// The user's environment variables that it gets, beside PATH and HOME.
    pub env: Vec<String>,
    /// Variables whose values are secrets, which the host puts in as it starts the command.
    pub secrets: Vec<SecretVar>,
    /// What the plugin's schema says of the options in the command where the user sets none: with
    /// it, these are the plugin's words and not the user's.
    pub defaults: BTreeMap<String, Value>,
}

/// A variable of a command's that holds a secret: `NAME={{secret:SECRET}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretVar {
    /// The variable.
    pub name: String,
    /// The secret's name.
    pub secret: String,
}

/// What a command's stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// Nothing, or the host's where it started the command for its own use.
    None,
    /// Bytes that the plugin writes.
    Plugin,
}

impl CommandTemplate {
    /// As `env` stands in a manifest: names, and then the variables with secrets.
    pub fn env_lines(&self) -> Vec<String> {
        let secrets = self.secrets.iter();
        let secrets = secrets.map(|var| format!("{}={{{{secret:{}}}}}", var.name, var.secret));
        self.env.iter().cloned().chain(secrets).collect()
    }

    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![
            ("argv", Value::from(self.template.argv()).to_string()),
            ("timeout", self.timeout.to_string()),
            ("output bytes", self.max_output_bytes.to_string()),
            ("stdin", if self.stdin == Stdin::Plugin { "the plugin's" } else { "none" }.to_owned()),
        ];
        lines.extend(self.env_lines().into_iter().map(|line| ("env", line)));
        let defaults = self.defaults.iter();
        lines.extend(defaults.map(|(name, value)| ("default", format!("option {name} = {value}"))));
        lines
    }

    /// As a table of a manifest, with the order that a reader wants.
    pub(crate) fn table(&self) -> Map<String, Value> {
        let mut table = Map::new();
        for (key, value) in [
            ("id", json!(self.id)),
            ("argv", json!(self.template.argv())),
            ("timeout", json!(self.timeout.to_string())),
            ("stdin", json!(self.stdin)),
            ("max_output_bytes", json!(self.max_output_bytes)),
            ("env", json!(self.env_lines())),
        ] {
            table.insert(key.to_owned(), value);
        }
        table
    }

    /// The same words and defaults, and no wider bound, stdin or environment.
    pub(super) fn is_within(&self, granted: &CommandTemplate) -> bool {
        self.id == granted.id
            && self.template == granted.template
            && self.defaults == granted.defaults
            && self.timeout <= granted.timeout
            && self.stdin <= granted.stdin
            && self.max_output_bytes <= granted.max_output_bytes
            && self.env.iter().all(|name| granted.env.contains(name))
            && self.secrets.iter().all(|var| granted.secrets.contains(var))
    }
}

impl Serialize for CommandTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.table().serialize(serializer)
    }
}
