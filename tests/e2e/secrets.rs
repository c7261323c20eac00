//! A value that a client gets through `pass_env`, or a plugin's program as its secret, is nowhere else.

use std::fs;

use serde_json::json;

use crate::support::{
    Eval, Output, Running, Space, case, example, files_below, holds, missing, need, sha256, wait_until, wasm,
};

/// As no other text has it, so that finding it means something.
const VALUE: &str = "tok_5e3a91c7b2d84f60";

/// Files below `dir` that hold the value, or have it in their name.
fn found_below(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let files = files_below(dir).into_iter();
    // A file may go away while it is looked at.
    files
        .filter(|path| {
            holds(path.as_os_str().as_encoded_bytes(), VALUE)
                || fs::read(path).is_ok_and(|bytes| holds(&bytes, VALUE))
        })
        .collect()
}

/// Processes that have the value in their arguments.
fn found_in_arguments() -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("lists").flatten();
    processes
        .map(|process| process.path().join("cmdline"))
        .filter(|path| fs::read(path).is_ok_and(|bytes| holds(&bytes, VALUE)))
        .map(|path| path.display().to_string())
        .collect()
}

#[test]
fn it_is_in_no_file_no_output_and_no_arguments() {
    let space = Space::new();
    fs::create_dir(space.path("gate")).expect("made");
    // Said by its length, that it was there.
    Eval::new()
        .client("echo ${#TOKEN}; env > /dev/null; touch $GATE/$MST_CASE_ID; while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done; exit 3")
        .set("client.pass_env", json!(["TOKEN"]))
        .set("client.env", json!({"GATE": space.text("gate")}))
        .cases(["a", "b"].map(case))
        .judges(json!([
            {"plugin": "mst/judge/text", "options": {"mode": "number", "value": VALUE.len()}},
            {"id": "has-none", "plugin": "mst/judge/command", "options": {"command": ["sh", "-c", "env; test -z \"$TOKEN\""]}},
            {"id": "broken", "plugin": "mst/judge/command", "options": {"command": "no-such-program"}},
        ]))
        .write(&space);
    let mut command = space.command(["run", "eval.yaml", "--json", "--concurrency", "2"]);
    command.env("TOKEN", VALUE);
    let running = Running::start(&space, command);
    wait_until("both trials", || ["a", "b"].iter().all(|name| space.path("gate").join(name).exists()));
    let root = space.dir().parent().expect("a root").to_owned();
    assert_eq!(found_below(&root), [""; 0].map(std::path::PathBuf::from), "while it runs");
    assert_eq!(found_in_arguments(), [""; 0]);
    space.write("gate/go", "");
    let output = running.end().exits(106);
    assert!(!holds(&output.raw.0, VALUE) && !holds(&output.raw.1, VALUE), "{output}");
    assert_eq!(found_below(&root), [""; 0].map(std::path::PathBuf::from));
    let run = space.run();
    assert!(run.grade("text", "a/v/0")["verdict"]["finding"] == "pass", "the client had it");
    assert!(run.grade("has-none", "a/v/0")["verdict"]["finding"] == "pass", "the judge had it not");
    assert!(
        fs::read_to_string(run.dir().join("run.json")).expect("reads").contains("\"TOKEN\""),
        "its name is recorded"
    );
    space.assert_tidy();
}

#[test]
fn it_is_in_no_error_either() {
    let space = Space::new();
    let client = json!({"kind": "command", "argv": ["no-such-agent"], "pass_env": ["TOKEN"]});
    Eval::new().set("client", client).write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("TOKEN", VALUE);
    let output = space.finish(command).exits(106);
    assert!(!holds(&output.raw.0, VALUE) && !holds(&output.raw.1, VALUE), "{output}");
    assert_eq!(found_below(&space.path("runs")).len(), 0);
}

/// The runner of directories with a secret in the environment of the templates that make a machine and
/// start a worker. Both make sure that they have it, say it, and go on with `then`.
fn with_a_secret(create: &str, exec: &str) -> Option<Space> {
    let bytes = fs::read(example("dir-runner")?).expect("reads");
    let mut manifest = wasm::manifest(&bytes);
    manifest["secret"] = json!([{"name": "token", "about": "For tests."}]);
    let digest = sha256(VALUE.as_bytes());
    let digest = digest.trim_start_matches("sha256:");
    let say =
        format!("printf %s \"$TOKEN\" | sha256sum | grep -q {digest} || exit 7; echo \"it is $TOKEN\" >&2; ");
    for template in manifest["exec"].as_array_mut().expect("templates") {
        match template["id"].as_str() {
            Some("create") => {
                let made = ["{option(base)}/{machine}", "{option(base)}/{machine}/run-{run}"];
                let script = format!("{say}echo \"$TOKEN\"; {create}");
                template["argv"] = json!(["/bin/sh", "-c", script, "sh", made[0], made[1]]);
            }
            Some("exec") => template["argv"] = json!(["/bin/sh", "-c", format!("{say}{exec}")]),
            _ => continue,
        }
        template["env"] = json!(["TOKEN={{secret:token}}"]);
    }
    let space = Space::new();
    fs::create_dir(space.path("machines")).expect("made");
    space.write("runner.wasm", wasm::with_manifest(&bytes, &manifest));
    bind(&space, "env:ACME_TOKEN");
    Some(space)
}

/// Says where the runner's secret comes from.
fn bind(space: &Space, source: &str) {
    let source = format!("secret:token={source}");
    space.mst(["plugin", "add", "runner.wasm", "--grant", "all", "--bind", &source]).exits(0);
}

const MAKE: &str = "exec mkdir -m 700 -- \"$1\" \"$2\"";
const RUN: [&str; 6] =
    ["run", "eval.yaml", "--runner", "example/runner/dir", "--runner-option", "base=machines"];

fn run_with_the_value(space: &Space) -> Output {
    let mut command = space.command(RUN);
    command.env("ACME_TOKEN", VALUE);
    let output = space.finish(command);
    assert!(!holds(&output.raw.0, VALUE) && !holds(&output.raw.1, VALUE), "{output}");
    assert_eq!(found_below(space.dir().parent().expect("a root")).len(), 0);
    output
}

/// A desktop's session with a keyring that holds the value, in which `mst` runs with these arguments.
fn in_a_session(space: &Space, args: &[&str]) -> Option<std::process::Command> {
    let installed = |program: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|dir| dir.join(program).is_file())
    };
    for program in ["dbus-run-session", "gnome-keyring-daemon", "secret-tool"] {
        if !installed(program) {
            missing("KEYRING", &format!("there is no {program}"));
            return None;
        }
    }
    let script = r#"
        value=$KEPT; unset KEPT
        printf pw | gnome-keyring-daemon --unlock --components=secrets > daemon 2>&1 || exit 90
        printf %s "$value" | secret-tool store --label=test service acme username bot || exit 91
        unset value
        exec "$@"
    "#;
    let mut command = space.any_command("dbus-run-session", ["--", "sh", "-c", script, "sh"]);
    command.arg(env!("CARGO_BIN_EXE_mst")).args(args);
    fs::create_dir_all(space.path("session")).expect("made");
    command.env("KEPT", VALUE).env("XDG_RUNTIME_DIR", space.path("session"));
    Some(command)
}

#[test]
fn a_keyring_gives_a_secret_and_says_which_it_does_not_have() {
    let space = need!(with_a_secret(MAKE, "exec {command:shell}"));
    Eval::new().write(&space);
    bind(&space, "keyring:acme/bot");
    let output = space.finish(need!(in_a_session(&space, &RUN)));
    if matches!(output.code, 90 | 91) {
        return missing("KEYRING", "no keyring comes up here");
    }
    let output = output.exits(0);
    assert!(!holds(&output.raw.0, VALUE) && !holds(&output.raw.1, VALUE), "{output}");
    assert_eq!(found_below(space.dir().parent().expect("a root")).len(), 0);
    assert_eq!(space.run().trials(), 1);

    bind(&space, "keyring:acme/nobody");
    let output = space.finish(need!(in_a_session(&space, &RUN))).exits(105);
    let why = "the keyring has no `acme` for `nobody`, or none to give: its command `secret-tool` ended with code 1";
    assert!(output.said().contains(why), "{output}");
}

#[test]
fn a_plugins_program_has_its_secret_and_nothing_else_does() {
    let space = need!(with_a_secret(MAKE, "exec {command:shell}"));
    fs::create_dir(space.path("gate")).expect("made");
    Eval::new()
        .client("env > environment; touch $GATE/begun; while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done; cat")
        .set("client.env", json!({"GATE": space.text("gate")}))
        .write(&space);
    let mut command = space.command(RUN);
    command.env("ACME_TOKEN", VALUE);
    let running = Running::start(&space, command);
    wait_until("the trial", || space.path("gate/begun").exists());
    let root = space.dir().parent().expect("a root").to_owned();
    assert_eq!(found_below(&root), [""; 0].map(std::path::PathBuf::from), "while it runs");
    assert_eq!(found_in_arguments(), [""; 0]);
    space.write("gate/go", "");
    let output = running.end().exits(0);
    assert!(!holds(&output.raw.0, VALUE) && !holds(&output.raw.1, VALUE), "{output}");
    assert_eq!(found_below(&root), [""; 0].map(std::path::PathBuf::from));
    // The audit says that it was handed out, and to which command.
    let run = space.run();
    let audit = fs::read_to_string(run.dir().join("audit.jsonl")).expect("an audit");
    assert!(audit.contains("secret(\\\"token\\\" in \\\"create\\\")"), "{audit}");
    assert!(
        fs::read_to_string(run.dir().join("trials/a/v/0/files/environment"))
            .is_ok_and(|said| !said.is_empty())
    );
    space.assert_tidy();
}

#[test]
fn what_a_program_with_a_secret_says_is_told_without_it() {
    for (create, exec) in [("exit 3", "exec {command:shell}"), (MAKE, "exit 9; {command:shell}")] {
        let space = need!(with_a_secret(create, exec));
        Eval::new().client("cat").write(&space);
        let output = run_with_the_value(&space).exits(105);
        assert!(output.stderr.contains(&format!("it is {}", "*".repeat(VALUE.len()))), "{output}");
    }
}

#[test]
fn a_secret_that_is_not_there_is_told_by_its_source() {
    let space = need!(with_a_secret(MAKE, "exec {command:shell}"));
    Eval::new().client("cat").write(&space);
    let output = space.mst(RUN).exits(105);
    assert!(
        output.stderr.contains("the secret `token` can't be had: the variable `ACME_TOKEN` is not set"),
        "{output}"
    );
    // Granted and taken back.
    space.mst(["plugin", "revoke", "example/runner/dir", "secret:token"]).exits(0);
    let denied = run_with_the_value(&space).exits(105);
    let (_, error) = denied.stderr.split_once("error: ").expect("an error");
    let grants = "`mst plugin grant example/runner/dir secret:token` would grant it";
    assert_eq!(error.matches(grants).count(), 1, "{denied}");
}
