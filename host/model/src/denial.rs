//! What a plugin was denied, as a run keeps it: told once, however many met it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::PluginId;

/// A call that a plugin was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The plugin.
    pub plugin: PluginId,
    /// What it called, as `process.run("create")`.
    pub call: String,
    /// The rule that decided.
    pub rule: String,
    /// The command that would grant it, where one would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
}

impl Denial {
    /// With the command, for where nothing else tells it.
    pub fn with_grant(&self) -> String {
        match &self.grant {
            Some(command) => format!("{self}; `{command}` would grant it"),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Denial {
    /// Without the command: what is said for each that met it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` was denied `{}`: {}", self.plugin, self.call, self.rule)
    }
}
