//! The flags of a container that a command makes, as far as they certainly are its flags.

use super::engine::{Told, Verbs};
use super::guard;
use super::programs::RUNS_IN_CONTAINERS;
use crate::request::CommandTemplate;
use crate::template::{Filler, Part, Slot, SlotType};

/// Flags of `create` and `run` that take no value.
const ALONE: [&str; 11] = [
    "--detach",
    "--init",
    "--interactive",
    "--privileged",
    "--quiet",
    "--read-only",
    "--rm",
    "--tty",
    "-d",
    "-i",
    "-t",
];
/// Such as take the next word.
const TAKES: [&str; 27] = [
    "--cpu-period",
    "--cpu-quota",
    "--cpu-shares",
    "--cpus",
    "--cpuset-cpus",
    "--cpuset-mems",
    "--entrypoint",
    "--env",
    "--hostname",
    "--label",
    "--memory",
    "--memory-reservation",
    "--memory-swap",
    "--memory-swappiness",
    "--name",
    "--net",
    "--network",
    "--platform",
    "--pull",
    "--user",
    "--volume",
    "--workdir",
    "-c",
    "-e",
    "-m",
    "-u",
    "-w",
];

/// A flag with a value, as it certainly stands before an image.
pub(super) struct Flag<'a> {
    pub(super) name: &'a str,
    pub(super) value: Value<'a>,
    /// Whether it is always there.
    pub(super) is_fixed: bool,
}

impl Flag<'_> {
    /// Who says what it is, or whether it is there.
    pub(super) fn filler(&self) -> Filler {
        match self.value {
            // What is there or not has a slot, or is one of a choice of the plugin's.
            Value::Fixed(_) if !self.is_fixed => Filler::Plugin,
            Value::Fixed(_) => Filler::Host,
            Value::Option(_) => Filler::User,
            Value::Other(filler) => filler,
        }
    }
}

pub(super) enum Value<'a> {
    Fixed(&'a str),
    Option(&'a str),
    /// With the one who fills most of it in, the plugin first.
    Other(Filler),
}

/// The flags of a container that an engine is certainly told to make; none where anything before its image
/// may be several words, or the image or not, or where it is not certain that an engine reads them.
pub(super) fn flags<'a>(
    command: &'a CommandTemplate,
    told: &Told,
    verbs: &Verbs<'_>,
) -> Option<Vec<Flag<'a>>> {
    let programs = command.programs();
    let is_engine = !programs.is_empty() && programs.iter().all(|name| RUNS_IN_CONTAINERS.contains(name));
    let is_known = is_engine && told.at == Some(0) && verbs.is_one_of(&["container", "create", "run"]);
    read(command, verbs.behind.filter(|_| is_known)?)
}

/// The flags from the word `behind` to the image.
fn read(command: &CommandTemplate, behind: usize) -> Option<Vec<Flag<'_>>> {
    let is_word = |slot: &Slot| match &slot.kind {
        SlotType::Option(option) => guard::is_word(command, option),
        kind => {
            !slot.many
                && (kind.filler() == Filler::Plugin || matches!(kind, SlotType::Machine | SlotType::Run))
                && !matches!(kind, SlotType::Enum(_))
        }
    };
    let mut out = Vec::new();
    let mut elements = command.template.elements().get(behind..)?.iter();
    while let Some(element) = elements.next() {
        let is_fixed = !element.optional;
        match element.parts.as_slice() {
            [Part::Literal(text)] if text.starts_with('-') => {
                if let Some((name, value)) = text.split_once('=') {
                    out.push(Flag { name, value: Value::Fixed(value), is_fixed });
                } else if stands_alone(text) {
                    out.push(Flag { name: text, value: Value::Fixed(""), is_fixed });
                } else if let Some(value) = text.strip_prefix("-m").filter(|value| !value.is_empty()) {
                    out.push(Flag { name: "-m", value: Value::Fixed(value), is_fixed });
                } else if TAKES.contains(&text.as_str()) && is_fixed {
                    let value = elements.next().filter(|value| !value.optional)?;
                    let value = match value.parts.as_slice() {
                        [Part::Literal(value)] => Value::Fixed(value),
                        parts @ [Part::Slot(slot)] if is_word(slot) => filled(parts),
                        _ => return None,
                    };
                    out.push(Flag { name: text, value, is_fixed });
                } else {
                    return None;
                }
            }
            // A literal to its `=` is one flag, whatever is behind.
            [Part::Literal(text), behind @ ..] if text.starts_with("--") && text.contains('=') => {
                let (name, value) = text.split_once('=')?;
                let value = if value.is_empty() { filled(behind) } else { other(behind) };
                out.push(Flag { name, value, is_fixed });
            }
            [Part::Literal(text)] if is_fixed && !text.is_empty() => return Some(out),
            [Part::Slot(Slot { kind: SlotType::Enum(words), .. })] => {
                for word in words {
                    let (name, value) = word.split_once('=').unwrap_or((word, ""));
                    let is_flag = word.starts_with('-') && (word.contains('=') || ALONE.contains(&name));
                    is_flag.then_some(())?;
                    out.push(Flag { name, value: Value::Fixed(value), is_fixed: false });
                }
            }
            // A plugin's value begins with no dash.
            [Part::Slot(slot)] if is_fixed && is_word(slot) => return Some(out),
            _ => return None,
        }
    }
    None
}

/// The value that these parts are.
fn filled(parts: &[Part]) -> Value<'_> {
    match parts {
        [Part::Slot(Slot { kind: SlotType::Option(option), .. })] => Value::Option(option),
        _ => other(parts),
    }
}

fn other<'a>(parts: &[Part]) -> Value<'a> {
    let fills = |filler: &Filler| {
        parts.iter().any(|part| matches!(part, Part::Slot(slot) if slot.kind.filler() == *filler))
    };
    let filler = [Filler::Plugin, Filler::User].into_iter().find(fills);
    Value::Other(filler.unwrap_or(Filler::Host))
}

/// Whether a flag takes no value, and is no other.
pub(super) fn stands_alone(text: &str) -> bool {
    is_short(text) || ALONE.contains(&text)
}

/// Letters that take no value.
fn is_short(text: &str) -> bool {
    text.len() > 1 && text[1..].chars().all(|letter| "dit".contains(letter))
}
