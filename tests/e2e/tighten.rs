//! `mst plugin tighten`: what it proposes is given, and the run is done again.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Eval, Output, Space, example, need, wasm};

fn mst(space: &Space, words: &str) -> Output {
    space.mst(words.split(' '))
}

/// What is said of the run that said this, and the commands in it.
fn tighten(space: &Space, id: &str, ran: &Output) -> (String, Vec<String>) {
    let text = String::from_utf8_lossy(&ran.raw.1);
    let run = text.lines().find_map(|line| line.strip_prefix("run ")?.split(' ').next()).expect("its name");
    let said = mst(space, &format!("plugin tighten {id} --run {run}")).exits(0).stdout;
    let commands = said.lines().filter_map(|line| line.strip_prefix("  mst ")).map(str::to_owned).collect();
    (said, commands)
}

#[track_caller]
fn give(space: &Space, commands: &[String]) {
    for command in commands {
        mst(space, command).exits(0);
    }
}

/// A judge that runs `check`, and asks for two more commands, a host and a variable.
fn judge() -> Vec<u8> {
    let bytes = wasm::first_party("mst.judge.command.wasm");
    let mut manifest = wasm::manifest(&bytes);
    manifest["id"] = json!("acme/judge/check");
    let check = manifest["workspace"][0].clone();
    let called = |id: &str| {
        let mut template = check.clone();
        template["id"] = json!(id);
        template
    };
    manifest["workspace"] = json!([check, called("flag"), called("lint")]);
    manifest["http"] = json!([{"to": "https://api.acme.com", "methods": ["GET"], "private": false}]);
    manifest["env"] = json!(["ACME_REGION", "ACME_ZONE"]);
    wasm::with_manifest(&bytes, &manifest)
}

#[test]
fn a_run_that_was_denied_passes_after_what_is_proposed_and_still_does_after_what_is_taken_back() {
    let space = Space::new();
    space.write("check.wasm", judge());
    Eval::new()
        .judges(json!([{"id": "check", "plugin": "acme/judge/check", "options": {"command": ["true"]}}]))
        .write(&space);
    mst(&space, "plugin add check.wasm --grant workspace:flag workspace:lint env:ACME_REGION");
    let ran = mst(&space, "run eval.yaml").exits(106);
    let (said, commands) = tighten(&space, "acme/judge/check", &ran);
    insta::assert_snapshot!(said, @"
    acme/judge/check
      denied           workspace:check
      given            env:ACME_REGION
      not used         workspace:flag
      not used         workspace:lint
      not granted      http:https://api.acme.com
      not granted      env:ACME_ZONE

    which of the variables that it is given it reads is not known

    what the run needed and is not granted is granted by
      mst plugin grant acme/judge/check workspace:check

    the run is not whole: what it would have used beyond this is not known, and nothing is taken back
    by it; run it again, and go by that run
    ");
    give(&space, &commands);
    let ran = mst(&space, "run eval.yaml").exits(0);
    let (said, commands) = tighten(&space, "acme/judge/check", &ran);
    insta::assert_snapshot!(said, @"
    acme/judge/check
      used             workspace:check
      given            env:ACME_REGION
      not used         workspace:flag
      not used         workspace:lint
      not granted      http:https://api.acme.com
      not granted      env:ACME_ZONE

    which of the variables that it is given it reads is not known

    the run would have gone the same after
      mst plugin revoke acme/judge/check workspace:flag workspace:lint
    ");
    give(&space, &commands);
    let ran = mst(&space, "run eval.yaml").exits(0);
    let (said, commands) = tighten(&space, "acme/judge/check", &ran);
    assert!(commands.is_empty() && said.contains("\nthere is nothing to take back\n"), "{said}");
}

#[test]
fn what_no_grant_mends_is_said_and_nothing_is_taken_back() {
    let space = Space::new();
    let bytes = judge();
    let mut manifest = wasm::manifest(&bytes);
    let templates = manifest["workspace"].as_array_mut().expect("templates");
    templates.retain(|template| template["id"] != "check");
    space.write("check.wasm", wasm::with_manifest(&bytes, &manifest));
    Eval::new()
        .judges(json!([{"id": "check", "plugin": "acme/judge/check", "options": {"command": ["true"]}}]))
        .write(&space);
    mst(&space, "plugin add check.wasm --grant all").exits(0);
    let ran = mst(&space, "run eval.yaml").exits(106);
    let (said, commands) = tighten(&space, "acme/judge/check", &ran);
    assert!(commands.is_empty(), "{said}");
    assert!(said.contains("\nno grant would have let the run pass: "), "{said}");
    let refused =
        "no grant helps   workspace:check: its manifest has no `[[workspace]]` template of that id, ";
    assert!(said.contains(refused), "{said}");
    let run = space.run().name();
    let told = space.mst(["plugin", "tighten", "acme/judge/check", "--run", &run, "--json"]).exits(0).json();
    assert_eq!(
        (&told["run_is_whole"], &told["revoke"], &told["grant"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    assert_eq!(told["no_grant_helps"][0]["request"], "workspace:check");
}

/// Runs on directories as machines.
fn on_dirs(space: &Space) -> Output {
    mst(space, "run eval.yaml --runner example/runner/dir --runner-option base=machines --shards 3")
}

fn dirs(runner: &Path, granted: &str) -> Space {
    let space = Space::new();
    fs::create_dir(space.path("machines")).expect("made");
    Eval::new().cases((0..6).map(|n| crate::support::case(&n.to_string()))).write(&space);
    let add = format!("plugin add {} --grant {granted}", runner.display());
    mst(&space, &add).exits(0);
    space
}

#[test]
fn a_runner_keeps_what_a_run_used() {
    let space = dirs(need!(example("dir-runner")), "all");
    let ran = on_dirs(&space).exits(0);
    let (said, commands) = tighten(&space, "example/runner/dir", &ran);
    insta::assert_snapshot!(said, @"
    example/runner/dir
      used             exec:create
      used             exec:destroy
      used             exec:exec
      used             exec:copy-to
      used             exec:copy-from
      not used         exec:list

    the run would have gone the same after
      mst plugin revoke example/runner/dir exec:list
    `mst machines reap`, after a run that was killed, may need more than a run does
    ");
    give(&space, &commands);
    on_dirs(&space).exits(0);
    assert!(fs::read_dir(space.path("machines")).expect("lists").next().is_none());
}

#[test]
fn a_runner_that_was_granted_nothing_is_granted_what_it_needs_run_by_run() {
    let space = dirs(need!(example("dir-runner")), "none");
    let mut granted = Vec::new();
    for _ in 0..8 {
        let ran = on_dirs(&space);
        if ran.code == 0 {
            break;
        }
        let (said, commands) = tighten(&space, "example/runner/dir", &ran);
        assert!(said.contains("\nthe run is not whole: ") && !said.contains("revoke"), "{said}");
        assert!(!commands.is_empty(), "{said}");
        give(&space, &commands);
        granted.extend(commands);
    }
    let ran = on_dirs(&space).exits(0);
    // Removing a machine is tried whatever became of its making.
    let keys = ["exec:create exec:destroy", "exec:copy-to", "exec:exec", "exec:copy-from"];
    let wanted = keys.map(|keys| format!("plugin grant example/runner/dir {keys}"));
    assert_eq!(granted, wanted);
    let (said, commands) = tighten(&space, "example/runner/dir", &ran);
    assert!(commands.is_empty() && said.contains("not granted      exec:list\n"), "{said}");
}
