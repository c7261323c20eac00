//! `mst plugin build`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Space, files_below, guest, guests_dir, need, repository, sha256};

/// With the whole environment: cargo needs its home and its registry.
fn build(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mst"));
    command.args(["plugin", "build"]).arg(dir).args(more);
    command
}

#[test]
fn it_prints_what_it_built() {
    let built = need!(guest("dataset"));
    let space = Space::new();
    let file = space.text("out.wasm");
    let output = space.finish(build(&guests_dir().join("dataset"), &["-o", &file])).exits(0);
    let bytes = fs::read(&file).expect("reads");
    assert_eq!(bytes, fs::read(built).expect("reads"), "twice in one place");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[..2], ["plugin   test/dataset/hostile 0.1.0", "world    dataset"]);
    assert_eq!(
        lines[2..5],
        [
            "file     [DIR]/out.wasm".to_owned(),
            format!("size     {} bytes", bytes.len()),
            "digest   [DIGEST]".to_owned()
        ]
    );
    assert!(lines[5].starts_with("built by rustc "), "{output}");
    assert!(String::from_utf8_lossy(&output.raw.0).contains(&sha256(&bytes)), "{output}");
    // Without -o, here, under the plugin's own name.
    let mut command = build(&guests_dir().join("dataset"), &["--json"]);
    command.current_dir(space.dir());
    let json: Value = space.finish(command).exits(0).json();
    assert_eq!(
        (&json["file"], &json["sha256"]),
        (&"test.dataset.hostile.wasm".into(), &sha256(&bytes).into())
    );
    assert_eq!(fs::read(space.path("test.dataset.hostile.wasm")).expect("reads"), bytes);
}

#[test]
fn the_same_sources_elsewhere_give_the_same_bytes() {
    let built = need!(guest("dataset"));
    // Kept between runs of the tests, and written where it differs: the standard library is
    // compiled there once.
    let elsewhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e/some other place/tree");
    for part in ["sdk/rust", "wit", "tests/guests"] {
        let sources = |root: &Path| -> Vec<PathBuf> {
            let inside = |path: PathBuf| path.strip_prefix(root).expect("inside").to_owned();
            let mut files: Vec<PathBuf> = files_below(&root.join(part)).into_iter().map(inside).collect();
            files.retain(|path| path.components().all(|part| part.as_os_str() != "target"));
            files
        };
        let wanted = sources(repository());
        for stale in sources(&elsewhere).iter().filter(|path| !wanted.contains(path)) {
            fs::remove_file(elsewhere.join(stale)).expect("removed");
        }
        for inside in wanted {
            let (to, bytes) = (elsewhere.join(&inside), fs::read(repository().join(&inside)).expect("reads"));
            if fs::read(&to).ok().as_ref() != Some(&bytes) {
                fs::create_dir_all(to.parent().expect("a parent")).expect("made");
                fs::write(&to, bytes).expect("written");
            }
        }
    }
    // The SDK is a member of the repository's workspace; here it is one of its own.
    let root = elsewhere.join("Cargo.toml");
    let text = fs::read_to_string(repository().join("Cargo.toml")).expect("reads");
    let text: String = text
        .lines()
        .map(|line| {
            if line.starts_with("members = ") {
                "members = [\"sdk/rust\"]\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    if fs::read_to_string(&root).ok().as_deref() != Some(&text) {
        fs::write(&root, text).expect("written");
    }
    let space = Space::new();
    let file = space.text("out.wasm");
    space.finish(build(&elsewhere.join("tests/guests/dataset"), &["-o", &file])).exits(0);
    assert!(fs::read(&file).expect("reads") == fs::read(built).expect("reads"), "the bytes differ");
}

/// A guest's folder, as far as its manifest.
fn folder(space: &Space, name: &str, manifest: &str) {
    space.write(&format!("{name}/Cargo.toml"), "[package]\nname = \"tone\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n");
    space.write(&format!("{name}/src/lib.rs"), "");
    space.write(&format!("{name}/plugin.toml"), manifest);
}

const MANIFEST: &str =
    "id = 'acme/judge/tone'\nversion = '0.1.0'\nworld = 'judge'\ndescription = 'Grades tone.'\n";

#[test]
fn without_a_toolchain_both_ways_to_one_are_named() {
    let space = Space::new();
    folder(&space, "tone", MANIFEST);
    fs::create_dir(space.path("empty")).expect("made");
    let sysroot = space.text("sysroot");
    fs::create_dir(&sysroot).expect("made");
    // A default toolchain that has its own target and no other.
    space.script(
        "bin/rustc",
        &format!("#!/bin/sh\ncase $1 in -vV) printf 'rustc 1.95.0 (5 2026)\\ncommit-hash: 5\\nhost: x86_64-unknown-linux-gnu\\nrelease: 1.95.0\\n';; *) echo {sysroot};; esac\n"),
    );
    for path in ["empty", "bin"] {
        let mut command = space.command(["plugin", "build", "tone"]);
        command.env("PATH", space.path(path));
        let output = space.finish(command).exits(105);
        // What else is said depends on what Debian's packages there are.
        assert!(output.stderr.contains("  - no toolchain for `wasm32-wasip2`: "), "{output}");
        let hint = output.stderr.lines().find(|line| line.starts_with("hint: ")).expect("a hint");
        insta::allow_duplicates! {
            insta::assert_snapshot!(hint, @"hint: run `rustup target add wasm32-wasip2`; or on Debian `apt-get install --no-install-recommends rustc-web cargo-web rust-web-src wasi-libc`, beside a rustup toolchain");
        }
        assert!(!space.path("acme.judge.tone.wasm").exists());
    }
    assert!(space.path("tone/target").symlink_metadata().is_err(), "nothing was compiled");
}

#[test]
fn folders_and_manifests_that_are_wrong_cost_nobody_a_compile() {
    let space = Space::new();
    fs::create_dir(space.path("empty")).expect("made");
    folder(&space, "key", &format!("{MANIFEST}wrld = 'judge'\n"));
    folder(&space, "world", &MANIFEST.replace("'judge'", "'grader'"));
    folder(&space, "id", &MANIFEST.replace("acme/judge/tone", "acme/dataset/tone"));
    folder(&space, "exec", &format!("{MANIFEST}[[exec]]\nid = 'x'\nargv = ['docker']\ntimeout = '1s'\n"));
    folder(
        &space,
        "slot",
        &format!("{MANIFEST}[[workspace]]\nid = 'x'\nargv = ['echo', '{{x:anything}}']\ntimeout = '1s'\n"),
    );
    space.write("no-manifest/Cargo.toml", "");
    let said: String = ["none", "empty", "no-manifest", "key", "world", "id", "exec", "slot"]
        .map(|name| format!("{name}:\n{}", space.mst(["plugin", "build", name]).exits(105).stderr))
        .concat();
    insta::assert_snapshot!(said, @"
    none:
    error: can't build the plugin in `none`
      - can't read `none`
      - No such file or directory (os error 2)
    empty:
    error: can't build the plugin in `empty`
      - `[DIR]/empty` has no `Cargo.toml`
    hint: a plugin's directory has both `Cargo.toml` and `plugin.toml`
    no-manifest:
    error: can't build the plugin in `no-manifest`
      - `[DIR]/no-manifest` has no `plugin.toml`
    hint: a plugin's directory has both `Cargo.toml` and `plugin.toml`
    key:
    error: can't build the plugin in `key`
      - `[DIR]/key/plugin.toml` is no manifest
      - unknown key `wrld`
    hint: did you mean `world`?
    world:
    error: can't build the plugin in `world`
      - `[DIR]/world/plugin.toml` is no manifest
      - `world` can't be `grader`
      - a world is `machine-runner`, `shard-runner`, `dataset`, `judge`
    id:
    error: can't build the plugin in `id`
      - `[DIR]/id/plugin.toml` is no manifest
      - `world`: `judge` is no world of a dataset (`acme/dataset/tone`): it must be `dataset`
    exec:
    error: can't build the plugin in `exec`
      - `[DIR]/exec/plugin.toml` is no manifest
      - `exec`: a plugin of world `judge` can't run these: `[[exec]]` is for `machine-runner` or `shard-runner`
    slot:
    error: can't build the plugin in `slot`
      - `[DIR]/slot/plugin.toml` is no manifest
      - `workspace[0]` is no command template
      - `argv[1]` (`{x:anything}`): `anything` is no slot type
    hint: the types are `ident`, `uint(a..b)`, `quantity`, `enum(a|b)`, `oci-ref`, `machine-path`, `text(/regex/)`, `option(NAME)` and `host-dir`; the host's own slots are `{machine}`, `{run}`, `{command...}` and `{command:shell}`
    ");
}
