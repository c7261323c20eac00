//! Which of a plugin's commands are known to reach the network, in a few words for all of them.

use super::engine::{Verbs, told};
use super::flags::{Flag, Value, flags};
use super::named::{Named, literals};
use super::programs::{CLUSTERS, ENGINES, FETCHERS, NETWORK, REMOTES};
use super::whereabouts::login_host;
use crate::legible::{code, listed};
use crate::manifest::Manifest;
use crate::request::CommandTemplate;
use crate::template::{Filler, Part, SlotType};

/// What of its commands is known to reach the network, each way once. None of it is complete: any program
/// may.
pub(crate) fn reached(manifest: &Manifest) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut programs: Vec<String> = Vec::new();
    let commands = || manifest.exec.iter().chain(&manifest.workspace);
    let may_connect = commands().any(|command| connects(command, &Named::of(command)));
    for command in commands() {
        let named = Named::of(command);
        let engines = named.on(ENGINES);
        if !engines.is_empty() {
            out.extend(engine(
                command,
                &named,
                &engines.iter().map(|name| code(name, 80)).collect::<Vec<_>>().join(" or "),
                may_connect,
            ));
        }
        let remotes = named.on(REMOTES);
        if !remotes.is_empty() {
            let to = host(command).unwrap_or_else(|| " where its line leads".to_owned());
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
fn engine(command: &CommandTemplate, named: &Named, names: &str, may_connect: bool) -> Vec<String> {
    let never = |flag: &Flag<'_>| {
        flag.is_fixed && flag.name == "--pull" && matches!(flag.value, Value::Fixed("never"))
    };
    let others = |flag: &Flag<'_>| flag.name == "--pull" && !never(flag);
    let mut out = vec![format!("{names} speaks to its engine, where your configuration says")];
    for told in told(command, named) {
        let verbs = Verbs::of(&told);
        let makes = verbs.is_open || verbs.may_be(&["create", "run"]);
        let flags = flags(command, &told, &verbs);
        let pulls_never =
            flags.as_ref().is_some_and(|flags| flags.iter().any(never) && !flags.iter().any(others));
        if verbs.may_be(&["build", "pull", "push"]) || (makes && !pulls_never) {
            out.push("images are pulled from registries".to_owned());
        }
        if makes {
            out.push(network(command, flags.as_deref(), may_connect));
        }
    }
    out
}

/// Which network containers have, of which these flags are certain.
fn network(command: &CommandTemplate, flags: Option<&[Flag<'_>]>, may_connect: bool) -> String {
    const DEFAULT: &str =
        "or else the engine's default one, which may reach the engine's machine and its network";
    const UNKNOWN: &str = "which network containers have is not known";
    let Some(flags) = flags else { return UNKNOWN.to_owned() };
    if flags.iter().any(|flag| flag.name.starts_with("--pod")) {
        return UNKNOWN.to_owned();
    }
    let networks: Vec<&Flag<'_>> =
        flags.iter().filter(|flag| ["--network", "--net"].contains(&flag.name)).collect();
    let is_none = |flag: &&Flag<'_>| flag.is_fixed && matches!(flag.value, Value::Fixed("none"));
    let said = match networks.as_slice() {
        [] => {
            "containers have the engine's default network, which may reach the engine's machine and its network".to_owned()
        }
        all if all.iter().all(is_none) => match may_connect {
            false => return "containers have no network".to_owned(),
            true => "containers are made with no network".to_owned(),
        },
        [Flag { value: Value::Fixed(network), is_fixed: true, .. }] => {
            format!("containers have the network {}", code(network, 80))
        }
        [Flag { value: Value::Option(option), .. }] => {
            let named = code(option, 64);
            match command.defaults.get(*option) {
                // Then the plugin says it until the user does.
                Some(default) => {
                    let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
                    let default = code(&default, 80);
                    format!("containers have the network that your option {named} names, or else {default}")
                }
                None => format!("containers have the network that your option {named} names, {DEFAULT}"),
            }
        }
        all if all.iter().any(|flag| matches!(flag.value, Value::Other(Filler::Plugin))) => {
            "containers have the network that the plugin names".to_owned()
        }
        all if all.iter().any(|flag| flag.is_fixed) => {
            "containers have the networks that their command names".to_owned()
        }
        _ => format!("containers have the networks that their command names, {DEFAULT}"),
    };
    match may_connect {
        true => format!("{said}; a command may connect them to others"),
        false => said,
    }
}

/// Whether a command may connect a container to a further network.
fn connects(command: &CommandTemplate, named: &Named) -> bool {
    let told = told(command, named);
    let names = || command.template.elements().iter().flat_map(literals);
    told.iter().any(|told| Verbs::of(told).is_open)
        || (!told.is_empty() && names().any(|literal| literal.text.contains("connect")))
}

/// Where a login goes, where nothing before the host can lead it elsewhere.
fn host(command: &CommandTemplate) -> Option<String> {
    let host = login_host(command)?;
    match host.parts.as_slice() {
        [Part::Literal(host)] if !host.starts_with('-') => Some(format!(" to {}", code(host, 80))),
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
            type='string'\n[options.properties.preset]\ntype='string'\ndefault='host'"
            .to_owned();
        for (at, argv) in argvs.iter().enumerate() {
            text += &format!("\n[[exec]]\nid='c{at}'\nargv={argv}\ntimeout='1s'");
        }
        reached(&Manifest::from_toml(&text).expect("valid")).join("; ")
    }

    #[test]
    fn that_there_is_no_network_is_said_only_where_it_is_certain() {
        assert!(
            of(&["['docker', '--debug', 'run', '-it', '--name', 'x', '--network', 'none', 'img']"])
                .contains("containers have no network")
        );
        for argvs in [
            &["['docker', 'run', '--pull=never', '--network', '{n:enum(none|host)}', 'img']"][..],
            &["['docker', 'run', '--network={n:enum(none|host)}', 'img']"],
            &["['docker', 'run', '[--network={n:enum(none)}]', 'img']"],
            &["['docker', 'run', 'img', '--pull=never', '--network=none']"],
            &["['docker', 'run', '--hostname', '--network=none', 'img']"],
            &["['docker', 'run', '--network=none', '{o:option(net)}', 'img']"],
            &["['docker', 'run', '--network=none', '--net=host', 'img']"],
            &["['podman', 'run', '--network=none', '--pod=x', 'img']"],
            &["['docker', 'run', '{f:enum(--network=host|--init)}', 'img']"],
            &["['docker', 'run', '--network=none', '{f:enum(--network=host|--init)}', 'img']"],
            &["['wrap', 'docker', 'run', '--network=none', 'img']"],
            &["['sh', '-c', 'docker run --network=none img']"],
            &["['/tmp/docker', 'run', '--network=none', 'img']"],
            &["['docker', '{v:ident}', '--network=none', 'img']"],
            &[
                "['docker', 'create', '--network=none', 'img']",
                "['docker', 'network', 'connect', 'bridge', '{machine}']",
            ],
            &[
                "['docker', 'create', '--network=none', 'img']",
                "['docker', 'network', '{v:ident}', 'bridge', 'x']",
            ],
        ] {
            let said = of(argvs);
            assert!(!said.contains("have no network"), "{argvs:?}: {said}");
            assert!(said.contains("network"), "{argvs:?}: {said}");
        }
        for argv in [
            "['docker', 'run', '{f:enum(--network=host|--init)}', 'img']",
            "['docker', '{v:enum(ps|run)}', 'img']",
            "['sh', '-c', 'docker run img']",
            "['docker', '--log-level', 'error', 'run', 'img']",
            "['docker', 'run', 'img', '--pull=never', '--network=none']",
        ] {
            assert!(of(&[argv]).contains("images are pulled"), "{argv}");
        }
        let choice = of(&["['docker', 'run', '{f:enum(--network=host|--init)}', 'img']"]);
        assert!(choice.contains("that their command names, or else"), "{choice}");
    }

    #[test]
    fn a_host_is_named_only_where_nothing_leads_elsewhere() {
        for argv in [
            "['ssh', '-oHostName=evil', '-T', '--', 'good', 'ls']",
            "['ssh', '-oHostName evil', '--', 'good', 'ls']",
            "['ssh', '-o{x:text(/.+/)}', '--', 'good', 'ls']",
            "['ssh', '-o{x:enum(BatchMode=yes|HostName=evil)}', '--', 'good', 'ls']",
            "['ssh', '-Jevil', '--', 'good', 'ls']",
            "['ssh', '-Wevil:22', '--', 'good', 'ls']",
            "['ssh', '-F{x:machine-path}', '--', 'good', 'ls']",
            "['ssh', '-S/tmp/x', '--', 'good', 'ls']",
            "['ssh', '-o', '--', 'good', 'ls']",
            "['sh', '-c', 'ssh evil ls', '--', 'good']",
            "['gcloud', 'compute', 'ssh', 'vm', '--', 'uptime']",
            "['{p:enum(ssh|rsh)}', '--', 'good', 'ls']",
        ] {
            assert!(!of(&[argv]).contains(" to "), "{argv}: {}", of(&[argv]));
        }
        // What a script of a known shape runs as it stands goes where that would.
        let script = r#"a=$1; shift; tar -C "$a" -cf - . | "$@""#;
        let argv = |script: &str, first: &str| {
            format!("['sh', '-c', '{script}', 'sh', '{first}', 'ssh', '--', 'h', 'cat']")
        };
        assert_eq!(of(&[&argv(script, "{d:host-dir}"), "['ssh', '--', 'h', 'ls']"]), "`ssh` logs in to `h`");
        for (script, first) in [
            (script, "{d:ident...}"),
            (script, "[{d:host-dir}]"),
            (script, "x"),
            (r#"a=$1; shift; "$1" evil"#, "{d:host-dir}"),
            (r#""$@""#, "{d:host-dir}"),
        ] {
            assert_eq!(of(&[&argv(script, first)]), "`ssh` logs in where its line leads", "{script}");
        }
        let said = of(&["['ssh', '-T', '-oBatchMode=yes', '[-p{p:uint(1..9)}]', '--', 'good', 'ls']"]);
        assert_eq!(said, "`ssh` logs in to `good`");
    }

    #[test]
    fn what_is_known_to_reach_the_network_is_named_once() {
        let all = [
            of(&["['docker', 'ps']", "['docker', 'ps', '-a']"]),
            of(&["['docker', 'run', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '--network=none', 'x']"]),
            of(&["['docker', 'create', '--pull=never', '--net', 'host', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '[--network={option(net)}]', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '[--net={option(preset)}]', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '--network={n:ident}', 'x']"]),
            of(&["['docker', 'run', '--pull=never', '--network=none', '--network=host', 'x']"]),
            of(&["['ssh', '--', '{option(host)}', 'ls']", "['sh', '-c', 'curl https://evil.example']"]),
            of(&["['ssh', '--', '{h:ident}', 'ls']", "['ssh', '--', 'h', 'ls']", "['ssh', 'h', 'ls']"]),
        ];
        assert_eq!(of(&["['true']"]), "");
        let text = all.join("\n");
        let text = text.replace("speaks to its engine, where your configuration says", "(…)");
        insta::assert_snapshot!(text, @"
        `docker` (…)
        `docker` (…); images are pulled from registries; containers have the engine's default network, which may reach the engine's machine and its network
        `docker` (…); containers have no network
        `docker` (…); containers have the network `host`
        `docker` (…); containers have the network that your option `net` names, or else the engine's default one, which may reach the engine's machine and its network
        `docker` (…); containers have the network that your option `preset` names, or else `host`
        `docker` (…); containers have the network that the plugin names
        `docker` (…); containers have the networks that their command names
        `ssh` logs in to the host in your option `host`; commands name `curl`
        `ssh` logs in to a host of the plugin's choice; `ssh` logs in to `h`; `ssh` logs in where its line leads
        ");
    }
}
