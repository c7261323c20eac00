//! From an object of any shape to a case.

use mst_sdk::dataset::{Case, Error, File, Message};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::field::Field;
use crate::options::{Choice, ExpectedFields, Fields};
use crate::workspace_path;

/// Which field is which part of a case.
pub(crate) struct Mapping {
    id: Field,
    prompt: Field,
    expected: Part<Expected>,
    metadata: Part<Vec<Optional>>,
    tags: Part<Field>,
    files: Part<Vec<(String, Field)>>,
    deadline: Part<Optional>,
}

/// A part that a case need not have.
enum Part<T> {
    /// In the field of the part's own name, where there is one.
    OwnName(Field),
    None,
    Named(T),
}

enum Expected {
    One(Field),
    Object(Vec<(String, Field)>),
}

/// A field that a case may lack, though the user named it. One that no case has is a wrong
/// name, which would otherwise lose the part without a word.
struct Optional {
    field: Field,
    seen: bool,
}

impl Optional {
    fn find<'v>(&mut self, object: &'v Value) -> Option<&'v Value> {
        let value = self.field.find(object);
        self.seen |= value.is_some();
        value
    }
}

fn part<T, U>(choice: Choice<T>, name: &str, named: impl FnOnce(T) -> U) -> Part<U> {
    match choice {
        Choice::OwnName => Part::OwnName(Field::new(name, format!("fields.{name}"))),
        Choice::None => Part::None,
        Choice::Named(value) => Part::Named(named(value)),
    }
}

fn optional(name: String, option: &str) -> Optional {
    Optional { field: Field::new(name, option), seen: false }
}

impl Mapping {
    /// Refuses paths that no workspace has.
    pub(crate) fn new(fields: Fields) -> Result<Self, Error> {
        if let Choice::Named(files) = &fields.files {
            for path in files.keys() {
                if let Some(why) = workspace_path::fault(path) {
                    return Err(Error::invalid(format!(
                        "the option `fields.files` names `{}`, which is no path in a workspace: {why}",
                        path.escape_debug()
                    )));
                }
            }
        }
        let each = |names: std::collections::BTreeMap<String, String>, option: &str| -> Vec<_> {
            names
                .into_iter()
                .map(|(name, field)| (name.clone(), Field::new(field, format!("{option}.{name}"))))
                .collect()
        };
        Ok(Self {
            id: Field::new(fields.id.unwrap_or("id".into()), "fields.id"),
            prompt: Field::new(fields.prompt.unwrap_or("prompt".into()), "fields.prompt"),
            expected: part(fields.expected, "expected", |expected| match expected {
                ExpectedFields::One(field) => Expected::One(Field::new(field, "fields.expected")),
                ExpectedFields::Object(fields) => Expected::Object(each(fields, "fields.expected")),
            }),
            metadata: part(fields.metadata, "metadata", |names| {
                names.into_iter().map(|name| optional(name, "fields.metadata")).collect()
            }),
            tags: part(fields.tags, "tags", |name| Field::new(name, "fields.tags")),
            files: part(fields.files, "files", |files| each(files, "fields.files")),
            deadline: part(fields.deadline_ms, "deadline_ms", |name| optional(name, "fields.deadline_ms")),
        })
    }

    /// The case that an object is; else what is wrong with it.
    pub(crate) fn case(&mut self, object: &Value) -> Result<Case, String> {
        Ok(Case {
            id: self.id(object)?,
            prompt: self.prompt(object)?,
            files: self.files(object)?,
            expected: self.expected(object)?,
            tags: self.tags(object)?,
            metadata: self.metadata(object)?,
            deadline_ms: self.deadline(object)?,
        })
    }

    /// After the last case: what was named and never there.
    pub(crate) fn never_seen(&self) -> Option<String> {
        let metadata = if let Part::Named(fields) = &self.metadata { &fields[..] } else { &[] };
        let deadline = if let Part::Named(field) = &self.deadline { Some(field) } else { None };
        let field = metadata.iter().chain(deadline).find(|optional| !optional.seen)?;
        Some(format!("no case has the field {}", field.field))
    }

    fn id(&self, object: &Value) -> Result<String, String> {
        let id = match self.id.get(object)? {
            Value::String(id) => id.clone(),
            Value::Number(number) if !number.is_f64() => number.to_string(),
            other => return Err(self.id.wrong("a string or a whole number", other)),
        };
        if id.is_empty() || id.len() > 256 || id.chars().any(char::is_control) {
            let id = id.chars().take(64).collect::<String>();
            return Err(format!(
                "the field {} is `{}`, and an id must have 1 to 256 bytes and no control characters",
                self.id,
                id.escape_debug()
            ));
        }
        Ok(id)
    }

    fn prompt(&self, object: &Value) -> Result<Vec<Message>, String> {
        match self.prompt.get(object)? {
            Value::String(text) => Ok(vec![Message::new(mst_sdk::Role::User, text)]),
            Value::Array(messages) if messages.is_empty() => {
                Err(format!("the field {} is an empty array, and a prompt needs a message", self.prompt))
            }
            Value::Array(messages) => {
                let message = |(index, message)| {
                    Message::deserialize(message).map_err(|error| {
                        format!(
                            "message {} of the field {} must be {{\"role\": …, \"content\": …}}: {error}",
                            index + 1,
                            self.prompt
                        )
                    })
                };
                messages.iter().enumerate().map(message).collect()
            }
            other => Err(self.prompt.wrong("a string or an array of messages", other)),
        }
    }

    fn expected(&self, object: &Value) -> Result<Option<Value>, String> {
        match &self.expected {
            Part::OwnName(field) => Ok(field.find(object).cloned()),
            Part::None => Ok(None),
            Part::Named(Expected::One(field)) => field.get(object).cloned().map(Some),
            Part::Named(Expected::Object(fields)) => {
                let members =
                    fields.iter().map(|(name, field)| Ok((name.clone(), field.get(object)?.clone())));
                Ok(Some(Value::Object(members.collect::<Result<_, String>>()?)))
            }
        }
    }

    fn metadata(&mut self, object: &Value) -> Result<Map<String, Value>, String> {
        match &mut self.metadata {
            Part::OwnName(field) => {
                match field.find(object) {
                    None | Some(Value::Null) => Ok(Map::new()),
                    Some(Value::Object(members)) => Ok(members.clone()),
                    Some(other) => Err(field
                        .wrong("an object (or name other fields in that option, or null for none)", other)),
                }
            }
            Part::None => Ok(Map::new()),
            Part::Named(fields) => {
                let members =
                    fields.iter_mut().filter_map(|it| Some((it.field.own_name(), it.find(object)?.clone())));
                Ok(members.collect())
            }
        }
    }

    fn tags(&self, object: &Value) -> Result<Vec<String>, String> {
        let (field, value) = match &self.tags {
            Part::OwnName(field) => (field, field.find(object)),
            Part::None => return Ok(Vec::new()),
            Part::Named(field) => (field, Some(field.get(object)?)),
        };
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(tag)) => Ok(vec![tag.clone()]),
            Some(Value::Array(tags)) => {
                let tag = |tag: &Value| {
                    tag.as_str().map(str::to_owned).ok_or_else(|| field.wrong("a list of strings only", tag))
                };
                tags.iter().map(tag).collect()
            }
            Some(other) => {
                Err(field.wrong("a string or a list of strings (null in that option for none)", other))
            }
        }
    }

    fn files(&self, object: &Value) -> Result<Vec<File>, String> {
        match &self.files {
            Part::OwnName(field) => match field.find(object) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(files) => {
                    let files: Vec<File> = Vec::deserialize(files).map_err(|error| {
                        format!("the field {field} must be a list of {{\"path\": …, \"content\": …}} (null in that option for none): {error}")
                    })?;
                    for file in &files {
                        if let Some(why) = workspace_path::fault(&file.path) {
                            let path = file.path.chars().take(128).collect::<String>();
                            return Err(format!(
                                "the field {field} names `{}`, which is no path in a workspace: {why}",
                                path.escape_debug()
                            ));
                        }
                    }
                    Ok(files)
                }
            },
            Part::None => Ok(Vec::new()),
            Part::Named(files) => files
                .iter()
                .map(|(path, field)| {
                    let content = field.string(field.get(object)?)?.as_bytes().to_vec();
                    Ok(File { path: path.clone(), content, executable: false })
                })
                .collect(),
        }
    }

    fn deadline(&mut self, object: &Value) -> Result<Option<u64>, String> {
        let (field, value) = match &mut self.deadline {
            Part::OwnName(field) => (&*field, field.find(object)),
            Part::None => return Ok(None),
            Part::Named(optional) => {
                let value = optional.find(object);
                (&optional.field, value)
            }
        };
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(ms @ 1..) => Ok(Some(ms)),
                _ => Err(format!(
                    "the field {field} is `{value}`, and must be a whole number of milliseconds, 1 or more"
                )),
            },
        }
    }
}
