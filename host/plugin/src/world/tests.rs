use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::ManglingAndAbi;

use super::*;
use crate::component::{tests::judge_manifest, with_manifest};
use crate::contract::CONTRACT;

/// A component of `world` in the contract, changed by `edit` (from, to) in its text, or with
/// more WIT after it.
pub(crate) fn component_of(world: &str, edit: Option<(&str, &str)>) -> Vec<u8> {
    let mut text = String::from("package mst:plugin@0.1.0;\n");
    for (_, source) in CONTRACT {
        text += source.strip_prefix("package mst:plugin@0.1.0;").expect("each begins so");
    }
    if let Some((from, to)) = edit {
        assert!(text.contains(from), "`{from}` is in the contract");
        text = text.replace(from, to);
    }
    component(world, &text)
}

fn component(world: &str, text: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("test.wit", text).expect("WIT");
    let world = resolve.select_world(&[package], Some(world)).expect("the world");
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("embedded");
    ComponentEncoder::default()
        .module(&module)
        .expect("a module")
        .validate(true)
        .encode()
        .expect("a component")
}

/// Checks a component that says it is of `claimed`.
fn verdict(bytes: &[u8], claimed: World) -> Result<(), WorldError> {
    let mut manifest = judge_manifest();
    manifest.world = claimed;
    manifest.id = format!("acme/{}/x", claimed.kind()).parse().expect("an id");
    let bytes = with_manifest(bytes, &manifest).expect("embedded");
    check(&PluginFile::read(bytes).expect("read"))
}

#[track_caller]
fn told(result: Result<(), WorldError>) -> String {
    let error = result.expect_err("refused");
    match error.hint() {
        Some(hint) => format!("{error}\n({hint})"),
        None => error.to_string(),
    }
}

fn judge_with(from: &str, to: &str) -> Result<(), WorldError> {
    verdict(&component_of("judge", Some((from, to))), World::Judge)
}

#[test]
fn who_may_run_what_is_what_the_worlds_import() {
    for world in World::ALL {
        let imports = contract().imports(world);
        let has = |name: &str| imports.iter().any(|(other, _)| *other == name);
        assert_eq!(world.admits(Place::Exec), has("process"), "{world}");
        assert_eq!(world.admits(Place::Workspace), has("workspace"), "{world}");
    }
}

#[test]
fn each_world_fits_itself() {
    for world in World::ALL {
        verdict(&component_of(world.as_str(), None), world)
            .unwrap_or_else(|error| panic!("{world}: {error}"));
    }
}

#[test]
fn another_world_is_named() {
    insta::assert_snapshot!(told(verdict(&component_of("dataset", None), World::Judge)), @r"
    the plugin says that it is of world `judge`, and does not export `grading`
    (it looks like a plugin of world `dataset`: `world` in `plugin.toml` says what it is)
    ");
    insta::assert_snapshot!(told(verdict(&component_of("shard-runner", None), World::MachineRunner)), @r"
    the plugin imports `mst:plugin/shard`, which a plugin of world `machine-runner` does not get
    (it looks like a plugin of world `shard-runner`: `world` in `plugin.toml` says what it is)
    ");
    insta::assert_snapshot!(told(verdict(&component_of("machine-runner", None), World::Dataset)), @r"
    the plugin imports `mst:plugin/commands`, which a plugin of world `dataset` does not get
    (it looks like a plugin of world `machine-runner`: `world` in `plugin.toml` says what it is)
    ");
}

#[test]
fn another_version_says_who_upgrades() {
    insta::assert_snapshot!(told(judge_with("package mst:plugin@0.1.0", "package mst:plugin@0.2.0")), @r"
    the plugin needs `mst:plugin@0.2.0`, and this mst has `mst:plugin@0.1.0`
    (upgrade mst)
    ");
    insta::assert_snapshot!(told(judge_with("package mst:plugin@0.1.0", "package mst:plugin@0.0.9")), @r"
    the plugin needs `mst:plugin@0.0.9`, and this mst has `mst:plugin@0.1.0`
    (rebuild the plugin with mst-sdk 0.1)
    ");
    insta::assert_snapshot!(told(judge_with("package mst:plugin@0.1.0", "package mst:plugin")), @r"
    the plugin needs `mst:plugin@0.0.0`, and this mst has `mst:plugin@0.1.0`
    (rebuild the plugin with mst-sdk 0.1)
    ");
    let mut manifest = judge_manifest();
    manifest.contract = semver::Version::new(0, 3, 0);
    let bytes = with_manifest(&component_of("judge", None), &manifest).expect("embedded");
    let error = check(&PluginFile::read(bytes).expect("read")).expect_err("newer");
    assert_eq!(error.hint().as_deref(), Some("upgrade mst"));
}

#[test]
fn a_function_or_type_that_differs_is_shown_from_both_sides() {
    insta::assert_snapshot!(told(judge_with("trial-index: func() -> u32", "trial-index: func() -> u64")), @r"
    `[method]trial.trial-index` of `mst:plugin/evidence@0.1.0` differs:
      the plugin has `func(self: borrow<trial>) -> u64`
      this mst has   `func(self: borrow<trial>) -> u32`
    (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
    ");
    insta::assert_snapshot!(told(judge_with("judge: func(trial: borrow<trial>, options: json)", "judge: func(options: json, trial: borrow<trial>)")), @r"
    `judge` of `mst:plugin/grading@0.1.0` differs:
      the plugin has `func(options: json, trial: borrow<trial>) -> result<verdict, error>`
      this mst has   `func(trial: borrow<trial>, options: json) -> result<verdict, error>`
    (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
    ");
    // The function reads the same; a type inside of it does not.
    insta::assert_snapshot!(told(judge_with("score(f64)", "score(f32)")), @r"
    `finding` of `mst:plugin/grading@0.1.0` differs:
      the plugin has `variant { pass, fail, score(f32), abstain(string) }`
      this mst has   `variant { pass, fail, score(f64), abstain(string) }`
    (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
    ");
    insta::assert_snapshot!(told(judge_with("variant-id: func() -> string", "variant-id: func() -> string;\n    more: func()")), @r"
    the plugin imports `[method]trial.more` in `mst:plugin/evidence@0.1.0`, which `mst:plugin@0.1.0` does not have
    (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
    ");
    insta::assert_snapshot!(told(judge_with("judge: func(", "grade: func(")), @r"
    the plugin says that it is of world `judge`, and does not export `grading.judge`
    (the SDK's `export!` exports all of a world)
    ");
    // Order is meaning: these two would pass each other's numbers.
    assert!(
        judge_with(
            "input-tokens: option<u64>,\n    /// Tokens that it got.\n    output-tokens: option<u64>",
            "output-tokens: option<u64>,\n    input-tokens: option<u64>"
        )
        .is_err()
    );
}

#[test]
fn imports_are_what_the_world_and_the_allow_list_have() {
    let importing = |import: &str, more: &str| {
        let text = ["package test:guest;", "world guest {", import, "}", more].join("\n");
        verdict(&component("guest", &text), World::Judge)
    };
    let package = |name: &str| format!("package {name} {{ interface x {{ f: func(); }} }}");
    for (import, shown) in [
        ("wasi:sockets/x@0.2.6", "no plugin gets `wasi:sockets/x`"),
        ("wasi:http/x@0.2.6", "no plugin gets `wasi:http/x`"),
        ("wasi:keyvalue/x@0.2.0", "no plugin gets `wasi:keyvalue/x`"),
        ("acme:cli/x@0.2.0", "no plugin gets `acme:cli/x`"),
        ("wasi:cli/x@0.3.0", "needs `wasi:cli/x@0.3.0`, and this mst gives WASI 0.2"),
        ("wasi:cli/x@0.2.0-rc.1", "and this mst gives WASI 0.2"),
        ("mst:plugin/x@0.1.0", "imports `mst:plugin/x`, which `mst:plugin@0.1.0` does not have"),
        ("mst:other/x@0.1.0", "no plugin gets `mst:other/x`"),
        ("mst:plugin/x@0.1.1", "needs `mst:plugin@0.1.1`"),
    ] {
        let name = import.replace("/x", "");
        let told = told(importing(&format!("import {import};"), &package(&name)));
        assert!(told.contains(shown), "{import}: {told}");
    }
    let http = |interface: &str| {
        let package = format!("package wasi:http@0.2.6 {{ interface {interface} {{ f: func(); }} }}");
        told(importing(&format!("import wasi:http/{interface}@0.2.6;"), &package))
    };
    assert_eq!(
        http("types"),
        "the plugin imports `wasi:http/types`, and its manifest asks for no `[[http]]`\n\
         (`[[http]]` in `plugin.toml` says to which hosts it may send requests; or build it without)"
    );
    // To be sent requests is nobody's to ask for.
    assert!(http("incoming-handler").contains("no plugin gets `wasi:http/incoming-handler`"));
    let told = |import: &str| told(importing(import, ""));
    assert!(told("import f: func();").contains("no plugin gets `f`"));
    assert!(told("import i: interface { f: func(); }").contains("no plugin gets `i`"));
    // What is admitted is then held to the exports.
    assert!(matches!(
        importing("import wasi:cli/x@0.2.99;", &package("wasi:cli@0.2.99")),
        Err(WorldError::NotExported { .. })
    ));
}

#[test]
fn a_judge_gets_no_process() {
    let told = told(judge_with("world judge {", "world judge {\n  import process;"));
    assert!(
        told.contains("imports `mst:plugin/process`, which a plugin of world `judge` does not get"),
        "{told}"
    );
    assert!(told.contains("`machine-runner`, `shard-runner`"), "{told}");
}

#[test]
fn a_wit_package_is_no_plugin() {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("test.wit", "package a:b; interface x { f: func(); }").expect("WIT");
    let bytes = wit_component::encode(&resolve, package).expect("encoded");
    assert!(matches!(
        verdict(&bytes, World::Judge),
        Err(WorldError::Undecodable(_) | WorldError::NotExported { .. })
    ));
}
