//! Where that runs which a runner's command starts for mst: the worker, and with it the clients that
//! are evaluated.
//!
//! Only what certainly leads elsewhere counts as elsewhere: a program by its plain name, the words of
//! its command line that make it do so, and mst's own command behind them. Of all else it is said that
//! it is not known, and
//! to be taken for this machine.

use super::named::literals;
use super::programs::{
    INTERPRETERS, RAISERS, RUNS_IN_CONTAINERS, RUNS_IN_PODS, SHELLS, STARTERS, base, runs_program,
};
use super::{Gist, Mark, script};
use crate::legible::listed;
use crate::request::CommandTemplate;
use crate::template::{Element, Part, Slot, SlotType};

/// What to know about a command that takes one of mst's own; nothing about others.
pub(super) fn marks(command: &CommandTemplate, leads_on: bool) -> Vec<Mark> {
    let Some(place) = mark(command, leads_on) else { return Vec::new() };
    let here = matches!(place.gist, Some(Gist::Here | Gist::Somewhere));
    let login = "clients that run here can use keys, agents and logins of yours";
    [place].into_iter().chain(here.then(|| Mark::grave(Gist::Login, login))).collect()
}

/// Where it runs the clients.
fn mark(command: &CommandTemplate, leads_on: bool) -> Option<Mark> {
    let elements = command.template.elements();
    let at = elements.iter().position(|element| element.slots().any(is_msts))?;
    let programs = command.programs();
    let all = |names: &[&str]| !programs.is_empty() && programs.iter().all(|name| names.contains(name));
    let does = |words: &[&str]| elements.get(1).and_then(text).is_some_and(|word| words.contains(&word));
    let names = listed(programs.iter().copied());
    Some(
        if all(RUNS_IN_CONTAINERS)
            && does(&["exec", "run"])
            && at > 1
            && !may_run_here(command, &elements[2..at])
        {
            let text = "the clients run in a container of the engine's, which confines them as far as the command \
                    that makes it says";
            Mark::grave(Gist::InContainer, text)
        } else if all(RUNS_IN_PODS) && does(&["exec"]) && dashes(elements, at).is_some() {
            let text = "the clients run in a pod of a cluster: what confines them there mst does not know";
            Mark::grave(Gist::Elsewhere, text)
        } else if all(&["ssh"]) && behind_login(elements, at) {
            let text = "the clients run on the host that it logs in to (it may be this one), with all that this \
                    account may do";
            Mark::grave(Gist::Elsewhere, text)
        } else if !leads_on && !programs.is_empty() && programs.iter().all(|program| runs_here(program)) {
            Mark::grave(
                Gist::Here,
                "the clients run on this machine, as you, without isolation: they can read, change and send all \
             that you can, expected answers and mst's files",
            )
        } else {
            let text = match names.as_str() {
                "" => {
                    "where the clients run is not known: take it for this machine, as you, without isolation"
                        .to_owned()
                }
                names => format!(
                    "where {names} runs the clients is not known: take it for this machine, as you, without isolation"
                ),
            };
            Mark::grave(Gist::Somewhere, text)
        },
    )
}

fn is_msts(slot: &Slot) -> bool {
    matches!(slot.kind, SlotType::CommandArgs | SlotType::CommandShell)
}

fn runs_here(program: &str) -> bool {
    [SHELLS, INTERPRETERS, RAISERS, STARTERS].iter().any(|list| list.contains(&base(program)))
}

/// The text of an element that is nothing else.
fn text(element: &Element) -> Option<&str> {
    match element.parts.as_slice() {
        [Part::Literal(text)] if !element.optional => Some(text),
        _ => None,
    }
}

/// Where the first `--` stands before an element.
fn dashes(elements: &[Element], at: usize) -> Option<usize> {
    elements[..at].iter().position(|element| text(element) == Some("--"))
}

/// Whether what stands at `at` is what a shell on the other host reads: options of `ssh` that are each
/// whole in one element, a `--`, the host, and then it. Elsewhere it could be an option's argument, which
/// `ssh` may run here.
fn behind_login(elements: &[Element], at: usize) -> bool {
    let Some(dashes) = dashes(elements, at) else { return false };
    let may_be_option = |element: &Element| match element.parts.first() {
        Some(Part::Literal(text)) => text.starts_with('-'),
        Some(Part::Slot(Slot { kind: SlotType::Enum(words), .. })) => {
            words.iter().any(|word| word.starts_with('-'))
        }
        _ => false,
    };
    at > dashes + 1
        && elements[1..dashes].iter().all(is_whole_option)
        && !elements[dashes + 1..=at].iter().any(may_be_option)
}

/// Whether what stands between an engine's verb and mst's own command may have it run a program here.
fn may_run_here(command: &CommandTemplate, elements: &[Element]) -> bool {
    elements.iter().any(|element| {
        let begins_open = match element.parts.first() {
            // A flag whose name goes on in a slot.
            Some(Part::Literal(text)) => {
                element.parts.len() > 1 && (text == "-" || (text.starts_with("--") && !text.contains('=')))
            }
            Some(Part::Slot(slot)) => match &slot.kind {
                // What the user sets is the user's.
                SlotType::Option(name) => {
                    let default = command.defaults.get(name).map(ToString::to_string).unwrap_or_default();
                    default.contains("\"-")
                }
                _ => false,
            },
            _ => false,
        };
        begins_open || literals(element).any(|literal| runs_program(literal.text))
    })
}

/// The host that `ssh` certainly logs in to: behind options that are each whole and lead nowhere else.
pub(super) fn login_host(command: &CommandTemplate) -> Option<&Element> {
    let elements = login(command)?;
    let dashes = dashes(elements, elements.len())?;
    let is_plain = elements[1..dashes].iter().all(|element| is_whole_option(element) && !leads_away(element));
    elements.get(dashes + 1).filter(|host| is_plain && !host.optional)
}

/// The elements of `ssh` with what it is certainly told: the whole command, or what a script runs as it stands.
fn login(command: &CommandTemplate) -> Option<&[Element]> {
    let elements = command.template.elements();
    if command.programs() == ["ssh"] {
        return Some(elements);
    }
    let [shell, c, told, name, first, login @ ..] = elements else { return None };
    let is_one = |element: &Element| {
        !element.optional && element.whole().is_some_and(|slot| slot.kind == SlotType::HostDir)
    };
    let is_told = matches!(text(shell), Some("sh" | "/bin/sh"))
        && text(c) == Some("-c")
        && text(told).is_some_and(script::runs_rest)
        && text(name).is_some()
        && is_one(first);
    (is_told && login.first().and_then(text) == Some("ssh")).then_some(login)
}

/// The elements that may be a login's options: those before the `--` where they are whole, or else all.
pub(super) fn login_options(command: &CommandTemplate) -> &[Element] {
    let elements = command.template.elements();
    let behind = elements.get(1..).unwrap_or_default();
    match dashes(elements, elements.len()) {
        Some(dashes) if command.programs() == ["ssh"] && elements[1..dashes].iter().all(is_whole_option) => {
            &elements[1..dashes]
        }
        _ => behind,
    }
}

/// Words of `ssh -o` that say nothing of the host.
const STAYS: [&str; 23] = [
    "batchmode",
    "clearallforwardings",
    "connectionattempts",
    "connecttimeout",
    "controlmaster",
    "escapechar",
    "exitonforwardfailure",
    "forwardagent",
    "forwardx11",
    "forwardx11trusted",
    "identitiesonly",
    "identityfile",
    "loglevel",
    "passwordauthentication",
    "permitlocalcommand",
    "port",
    "requesttty",
    "serveralivecountmax",
    "serveraliveinterval",
    "stricthostkeychecking",
    "updatehostkeys",
    "user",
    "userknownhostsfile",
];

/// Whether an option may lead a login to another host than the one that is named.
fn leads_away(element: &Element) -> bool {
    let Some(Part::Literal(text)) = element.parts.first() else { return true };
    let Some(setting) = text.strip_prefix("-o") else {
        return ["-F", "-J", "-O", "-S", "-W"].iter().any(|option| text.starts_with(option));
    };
    let Some((key, value)) = setting.split_once('=') else { return true };
    let key = key.trim().to_ascii_lowercase();
    let is_shut = ["controlpath", "proxycommand", "proxyjump"].contains(&key.as_str())
        && value == "none"
        && element.parts.len() == 1;
    !is_shut && !STAYS.contains(&key.as_str())
}

/// Options of `ssh` that take an argument, and such as take none.
const WITH: &str = "BbcDEeFIiJLlmOopQRSWw";
pub(super) const WITHOUT: &str = "46AaCfGgKkMNnqsTtVvXxYy";

/// Whether an element is an option of `ssh` with its argument, where it takes one.
fn is_whole_option(element: &Element) -> bool {
    let Some(Part::Literal(text)) = element.parts.first() else { return false };
    let Some(letters) = text.strip_prefix('-') else { return false };
    match letters.chars().next() {
        Some(letter) if WITH.contains(letter) => letters.len() > 1 || element.parts.len() > 1,
        Some(_) => element.parts.len() == 1 && letters.chars().all(|letter| WITHOUT.contains(letter)),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;
    use crate::request::Request;

    #[track_caller]
    fn gist(argv: &str) -> Option<Gist> {
        let text = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
             [options]\ntype='object'\n[options.properties.engine]\nenum=['docker', 'podman']\n\
             [options.properties.any]\ntype='string'\ndefault='docker'\n\
             [options.properties.flags]\ntype='array'\ndefault=['--runtime=/tmp/x']\n\
             [[exec]]\nid='c'\nargv={argv}\ntimeout='1s'"
        );
        let manifest = Manifest::from_toml(&text).expect(argv);
        let marks = crate::risk::of(&manifest, &Request::Exec(manifest.exec[0].clone()));
        let all = [Gist::Here, Gist::Somewhere, Gist::Elsewhere, Gist::InContainer];
        marks.into_iter().filter_map(|mark| mark.gist).find(|gist| all.contains(gist))
    }

    #[test]
    fn what_certainly_leads_elsewhere_is_elsewhere() {
        for (argv, gist_of) in [
            ("['docker', 'exec', '-i', '{machine}', '{command...}']", Gist::InContainer),
            ("['podman', 'run', 'x', 'sh', '-c', '{command:shell}']", Gist::InContainer),
            ("['{option(engine)}', 'exec', '{machine}', '{command...}']", Gist::InContainer),
            ("['{e:enum(docker|podman)}', 'exec', '{machine}', '{command...}']", Gist::InContainer),
            ("['ssh', '-T', '-oBatchMode=yes', '--', 'host', 'exec {command:shell}']", Gist::Elsewhere),
            ("['ssh', '-T', '--', '{h:ident}', 'exec {command:shell}']", Gist::Elsewhere),
            ("['kubectl', 'exec', '-i', 'pod', '--', '{command...}']", Gist::Elsewhere),
        ] {
            assert_eq!(gist(argv), Some(gist_of), "{argv}");
        }
    }

    #[test]
    fn what_runs_here_is_said_to_and_what_is_not_known_is_taken_for_it() {
        for argv in [
            "['/bin/sh', '-c', 'exec {command:shell}']",
            "['env', 'A=b', '{command...}']",
            "['sudo', '{command...}']",
        ] {
            assert_eq!(gist(argv), Some(Gist::Here), "{argv}");
        }
        for argv in [
            "['box', '{command...}']",
            "['/tmp/docker', 'exec', '{machine}', '{command...}']",
            "['docker', 'compose', 'exec', 'x', '{command...}']",
            "['podman', 'unshare', '{command...}']",
            "['{e:enum(docker|sh)}', 'exec', '{machine}', '{command...}']",
            "['{option(any)}', 'exec', '{machine}', '{command...}']",
            // An engine that is told to runs programs here.
            "['podman', 'run', '--runtime=/tmp/x', 'img', '{command...}']",
            "['podman', 'run', '--runtime', '/tmp/x', 'img', '{command...}']",
            "['podman', 'run', '--conmon=/tmp/x', 'img', '{command...}']",
            "['podman', 'run', '--hooks-dir={x:machine-path}', 'img', '{command...}']",
            "['podman', 'run', '{f:enum(--init|--runtime=/tmp/x)}', 'img', '{command...}']",
            "['podman', 'run', '{option(flags)}', 'img', '{command...}']",
            "['podman', 'run', '--run{x:text(/.+/)}', 'img', '{command...}']",
            // What mentions an engine or a login need not go there.
            "['sh', '-c', 'true docker exec x; exec {command:shell}']",
            "['sh', '-c', 'exec {command:shell}', 'ssh', '--', 'h']",
            // An option's argument is run here.
            "['ssh', '-oProxyCommand={command:shell}', '--', 'host', 'x']",
            "['ssh', '--', '-oProxyCommand={command:shell}', 'host']",
            "['ssh', '-l', '--', '-o', 'ProxyCommand={command:shell}', 'host']",
            "['ssh', '-o', '--', 'h', 'ProxyCommand={command:shell}']",
            "['ssh', '-Tl', '--', '-o', 'ProxyCommand={command:shell}', 'host']",
            "['ssh', '{f:enum(-T|-l)}', '--', 'h', 'ProxyCommand={command:shell}']",
            "['ssh', 'host', '{command:shell}']",
            "['kubectl', 'exec', 'pod', '{command...}']",
        ] {
            assert_eq!(gist(argv), Some(Gist::Somewhere), "{argv}");
        }
        assert_eq!(gist("['sh', '-c', 'true']"), None);
    }
}
