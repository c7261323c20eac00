//! The options of a page: what each may be, and who holds the plugin to it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Line, Page};
use crate::legible::{code, quotation, shown};
use crate::request::Request;
use crate::template::SlotType;

/// Of an option that stands in no command and names no directory.
pub(super) const FREE: &str = "the plugin reads it, and does with it what it likes";

/// An option on the page.
pub(super) struct OptionRow {
    pub(super) name: String,
    /// What it may be.
    pub(super) rule: String,
    /// What the plugin says of it, as a quotation.
    pub(super) about: Option<String>,
    /// Whether what it does is the plugin's alone to say.
    pub(super) free: bool,
}

impl Page {
    /// Each option, with what it may be and what the plugin says of it.
    pub(super) fn option_rows(&self) -> Vec<OptionRow> {
        let properties = self.options.get("properties").and_then(Value::as_object);
        let required = self.options.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        let free = &self.summary.free_options;
        let row = |(name, schema): (&String, &Value)| OptionRow {
            name: shown(name, 64),
            rule: rule(schema, required.contains(&name.as_str())),
            about: schema.get("description").and_then(Value::as_str).map(|about| quotation(about, 2000)),
            free: free.contains(name),
        };
        properties.into_iter().flatten().map(row).collect()
    }

    /// The options that mst does not hold the plugin to.
    pub(super) fn free_options(&self) -> Vec<String> {
        let held = self.held_options();
        let properties = self.options.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flatten().map(|(name, _)| name);
        names.filter(|name| !held.contains(name.as_str())).cloned().collect()
    }

    /// The options that mst itself puts into a command, or takes for a directory.
    fn held_options(&self) -> BTreeSet<&str> {
        let in_commands = self.requests.iter().filter_map(Line::command);
        let slots = in_commands.flat_map(|command| command.template.slots());
        let in_commands = slots.filter_map(|slot| match &slot.kind {
            SlotType::Option(name) => Some(name.as_str()),
            _ => None,
        });
        let dirs = self.requests.iter().filter_map(|line| match &line.request {
            Request::Dir(dir) => dir.option.as_deref(),
            _ => None,
        });
        in_commands.chain(dirs).collect()
    }
}

/// What of a schema is told in words, or says nothing of what is admitted.
const TOLD: [&str; 19] = [
    "$comment",
    "const",
    "default",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "title",
];

/// What an option may be, and what it is where nobody sets it.
fn rule(schema: &Value, is_required: bool) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => code(text, crate::manifest::MAX_BYTES),
        other => code(&other.to_string(), crate::manifest::MAX_BYTES),
    };
    let mut rules = vec![kind(schema)];
    match schema.get("format").and_then(Value::as_str) {
        Some("path") => rules.push("a path on this machine".to_owned()),
        Some(format) => rules.push(shown(format, 64)),
        None => {}
    }
    if let Some(only) = schema.get("const") {
        rules.push(format!("only {}", text(only)));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        rules.push(format!("one of {}", words.iter().map(text).collect::<Vec<_>>().join(", ")));
    }
    if let Some(pattern) = schema.get("pattern") {
        rules.push(format!("matching {}", text(pattern)));
    }
    rules.extend(bounds(schema));
    if schema.as_object().is_some_and(has_more) {
        rules.push("with more in its schema (`--json`)".to_owned());
    }
    if is_required {
        rules.push("required".to_owned());
    }
    if let Some(default) = schema.get("default") {
        rules.push(format!("{} where you set none", text(default)));
    }
    rules.join(", ")
}

/// Its type, and of a list what is in it.
fn kind(schema: &Value) -> String {
    let of = |schema: &Value| match schema.get("type") {
        Some(Value::String(kind)) => Some(shown(kind, 64)),
        Some(Value::Array(kinds)) => {
            let kinds = kinds.iter().filter_map(Value::as_str).map(|kind| shown(kind, 64));
            Some(kinds.collect::<Vec<_>>().join(" or "))
        }
        _ => None,
    };
    let kind = of(schema).unwrap_or_else(|| "any".to_owned());
    match schema.get("items").and_then(of) {
        Some(item) => format!("{kind} of {item}"),
        None => kind,
    }
}

fn has_more(schema: &Map<String, Value>) -> bool {
    let items = schema.get("items").and_then(Value::as_object);
    let more_in_items = items.is_some_and(|items| items.keys().any(|key| key != "type"));
    more_in_items || schema.keys().any(|key| key != "type" && !TOLD.contains(&key.as_str()))
}

/// The bounds of numbers, of texts and of lists.
fn bounds(schema: &Value) -> Vec<String> {
    let number = |key: &str| schema.get(key).filter(|value| value.is_number()).map(ToString::to_string);
    let between = |least: &str, most: &str, of: &str| match (number(least), number(most)) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}{of}")),
        (Some(least), None) if least == "1" && !of.is_empty() => Some("not empty".to_owned()),
        (Some(least), None) => Some(format!("at least {least}{of}")),
        (None, Some(most)) => Some(format!("at most {most}{of}")),
        (None, None) => None,
    };
    let with = |key: &str, words: &str| number(key).map(|number| format!("{words} {number}"));
    let all = [
        between("minimum", "maximum", ""),
        with("exclusiveMinimum", "more than"),
        with("exclusiveMaximum", "less than"),
        with("multipleOf", "a multiple of"),
        between("minLength", "maxLength", " characters"),
        between("minItems", "maxItems", " items"),
    ];
    let mut out: Vec<String> = all.into_iter().flatten().collect();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_option_may_be_is_told_whole() {
        let all = [
            json!({"type": "integer", "minimum": 1, "maximum": 65535}),
            json!({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5, "exclusiveMaximum": 9}),
            json!({"type": "number", "minimum": -1.5}),
            json!({"type": "string", "maxLength": 512, "pattern": "^x", "description": "d", "title": "t"}),
            json!({"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1, "maxItems": 3}),
            json!({"type": ["string", "array"], "minLength": 1, "minItems": 1}),
            json!({"type": "array", "items": {"type": "string", "pattern": "x"}}),
            json!({"const": "a"}),
            json!({"type": "object", "additionalProperties": false}),
            json!({"$ref": "#/x"}),
            json!(true),
        ];
        let rules: Vec<String> = all.iter().map(|schema| rule(schema, false)).collect();
        insta::assert_snapshot!(rules.join("\n"), @"
        integer, 1 to 65535
        number, more than 0, less than 9, a multiple of 0.5
        number, at least -1.5
        string, matching `^x`, at most 512 characters
        string or array of string, 1 to 3 items
        string or array, not empty
        array of string, with more in its schema (`--json`)
        any, only `a`
        object, with more in its schema (`--json`)
        any, with more in its schema (`--json`)
        any
        ");
    }
}
