//! What in a manifest a reviewer should stop at, in words.
//!
//! It explains, and decides nothing: what is not named here is bounded by the template all the
//! same. A list of programs' names can't be complete, so each sentence says what is known and
//! none says that something is safe.

use mst_model::Kind;
use serde_json::Value;

use crate::legible::{listed, shown};
use crate::manifest::Manifest;
use crate::request::{Access, CommandTemplate, Dir, Host, Http, Request, Secret, Stdin};
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

/// What to know about a request, most important first.
pub(crate) fn of(manifest: &Manifest, request: &Request) -> Vec<String> {
    match request {
        Request::Exec(command) => of_command(manifest, Place::Exec, command),
        Request::Workspace(command) => of_command(manifest, Place::Workspace, command),
        Request::Dir(dir) => of_dir(manifest.id.kind(), dir),
        Request::Http(http) => of_http(manifest.id.kind(), http),
        Request::Secret(secret) => of_secret(manifest, secret),
        Request::Env(name) => of_env(name),
    }
}

fn of_command(manifest: &Manifest, place: Place, command: &CommandTemplate) -> Vec<String> {
    let mut out = Vec::new();
    let template = &command.template;
    let slots = || template.slots();
    let texts: Vec<&str> = slots()
        .filter(|slot| matches!(slot.kind, SlotType::Text(_)))
        .map(|slot| slot.name.as_str())
        .collect();
    let mut programs = template.programs();
    // Where the user sets none, the option's default is what runs.
    let own = template.elements().first().and_then(|element| element.slots().next());
    let default = own.and_then(|slot| match &slot.kind {
        SlotType::Option(name) => command.defaults.get(name)?.as_str(),
        _ => None,
    });
    let is_users = programs.is_empty();
    programs.extend(default.filter(|_| is_users));
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

    if is_users {
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
        out.push(format!(
            "goes by your own configuration of `{name}`, which may name further programs and hosts"
        ));
    }
    if one_of(&ENGINES) {
        out.push("speaks to a container engine: who may do that is as good as root on its host".to_owned());
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
        out.push("sees a directory of the host's: what goes to a machine, or comes from it".to_owned());
    }
    for var in &command.secrets {
        out.push(format!("the secret `{}`, in its variable `{}`", var.secret, var.name));
    }
    if command.env.iter().any(|name| name == "SSH_AUTH_SOCK") {
        out.push("your SSH agent: may log in wherever your keys do".to_owned());
    }
    if !command.env.is_empty() {
        out.push(format!("your environment's {}", listed(command.env.iter().map(String::as_str))));
    }
    for option in slots().filter(|slot| slot.kind.filler() == Filler::User).skip(usize::from(is_users)) {
        if let SlotType::Option(name) = &option.kind
            && let Some(default) = default_of(manifest, name)
        {
            out.push(format!("your option `{}`, which is `{default}` where you set none", shown(name, 64)));
        }
    }
    out
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
fn of_dir(kind: Kind, dir: &Dir) -> Vec<String> {
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

/// What to know about a destination.
fn of_http(kind: Kind, http: &Http) -> Vec<String> {
    let sees = match kind {
        Kind::Runner => "your options and what it knows of machines",
        Kind::Dataset => "your options and the data that it reads",
        Kind::Judge => "your options and all evidence of a trial: prompts, expected answers, reports, files",
    };
    let mut out = Vec::new();
    let name = match http.to.host() {
        Host::Below(parent) => {
            out.push(format!("a wildcard: every host below `{parent}`, whoever runs it, now and later"));
            parent.as_str()
        }
        Host::Name(name) => name,
        Host::Address(_) => {
            out.push("an address and no name: who has it may change".to_owned());
            ""
        }
    };
    if name.split('.').any(|label| label.starts_with("xn--")) {
        out.push(format!("a name in other letters than it seems to be written in: `{name}`"));
    }
    if http.private {
        out.push(
            "may be an address of this machine or its network: services there that trust who is inside"
                .to_owned(),
        );
    }
    out.push(format!("what the plugin sees may go there: {sees}"));
    out
}

/// What to know about a secret.
fn of_secret(manifest: &Manifest, secret: &Secret) -> Vec<String> {
    let mut out = Vec::new();
    for to in &secret.to {
        out.push(match to.host() {
            Host::Below(parent) => format!("leaves this machine, to any host below `{parent}`: `{to}`"),
            _ => format!("leaves this machine, to `{to}`"),
        });
    }
    for (kind, commands) in [("exec", &manifest.exec), ("workspace", &manifest.workspace)] {
        let gets = |command: &&CommandTemplate| command.secrets.iter().any(|var| var.secret == secret.name);
        for command in commands.iter().filter(gets) {
            out.push(format!(
                "goes into the environment of `{kind}:{}`, whose program can do with it what it likes",
                command.id
            ));
        }
    }
    if out.is_empty() {
        out.push("goes nowhere: nothing in the manifest uses it".to_owned());
    }
    out
}

/// What to know about a variable that the plugin reads itself.
fn of_env(name: &str) -> Vec<String> {
    let mut out = vec!["the plugin reads its value".to_owned()];
    let upper = name.to_ascii_uppercase();
    if ["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH"].iter().any(|word| upper.contains(word)) {
        out.insert(
            0,
            "sounds like a secret: as a `[[secret]]` its value would stay with the host".to_owned(),
        );
    }
    out
}
