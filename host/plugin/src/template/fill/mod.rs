//! From a `Template` and values to an argv.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Element, Filler, Part, Slot, SlotType, Template};
use crate::legible::{listed, shown};

/// The most arguments of one filled template.
const MAX_ARGUMENTS: usize = 1024;
/// The longest filled template, in bytes: half of what Linux takes.
const MAX_TOTAL_BYTES: usize = 1024 * 1024;
/// The longest user's option in a template, all its items together, in bytes.
const MAX_OPTION_BYTES: usize = 64 * 1024;

/// What the host fills in. A template that asks for what is not here can't be filled in this call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostValues {
    /// For `{machine}`.
    pub machine: Option<String>,
    /// For `{run}`.
    pub run: Option<String>,
    /// For `{name:host-dir}`, by the slot's name: absolute paths.
    pub directories: BTreeMap<String, String>,
    /// For `{command...}` and `{command:shell}`: the program and its arguments.
    pub command: Option<Vec<String>>,
}

/// Why a template could not be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The plugin filled a slot that the template does not have.
    #[error("the template has no slot `{slot}`")]
    NoSuchSlot {
        /// What was named.
        slot: String,
        /// What the plugin could have filled.
        known: Vec<String>,
    },
    /// The plugin filled what is not its to fill.
    #[error("slot `{slot}` is `{kind}`, which {} fills in, never the plugin", filler(*.by))]
    NotThePlugins {
        /// Which.
        slot: String,
        /// Its type, as in the manifest.
        kind: String,
        /// Whose it is.
        by: Filler,
    },
    /// The plugin filled a slot twice.
    #[error("slot `{0}` is filled twice")]
    Twice(String),
    /// Several values for a slot that takes one.
    #[error("slot `{slot}` takes one value, and was given {count}")]
    OneValue {
        /// Which.
        slot: String,
        /// How many were given.
        count: usize,
    },
    /// No value for a slot outside of a group.
    #[error("slot `{slot}` is not filled, and is not in a `[...]` group")]
    NotFilled {
        /// Which.
        slot: String,
        /// Who should have.
        by: Filler,
    },
    /// Some of a group's slots filled, and some not.
    #[error("slot `{empty}` is not filled, and its `[...]` group has another that is")]
    HalfFilled {
        /// The one that is not.
        empty: String,
    },
    /// A value that its slot does not admit.
    #[error("value `{value}` for slot `{slot}` is not admitted by `{kind}`: {why}")]
    Value {
        /// Which slot.
        slot: String,
        /// Its type, as in the manifest.
        kind: String,
        /// The value, bounded and escaped.
        value: String,
        /// The rule that it breaks.
        why: String,
    },
    /// A user's option that can't stand in a command.
    #[error("option `{option}` can't stand in a command: {why}")]
    Option {
        /// Which.
        option: String,
        /// Why not.
        why: String,
    },
    /// A value of the host's that can't stand in a command.
    #[error("the host's value for slot `{slot}` can't stand in a command: {why}")]
    Host {
        /// Which.
        slot: String,
        /// Why not.
        why: &'static str,
    },
    /// A program that is none.
    #[error("`{0}` is no program")]
    Program(String),
    /// More than a system takes.
    #[error(
        "the command has {arguments} arguments and {bytes} bytes; at most {MAX_ARGUMENTS} and {MAX_TOTAL_BYTES} are admitted"
    )]
    TooLarge {
        /// How many arguments.
        arguments: usize,
        /// How many bytes in all.
        bytes: usize,
    },
}

fn filler(by: Filler) -> &'static str {
    match by {
        Filler::Plugin => "the plugin",
        Filler::User => "the user",
        Filler::Host => "the host",
    }
}

impl FillError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            FillError::NoSuchSlot { slot, known } => {
                Some(match mst_model::schema::near(slot, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "it has none that the plugin fills".to_owned(),
                    None => format!("it has {}", listed(known.iter().map(String::as_str))),
                })
            }
            FillError::NotFilled { slot, by: Filler::User } => {
                Some(format!("the user sets it with the option `{slot}`"))
            }
            FillError::NotFilled { by: Filler::Host, .. } => {
                Some("the host has no value for it in this call; use another template here".to_owned())
            }
            _ => None,
        }
    }
}

/// The values of one slot, ready to stand in an argument.
type Values = BTreeMap<String, Vec<String>>;

pub(super) fn fill(
    template: &Template,
    given: &[(String, Vec<String>)],
    options: &Value,
    host: &HostValues,
) -> Result<Vec<String>, FillError> {
    let mut values = plugin_values(template, given)?;
    for slot in template.slots() {
        match slot.kind.filler() {
            Filler::Plugin => {}
            Filler::User => {
                if let Some(items) = option_values(slot, options)? {
                    values.insert(slot.name.clone(), items);
                }
            }
            Filler::Host => {
                values.insert(slot.name.clone(), host_values(slot, host)?);
            }
        }
    }
    let mut argv = Vec::new();
    let mut bytes = 0;
    for element in template.elements() {
        let from = argv.len();
        push(element, &values, &mut argv)?;
        if argv.is_empty() {
            // The user's empty list where the program stands: the next element, which the plugin
            // may fill, must not take its place.
            return Err(FillError::Program(String::new()));
        }
        // Before the next one, so that a thousand slots can't name one long value first.
        bytes += argv[from..].iter().map(|argument| argument.len() + 1).sum::<usize>();
        if argv.len() > MAX_ARGUMENTS || bytes > MAX_TOTAL_BYTES {
            return Err(FillError::TooLarge { arguments: argv.len(), bytes });
        }
    }
    match argv.first() {
        Some(program) if !program.is_empty() && !program.starts_with('-') && !program.contains('\n') => {
            Ok(argv)
        }
        program => Err(FillError::Program(shown(program.map_or("", String::as_str), 80))),
    }
}

/// The plugin's values, each held to its slot's type.
fn plugin_values(template: &Template, given: &[(String, Vec<String>)]) -> Result<Values, FillError> {
    let mut values = Values::new();
    let mut seen = BTreeSet::new();
    for (name, items) in given {
        let Some(slot) = template.slots().find(|slot| slot.name == *name) else {
            let mine = template.slots().filter(|slot| slot.kind.filler() == Filler::Plugin);
            let known: BTreeSet<String> = mine.map(|slot| slot.name.clone()).collect();
            return Err(FillError::NoSuchSlot { slot: shown(name, 64), known: known.into_iter().collect() });
        };
        let by = slot.kind.filler();
        if by != Filler::Plugin {
            return Err(FillError::NotThePlugins { slot: name.clone(), kind: slot.kind.to_string(), by });
        }
        if !seen.insert(name) {
            return Err(FillError::Twice(name.clone()));
        }
        if !slot.many && items.len() > 1 {
            return Err(FillError::OneValue { slot: name.clone(), count: items.len() });
        }
        if items.len() > MAX_ARGUMENTS {
            return Err(FillError::TooLarge {
                arguments: items.len(),
                bytes: items.iter().map(String::len).sum(),
            });
        }
        for item in items {
            admit(template, slot, item)?;
        }
        values.insert(name.clone(), items.clone());
    }
    Ok(values)
}

fn admit(template: &Template, slot: &Slot, value: &str) -> Result<(), FillError> {
    let refused = |why: String| FillError::Value {
        slot: slot.name.clone(),
        kind: slot.kind.to_string(),
        value: shown(value, 80),
        why,
    };
    if value.len() > Template::MAX_BYTES {
        return Err(refused(format!(
            "it has {} bytes; at most {} are admitted",
            value.len(),
            Template::MAX_BYTES
        )));
    }
    if value.chars().any(char::is_control) {
        return Err(refused("it holds a control character".to_owned()));
    }
    if !slot.kind.admits(value) {
        return Err(refused(format!("it must be {}", slot.kind.rule())));
    }
    // Only words that stand in the manifest may look like a program's option. An expression does
    // not count: `.*` is written sooner than what it admits is thought through.
    let begins = template
        .elements()
        .iter()
        .any(|element| matches!(element.parts.first(), Some(Part::Slot(first)) if first.name == slot.name));
    if begins && value.starts_with('-') && !matches!(slot.kind, SlotType::Enum(_)) {
        return Err(refused("it starts with `-`, which the program would take for an option".to_owned()));
    }
    Ok(())
}

/// The user's own words: anything but NUL. None where the option is not set.
fn option_values(slot: &Slot, options: &Value) -> Result<Option<Vec<String>>, FillError> {
    let SlotType::Option(name) = &slot.kind else { return Ok(None) };
    let refused = |why: String| FillError::Option { option: name.clone(), why };
    let values = match options.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Number(number)) => vec![number.to_string()],
        Some(Value::Bool(flag)) => vec![flag.to_string()],
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| refused("it is a list of something else than strings".to_owned()))?,
        Some(Value::Object(_)) => return Err(refused("it is an object".to_owned())),
    };
    if values.iter().any(|value| value.contains('\0')) {
        return Err(refused("it holds a NUL".to_owned()));
    }
    let bytes: usize = values.iter().map(String::len).sum();
    if bytes > MAX_OPTION_BYTES {
        return Err(refused(format!("it has {bytes} bytes; at most {MAX_OPTION_BYTES} are admitted")));
    }
    Ok(Some(values))
}

/// The host's values. They are checked too: a fault of the host's must not become a command.
fn host_values(slot: &Slot, host: &HostValues) -> Result<Vec<String>, FillError> {
    let refused = |why| FillError::Host { slot: slot.name.clone(), why };
    let name = |value: &Option<String>| match value {
        None => Ok(Vec::new()),
        Some(name)
            if (1..=128).contains(&name.len())
                && !name.starts_with('-')
                && name.chars().all(|c| slot.kind.may_hold(c)) =>
        {
            Ok(vec![name.clone()])
        }
        Some(_) => Err(refused("a name is 1 to 128 of `a-z`, `0-9` and `-`, and does not start with `-`")),
    };
    let command = |command: &Option<Vec<String>>| match command {
        None => Ok(Vec::new()),
        Some(words) => match words.first() {
            Some(program) if program.is_empty() || program.starts_with('-') => {
                Err(refused("its program is none"))
            }
            None => Err(refused("it is empty")),
            Some(_) if words.iter().any(|word| word.contains('\0')) => Err(refused("it holds a NUL")),
            Some(_) => Ok(words.clone()),
        },
    };
    match &slot.kind {
        SlotType::Machine => name(&host.machine),
        SlotType::Run => name(&host.run),
        SlotType::CommandArgs => command(&host.command),
        SlotType::CommandShell => Ok(match command(&host.command)? {
            words if words.is_empty() => Vec::new(),
            words => vec![words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")],
        }),
        SlotType::HostDir => match host.directories.get(&slot.name) {
            None => Ok(Vec::new()),
            Some(path) if !path.starts_with('/') => Err(refused("it is no absolute path")),
            Some(path) if path.chars().any(char::is_control) => {
                Err(refused("the path holds a control character"))
            }
            Some(path) => Ok(vec![path.clone()]),
        },
        _ => Ok(Vec::new()),
    }
}

/// `word` as a POSIX shell reads it back, whatever it holds. An `=` is quoted too: a command's
/// first word would be an assignment with it.
fn quoted(word: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | ',' | '@' | '%' | '+')
    };
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Adds an element's arguments: none where its group is left out.
fn push(element: &Element, values: &Values, argv: &mut Vec<String>) -> Result<(), FillError> {
    let of = |slot: &Slot| values.get(&slot.name).map_or(&[][..], Vec::as_slice);
    // The user's empty text leaves a group out as no text does; a plugin's is a value like others.
    let is_empty = |slot: &Slot| match of(slot) {
        [] => true,
        [text] => element.optional && slot.kind.filler() == Filler::User && text.is_empty(),
        _ => false,
    };
    if let Some(empty) = element.slots().find(|slot| is_empty(slot)) {
        let by = empty.kind.filler();
        if !element.optional {
            // A list that the user left empty is no arguments; one that was never set is an error.
            if by == Filler::User && element.whole().is_some() && values.contains_key(&empty.name) {
                return Ok(());
            }
            return Err(FillError::NotFilled { slot: empty.name.clone(), by });
        }
        let filled = |slot: &Slot| slot.kind.filler() == Filler::Plugin && !is_empty(slot);
        return if element.slots().any(filled) {
            Err(FillError::HalfFilled { empty: empty.name.clone() })
        } else {
            Ok(())
        };
    }
    if let Some(slot) = element.whole() {
        argv.extend_from_slice(of(slot));
        return Ok(());
    }
    let mut argument = String::new();
    for part in &element.parts {
        match part {
            Part::Literal(text) => argument.push_str(text),
            Part::Slot(slot) => match of(slot) {
                [value] => argument.push_str(value),
                values => return Err(several(slot, values.len())),
            },
        }
    }
    argv.push(argument);
    Ok(())
}

fn several(slot: &Slot, count: usize) -> FillError {
    match &slot.kind {
        SlotType::Option(name) => FillError::Option {
            option: name.clone(),
            why: format!("it is a list of {count}, where one word is wanted"),
        },
        _ => FillError::OneValue { slot: slot.name.clone(), count },
    }
}

#[cfg(test)]
mod tests;
