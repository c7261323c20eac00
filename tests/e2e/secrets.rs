//! A value that a client gets through `pass_env` is nowhere else.

use std::fs;

use serde_json::json;

use crate::support::{Eval, Running, Space, case, files_below, wait_until};

/// As no other text has it, so that finding it means something.
const VALUE: &str = "tok_5e3a91c7b2d84f60";

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes())
}

/// Files below `dir` that hold the value, or have it in their name.
fn found_below(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let files = files_below(dir).into_iter();
    // A file may go away while it is looked at.
    files
        .filter(|path| {
            holds(path.as_os_str().as_encoded_bytes()) || fs::read(path).is_ok_and(|bytes| holds(&bytes))
        })
        .collect()
}

/// Processes that have the value in their arguments.
fn found_in_arguments() -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("lists").flatten();
    processes
        .map(|process| process.path().join("cmdline"))
        .filter(|path| fs::read(path).is_ok_and(|bytes| holds(&bytes)))
        .map(|path| path.display().to_string())
        .collect()
}

#[test]
fn it_is_in_no_file_no_output_and_no_arguments() {
    let space = Space::new();
    fs::create_dir(space.path("gate")).expect("made");
    // Said by its length, that it was there.
    Eval::new()
        .client("echo ${#TOKEN}; env > /dev/null; touch $GATE/$MST_CASE_ID; while ! test -e $GATE/go; do sleep 0.02; done; exit 3")
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
    assert!(!holds(&output.raw.0) && !holds(&output.raw.1), "{output}");
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
    assert!(!holds(&output.raw.0) && !holds(&output.raw.1), "{output}");
    assert_eq!(found_below(&space.path("runs")).len(), 0);
}
