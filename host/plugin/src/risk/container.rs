//! What a container engine is told to do.

use super::engine::{Told, UNKNOWN, Verbs, told};
use super::named::{Named, literals};
use super::programs::way_out;
use super::{Gist, Mark, bounds};
use crate::legible::{code, listed};
use crate::request::CommandTemplate;
use crate::template::{Element, Filler, Part, SlotType};

/// What to know of each thing that `command` tells an engine of this machine's.
pub(super) fn marks(command: &CommandTemplate, named: &Named) -> Vec<Mark> {
    let mut out = Vec::new();
    for told in told(command, named) {
        let verbs = Verbs::of(&told);
        out.extend(any_verb(&verbs));
        ways_out(&mut out, command, &told, &verbs);
        removals(&mut out, &told, &verbs);
        out.extend(fetches(&told, &verbs));
    }
    out
}

/// What says what an engine does, where that does not stand in its line.
fn any_verb(verbs: &Verbs<'_>) -> Option<Mark> {
    const NOT_KNOWN: &str = "what the script tells the engine is not known";
    let slot = verbs.slot?;
    let name = code(&slot.name, 64);
    let is_variable = slot.name.starts_with('$');
    let grave = |text: String| Some(Mark::grave(Gist::AnyVerb, text));
    match slot.kind.filler() {
        Filler::Plugin if slot.name == UNKNOWN => grave(format!("{NOT_KNOWN}, and the plugin may say it")),
        Filler::Plugin if is_variable => {
            grave("the plugin may say what the engine does, by a variable of the script".to_owned())
        }
        Filler::Plugin => grave(format!("the plugin says what the engine does, within its type: {name}")),
        Filler::User => Some(Mark::note(format!("your option {name} says what the engine does"))),
        Filler::Host if slot.name == UNKNOWN => Some(Mark::note(NOT_KNOWN)),
        Filler::Host if is_variable => Some(Mark::note("a variable of the script says what the engine does")),
        Filler::Host => None,
    }
}

/// What opens a container, by the plugin's text or by an option of the user's.
fn ways_out(out: &mut Vec<Mark>, command: &CommandTemplate, told: &Told, verbs: &Verbs<'_>) {
    let (mut plugins, mut users) = (Vec::new(), Vec::new());
    for element in told.own(verbs) {
        let is_users = element.slots().next().is_some()
            && element.slots().all(|slot| slot.kind.filler() == Filler::User);
        let first = element.parts.first();
        let texts = literals(element).take(match first {
            Some(Part::Slot(_)) => usize::MAX,
            _ => 1,
        });
        let ways = texts.filter_map(|literal| way_out(literal.text)).filter(|flag| verbs.opens(flag));
        if is_users { users.extend(ways) } else { plugins.extend(ways) }
    }
    let names = |flags: &[String]| listed(flags.iter().map(String::as_str));
    if !plugins.is_empty() {
        let text = format!("opens the container to the engine's machine: {}", names(&plugins));
        out.push(Mark::grave(Gist::OpensContainer, text));
    }
    let users = (!users.is_empty()).then(|| format!("as your options say: {}", names(&users)));
    let texts = told.own(verbs).iter().map(|element| element.parts.first());
    let free = texts
        .flatten()
        .any(|part| matches!(part, Part::Slot(slot) if matches!(slot.kind, SlotType::Text(_))));
    if verbs.may_be(&["load", "pull"]) {
        out.push(Mark::note("fetches an image: code of its author's, which runs in what is made of it"));
    }
    const OPENS: &str = "opens that to the engine's machine by no flag that is known";
    let bounds = bounds::said(command, told, verbs);
    // What a glance makes of a script's text is not certain enough.
    let free = free || told.at.is_none();
    match (made(told, verbs), users) {
        (Some(made), None) if !free && plugins.is_empty() => {
            out.push(Mark::note(format!("{made}; {OPENS}{bounds}")));
        }
        (Some(made), Some(users)) if !free && plugins.is_empty() => {
            out.push(Mark::note(format!("{made}; {OPENS} but {users}{bounds}")));
        }
        (made, users) => {
            out.extend(made.map(Mark::note));
            let may = |users| Mark::note(format!("may open the container to the engine's machine, {users}"));
            out.extend(users.map(may));
        }
    }
}

/// What an engine is told to make.
fn made(told: &Told, verbs: &Verbs<'_>) -> Option<String> {
    const ROOT: [&str; 3] = ["--user=0", "--user=root", "-u0"];
    let root = told.elements.iter().flat_map(literals).find(|word| ROOT.contains(&word.text));
    let root = root.map(|flag| format!(", as root ({})", code(flag.text, 80))).unwrap_or_default();
    let text = format!("makes a container and runs in it what its image holds{root}");
    verbs.may_be(&["create", "run"]).then_some(text)
}

/// Whether an engine may be told to copy to this machine: to its stdout or into a container is not.
fn fetches(told: &Told, verbs: &Verbs<'_>) -> Option<Mark> {
    let is_elsewhere = |target: &Element| match target.parts.as_slice() {
        _ if target.optional => false,
        [Part::Literal(text)] if text == "-" => true,
        [Part::Literal(text), ..] => text.split_once(':').is_some_and(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_alphanumeric()) && !name.contains('/')
        }),
        [Part::Slot(slot), Part::Literal(text), ..] => {
            slot.kind == SlotType::Machine && text.starts_with(':')
        }
        _ => false,
    };
    let here = verbs.may_be(&["cp"]) && !told.elements.last().is_some_and(is_elsewhere);
    let text = "changes or removes files where its arguments say: the engine's `cp`";
    here.then(|| Mark::grave(Gist::Changes, text))
}

/// What an engine is told to remove or to stop.
fn removals(out: &mut Vec<Mark>, told: &Told, verbs: &Verbs<'_>) {
    const REMOVE: [&str; 11] =
        ["delete", "down", "kill", "prune", "remove", "rm", "rmi", "rmp", "stop", "stopp", "terminate"];
    let removes = verbs.among(&REMOVE);
    if removes.is_empty() {
        return;
    }
    let names = |element: &Element| match element.parts.as_slice() {
        [Part::Literal(text)] => text.starts_with('-') || REMOVE.contains(&text.as_str()),
        [Part::Slot(slot)] => slot.kind == SlotType::Machine,
        _ => false,
    };
    let slots = || told.elements.iter().flat_map(Element::slots);
    if told.elements.iter().skip(1).all(names) && slots().any(|slot| slot.kind == SlotType::Machine) {
        let text = format!("has the engine remove or stop this run's machine: {}", listed(removes));
        out.push(Mark::note(text));
        return;
    }
    let msts = slots().all(|slot| slot.kind.filler() == Filler::Host || slot.kind.filler() == Filler::User);
    let whose = if msts { "" } else { ", of the plugin's choice" };
    out.push(Mark::grave(
        Gist::Removes,
        format!("has the engine remove or stop what it has{whose}: {}", listed(removes)),
    ));
}
