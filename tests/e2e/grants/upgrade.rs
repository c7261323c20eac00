//! Another file under an id that is pinned.

use std::fs;

use serde_json::json;

use super::{apart_from_the_page, mst, plugin, space};
use crate::support::{Eval, Space, sha256, wasm};

#[test]
fn another_file_under_a_pinned_id_does_not_load() {
    let space = space(json!({}));
    mst(&space, "plugin add check.wasm --grant all").exits(0);
    space.write("check.wasm", plugin("1.0.0", json!({"description": "Another."})));
    let output = mst(&space, "run eval.yaml").exits(105);
    insta::assert_snapshot!(output, @r"
    exit 105
    -- stderr
    error: the plugin `acme/judge/check` is not the one that was granted
      - `check.wasm` has [DIGEST]
      - `mst.lock` pins [DIGEST]
    hint: bring back the file; or `mst plugin add check.wasm` shows what the new one asks for, and pins it
    ");
    // Both digests, each its own.
    let said = String::from_utf8(output.raw.1).expect("UTF-8");
    let digests: Vec<&str> = said.split("sha256:").skip(1).map(|rest| &rest[..64]).collect();
    assert_eq!(digests.len(), 2);
    assert_ne!(digests[0], digests[1]);
    assert!(!space.path("runs").exists());
    assert!(mst(&space, "plugin list").exits(0).stdout.contains("changed: check.wasm"));
    mst(&space, "plugin grant acme/judge/check workspace:check").exits(105);
    // Looked at again, it is pinned anew: it asks for nothing more.
    mst(&space, "plugin add check.wasm").exits(0);
    mst(&space, "run eval.yaml").exits(0);
    fs::remove_file(space.path("check.wasm")).expect("removed");
    mst(&space, "run eval.yaml").exits(105);
}

#[test]
fn an_upgrade_stops_until_what_widened_is_approved() {
    let space = space(json!({"http": [{"to": "https://*.acme.com", "methods": ["GET"], "private": false}]}));
    mst(&space, "plugin add check.wasm --grant all").exits(0);
    let before = space.read("mst.lock");
    // Less: taken over, and nobody is asked.
    let narrow = json!([{"to": "https://api.acme.com", "methods": ["GET"], "private": false}]);
    space.write("narrow.wasm", plugin("1.1.0", json!({ "http": narrow })));
    insta::assert_snapshot!(mst(&space, "plugin add narrow.wasm").exits(0), @"
    exit 0
    -- stdout
    acme/judge/check 1.1.0 in mst.lock
      granted      workspace:check
      granted      http:https://api.acme.com
    in place of another file:
    version 1.0.0 -> 1.1.0
    file [DIGEST]
      -> [DIGEST]
    - http:https://*.acme.com
    ");
    mst(&space, "run eval.yaml").exits(0);
    // More.
    space.write("mst.lock", &before);
    let wide = json!([{"to": "https://*.acme.com", "methods": ["GET", "POST"], "private": false}]);
    space.write("wide.wasm", plugin("2.0.0", json!({"http": wide, "env": ["HOME"]})));
    insta::assert_snapshot!(mst(&space, "plugin add wide.wasm").exits(105), @"
    exit 105
    -- stderr
    error: `acme/judge/check` 2.0.0 asks for more than was granted, and nobody is here to ask
      - version 1.0.0 -> 2.0.0
        file [DIGEST]
          -> [DIGEST]
        ~ http:https://*.acme.com
          + method POST
          ! what the plugin sees may go there: your options, and all evidence of a
              trial: prompts, expected answers, reports, files; what its command prints,
              whatever that reads on the machine; your variables `HOME`
          ! a wildcard: every host below `acme.com`, whoever runs it, now and later
        + env:HOME
          ! the plugin reads its value
    hint: `mst plugin inspect wide.wasm` shows all of it; say `--grant KEY` for each, `--grant all` or `--grant none`
    ");
    assert_eq!(space.read("mst.lock"), before);
    insta::assert_snapshot!(apart_from_the_page(&mst(&space, "plugin add wide.wasm --grant http:https://*.acme.com").exits(0)), @"
    exit 0
    -- stdout
    acme/judge/check 2.0.0 in mst.lock
      granted      workspace:check
      granted      http:https://*.acme.com
      not granted  env:HOME
    in place of another file:
    version 1.0.0 -> 2.0.0
    file [DIGEST]
      -> [DIGEST]
    ~ http:https://*.acme.com
      + method POST
      ! what the plugin sees may go there: your options, and all evidence of a
          trial: prompts, expected answers, reports, files; what its command prints,
          whatever that reads on the machine; your variables `HOME`
      ! a wildcard: every host below `acme.com`, whoever runs it, now and later
    + env:HOME
      ! the plugin reads its value
    -- stderr
    acme/judge/check 2.0.0
      standing  a stranger's, in your lock: granted 2 of 3 requests
    [IN SHORT]
    `mst plugin inspect wide.wasm` shows all of it
    ");
    mst(&space, "run eval.yaml").exits(0);
}

#[test]
fn what_reaps_is_the_runner_that_the_run_used() {
    let space = Space::new();
    Eval::new().run(&space).exits(0);
    let run = space.run();
    let bytes = wasm::first_party("mst.runner.docker.wasm");
    let mut manifest = wasm::manifest(&bytes);
    manifest["id"] = json!("acme/runner/box");
    space.write("box.wasm", wasm::with_manifest(&bytes, &manifest));
    mst(&space, "plugin add box.wasm --grant none").exits(0);
    let (used, pinned) = (sha256(b"another"), sha256(&fs::read(space.path("box.wasm")).expect("read")));
    let mut record = run.record();
    record["runner"] = json!({"id": "acme/runner/box", "shards": 1, "options": {"image": "box"}});
    record["plugins"] = json!([{"id": "acme/runner/box", "version": "1.0.0", "sha256": used}]);
    fs::write(run.dir().join("run.json"), record.to_string()).expect("written");
    let output = mst(&space, &format!("machines reap {}", run.name())).exits(105);
    let said = String::from_utf8(output.raw.1).expect("UTF-8");
    assert!(said.contains("is not the one that the run"), "{said}");
    assert!(said.contains(&used) && said.contains(&pinned), "{said}");
}

#[test]
fn another_file_is_told_and_a_wider_guard_stops() {
    let space = space(json!({}));
    mst(&space, "plugin add check.wasm --grant all").exits(0);
    // The same version, and nothing that it may do changed.
    space.write("same.wasm", plugin("1.0.0", json!({"description": "Another."})));
    insta::assert_snapshot!(mst(&space, "plugin add same.wasm").exits(0), @"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      granted      workspace:check
    in place of another file:
    version 1.0.0 -> 1.0.0: the same version, and another file
    file [DIGEST]
      -> [DIGEST]
    ");
    space.write("old.wasm", plugin("0.0.1", json!({})));
    insta::assert_snapshot!(mst(&space, "plugin add old.wasm").exits(0), @"
    exit 0
    -- stdout
    acme/judge/check 0.0.1 in mst.lock
      granted      workspace:check
    in place of another file:
    version 1.0.0 -> 0.0.1: an older version
    file [DIGEST]
      -> [DIGEST]
    ");
    // What an option in a command may be is what guards the command.
    let bytes = plugin("1.0.1", json!({}));
    let mut manifest = wasm::manifest(&bytes);
    manifest["options"]["properties"]["command"].as_object_mut().expect("a schema").remove("minItems");
    space.write("wide.wasm", wasm::with_manifest(&bytes, &manifest));
    let before = space.read("mst.lock");
    let stopped = mst(&space, "plugin add wide.wasm").exits(105).stderr;
    assert!(
        stopped.contains("asks for more than was granted") && stopped.contains("+ option command as"),
        "{stopped}"
    );
    assert!(stopped.contains("! what it runs or reads there"), "{stopped}");
    assert_eq!(space.read("mst.lock"), before);
    mst(&space, "plugin add wide.wasm --grant all").exits(0);
}
