//! What in a command a reviewer should stop at.

use serde_json::Value;

use super::named::{Named, literals};
use super::programs::{
    CHANGERS, CLUSTERS, ENGINES, FETCHERS, INTERPRETERS, NETWORK, RAISERS, REMOTES, SHELLS, STARTERS, base,
    loads_code, sounds_secret,
};
use super::{Gist, Mark, container, default_of, guard, login, ports, script, whereabouts};
use crate::legible::{code, listed, shown};
use crate::manifest::Manifest;
use crate::request::{CommandTemplate, Stdin};
use crate::template::{Element, Filler, Part, Place, Slot, SlotType, Template};

/// What a shell is told to run.
enum Script {
    /// Nothing that stands here, or not only.
    Open,
    /// A text that is whole on the page.
    Fixed,
    /// One that runs its own arguments.
    RunsArguments,
}

fn script(template: &Template, shell_at: usize) -> Script {
    let behind = &template.elements()[(shell_at + 1).min(template.elements().len())..];
    let mut behind = behind.iter().skip_while(|element| {
        let is_c = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
        !matches!(element.parts.as_slice(), [Part::Literal(text)] if is_c(text))
    });
    let text = match behind.nth(1).map(|element| element.parts.as_slice()) {
        Some([Part::Literal(text)]) => text,
        _ => return Script::Open,
    };
    if script::runs_arguments(text) { Script::RunsArguments } else { Script::Fixed }
}

/// What to know about a command.
pub(super) fn marks(manifest: &Manifest, place: Place, command: &CommandTemplate) -> Vec<Mark> {
    let mut out = Vec::new();
    let template = &command.template;
    let named = Named::of(command);
    let is_users = command.programs().is_empty();
    let chooses = command.program_option().filter(|_| !is_users);
    let slots = || template.slots();
    let free = |slot: &&Slot| {
        slot.kind.filler() == Filler::Plugin
            && !matches!(slot.kind, SlotType::Enum(_) | SlotType::Uint { .. })
    };
    let texts = |optional: bool| {
        let elements = template.elements().iter().filter(move |element| element.optional == optional);
        let slots = elements.flat_map(Element::slots).filter(|slot| matches!(slot.kind, SlotType::Text(_)));
        slots.map(|slot| slot.name.as_str()).collect::<Vec<_>>()
    };
    let (engines, remotes) = (named.on(ENGINES), named.on(REMOTES));

    if place == Place::Workspace && !is_idle(command) {
        out.push(Mark::grave(
            Gist::Workspace,
            "what it runs or reads there (tests, build files, configuration) may be the evaluated client's own work, run as you",
        ));
    }
    let leads_on = [ENGINES, REMOTES, CLUSTERS].iter().any(|list| !named.on(list).is_empty());
    if place == Place::Exec {
        out.extend(whereabouts::marks(command, leads_on));
    }
    if is_users {
        out.push(users_command(manifest, slots().next().map(|slot| &slot.kind)));
    }
    if let Some(option) = chooses {
        let programs = listed(command.programs());
        let default = default_of(manifest, option).map(|default| format!(", {default} where you set none"));
        out.push(Mark::note(format!(
            "your option `{}` says which program: one of {programs}{}",
            shown(option, 64),
            default.unwrap_or_default()
        )));
    }
    for program in command.programs() {
        if place == Place::Workspace && program.contains('/') && !program.starts_with('/') {
            out.push(Mark::note(format!("a file beside your eval, run as a program: {}", code(program, 80))));
        }
    }
    if let Some(at) = named.shell_at() {
        out.push(shell(template, at, &named));
    }
    list(&mut out, named.on(INTERPRETERS), |names| {
        Mark::grave(Gist::Script, format!("an interpreter: {names} can run programs from its arguments"))
    });
    list(&mut out, named.on(RAISERS), |names| {
        Mark::grave(Gist::Raised, format!("more rights than yours: {names}"))
    });
    let starters = named.on(STARTERS);
    if !starters.is_empty() && slots().any(|slot| free(&slot)) {
        let text = format!("starts other programs, which the plugin may name: {}", listed(starters));
        out.push(Mark::grave(Gist::AnyProgram, text));
    } else {
        list(&mut out, starters, |names| Mark::note(format!("starts other programs: {names}")));
    }
    list(&mut out, named.on(FETCHERS), |names| {
        Mark::grave(Gist::FetchedCode, format!("fetches code and runs it: {names}"))
    });
    list(&mut out, named.on(CLUSTERS), |names| {
        Mark::grave(Gist::Login, format!("acts on other machines, with your credentials: {names}"))
    });
    if !remotes.is_empty() {
        remote(&mut out, command, &remotes);
    }
    if !engines.is_empty() {
        let text = "speaks to a container engine: as good as who runs that, mostly root";
        out.push(Mark::grave(Gist::Root, text));
        let names = listed(engines.iter().copied());
        out.push(Mark::note(format!("goes by your own configuration of {names} (logins, helpers, proxies)")));
        for mark in container::marks(command, &named) {
            if !out.contains(&mark) {
                out.push(mark);
            }
        }
    }
    let sees = slots().any(|slot| slot.kind == SlotType::HostDir);
    list(&mut out, named.on(NETWORK), |names| {
        let what = if sees { ", the directory of mst's too" } else { "" };
        Mark::grave(Gist::Network, format!("can send and fetch over the network{what}: {names}"))
    });
    changes(&mut out, template, named.on(CHANGERS), Gist::Changes, "where its arguments say");
    changes(&mut out, template, named.on_there(CHANGERS), Gist::ChangesThere, "on the other machine");
    list(&mut out, named.on_there(ENGINES), |names| {
        let text = "speaks to a container engine on the other machine: as good as who runs that, mostly root";
        Mark::grave(Gist::Root, format!("{text}: {names}"))
    });
    list(&mut out, named.on_there(RAISERS), |names| {
        Mark::grave(Gist::Raised, format!("more rights than the login's, on the other machine: {names}"))
    });
    if named.script_there {
        let text = "a shell on the other machine runs what stands here";
        out.push(Mark::grave(Gist::ScriptThere, text));
    }
    let mut paths: Vec<&str> = named.paths.iter().map(String::as_str).collect();
    paths.dedup();
    list(&mut out, paths, |names| {
        Mark::grave(Gist::Places, format!("goes to places of this machine that are not its own: {names}"))
    });
    let runs_stdin = named.shell_at().is_some() || !named.on(INTERPRETERS).is_empty();
    if command.stdin == Stdin::Plugin {
        out.push(if runs_stdin {
            Mark::grave(
                Gist::AnyProgram,
                "free stdin from the plugin into a program that may run what it reads: as good as any command at all",
            )
        } else {
            Mark::note("free stdin from the plugin into a program")
        });
    }
    let into = match named.shell_at().is_some() || !remotes.is_empty() {
        true => ", in the arguments of a shell",
        false => "",
    };
    for (texts, or) in [(texts(false), ""), (texts(true), ", or none")] {
        list(&mut out, texts, |names| {
            Mark::note(format!("text from the plugin, within its pattern{or}{into}: {names}"))
        });
    }
    let images = slots().filter(|slot| slot.kind == SlotType::OciRef).map(|slot| slot.name.as_str());
    list(&mut out, images.collect(), |names| Mark::note(format!("an image of the plugin's choice: {names}")));
    if sees {
        let traces = |at: usize| {
            template.elements().get(at + 1).is_some_and(|element| {
                literals(element).any(|literal| literal.text.starts_with('-') && literal.text.contains('x'))
            })
        };
        let tells = template.elements().iter().flat_map(literals).any(|literal| script::tells(literal.text));
        if tells || named.shell_at().is_some_and(traces) {
            let text = "may see what mst copies; its stderr (2 KiB a time) reaches the plugin";
            out.push(Mark::grave(Gist::Tells, text));
        }
    }
    environment(&mut out, command);
    options(&mut out, manifest, command);
    if named.shell_at().is_some() || !remotes.is_empty() {
        spliced(&mut out, manifest, template, &named);
    }
    out.sort_by_key(|mark| mark.gist.is_none());
    out
}

/// What changes files, with what removes them by the directory apart.
fn changes(out: &mut Vec<Mark>, template: &Template, mut names: Vec<&str>, gist: Gist, at: &str) {
    const RM: &str = "rm";
    let words: Vec<&str> = template
        .elements()
        .iter()
        .flat_map(literals)
        .flat_map(|literal| literal.text.split_whitespace())
        .collect();
    let recursive = |flag: &str| {
        flag == "--recursive"
            || (flag.starts_with('-') && !flag.starts_with("--") && flag.contains(['r', 'R']))
    };
    let fells = words.windows(2).any(|pair| base(pair[0]) == RM && recursive(pair[1]));
    if fells && names.contains(&RM) {
        out.push(Mark::grave(Gist::Fells, format!("removes whole directories {at}: `{RM}`")));
        names.retain(|name| *name != RM);
    }
    list(out, names, |names| Mark::grave(gist, format!("changes or removes files {at}: {names}")));
}

/// Whether it runs nothing and reads no file, whatever its arguments are.
fn is_idle(command: &CommandTemplate) -> bool {
    const IDLE: [&str; 5] = ["echo", "false", "pwd", "sleep", "true"];
    let programs = command.programs();
    !programs.is_empty() && programs.iter().all(|program| IDLE.contains(program))
}

fn list(out: &mut Vec<Mark>, names: Vec<&str>, mark: impl FnOnce(String) -> Mark) {
    if !names.is_empty() {
        out.push(mark(listed(names)));
    }
}

/// How much of what a shell runs stands on the page.
fn shell(template: &Template, at: usize, named: &Named) -> Mark {
    let behind = || template.elements().iter().skip(at + 1).flat_map(Element::slots);
    let plugins = behind().any(|slot| slot.kind.filler() == Filler::Plugin);
    if !named.on(NETWORK).is_empty()
        && named
            .programs
            .iter()
            .filter(|(name, _)| SHELLS.contains(&name.as_str()) || INTERPRETERS.contains(&name.as_str()))
            .count()
            > 1
    {
        return Mark::grave(Gist::FetchedCode, "a shell that may run what it fetches");
    }
    match script(template, at) {
        Script::Fixed => {
            Mark::grave(Gist::Script, "a fixed script for a shell: slots are only its arguments")
        }
        Script::RunsArguments if plugins => {
            Mark::grave(Gist::Script, "a fixed script that runs its arguments, some of them the plugin's")
        }
        Script::RunsArguments => Mark::grave(Gist::Script, "a fixed script that runs its arguments"),
        Script::Open if plugins => Mark::grave(
            Gist::AnyProgram,
            "a shell: its arguments are a program, and the plugin fills some of them",
        ),
        Script::Open
            if behind().next().is_some() && behind().all(|slot| slot.kind.filler() == Filler::Host) =>
        {
            Mark::grave(Gist::Script, "a shell, and mst fills in a part of its program")
        }
        Script::Open => Mark::grave(Gist::Script, "a shell: its arguments are a program"),
    }
}

/// What logs in elsewhere, and which of its arguments open something here.
fn remote(out: &mut Vec<Mark>, command: &CommandTemplate, names: &[&str]) {
    let template = &command.template;
    let names = listed(names.iter().copied());
    out.push(Mark::grave(Gist::Login, format!("logs in on another machine, with your keys: {names}")));
    out.push(Mark::note(format!("a shell on the other machine reads the arguments: {names}")));
    out.push(Mark::note(format!(
        "goes by your own configuration of {names}, which may name further programs and hosts"
    )));
    out.extend(ports::mark(command));
    let firsts = || {
        template.elements().iter().filter_map(|element| literals(element).next()).map(|literal| literal.text)
    };
    let lower = |text: &str| text.to_ascii_lowercase();
    out.extend(login::marks(command));
    if firsts().any(|text| text == "-A" || lower(text).contains("forwardagent=yes")) {
        out.push(Mark::note("lends the other machine your SSH agent"));
    }
}

/// What of the user's environment it is given.
fn environment(out: &mut Vec<Mark>, command: &CommandTemplate) {
    for var in &command.secrets {
        out.push(Mark::note(format!("gets the secret `{}`, in its variable `{}`", var.secret, var.name)));
    }
    let names = || command.env.iter().map(String::as_str);
    if names().any(|name| name == "SSH_AUTH_SOCK") {
        out.push(Mark::grave(Gist::Login, "gets your SSH agent: may log in wherever your keys do"));
    }
    list(out, names().filter(|name| sounds_secret(name)).collect(), |names| {
        Mark::grave(
            Gist::Secret,
            format!("gets what sounds like a secret, and may do with it what it likes: your {names}"),
        )
    });
    list(out, names().filter(|name| loads_code(name)).collect(), |names| {
        Mark::grave(Gist::Script, format!("gets variables that lead a program to code to run: your {names}"))
    });
    list(out, names().collect(), |names| Mark::note(format!("gets of your environment: {names}")));
}

/// The user's options in it: files that they name, and what they are where they are not set.
fn options(out: &mut Vec<Mark>, manifest: &Manifest, command: &CommandTemplate) {
    let mut names: Vec<&str> = Vec::new();
    for slot in command.template.slots() {
        if let SlotType::Option(name) = &slot.kind
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    let is_path = |name: &&str| {
        let format = manifest.option(name).and_then(|schema| schema.get("format")).and_then(Value::as_str);
        format == Some("path")
    };
    list(out, names.iter().copied().filter(|name| is_path(name)).collect(), |names| {
        Mark::grave(
            Gist::Files,
            format!(
                "its program is told of files of yours, and may read and change them: in your options {names}"
            ),
        )
    });
    // What the one that says the program is stands there.
    let program = command.program_option();
    for name in names.into_iter().filter(|name| Some(*name) != program) {
        if let Some(default) = default_of(manifest, name) {
            out.push(Mark::note(format!(
                "your option `{}` is {default} where you set none",
                shown(name, 64)
            )));
        }
    }
}

/// What a shell reads as text: behind a `-c`, and behind the host that a login is told.
fn shells_text<'a>(template: &'a Template, named: &Named) -> Vec<&'a Element> {
    let elements = template.elements();
    let has_space =
        |element: &&Element| literals(element).any(|literal| literal.text.contains(char::is_whitespace));
    let is = |element: &Element, wanted: &dyn Fn(&str) -> bool| {
        literals(element).any(|literal| literal.whole && wanted(literal.text))
    };
    let script = named.shell_at().and_then(|shell| {
        let is_c = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
        let at = elements.iter().skip(shell + 1).position(|element| is(element, &is_c))?;
        elements.get(shell + at + 2)
    });
    let remote = named.first_at(REMOTES).map(|login| {
        let behind = elements.get(login + 1..).unwrap_or_default();
        let host = match behind.iter().position(|element| is(element, &|text| text == "--")) {
            Some(dashes) => dashes + 1,
            None => behind
                .iter()
                .position(|element| !literals(element).any(|literal| literal.text.starts_with('-')))
                .unwrap_or_default(),
        };
        behind.get(host + 1..).unwrap_or_default()
    });
    let mut out: Vec<&Element> = elements.iter().filter(has_space).collect();
    out.extend(script);
    out.extend(remote.unwrap_or_default());
    out
}

/// The user's options in the text that a shell runs, where no quotes hold them together.
fn spliced(out: &mut Vec<Mark>, manifest: &Manifest, template: &Template, named: &Named) {
    let (mut guarded, mut open): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for slot in shells_text(template, named).into_iter().flat_map(Element::slots) {
        let SlotType::Option(name) = &slot.kind else { continue };
        let is_bounded = manifest.option(name).is_some_and(guard::is_bounded);
        let list = if is_bounded { &mut guarded } else { &mut open };
        if !list.contains(&name.as_str()) {
            list.push(name);
        }
    }
    list(out, open, |names| {
        let text = format!("what you set is run by a shell, as a part of its text: your options {names}");
        Mark::grave(Gist::Script, text)
    });
    list(out, guarded, |names| {
        Mark::note(format!(
            "a part of a shell's text, as far as their schemas admit it: your options {names}"
        ))
    });
}

fn users_command(manifest: &Manifest, slot: Option<&SlotType>) -> Mark {
    let Some(SlotType::Option(name)) = slot else { return Mark::note("the user's own command, run as you") };
    let text = format!("the user's own command, run as you: your option `{}`", shown(name, 64));
    match default_of(manifest, name) {
        // Then it is the plugin's word until the user says another.
        Some(default) => Mark::note(format!("{text}, which is {default} where you set none")),
        None => Mark::note(text),
    }
}
