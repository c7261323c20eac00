//! `[[exec]]` and `[[workspace]]`: a command that a plugin may have run, with its bounds.

use std::collections::BTreeMap;

use mst_model::Span;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::template::{SlotType, Template};

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
    /// The programs that it may start: the template's own, or those among which an option of the user's
    /// chooses, the default first; none where that may be any.
    pub fn programs(&self) -> Vec<&str> {
        let programs = self.template.programs();
        if !programs.is_empty() {
            return programs;
        }
        self.choice().unwrap_or_default()
    }

    /// The option of the user's that says the program, where one does.
    pub fn program_option(&self) -> Option<&str> {
        let first = self.template.elements().first()?.whole()?;
        match &first.kind {
            SlotType::Option(name) => Some(name),
            _ => None,
        }
    }

    /// All that the option that says the program may be, where its schema lists it. What it is where
    /// nobody sets it is no part of that list by itself.
    fn choice(&self) -> Option<Vec<&str>> {
        let option = self.program_option()?;
        let listed = self.options.get(option)?.get("enum")?.as_array()?;
        let mut words: Vec<&str> = Vec::new();
        for word in self.defaults.get(option).into_iter().chain(listed) {
            let word = word.as_str()?;
            if !words.contains(&word) {
                words.push(word);
            }
        }
        Some(words)
    }

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
    fn a_program_that_an_option_says_is_one_of_those_that_its_schema_lists() {
        let with = |argv: &str, option: Value, default: Option<Value>| CommandTemplate {
            id: "c".into(),
            template: Template::parse(&[argv], crate::template::Place::Exec).expect(argv),
            timeout: "1s".parse().expect("a span"),
            stdin: Stdin::None,
            max_output_bytes: 0,
            env: Vec::new(),
            secrets: Vec::new(),
            defaults: default.into_iter().map(|default| ("engine".to_owned(), default)).collect(),
            options: [("engine".to_owned(), option)].into(),
        };
        let two = || json!({"enum": ["docker", "podman"]});
        let of = |argv: &str, option: Value, default: Option<Value>| {
            let command = with(argv, option, default);
            let programs = command.programs().into_iter().map(str::to_owned).collect::<Vec<_>>();
            (command.program_option().map(str::to_owned), programs.join(" "))
        };
        let engine = || Some("engine".to_owned());
        assert_eq!(of("{option(engine)}", two(), None), (engine(), "docker podman".into()));
        assert_eq!(of("{option(engine)}", two(), Some(json!("podman"))), (engine(), "podman docker".into()));
        // Nothing holds a default to the list.
        assert_eq!(of("{option(engine)}", two(), Some(json!("sh"))), (engine(), "sh docker podman".into()));
        for (option, default) in [
            (json!({"type": "string"}), Some(json!("docker"))),
            (json!({"enum": ["docker", ["sh", "-c", "x"]]}), None),
            (two(), Some(json!(["sh", "-c"]))),
        ] {
            assert_eq!(of("{x:option(engine)}", option, default), (engine(), String::new()));
        }
        assert_eq!(of("{x:enum(a|b)}", two(), None), (None, "a b".into()));
        assert_eq!(of("ssh", two(), None), (None, "ssh".into()));
    }

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
