//! From the manifest's text to a `Template`.

use super::{Element, Filler, Part, Pattern, Place, Slot, SlotType, Template};
use crate::legible::{is_deceptive, listed, shown};

/// Why an argv is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Nothing in it.
    #[error("`argv` is empty: its first element names the program")]
    Empty,
    /// Too much in it.
    #[error("`argv` has {count} elements; at most {max} are admitted", max = Template::MAX_ELEMENTS)]
    TooMany {
        /// How many.
        count: usize,
    },
    /// One element that can't be read or is not safe.
    #[error("`argv[{index}]` (`{element}`): {why}")]
    Element {
        /// Which, from 0.
        index: usize,
        /// It, bounded and escaped.
        element: String,
        /// What is wrong.
        why: String,
        /// How to write it.
        hint: Option<String>,
    },
}

impl TemplateError {
    /// How to write it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            TemplateError::Empty | TemplateError::TooMany { .. } => None,
            TemplateError::Element { hint, .. } => hint.clone(),
        }
    }
}

/// What is wrong with one element, and how to write it.
struct Fault {
    why: String,
    hint: Option<String>,
}

impl Fault {
    fn new(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Fault {
        Fault { hint: Some(hint.into()), ..self }
    }
}

pub(super) fn parse<S: AsRef<str>>(argv: &[S], place: Place) -> Result<Template, TemplateError> {
    if argv.is_empty() {
        return Err(TemplateError::Empty);
    }
    if argv.len() > Template::MAX_ELEMENTS {
        return Err(TemplateError::TooMany { count: argv.len() });
    }
    let mut elements: Vec<Element> = Vec::with_capacity(argv.len());
    for (index, source) in argv.iter().enumerate() {
        let source = source.as_ref();
        let read = element(source).and_then(|element| {
            check_element(&element, place)?;
            if index == 0 {
                check_program(&element, place)?;
            }
            check_names(&element, &elements)?;
            Ok(element)
        });
        match read {
            Ok(element) => elements.push(element),
            Err(Fault { why, hint }) => {
                return Err(TemplateError::Element { index, element: shown(source, 120), why, hint });
            }
        }
    }
    Ok(Template { elements })
}

fn element(source: &str) -> Result<Element, Fault> {
    if source.len() > Template::MAX_BYTES {
        return Err(Fault::new(format!(
            "{} bytes; at most {} are admitted",
            source.len(),
            Template::MAX_BYTES
        )));
    }
    if let Some(c) = source.chars().find(|&c| is_deceptive(c) && c != '\n' && c != '\t') {
        return Err(Fault::new(format!("holds `{}`, which a reader would not see", c.escape_unicode())));
    }
    let (text, optional) = if source.starts_with("[[") {
        (&source[1..], false)
    } else if let Some(inner) = source.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or_else(|| {
            Fault::new("`[` opens a group that takes in the whole element and has to end in `]`")
                .hint("for a bracket of the text's own at the start write `[[`")
        })?;
        (inner, true)
    } else {
        (source, false)
    };
    let parts = parts(text)?;
    let element = Element { source: source.to_owned(), optional, parts };
    if optional && element.slots().next().is_none() {
        return Err(Fault::new("a group without a slot is never left out")
            .hint("leave the brackets away; for a bracket of the text's own at the start write `[[`"));
    }
    Ok(element)
}

fn parts(text: &str) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push(c);
            rest = &rest[2..];
        } else if c == '{' {
            let (body, after) = slot_body(&rest[1..])?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Slot(slot(body)?));
            rest = after;
        } else if c == '}' {
            return Err(Fault::new("`}` closes nothing").hint("for a brace of the text's own write `}}`"));
        } else {
            literal.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Ok(parts)
}

/// Divides what follows a `{` into the slot's body and what follows its `}`. An expression may
/// hold braces, so it ends at the first `/)` that a `}` or `...}` follows.
fn slot_body(text: &str) -> Result<(&str, &str), Fault> {
    let open =
        || Fault::new("`{` opens a slot that has no end").hint("for a brace of the text's own write `{{`");
    let brace = text.find('}').ok_or_else(open)?;
    let end = match text.find(":text(/") {
        Some(start) if start < brace => {
            let from = start + ":text(/".len();
            text[from..]
                .match_indices("/)")
                .map(|(at, _)| from + at + 2)
                .find_map(|at| match &text[at..] {
                    after if after.starts_with('}') => Some(at),
                    after if after.starts_with("...}") => Some(at + 3),
                    _ => None,
                })
                .ok_or_else(|| Fault::new("`text(/` has no `/)` that ends it"))?
        }
        _ => brace,
    };
    Ok((&text[..end], &text[end + 1..]))
}

const TYPES: &str = "the types are `ident`, `uint(a..b)`, `quantity`, `enum(a|b)`, `oci-ref`, `machine-path`, \
     `text(/regex/)`, `option(NAME)` and `host-dir`; the host's own slots are `{machine}`, `{run}`, `{command...}` \
     and `{command:shell}`";

fn slot(body: &str) -> Result<Slot, Fault> {
    let host = |kind: SlotType, name: &str| Ok(Slot { name: name.to_owned(), kind, many: false });
    match body {
        "machine" => return host(SlotType::Machine, "machine"),
        "run" => return host(SlotType::Run, "run"),
        "command..." => return host(SlotType::CommandArgs, "command"),
        "command:shell" => return host(SlotType::CommandShell, "command"),
        _ => {}
    }
    if let Some(name) = argument(body, "option") {
        return Ok(Slot { name: name.to_owned(), kind: option(name)?, many: false });
    }
    let Some((name, text)) = body.split_once(':') else {
        return Err(Fault::new(format!("slot `{}` has no type", shown(body, 64))).hint(TYPES));
    };
    if !is_slot_name(name) {
        return Err(Fault::new(format!("`{}` is no slot name", shown(name, 64)))
            .hint("1 to 64 of `a-z`, `0-9` and `-`, first a letter; `{{` is a brace"));
    }
    let (text, many) = text.strip_suffix("...").map_or((text, false), |text| (text, true));
    let kind = slot_type(text)?;
    if matches!(name, "machine" | "run" | "command") && kind.filler() != Filler::User {
        return Err(Fault::new(format!("`{name}` is a slot of the host's own")).hint(
            "write `{machine}`, `{run}`, `{command...}` or `{command:shell}`, or choose another name",
        ));
    }
    if many && kind.filler() != Filler::Plugin {
        return Err(Fault::new(format!("`{kind}` takes no `...`"))
            .hint("`...` is for what the plugin fills in; an option that is an array is as many arguments by itself"));
    }
    Ok(Slot { name: name.to_owned(), kind, many })
}

fn slot_type(text: &str) -> Result<SlotType, Fault> {
    match text {
        "ident" => return Ok(SlotType::Ident),
        "quantity" => return Ok(SlotType::Quantity),
        "oci-ref" => return Ok(SlotType::OciRef),
        "machine-path" => return Ok(SlotType::MachinePath),
        "host-dir" => return Ok(SlotType::HostDir),
        _ => {}
    }
    if let Some(range) = argument(text, "uint") {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| number.to_string() == text);
        return range
            .split_once("..")
            .and_then(|(min, max)| Some((number(min)?, number(max)?)))
            .filter(|(min, max)| min <= max)
            .map(|(min, max)| SlotType::Uint { min, max })
            .ok_or_else(|| {
                Fault::new(format!("`{}` is no range", shown(range, 64)))
                    .hint("write the least and the greatest number, both admitted, as `uint(1..65535)`")
            });
    }
    if let Some(words) = argument(text, "enum") {
        let words: Vec<String> = words.split('|').map(str::to_owned).collect();
        let fits = |word: &String| {
            (1..=128).contains(&word.len())
                && !word.contains(['(', ')', '{'])
                && !word.chars().any(is_deceptive)
        };
        if words.len() > 64 || !words.iter().all(fits) {
            return Err(Fault::new(
                "`enum` takes 1 to 64 words of 1 to 128 bytes, without brackets and control characters",
            )
            .hint("write `enum(a|b)`"));
        }
        return Ok(SlotType::Enum(words));
    }
    if let Some(name) = argument(text, "option") {
        return option(name);
    }
    if let Some(source) = argument(text, "text").and_then(|text| text.strip_prefix('/')?.strip_suffix('/')) {
        return Pattern::new(source).map(SlotType::Text).map_err(|error| {
            Fault::new(format!("`/{}/` is no expression: {}", shown(source, 120), shown(&error, 200)))
        });
    }
    Err(Fault::new(format!("`{}` is no slot type", shown(text, 64))).hint(TYPES))
}

fn option(name: &str) -> Result<SlotType, Fault> {
    let fits = (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.'));
    if fits {
        Ok(SlotType::Option(name.to_owned()))
    } else {
        Err(Fault::new(format!("`{}` is no option name", shown(name, 64)))
            .hint("1 to 64 of letters, digits, `_`, `-` and `.`, first a letter or `_`"))
    }
}

/// What stands between the brackets in `name(…)`.
fn argument<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

fn is_slot_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}

fn check_element(element: &Element, place: Place) -> Result<(), Fault> {
    for slot in element.slots() {
        let alone = element.whole().is_some();
        if !alone && (slot.many || slot.kind == SlotType::CommandArgs) {
            return Err(Fault::new(format!(
                "slot `{}` takes several arguments, and stands in the middle of one",
                slot.name
            ))
            .hint("make it an element of its own"));
        }
        if place == Place::Workspace && slot.kind.filler() == Filler::Host {
            return Err(Fault::new(format!(
                "`{}` is for `[[exec]]`: there is no machine where a judge runs",
                slot.kind
            )));
        }
    }
    for three in element.parts.windows(3) {
        if let [Part::Slot(before), Part::Literal(between), Part::Slot(after)] = three {
            divided(before, between, after)?;
        }
    }
    for two in element.parts.windows(2) {
        if let [Part::Slot(before), Part::Slot(after)] = two {
            divided(before, "", after)?;
        }
    }
    Ok(())
}

/// Where two slots share an element and the plugin fills one, it must not be able to move the
/// place where they meet. Between two that it does not fill there is nothing that it can move.
fn divided(before: &Slot, between: &str, after: &Slot) -> Result<(), Fault> {
    let plugins = |slot: &Slot| slot.kind.filler() == Filler::Plugin;
    let ends = between.chars().next().is_some_and(|c| !before.kind.may_hold(c));
    let told = if plugins(before) {
        ends
    } else if !plugins(after) {
        true
    } else if before.kind == SlotType::CommandShell {
        // Read by a shell: what the plugin says there would be one more word of the host's command.
        false
    } else {
        // What stands before is not the plugin's to choose, so that it is enough that the plugin's
        // value can't hold what divides them, or begins with what can't stand before.
        let begins = between.chars().next_back().is_some_and(|c| !after.kind.may_hold(c));
        let itself = after.kind.first().is_some_and(|c| !before.kind.may_hold(c));
        ends || begins || (between.is_empty() && itself)
    };
    if told { Ok(()) } else { Err(ambiguous(before, after)) }
}

fn ambiguous(before: &Slot, after: &Slot) -> Fault {
    let plugins = if before.kind.filler() == Filler::Plugin { before } else { after };
    Fault::new(format!("where slot `{}` ends and what follows begins can't be told", before.name)).hint(
        format!(
            "divide them by a character that `{}` does not admit, or make them elements of their own",
            plugins.kind
        ),
    )
}

/// The program must be readable in the manifest, one of several that are, or the user's own word.
fn check_program(element: &Element, place: Place) -> Result<(), Fault> {
    if element.optional {
        return Err(Fault::new("the program can't be left out"));
    }
    match element.parts.as_slice() {
        [Part::Slot(Slot { kind: SlotType::Option(_), .. })] => Ok(()),
        [Part::Slot(Slot { kind: SlotType::Enum(programs), many: false, .. })] => {
            programs.iter().try_for_each(|program| program_name(program, place))
        }
        [Part::Literal(program)] => program_name(program, place),
        _ => Err(Fault::new(
            "the program must stand there in full, be one of an `enum(a|b)`, or be the user's own `{option(NAME)}`",
        )),
    }
}

fn program_name(program: &str, place: Place) -> Result<(), Fault> {
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    let relative = program.contains('/') && !program.starts_with('/');
    if program.starts_with('-') || !program.chars().all(plain) {
        Err(Fault::new("a program's name is plain ASCII and does not start with `-`"))
    } else if program.split('/').any(|part| part == "..") || program.ends_with('/') {
        Err(Fault::new("a program's path has no `..` and does not end in `/`"))
    } else if relative && place == Place::Exec {
        Err(Fault::new(
            "a program is a name that PATH leads to, or an absolute path: it starts in an empty directory",
        ))
    } else {
        Ok(())
    }
}

/// A name that stands twice must mean one thing.
fn check_names(element: &Element, before: &[Element]) -> Result<(), Fault> {
    let mut seen: Vec<&Slot> = before.iter().flat_map(Element::slots).collect();
    for slot in element.slots() {
        if seen.iter().any(|other| other.name == slot.name && *other != slot) {
            let kinds: Vec<String> = seen
                .iter()
                .filter(|other| other.name == slot.name)
                .map(|other| other.kind.to_string())
                .collect();
            return Err(Fault::new(format!(
                "slot `{}` stood before as {}",
                slot.name,
                listed(kinds.iter().map(String::as_str))
            ))
            .hint("give it the same type, or another name"));
        }
        seen.push(slot);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
