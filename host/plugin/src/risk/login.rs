//! Which options of a login have it run a program on this machine.

use super::named::literals;
use super::whereabouts::{WITHOUT, login_options};
use super::{Gist, Mark};
use crate::legible::listed;
use crate::request::CommandTemplate;
use crate::template::{Filler, Part, Slot, SlotType};

/// Settings that name a program or a library of this machine.
const RUN: [&str; 6] = [
    "knownhostscommand",
    "localcommand",
    "pkcs11provider",
    "proxycommand",
    "securitykeyprovider",
    "xauthlocation",
];

/// What to know of them.
pub(super) fn marks(command: &CommandTemplate) -> Vec<Mark> {
    let elements = login_options(command);
    let (mut runs, mut leads, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
    for (at, element) in elements.iter().enumerate() {
        for literal in literals(element).filter(|literal| runs_program(literal.text)) {
            // A lone `none` is none.
            if !(literal.ends && is_off(literal.text)) {
                runs.push(literal.text);
            }
        }
        let words = literals(element).filter(|literal| literal.begins);
        for (letter, value) in words.filter_map(|literal| option(literal.text)) {
            // The value stands in what is behind, or in the next element.
            let parts = match value {
                "" if element.parts.len() == 1 => {
                    elements.get(at + 1).map(|next| next.parts.as_slice()).unwrap_or_default()
                }
                _ => element.parts.get(1..).unwrap_or_default(),
            };
            let setting = match (value, parts.first()) {
                ("", Some(Part::Literal(text))) => text.as_str(),
                _ => value,
            };
            let is_plugins = parts.iter().any(is_plugins);
            let is_named = letter == 'o' && setting.contains(['=', ' ']);
            if is_plugins && (!is_named || runs_program(setting)) {
                chosen.push(element.source.as_str());
            } else if letter != 'o' && setting != "none" {
                leads.push(element.source.as_str());
            }
        }
    }
    let mut out = Vec::new();
    let said = |texts: &[&str]| match texts.is_empty() {
        true => None,
        false => {
            let mut once: Vec<&str> = Vec::new();
            texts.iter().for_each(|text| {
                if !once.contains(text) {
                    once.push(text);
                }
            });
            Some(listed(once))
        }
    };
    out.extend(said(&chosen).map(|flags| {
        let text = format!("the plugin may have the login run any program on this machine: {flags}");
        Mark::grave(Gist::AnyProgram, text)
    }));
    out.extend(said(&runs).map(|flags| {
        Mark::grave(Gist::Script, format!("has the login run a program on this machine: {flags}"))
    }));
    out.extend(said(&leads).map(|flags| {
        let text =
            format!("leads the login to a file that may have it run programs on this machine: {flags}");
        Mark::grave(Gist::Script, text)
    }));
    out
}

fn runs_program(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    RUN.iter().any(|word| lower.contains(word))
}

fn is_off(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.ends_with("=none") || lower.ends_with("permitlocalcommand=no")
}

fn is_plugins(part: &Part) -> bool {
    let Part::Slot(Slot { kind, .. }) = part else { return false };
    kind.filler() == Filler::Plugin && !matches!(kind, SlotType::Enum(_) | SlotType::Uint { .. })
}

/// One of the options that may name a program, and what of its value stands with it.
fn option(text: &str) -> Option<(char, &str)> {
    let letters = text.strip_prefix('-')?;
    let rest = letters.trim_start_matches(|letter| WITHOUT.contains(letter));
    let letter = rest.chars().next().filter(|letter| "oFI".contains(*letter))?;
    Some((letter, &rest[1..]))
}
