//! `mst plugin inspect`, and plugins that are refused before anything of theirs runs.

mod pages;

use std::fs;

use serde_json::{Value, json};

use crate::support::{Eval, Output, Space, guest, guests_dir, need, wasm};

#[test]
fn what_is_inspected_is_the_file_itself() {
    let space = Space::new();
    let bytes = wasm::first_party("mst.judge.text.wasm");
    space.write("text.wasm", &bytes);
    let page = space.mst(["plugin", "inspect", "text.wasm", "--json"]).exits(0).json();
    assert_eq!(page["digest"], crate::support::sha256(&bytes));
    assert_eq!(page["size_bytes"], bytes.len());
    assert_eq!(page["id"], "mst/judge/text");
}

/// Code that runs as soon as there is an instance: whoever makes one to look at the plugin is held up, or
/// fails. A run does make one.
#[test]
fn who_looks_at_a_plugin_and_adds_it_runs_nothing_of_it() {
    let mut said = String::new();
    for start in ["(loop $on (br $on))", "unreachable"] {
        let space = Space::new();
        space.write("start.wasm", wasm::judge_that_starts_with(start));
        for look in
            [&["inspect"][..], &["inspect", "--json"], &["inspect", "--markdown"], &["add", "--grant", "all"]]
        {
            let args = ["plugin"].into_iter().chain([look[0], "start.wasm"]).chain(look[1..].iter().copied());
            let output = space.mst(args).exits(0);
            assert!(output.to_string().contains("test/judge/start"), "{output}");
        }
        let listed = space.mst(["plugin", "list"]).exits(0);
        assert!(listed.stdout.contains("test/judge/start"), "{listed}");

        let judges = json!([
            {"id": "start", "plugin": "test/judge/start"},
            {"id": "good", "plugin": "mst/judge/text", "options": {"mode": "exact"}},
        ]);
        Eval::new().judges(judges).set("deadlines", json!({"scoring": "5s"})).write(&space);
        let output = space.mst(["run", "eval.yaml"]).exits(106);
        let run = space.run();
        run.assert_whole();
        assert_eq!(run.grade("good", "a/v/0")["verdict"]["finding"], "pass", "{output}");
        let (_, errors) = output.stdout.split_once("instrument errors:\n").expect("its own");
        said.push_str(errors);
        space.assert_tidy();
    }
    insta::assert_snapshot!(said, @"
    1 × start: `test/judge/start` met a limit in `judge`: the call took [TIME], its limit is 5.0 s
        first at a v #0
    1 × start: `test/judge/start` crashed in `judge`: wasm trap: wasm `unreachable` instruction executed
        first at a v #0
    ");
}

/// Refused by both who looks at it and who would use it, in the same words.
#[track_caller]
fn refused(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let space = Space::new();
    space.write(name, bytes);
    let inspected = space.mst(["plugin", "inspect", name]).exits(105);
    let added = space.mst(["plugin", "add", name, "--grant", "all"]).exits(105);
    assert_eq!((added.stdout.as_str(), &added.stderr), ("", &inspected.stderr));
    assert!(!space.path("mst.lock").exists());
    assert!(!space.path("runs").exists());
    inspected.stderr
}

#[test]
fn what_is_no_plugin_is_refused_each_in_its_own_words() {
    let text = wasm::first_party("mst.judge.text.wasm");
    insta::assert_snapshot!(refused("module.wasm", b"\0asm\x01\0\0\0"), @"
    error: `module.wasm` is no plugin that this mst can load
      - the file is a core WebAssembly module, and a plugin is a component
    hint: build it for `wasm32-wasip2`, or with `mst plugin build`
    ");
    insta::assert_snapshot!(refused("empty.wasm", b""), @"
    error: `empty.wasm` is no plugin that this mst can load
      - the file is empty
    hint: get the file again: it was not written to its end
    ");
    insta::assert_snapshot!(refused("script.wasm", b"#!/bin/sh\n"), @"
    error: `script.wasm` is no plugin that this mst can load
      - the file is no WebAssembly component: it looks like a script
    hint: a plugin is the `.wasm` file that `mst plugin build` writes
    ");
    insta::assert_snapshot!(refused("text.wasm", b"(component)"), @"
    error: `text.wasm` is no plugin that this mst can load
      - the file is no WebAssembly component: it looks like the text form of WebAssembly
    hint: translate it with `wasm-tools parse`, or build with `mst plugin build`
    ");
    insta::assert_snapshot!(refused("zipped.wasm", b"\x1f\x8b\x08\0"), @"
    error: `zipped.wasm` is no plugin that this mst can load
      - the file is no WebAssembly component: it looks like a gzip archive
    hint: unpack it first
    ");
    insta::assert_snapshot!(refused("bare.wasm", wasm::without_manifest(&text)), @"
    error: `bare.wasm` is no plugin that this mst can load
      - the component has no manifest: no custom section `mst:manifest`
    hint: `mst plugin build` writes it from `plugin.toml`
    ");
    let cut = refused("cut.wasm", &text[..text.len() / 2]);
    let numbers = regex_lite::Regex::new(r"byte \d+ of \d+").expect("valid");
    insta::assert_snapshot!(numbers.replace(&cut, "byte [N] of [N]"), @"
    error: `cut.wasm` is no plugin that this mst can load
      - the file is cut off: at byte [N] of [N] more was to come: unexpected end-of-file
    hint: get the file again: it was not written to its end
    ");
    for at in [9, 5000] {
        let mut flipped = text.clone();
        flipped[at] ^= 0xff;
        let said = refused("flipped.wasm", flipped);
        // What a wrong length leads to looks like an end.
        let words = ["the component is damaged or invalid at byte ", "the file is cut off: at byte "];
        assert!(words.iter().any(|words| said.contains(words)), "byte {at}: {said}");
    }
}

#[test]
fn another_version_of_the_contract_says_who_upgrades() {
    let text = wasm::first_party("mst.judge.text.wasm");
    let of = |version: &str| {
        let mut manifest = wasm::manifest(&text);
        manifest["id"] = json!("acme/judge/tone");
        manifest["contract"] = json!(format!("mst:plugin@{version}"));
        wasm::with_manifest(&wasm::of_contract(&text, version), &manifest)
    };
    insta::assert_snapshot!(refused("newer.wasm", of("0.2.0")), @"
    error: `newer.wasm` is no plugin that this mst can load
      - the plugin needs `mst:plugin@0.2.0`, and this mst has `mst:plugin@0.1.0`
    hint: upgrade mst
    ");
    insta::assert_snapshot!(refused("older.wasm", of("0.0.9")), @"
    error: `older.wasm` is no plugin that this mst can load
      - the plugin needs `mst:plugin@0.0.9`, and this mst has `mst:plugin@0.1.0`
    hint: rebuild the plugin with mst-sdk 0.1
    ");
    // Whatever the manifest says: its imports say it too.
    insta::assert_snapshot!(refused("lies.wasm", wasm::of_contract(&text, "0.2.0")), @"
    error: `lies.wasm` is no plugin that this mst can load
      - the plugin needs `mst:plugin@0.2.0`, and this mst has `mst:plugin@0.1.0`
    hint: upgrade mst
    ");
}

#[test]
fn a_component_for_another_world_says_which_it_looks_like() {
    let judge = wasm::first_party("mst.judge.text.wasm");
    let dataset = wasm::first_party("mst.dataset.jsonl.wasm");
    let says = |bytes: &[u8], id: &str, world: &str| {
        let mut manifest = json!({"id": id, "world": world, "dirs": [], "workspace": []});
        let old = wasm::manifest(bytes);
        for (name, value) in old.as_object().expect("an object") {
            if name != "dir" && name != "workspace" && name != "dirs" {
                manifest.as_object_mut().expect("an object").entry(name).or_insert(value.clone());
            }
        }
        for gone in ["dirs", "workspace"] {
            manifest.as_object_mut().expect("an object").remove(gone);
        }
        wasm::with_manifest(bytes, &manifest)
    };
    insta::assert_snapshot!(refused("judge.wasm", says(&judge, "acme/dataset/tone", "dataset")), @"
    error: `judge.wasm` is no plugin that this mst can load
      - the plugin imports `mst:plugin/evidence`, which a plugin of world `dataset` does not get
    hint: it looks like a plugin of world `judge`: `world` in `plugin.toml` says what it is
    ");
    insta::assert_snapshot!(refused("dataset.wasm", says(&dataset, "acme/judge/tone", "judge")), @"
    error: `dataset.wasm` is no plugin that this mst can load
      - the plugin says that it is of world `judge`, and does not export `grading`
    hint: it looks like a plugin of world `dataset`: `world` in `plugin.toml` says what it is
    ");
    insta::assert_snapshot!(refused("kind.wasm", says(&judge, "acme/dataset/tone", "judge")), @"
    error: `kind.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - `world`: `judge` is no world of a dataset (`acme/dataset/tone`): it must be `dataset`
    ");
}

#[test]
fn manifests_that_are_wrong() {
    let text = wasm::first_party("mst.judge.text.wasm");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut manifest = wasm::manifest(&text);
        manifest["id"] = json!("acme/judge/tone");
        change(&mut manifest);
        wasm::with_manifest(&text, &manifest)
    };
    insta::assert_snapshot!(refused("schema.wasm", with(&|manifest| manifest["schema"] = json!("mst.manifest/v2"))), @"
    error: `schema.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - the manifest's format is `mst.manifest/v2`, and this mst reads `mst.manifest/v1`
    hint: upgrade mst
    ");
    insta::assert_snapshot!(refused("key.wasm", with(&|manifest| manifest["workspce"] = json!([]))), @"
    error: `key.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - unknown key `workspce`
    hint: did you mean `workspace`?
    ");
    insta::assert_snapshot!(refused("id.wasm", with(&|manifest| manifest["id"] = json!("Tone"))), @"
    error: `id.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - `id` can't be `Tone`
      - `Tone` is no plugin id: it must be `org/kind/name`, as `mst/judge/text`
    ");
    insta::assert_snapshot!(refused("options.wasm", with(&|manifest| manifest["options"] = json!({"type": "no-type"}))), @"
    error: `options.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - `options.type`: it must be `object`: options are named
    ");
}

#[test]
fn the_name_of_a_first_party_plugin_is_nobody_elses() {
    let space = Space::new();
    space.write("text.wasm", wasm::first_party("mst.judge.text.wasm"));
    Eval::new().write(&space);
    insta::assert_snapshot!(space.mst(["plugin", "add", "text.wasm", "--grant", "all"]).exits(105), @"
    exit 105
    -- stderr
    error: `text.wasm` says that it is `mst/judge/text`, a plugin of mst's own
    hint: mst's own need not be added; build another with an id of your own organisation
    ");
    assert!(!space.path("mst.lock").exists());
}

#[test]
fn a_plugin_of_ones_own_is_added_first() {
    let space = Space::new();
    let text = wasm::first_party("mst.judge.text.wasm");
    let mut manifest = wasm::manifest(&text);
    manifest["id"] = json!("acme/judge/tone");
    let own = wasm::with_manifest(&text, &manifest);
    space.write("tone.wasm", &own);
    let eval = Eval::new().set("judges.0.plugin", json!("acme/judge/tone"));
    eval.run(&space).exits(105);
    space.add(&space.path("tone.wasm"));
    space.mst(["run", "eval.yaml"]).exits(0);
    let plugins = space.run().record()["plugins"].clone();
    assert_eq!(
        plugins[1],
        json!({"id": "acme/judge/tone", "version": "0.1.0", "sha256": crate::support::sha256(&own)})
    );
}

#[test]
fn files_that_are_not_there() {
    let space = Space::new();
    fs::create_dir(space.path("dir.wasm")).expect("made");
    let inspect = |name: &str| -> Output { space.mst(["plugin", "inspect", name]).exits(105) };
    insta::assert_snapshot!(inspect("none.wasm"), @"
    exit 105
    -- stderr
    error: can't read the plugin `none.wasm`
      - No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(inspect("dir.wasm"), @"
    exit 105
    -- stderr
    error: `dir.wasm` is no file
    hint: name a component, as acme-judge.wasm
    ");
    insta::assert_snapshot!(inspect("mst/judge/txt"), @"
    exit 105
    -- stderr
    error: there is no plugin `mst/judge/txt`
    hint: known ids are `mst/dataset/jsonl`, `mst/judge/command`, `mst/judge/text`, `mst/runner/docker`; a file is named by its path
    ");
}

#[test]
fn a_damaged_cache_is_a_miss() {
    let space = Space::new();
    Eval::new().write(&space);
    let run = || {
        let mut command = space.command(["run", "eval.yaml"]);
        command.env("MST_CACHE_DIR", space.path("cache"));
        space.finish(command).exits(0).stdout
    };
    let first = run();
    let entries = || crate::support::files_below(&space.path("cache"));
    assert!(!entries().is_empty());
    for damage in [b"".as_slice(), b"x", &[0; 5000]] {
        for path in entries() {
            fs::write(&path, damage).expect("written");
        }
        assert_eq!(run(), first);
    }
    for path in entries() {
        let mut bytes = fs::read(&path).expect("reads");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).expect("written");
    }
    assert_eq!(run(), first);
    // A cache that can't be written is no fault either.
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("MST_CACHE_DIR", "/proc/nowhere");
    assert_eq!(space.finish(command).exits(0).stdout, first);
}

#[test]
fn sockets_are_no_plugins() {
    // Built as far as that goes: it is refused before it is written.
    let _ = need!(guest("judge"));
    let space = Space::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mst"));
    command.args(["plugin", "build"]).arg(guests_dir().join("sockets")).arg("-o").arg(space.path("s.wasm"));
    let output = space.finish(command).exits(105);
    let error = output.stderr.split_once("error: ").expect("an error").1;
    insta::assert_snapshot!(error.replace(&*guests_dir().to_string_lossy(), "[GUESTS]"), @"
    can't build the plugin in `[GUESTS]/sockets`
      - what was built is no plugin that this mst can run
      - no plugin gets `wasi:sockets/network`
    hint: a plugin reaches nothing by itself; a runner asks for programs with `[[exec]]`
    ");
    assert!(!space.path("s.wasm").exists());
    // The same component with a manifest, as an author could make it by hand.
    let bare =
        fs::read(guests_dir().join("target/wasm32-wasip2/release/guest_sockets.wasm")).expect("it was built");
    let mut manifest = wasm::manifest(&wasm::first_party("mst.judge.text.wasm"));
    manifest["id"] = json!("acme/judge/tone");
    insta::assert_snapshot!(refused("sockets.wasm", wasm::with_manifest(&bare, &manifest)), @"
    error: `sockets.wasm` is no plugin that this mst can load
      - no plugin gets `wasi:sockets/network`
    hint: a plugin reaches nothing by itself; a runner asks for programs with `[[exec]]`
    ");
}
