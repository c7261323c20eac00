//! Which ports a login leads, and where they listen and lead to, as far as that stands in its line.

use super::named::{Literal, literals};
use super::{Gist, Mark};
use crate::legible::{code, listed};
use crate::request::CommandTemplate;
use crate::template::{Element, Filler, Part, SlotType};

/// Stands for a number that is filled in.
const NUMBER: &str = "\u{1}";
/// Clears those of the command line as well, so no line that leads a port can have it.
const CLEAR: &str = "-oClearAllForwardings=yes";

/// What to know of them.
pub(super) fn mark(command: &CommandTemplate) -> Option<Mark> {
    let elements = command.template.elements();
    let leading: Vec<(&str, &Element)> =
        elements.iter().filter_map(|element| Some((flag(element)?, element))).collect();
    if leading.is_empty() {
        return None;
    }
    let slots = || leading.iter().flat_map(|(_, element)| element.slots());
    let chosen = slots().any(|slot| slot.kind.filler() == Filler::Plugin);
    let flags = listed(leading.iter().map(|(flag, _)| *flag));
    let says =
        |wanted: &dyn Fn(&str) -> bool| elements.iter().flat_map(literals).any(|word| wanted(word.text));
    let clears = says(&|text| text.to_ascii_lowercase().contains("clearallforwardings"));
    let is_ssh = command.programs() == ["ssh"];
    let text = match leading.as_slice() {
        [("-L", element)] if is_ssh && !clears => way(element).map(|(here, there)| {
            let whose = if chosen { ", at ports of the plugin's choice" } else { "" };
            let (here, there) = (code(here, 80), code(&there, 80));
            format!(
                "listens at {here} on this machine and leads to {there} as the other knows it{whose}: {flags}"
            )
        }),
        _ => None,
    };
    let text = text.unwrap_or_else(|| {
        let whose = if chosen { " of the plugin's choice" } else { "" };
        format!("leads ports{whose} between here and there: {flags}")
    });
    let own = match !is_ssh || clears || says(&|text| text.starts_with("-F")) {
        true => String::new(),
        false => {
            format!("; leads those of your configuration too: {} would clear all", code(CLEAR, 80))
        }
    };
    Some(Mark::grave(Gist::Ports, format!("{text}{own}")))
}

/// The option that leads ports, where an element is one.
fn flag(element: &Element) -> Option<&'static str> {
    let Literal { text, .. } = literals(element).next()?;
    ["-L", "-R", "-D", "-w"].into_iter().find(|flag| text.starts_with(flag))
}

/// Where `-LHERE:PORT:THERE:PORT` listens and leads to, where both are certain.
fn way(element: &Element) -> Option<(&'static str, String)> {
    let mut text = String::new();
    for part in &element.parts {
        match part {
            Part::Literal(literal) => text += literal,
            Part::Slot(slot) if matches!(slot.kind, SlotType::Uint { .. }) && !slot.many => text += NUMBER,
            Part::Slot(_) => return None,
        }
    }
    let words: Vec<&str> = text.strip_prefix("-L")?.split(':').collect();
    let is_port =
        |word: &str| word == NUMBER || (!word.is_empty() && word.bytes().all(|c| c.is_ascii_digit()));
    let is_host = |word: &str| {
        !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_'))
    };
    match words.as_slice() {
        [here, port, there, to] if is_port(port) && is_port(to) && is_host(there) => {
            let here = ["127.0.0.1", "localhost"].into_iter().find(|own| own == here)?;
            Some((here, (*there).to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    fn said(argv: &str) -> String {
        let text = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
             [[exec]]\nid='c'\nargv={argv}\ntimeout='1s'"
        );
        let manifest = Manifest::from_toml(&text).expect(argv);
        mark(&manifest.exec[0]).map(|mark| mark.text).unwrap_or_default()
    }

    #[test]
    fn where_a_port_listens_and_leads_to_is_said_only_where_it_is_certain() {
        let all = [
            said("['ssh', '-L127.0.0.1:{a:uint(1..9)}:127.0.0.1:{b:uint(1..9)}', '--', 'h']"),
            said("['ssh', '-Llocalhost:1:db.example:2', '-F', 'none', '--', 'h']"),
            said("['ssh', '-L127.0.0.1:1:h:2', '-oclearallforwardings=yes', '--', 'h']"),
            said("['ssh', '-L*:{a:uint(1..9)}:127.0.0.1:1', '--', 'h']"),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        listens at `127.0.0.1` on this machine and leads to `127.0.0.1` as the other knows it, at ports of the plugin's choice: `-L`; leads those of your configuration too: `-oClearAllForwardings=yes` would clear all
        listens at `localhost` on this machine and leads to `db.example` as the other knows it: `-L`
        leads ports between here and there: `-L`
        leads ports of the plugin's choice between here and there: `-L`; leads those of your configuration too: `-oClearAllForwardings=yes` would clear all
        ");
        for argv in [
            "['ssh', '-L1:h:2', '--', 'h']",
            "['ssh', '-L0.0.0.0:1:h:2', '--', 'h']",
            "['ssh', '-L127.0.0.1:1:{h:ident}:2', '--', 'h']",
            "['ssh', '-L127.0.0.1:1:/a:2', '--', 'h']",
            "['ssh', '-L', '127.0.0.1:1:h:2', '--', 'h']",
            "['ssh', '-L127.0.0.1:1:h:2', '-R2:h:3', '--', 'h']",
            "['ssh', '-R127.0.0.1:1:h:2', '--', 'h']",
            "['ssh', '-D1', '--', 'h']",
            "['nice', 'ssh', '-L127.0.0.1:1:h:2', '--', 'h']",
        ] {
            let said = said(argv);
            assert!(said.contains("between here and there") && !said.contains("listens"), "{argv}: {said}");
        }
        assert_eq!(said("['ssh', '--', 'h']"), "");
    }
}
