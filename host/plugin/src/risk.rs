//! What in a manifest a reviewer should stop at, in words.
//!
//! It explains, and decides nothing: what is not named here is bounded by the template all the
//! same. A list of programs' names can't be complete, so each sentence says what is known and
//! none says that something is safe.

use mst_model::Kind;
use serde_json::Value;

use crate::legible::{listed, shown};
use crate::manifest::Manifest;
use crate::request::{Access, CommandTemplate, Dir, Stdin};
use crate::template::{Filler, Part, Place, SlotType};

const SHELLS: [&str; 14] = [
    "ash",
    "bash",
    "busybox",
    "cmd",
    "csh",
    "dash",
    "elvish",
    "fish",
    "ksh",
    "nu",
    "powershell",
    "pwsh",
    "sh",
    "zsh",
];
const INTERPRETERS: [&str; 12] =
    ["awk", "bun", "deno", "gawk", "lua", "node", "osascript", "perl", "php", "python", "ruby", "tclsh"];
/// Programs that run what they are given.
const STARTERS: [&str; 10] =
    ["chroot", "env", "find", "nice", "nohup", "parallel", "setsid", "timeout", "watch", "xargs"];
const RAISERS: [&str; 4] = ["doas", "pkexec", "su", "sudo"];
const REMOTES: [&str; 4] = ["gcloud", "mosh", "rsh", "ssh"];
const ENGINES: [&str; 4] = ["docker", "finch", "nerdctl", "podman"];
/// What lets a container out, as a container engine's argument, with or without `=…`.
const WAYS_OUT: [&str; 13] = [
    "--cap-add",
    "--device",
    "--ipc",
    "--mount",
    "--net",
    "--network",
    "--pid",
    "--privileged",
    "--security-opt",
    "--userns",
    "--uts",
    "--volume",
    "-v",
];
/// What looks like one of them and shuts it further.
const SHUTS: [&str; 2] = ["--network=none", "--security-opt=no-new-privileges"];

/// The program's name without path, version and ending.
fn base(program: &str) -> &str {
    let name = program.rsplit('/').next().unwrap_or(program);
    let name = name.strip_suffix(".exe").unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// What to know about a command, most important first.
pub(crate) fn of_command(manifest: &Manifest, place: Place, command: &CommandTemplate) -> Vec<String> {
    let mut out = Vec::new();
    let template = &command.template;
    let slots = || template.slots();
    let texts: Vec<&str> = slots()
        .filter(|slot| matches!(slot.kind, SlotType::Text(_)))
        .map(|slot| slot.name.as_str())
        .collect();
    let programs = template.programs();
    let known = |list: &[&str]| {
        let known = programs.iter().map(|program| base(program)).find(|name| list.contains(name));
        known.map(|name| shown(name, 40))
    };
    let one_of = |list: &[&str]| known(list).is_some();
    let shell = one_of(&SHELLS);
    let interpreter = known(&INTERPRETERS);
    // Behind `env` or `sudo` the program proper is an argument.
    let hidden_shell = !shell
        && template.elements().iter().skip(1).any(|element| match element.parts.as_slice() {
            [Part::Literal(text)] => SHELLS.contains(&base(text)) && !text.starts_with('-'),
            _ => false,
        });

    if programs.is_empty() {
        out.push(users_command(manifest, template.slots().next().map(|slot| &slot.kind)));
    }
    for program in &programs {
        if place == Place::Workspace && program.contains('/') && !program.starts_with('/') {
            out.push(format!(
                "a program out of the workspace: `{}` may have been written by what is being evaluated",
                shown(program, 80)
            ));
        }
    }
    if shell {
        out.push("a shell: its arguments are a program".to_owned());
    } else if hidden_shell {
        out.push("a shell among the arguments: what follows it may be a program".to_owned());
    }
    if let Some(name) = &interpreter {
        out.push(format!("an interpreter: `{name}` can run programs from its arguments"));
    }
    if let Some(name) = known(&RAISERS) {
        out.push(format!("more rights than yours: `{name}`"));
    }
    if let Some(name) = known(&STARTERS) {
        out.push(format!("starts other programs: `{name}`"));
    }
    if let Some(name) = known(&REMOTES) {
        out.push(format!("a shell on another machine may read the arguments: `{name}`"));
    }
    if one_of(&ENGINES) {
        let ways: Vec<&str> = template
            .elements()
            .iter()
            .filter_map(|element| match element.parts.first() {
                Some(Part::Literal(text)) if !SHUTS.contains(&text.as_str()) => {
                    Some(text.split('=').next().unwrap_or(text))
                }
                _ => None,
            })
            .filter(|flag| WAYS_OUT.contains(flag))
            .collect();
        if !ways.is_empty() {
            out.push(format!("opens the container to this machine: {}", listed(ways)));
        }
    }
    if command.stdin == Stdin::Plugin {
        out.push(if shell || hidden_shell || interpreter.is_some() {
            "free stdin from the plugin into a program that may run what it reads: as good as any command at all".to_owned()
        } else {
            "free stdin from the plugin into a program".to_owned()
        });
    }
    if !texts.is_empty() {
        let into =
            if shell || hidden_shell || one_of(&REMOTES) { ", in the arguments of a shell" } else { "" };
        out.push(format!("free text from the plugin{into}: {}", listed(texts)));
    }
    let images: Vec<&str> =
        slots().filter(|slot| slot.kind == SlotType::OciRef).map(|slot| slot.name.as_str()).collect();
    if !images.is_empty() {
        out.push(format!("an image of the plugin's choice: {}", listed(images)));
    }
    if slots().any(|slot| slot.kind == SlotType::HostDir) {
        out.push("the path of a directory of the host's".to_owned());
    }
    if !command.env.is_empty() {
        out.push(of_environment(&command.env));
    }
    for option in
        slots().filter(|slot| slot.kind.filler() == Filler::User).skip(usize::from(programs.is_empty()))
    {
        if let SlotType::Option(name) = &option.kind
            && let Some(default) = default_of(manifest, name)
        {
            out.push(format!("your option `{}`, which is `{default}` where you set none", shown(name, 64)));
        }
    }
    out
}

/// What to know about the variables that a command gets.
pub(crate) fn of_environment(env: &[String]) -> String {
    format!("your environment's {}", listed(env.iter().map(String::as_str)))
}

fn users_command(manifest: &Manifest, slot: Option<&SlotType>) -> String {
    let Some(SlotType::Option(name)) = slot else { return "the user's own command, run as you".to_owned() };
    let text = format!("the user's own command, run as you: your option `{}`", shown(name, 64));
    match default_of(manifest, name) {
        // Then it is the plugin's word until the user says another.
        Some(default) => format!("{text}, which is `{default}` where you set none"),
        None => text,
    }
}

fn default_of(manifest: &Manifest, option: &str) -> Option<String> {
    let default = manifest.option(option)?.get("default")?;
    Some(match default {
        Value::String(text) => shown(text, 80),
        other => shown(&other.to_string(), 80),
    })
}

/// What to know about a directory.
pub(crate) fn of_dir(kind: Kind, dir: &Dir) -> Vec<String> {
    let what = match &dir.option {
        Some(option) => format!("the path in your option `{}`", shown(option, 64)),
        None => "a directory that you name".to_owned(),
    };
    let does = match dir.access {
        Access::Read => format!("reads {what}"),
        Access::ReadWrite => format!("reads, changes and removes files in {what}"),
    };
    let mut out = vec![does];
    if dir.access == Access::ReadWrite && kind != Kind::Runner {
        out.push(format!("a {kind} seldom has to write"));
    }
    out
}
