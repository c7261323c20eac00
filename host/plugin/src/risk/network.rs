//! Which of a plugin's commands are known to reach the network, in a few words for all of them.

use super::named::{Named, literals};
use super::programs::{CLUSTERS, ENGINES, FETCHERS, NETWORK, REMOTES};
use crate::legible::{code, listed};
use crate::manifest::Manifest;
use crate::request::CommandTemplate;
use crate::template::{Element, Part, SlotType};

/// What of its commands is known to reach the network, each way once. None of it is complete: any program
/// may.
pub(crate) fn reached(manifest: &Manifest) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut programs: Vec<String> = Vec::new();
    for command in manifest.exec.iter().chain(&manifest.workspace) {
        let named = Named::of(command);
        let engines = named.on(ENGINES);
        if !engines.is_empty() {
            out.extend(engine(
                command,
                &engines.iter().map(|name| code(name, 80)).collect::<Vec<_>>().join(" or "),
            ));
        }
        let remotes = named.on(REMOTES);
        if !remotes.is_empty() {
            let to = host(&command.template).unwrap_or_default();
            out.push(format!("{} logs in{to}", listed(remotes)));
        }
        for list in [NETWORK, FETCHERS, CLUSTERS] {
            programs.extend(named.on(list).into_iter().map(str::to_owned));
        }
    }
    programs.sort();
    programs.dedup();
    if !programs.is_empty() {
        out.push(format!("commands name {}", listed(programs.iter().map(String::as_str))));
    }
    let mut once: Vec<String> = Vec::new();
    for way in out {
        if !once.contains(&way) {
            once.push(way);
        }
    }
    once
}

/// What an engine fetches, and which network its containers have.
fn engine(command: &CommandTemplate, names: &str) -> Vec<String> {
    let elements = command.template.elements();
    let words: Vec<&str> = elements.iter().skip(1).filter_map(whole).collect();
    let does = |wanted: &[&str]| words.iter().take(2).any(|word| wanted.contains(word));
    let makes = does(&["create", "run"]);
    let mut out =
        vec![format!("{names} speaks to its engine, wherever your configuration says that this is")];
    if does(&["build", "pull", "push"]) || (makes && !words.contains(&"--pull=never")) {
        out.push("images are pulled from registries".to_owned());
    }
    if makes {
        out.push(match networks(elements).as_slice() {
            [] => "containers have the engine's default network".to_owned(),
            [Network::Fixed(network)] if *network == "none" => "containers have no network".to_owned(),
            [Network::Fixed(network)] => format!("containers have the network {}", code(network, 80)),
            [Network::Option(option)] => format!(
                "containers have the network that your option {} names, or else the engine's default one",
                code(option, 64)
            ),
            all if all.iter().any(|network| matches!(network, Network::Other)) => {
                "containers have the network that the plugin names".to_owned()
            }
            _ => "containers have the networks that their command names".to_owned(),
        });
    }
    out
}

enum Network<'a> {
    Fixed(&'a str),
    Option(&'a str),
    Other,
}

/// What the arguments say of the network of what an engine makes.
fn networks(elements: &[Element]) -> Vec<Network<'_>> {
    const FLAGS: [&str; 2] = ["--network", "--net"];
    let mut out = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let Some(Part::Literal(text)) = element.parts.first() else { continue };
        let (flag, value) = text.split_once('=').unwrap_or((text, ""));
        if !FLAGS.contains(&flag) {
            continue;
        }
        let next = || elements.get(at + 1).and_then(whole);
        out.push(match &element.parts[1..] {
            [] if text.contains('=') => Network::Fixed(value),
            [] => next().map_or(Network::Other, Network::Fixed),
            [Part::Slot(slot)] if value.is_empty() => match &slot.kind {
                SlotType::Option(option) => Network::Option(option),
                _ => Network::Other,
            },
            _ => Network::Other,
        });
    }
    out
}

fn whole(element: &Element) -> Option<&str> {
    literals(element).next().filter(|literal| literal.whole).map(|literal| literal.text)
}

/// Where a login goes, as far as it stands behind a `--`.
fn host(template: &crate::template::Template) -> Option<String> {
    let elements = template.elements();
    let dashes = elements.iter().position(|element| whole(element) == Some("--"))?;
    match elements.get(dashes + 1)?.parts.as_slice() {
        [Part::Literal(host)] => Some(format!(" to {}", code(host, 80))),
        [Part::Slot(slot)] => match &slot.kind {
            SlotType::Option(option) => Some(format!(" to the host in your option {}", code(option, 64))),
            _ => Some(" to a host of the plugin's choice".to_owned()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(argvs: &[&str]) -> String {
        let mut text = "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
            [options]\ntype='object'\n[options.properties.net]\ntype='string'\n[options.properties.host]\n\
            type='string'"
            .to_owned();
        for (at, argv) in argvs.iter().enumerate() {
            text += &format!("\n[[exec]]\nid='c{at}'\nargv={argv}\ntimeout='1s'");
        }
        reached(&Manifest::from_toml(&text).expect("valid")).join("; ")
    }

    #[test]
    fn what_is_known_to_reach_the_network_is_named_once() {
        let all = [
            of(&["['docker', 'ps']", "['docker', 'ps', '-a']"]),
            of(&["['docker', 'run', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '--network=none', 'x']"]),
            of(&["['docker', 'create', '--pull=never', '--net', 'host', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '[--network={option(net)}]', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '--network={n:ident}', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '--network=none', '--network=host', 'x']"]),
            of(&["['ssh', '--', '{option(host)}', 'ls']", "['sh', '-c', 'curl https://evil.example']"]),
            of(&["['ssh', '--', '{h:ident}', 'ls']", "['ssh', '--', 'h', 'ls']", "['ssh', 'h', 'ls']"]),
        ];
        assert_eq!(of(&["['true']"]), "");
        let text = all.join("\n");
        let text = text.replace("speaks to its engine, wherever your configuration says that this is", "(…)");
        insta::assert_snapshot!(text, @"
        `docker` (…)
        `docker` (…); images are pulled from registries; containers have the engine's default network
        `docker` (…); containers have no network
        `docker` (…); containers have the network `host`
        `docker` (…); containers have the network that your option `net` names, or else the engine's default one
        `docker` (…); containers have the network that the plugin names
        `docker` (…); containers have the networks that their command names
        `ssh` logs in to the host in your option `host`; commands name `curl`
        `ssh` logs in to a host of the plugin's choice; `ssh` logs in to `h`; `ssh` logs in
        ");
    }
}
