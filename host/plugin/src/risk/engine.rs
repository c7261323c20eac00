//! What the words of a container engine's command line are to it: its verb, and what stands behind that.

use super::flags::stands_alone;
use super::named::{self, Named, literals};
use super::programs::{ENGINES, base, is_of_all_verbs};
use super::{script, words};
use crate::request::CommandTemplate;
use crate::template::{Element, Filler, Part, Slot, SlotType};

/// Flags before the verb that take no value.
const GLOBAL: [&str; 7] = ["--debug", "--help", "--remote", "--tls", "--tlsverify", "--version", "-D"];
/// Flags of `exec` that take the next word.
const EXEC_TAKES: [&str; 6] = ["--env", "--user", "--workdir", "-e", "-u", "-w"];
/// Verbs, and words that another stands behind, no flags of whose own open a container.
const OPENS_NONE: [&str; 21] = [
    "container",
    "cp",
    "image",
    "images",
    "inspect",
    "kill",
    "logs",
    "ls",
    "port",
    "prune",
    "ps",
    "pull",
    "rm",
    "rmi",
    "start",
    "stats",
    "stop",
    "top",
    "version",
    "volume",
    "wait",
];
/// Words that another verb stands behind.
const GROUPS: [&str; 16] = [
    "builder",
    "buildx",
    "compose",
    "config",
    "container",
    "context",
    "image",
    "machine",
    "manifest",
    "network",
    "plugin",
    "pod",
    "secret",
    "stack",
    "system",
    "volume",
];

/// The name of a slot for whatever a script tells an engine; no manifest has it.
pub(super) const UNKNOWN: &str = "$?";

/// Whether an element is, or may be, an engine's name.
pub(super) fn is_engine(element: &Element) -> bool {
    let is_name = |text: &str| !text.contains(char::is_whitespace) && ENGINES.contains(&base(text));
    literals(element).any(|literal| literal.whole && is_name(literal.text))
}

/// What an engine is told: its name, and all behind it.
pub(super) struct Told {
    pub(super) elements: Vec<Element>,
    /// Where its name stands in the command; none where that is in a shell's text.
    pub(super) at: Option<usize>,
}

/// Each that a command's engines are told, in its arguments and in the text of a shell.
pub(super) fn told(command: &CommandTemplate, named: &Named) -> Vec<Told> {
    let elements = command.template.elements();
    // A variable of a script's may hold what the plugin fills in.
    let plugins = command.template.slots().any(|slot| slot.kind.filler() == Filler::Plugin);
    let variable = if plugins { SlotType::Ident } else { SlotType::Run };
    let mut out = Vec::new();
    for at in named.all_at(ENGINES) {
        let Some(element) = elements.get(at) else { continue };
        // The first is a program, whoever says it.
        if at == 0 || is_engine(element) {
            out.push(Told { elements: elements[at..].to_vec(), at: Some(at) });
            continue;
        }
        let known = out.len();
        let commands = words::commands(element, &variable);
        for words in &commands {
            if let Some(at) = words.iter().position(is_engine) {
                out.push(Told { elements: words[at..].to_vec(), at: None });
            }
        }
        // It is named, and by no word of a command, or a variable may hold its name: `x=docker; $x run`.
        let is_variable = commands.iter().any(|words| begins_with_variable(words));
        if out.len() == known || (is_variable && commands.iter().any(|words| names_as_value(words))) {
            let any = Slot { name: UNKNOWN.to_owned(), kind: variable.clone(), many: true };
            let any = Element { source: String::new(), optional: false, parts: vec![Part::Slot(any)] };
            out.push(Told { elements: vec![element.clone(), any], at: None });
        }
    }
    out
}

/// Whether a variable says which program a command of a script's runs.
fn begins_with_variable(words: &[Element]) -> bool {
    let leads = |text: &str| script::goes_before(text) || script::is_runner(text) || text.starts_with('-');
    let program = words.iter().find(|word| !begins(word).is_some_and(leads));
    program.is_some_and(|word| matches!(word.parts.first(), Some(Part::Slot(_))))
}

/// Whether a command of a script's names an engine other than as its program.
fn names_as_value(command: &[Element]) -> bool {
    let leads = |word: &&Element| begins(word).is_some_and(script::goes_before);
    let before = command.iter().take_while(leads).count();
    let is_program = |at: usize, word: &Element| at == before && is_engine(word);
    // What a word quotes is a command of its own.
    let values =
        command.iter().enumerate().filter(|(at, word)| !is_program(*at, word) && !words::quotes(word));
    let mut texts = values.flat_map(|(_, word)| literals(word)).map(|literal| literal.text);
    texts.any(|text| named::words(text).any(|word| ENGINES.contains(&base(word))))
}

/// The text that a word begins with.
fn begins(word: &Element) -> Option<&str> {
    match word.parts.first()? {
        Part::Literal(text) => Some(text),
        Part::Slot(_) => None,
    }
}

impl Told {
    /// What the engine itself reads: behind the machine of an `exec` stands what runs in it.
    pub(super) fn own(&self, verbs: &Verbs<'_>) -> &[Element] {
        let behind = verbs.behind.filter(|_| verbs.is_one_of(&["exec"]));
        let end = behind.and_then(|behind| machine(&self.elements, behind));
        &self.elements[..end.unwrap_or(self.elements.len())]
    }
}

/// Where the machine of an `exec` stands: the slot for it, or the first word that is certainly no flag's value.
fn machine(elements: &[Element], behind: usize) -> Option<usize> {
    let is_slot = |element: &Element| element.whole().is_some_and(|slot| slot.kind == SlotType::Machine);
    let mut at = behind;
    let slot = elements.iter().skip(behind).position(is_slot).map(|at| behind + at);
    slot.or_else(|| {
        loop {
            let element = elements.get(at).filter(|element| !element.optional)?;
            match element.parts.as_slice() {
                [Part::Literal(text)] if !text.starts_with('-') => return Some(at),
                [Part::Literal(text)] if text.contains('=') || stands_alone(text) => at += 1,
                [Part::Literal(text)] if EXEC_TAKES.contains(&text.as_str()) => at += 2,
                _ => return None,
            }
        }
    })
}

/// What an engine may be told to do.
#[derive(Default)]
pub(super) struct Verbs<'a> {
    /// All words that may be the verb, and such as it stands behind.
    words: Vec<&'a str>,
    /// Whether it may be any other.
    pub(super) is_open: bool,
    /// What says which, where that is a slot.
    pub(super) slot: Option<&'a Slot>,
    /// Where what is certainly the verb's begins.
    pub(super) behind: Option<usize>,
}

impl<'a> Verbs<'a> {
    /// Of what an engine is told.
    pub(super) fn of(told: &'a Told) -> Verbs<'a> {
        let mut verbs = Verbs::default();
        let mut is_certain = true;
        for (at, element) in told.elements.iter().enumerate().skip(1) {
            let words: Vec<&str> =
                literals(element).filter(|word| word.whole).map(|word| word.text).collect();
            let begins: Vec<&str> =
                literals(element).filter(|word| word.begins).map(|word| word.text).collect();
            if !begins.is_empty() && begins.iter().all(|word| word.starts_with('-')) {
                // The next word may be its value, or the verb.
                is_certain = begins.iter().all(|word| word.contains('=') || GLOBAL.contains(word));
                continue;
            }
            if words.is_empty() && (is_certain || element.slots().any(|slot| slot.many)) {
                verbs.is_open = true;
                verbs.slot = element.slots().next();
            }
            let is_verb = is_certain && !element.optional && !words.is_empty();
            let is_verb = is_verb && !words.iter().any(|word| word.starts_with('-'));
            let is_group = words.iter().any(|word| GROUPS.contains(word));
            verbs.words.extend(words.into_iter().filter(|word| !word.starts_with('-')));
            is_certain = true;
            if verbs.is_open || (is_verb && !is_group) {
                verbs.behind = Some(at + 1).filter(|_| !verbs.is_open);
                break;
            }
        }
        verbs
    }

    /// Whether a flag is one that opens something, among these.
    pub(super) fn opens(&self, flag: &str) -> bool {
        !self.is_one_of(&OPENS_NONE) || is_of_all_verbs(flag)
    }

    /// Those of `wanted` that it may be.
    pub(super) fn among(&self, wanted: &[&str]) -> Vec<&'a str> {
        self.words.iter().copied().filter(|word| wanted.contains(word)).collect()
    }

    /// Whether it may be one of these.
    pub(super) fn may_be(&self, wanted: &[&str]) -> bool {
        self.words.iter().any(|word| wanted.contains(word))
    }

    /// Whether it is one of these, whatever is filled in.
    pub(super) fn is_one_of(&self, wanted: &[&str]) -> bool {
        self.behind.is_some() && !self.words.is_empty() && self.words.iter().all(|word| wanted.contains(word))
    }
}
