//! Values held to their JSON Schemas, with problems that a person can act on.
//!
//! One checker serves the eval config and every plugin's options, so that a mistyped key reads
//! the same everywhere.

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Something in a value that its schema does not admit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, as `judges[0].options.mode`; empty for the value as a whole.
    pub at: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it, where that is known.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "`{}`: ", self.at)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// A schema that is none.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON Schema: {0}")]
pub struct SchemaError(String);

/// Says whether `schema` is a JSON Schema at all.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    validator(schema).map(drop)
}

/// Patterns run in linear time: a schema may be a stranger's, and must not hang its reader.
fn validator(schema: &Value) -> Result<Validator, SchemaError> {
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| SchemaError(bounded(&error.to_string())))
}

/// All that is wrong with `value`, in the order of the schema.
pub fn check(schema: &Value, value: &Value) -> Result<Vec<Problem>, SchemaError> {
    let validator = validator(schema)?;
    let mut problems = Vec::new();
    for error in validator.iter_errors(value) {
        explain(schema, &error, &mut problems);
    }
    Ok(problems)
}

/// The strings in `value` that hold a NUL, which no program, path or variable can be given. `at` is
/// where the value stands.
pub fn with_nul(at: &str, value: &Value) -> Vec<Problem> {
    let (mut problems, mut values) = (Vec::new(), vec![(at.to_owned(), value)]);
    while let Some((at, value)) = values.pop() {
        match value {
            Value::String(text) if text.contains('\0') => {
                let message = "it holds a NUL, which no program can be given".to_owned();
                problems.push(Problem { at, message, hint: None });
            }
            Value::Array(items) => {
                values.extend(items.iter().enumerate().map(|(n, item)| (format!("{at}[{n}]"), item)));
            }
            Value::Object(fields) => {
                values.extend(fields.iter().map(|(key, field)| (format!("{at}.{key}"), field)));
            }
            _ => {}
        }
    }
    problems.sort_by(|one, other| one.at.cmp(&other.at));
    problems
}

fn explain(schema: &Value, error: &ValidationError<'_>, problems: &mut Vec<Problem>) {
    let at = dotted(error.instance_path().as_str());
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = known_keys(schema, error.schema_path().as_str());
            problems.extend(unexpected.iter().map(|key| unknown_key(&at, key, &known)));
        }
        ValidationErrorKind::Required { property } => {
            let message = format!("`{}` is missing", property.as_str().unwrap_or_default());
            problems.push(Problem { at, message, hint: None });
        }
        ValidationErrorKind::Enum { options } => {
            let names: Vec<&str> =
                options.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            problems.push(none_of(at, error.instance(), &names));
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let constants: Vec<&str> = context
                .iter()
                .flatten()
                .filter_map(|error| match error.kind() {
                    ValidationErrorKind::Constant { expected_value } => expected_value.as_str(),
                    _ => None,
                })
                .collect();
            // A branch that wants another type was not meant; where one is left, its errors are
            // the ones to show.
            let meant: Vec<_> = context
                .iter()
                .filter(|branch| !branch.iter().any(|inner| wants_another_type(error, inner)))
                .collect();
            match meant[..] {
                _ if constants.len() == context.len() => {
                    problems.push(none_of(at, error.instance(), &constants))
                }
                [branch] => branch.iter().for_each(|inner| explain(schema, inner, problems)),
                _ => problems.push(Problem { at, message: bounded(&error.to_string()), hint: None }),
            }
        }
        _ => problems.push(Problem { at, message: bounded(&error.to_string()), hint: None }),
    }
}

fn wants_another_type(outer: &ValidationError<'_>, inner: &ValidationError<'_>) -> bool {
    matches!(inner.kind(), ValidationErrorKind::Type { .. }) && inner.instance_path() == outer.instance_path()
}

fn none_of(at: String, given: &Value, names: &[&str]) -> Problem {
    let near = near(given.as_str().unwrap_or_default(), names.iter().copied());
    Problem {
        message: format!("{} is none of {}", shown(given), listed(names)),
        hint: near.map(|near| format!("did you mean `{near}`?")),
        at,
    }
}

/// `options` with what its schema says of properties that are not set. The schema's own properties
/// only: what lies deeper is the plugin's to read.
pub fn with_defaults(schema: &Value, options: &Map<String, Value>) -> Map<String, Value> {
    let mut options = options.clone();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default") {
            options.entry(name.clone()).or_insert_with(|| default.clone());
        }
    }
    options
}

/// Reads `value` as a `T` after holding it to `T`'s schema.
pub fn read<T: JsonSchema + DeserializeOwned>(value: &Value) -> Result<T, Vec<Problem>> {
    let schema = schemars::schema_for!(T);
    let problems = match check(schema.as_value(), value) {
        Ok(problems) => problems,
        Err(error) => {
            return Err(vec![Problem { at: String::new(), message: error.to_string(), hint: None }]);
        }
    };
    // A pattern is for editors; the type that it describes says in words what is wrong.
    let (patterns, others): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.message.contains(" does not match "));
    if !others.is_empty() {
        return Err(others);
    }
    // What a schema can't say (a length of time, an id's parts) is said by the types.
    match serde_path_to_error::deserialize(value) {
        Ok(_) if !patterns.is_empty() => Err(patterns),
        Ok(read) => Ok(read),
        Err(error) => {
            let at = match error.path().to_string() {
                whole if whole == "." => String::new(),
                path => path,
            };
            Err(vec![Problem { at, message: bounded(&error.inner().to_string()), hint: None }])
        }
    }
}

/// The key of `known` that `key` was probably meant to be.
pub fn near<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (strsim::damerau_levenshtein(key, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(key.len()) / 4)
        .min()
        .map(|(_, name)| name)
}

fn unknown_key(at: &str, key: &str, known: &[&str]) -> Problem {
    let hint = match near(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "no keys are admitted here".to_owned(),
        None => format!("known keys: {}", listed(known)),
    };
    let key: String = key.chars().take(64).collect();
    Problem { at: at.to_owned(), message: format!("unknown key `{}`", key.escape_debug()), hint: Some(hint) }
}

/// The property names that stand beside the `additionalProperties` at `path` in `schema`.
fn known_keys<'a>(schema: &'a Value, path: &str) -> Vec<&'a str> {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    schema
        .pointer(parent)
        .and_then(|object| object.get("properties"))
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn shown(value: &Value) -> String {
    format!("`{}`", bounded(value.as_str().unwrap_or(&value.to_string())))
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A JSON Pointer as people write a place in a config: `/judges/0/options` is `judges[0].options`.
fn dotted(pointer: &str) -> String {
    let mut out = String::new();
    for part in pointer.split('/').skip(1) {
        if !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()) {
            out.push_str(&format!("[{part}]"));
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&part.replace("~1", "/").replace("~0", "~"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn problems_say_where_what_and_how_to_mend_it() {
        let schema = json!({
            "type": "object",
            "properties": {
                "mode": {"enum": ["exact", "contains"]},
                "tolerance": {"type": "number"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            },
            "required": ["mode"],
            "additionalProperties": false,
            "$defs": {"item": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": false}},
        });
        let said = |value: Value| {
            let problems = check(&schema, &value).expect("a schema");
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            said(json!({"mode": "exact", "tolerence": 1})),
            ["unknown key `tolerence` (did you mean `tolerance`?)"]
        );
        assert_eq!(
            said(json!({"mode": "exat"})),
            ["`mode`: `exat` is none of `exact`, `contains` (did you mean `exact`?)"]
        );
        assert_eq!(said(json!({})), ["`mode` is missing"]);
        assert_eq!(
            said(json!({"mode": "exact", "list": [{"name": "a"}, {"nmae": "b"}]})),
            ["`list[1]`: unknown key `nmae` (did you mean `name`?)"]
        );
        assert_eq!(
            said(json!({"mode": "exact", "tolerance": "1"})),
            [r#"`tolerance`: "1" is not of type "number""#]
        );
        assert!(said(json!({"mode": "contains", "tolerance": 0.5})).is_empty());
    }

    #[test]
    fn defaults_fill_only_what_is_not_set() {
        let schema = json!({"properties": {"a": {"default": 1}, "b": {"default": "x"}, "c": {}}});
        let options = json!({"b": "y"});
        let filled = with_defaults(&schema, options.as_object().expect("an object"));
        assert_eq!(Value::Object(filled), json!({"a": 1, "b": "y"}));
    }

    #[test]
    fn a_pattern_can_not_hang_its_reader() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
        let value = json!({"a": format!("{}!", "a".repeat(10_000))});
        assert_eq!(check(&schema, &value).expect("a schema").len(), 1);
        // What only a backtracking engine can do is no pattern.
        assert!(check_schema(&json!({"type": "string", "pattern": "(?=a)"})).is_err());
    }

    #[test]
    fn a_schema_that_is_none_is_an_error() {
        assert!(check(&json!({"type": "no-such-type"}), &json!({})).is_err());
    }
}
