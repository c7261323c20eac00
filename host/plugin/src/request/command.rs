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
    /// What the plugin's schema admits of the options in the command, without its words on them: what
    /// is put in without quotes is guarded by nothing else.
    pub options: BTreeMap<String, Value>,
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
        let options = self.options.iter();
        lines.extend(options.map(|(name, schema)| ("option", format!("{name} as {schema}"))));
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

    /// The same words and defaults, and no wider option, bound, stdin or environment.
    pub(super) fn is_within(&self, granted: &CommandTemplate) -> bool {
        self.id == granted.id
            && self.template == granted.template
            && self.defaults == granted.defaults
            && self.options.iter().all(|(name, schema)| {
                granted.options.get(name).is_some_and(|granted| is_narrower(schema, granted))
            })
            && self.timeout <= granted.timeout
            && self.stdin <= granted.stdin
            && self.max_output_bytes <= granted.max_output_bytes
            && self.env.iter().all(|name| granted.env.contains(name))
            && self.secrets.iter().all(|var| granted.secrets.contains(var))
    }
}

/// What of a schema leaves out values that it would admit without it, and admits none.
const NARROWS: [&str; 12] = [
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
];

/// Whether `schema` admits nothing that `granted` does not, as far as that is seen at once. What is
/// not seen counts as wider.
fn is_narrower(schema: &Value, granted: &Value) -> bool {
    let (Some(schema), Some(granted)) = (schema.as_object(), granted.as_object()) else {
        return schema == granted;
    };
    let tighter = |name: &str, now: &Value, was: &Value| match name {
        "enum" => match (now.as_array(), was.as_array()) {
            (Some(now), Some(was)) => now.iter().all(|word| was.contains(word)),
            _ => false,
        },
        "maxItems" | "maxLength" | "maximum" | "exclusiveMaximum" => now.as_f64() <= was.as_f64(),
        "minItems" | "minLength" | "minimum" | "exclusiveMinimum" => now.as_f64() >= was.as_f64(),
        _ => false,
    };
    let kept = granted
        .iter()
        .all(|(name, was)| schema.get(name).is_some_and(|now| now == was || tighter(name, now, was)));
    kept && schema.keys().all(|name| granted.contains_key(name) || NARROWS.contains(&name.as_str()))
}

impl Serialize for CommandTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.table().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_admits_less_is_narrower_and_any_other_is_not() {
        let narrower = |now: Value, was: Value| is_narrower(&now, &was);
        let was = json!({"type": "string", "enum": ["a", "b"], "maxLength": 8});
        for now in [
            was.clone(),
            json!({"type": "string", "enum": ["b"], "maxLength": 8}),
            json!({"type": "string", "enum": ["a", "b"], "maxLength": 7, "pattern": "x"}),
        ] {
            assert!(narrower(now.clone(), was.clone()), "{now}");
        }
        for now in [
            json!({"type": "string", "enum": ["a", "b"]}),
            json!({"type": "string", "enum": ["a", "b", "c"], "maxLength": 8}),
            json!({"type": "string", "enum": ["a", "b"], "maxLength": 9}),
            json!({"type": "array", "enum": ["a", "b"], "maxLength": 8}),
            json!({"type": "string", "enum": ["a", "b"], "maxLength": 8, "anyOf": [{}]}),
            json!(true),
        ] {
            assert!(!narrower(now.clone(), was.clone()), "{now}");
        }
    }
}
