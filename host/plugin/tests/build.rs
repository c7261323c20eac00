//! A guest built twice, in two places, gives the same bytes.
//!
//! It needs a toolchain for `wasm32-wasip2` and crates.io. Where there is none it says so and
//! passes, unless `MST_REQUIRE_GUESTS=1`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mst_plugin::build::{BuildError, Built, Environment, Progress, build, toolchain};

/// A guest that is a member of a workspace, with a dependency that is a folder outside of it: as
/// the first-party plugins stand beside the SDK. There, cargo hashes absolute paths.
const FILES: [(&str, &str); 8] = [
    (
        "guests/Cargo.toml",
        r#"
[workspace]
members = ["tone"]
resolver = "3"
[profile.release]
opt-level = "s"
lto = true
panic = "abort"
strip = true
"#,
    ),
    (
        "guests/tone/Cargo.toml",
        r#"
[package]
name = "tone"
version = "0.1.0"
edition = "2024"
[lib]
crate-type = ["cdylib"]
[dependencies]
kit = { path = "../../kit" }
"#,
    ),
    (
        "guests/tone/plugin.toml",
        r#"
id = "acme/judge/tone"
version = "0.1.0"
world = "judge"
description = "Grades tone."
"#,
    ),
    (
        "guests/tone/src/lib.rs",
        r#"
use kit::exports::mst::plugin::grading::{Finding, Guest, Trial, Verdict};

struct Tone;

impl Guest for Tone {
    fn judge(trial: &Trial, options: String) -> Result<Verdict, kit::mst::plugin::types::Error> {
        // Type ids, trait objects and generic code of another crate: what follows from its hash.
        let boxed = kit::boxed(options.len());
        assert!(boxed.downcast_ref::<usize>().is_some(), "of that type");
        let mut seen = std::collections::HashMap::new();
        seen.insert(kit::spoken(trial.trial_index()).say(), file!());
        Ok(Verdict { finding: Finding::Pass, reason: format!("{seen:?}"), citations: vec![], measures: vec![], usage: None })
    }
}

kit::export!(Tone with_types_in kit);
"#,
    ),
    (
        "kit/Cargo.toml",
        r#"
[package]
name = "kit"
version = "0.1.0"
edition = "2024"
[dependencies]
wit-bindgen = { version = "0.61", default-features = false, features = ["macros", "realloc"] }
[workspace]
"#,
    ),
    (
        "kit/src/lib.rs",
        r#"
wit_bindgen::generate!({ path: "../wit", world: "judge", pub_export_macro: true, default_bindings_module: "kit", generate_all });

pub trait Speak {
    fn say(&self) -> String;
}
impl Speak for u32 {
    fn say(&self) -> String {
        format!("{self} in {}", file!())
    }
}
impl Speak for String {
    fn say(&self) -> String {
        self.clone()
    }
}
pub fn spoken(n: u32) -> Box<dyn Speak> {
    if n > 3 { Box::new(n) } else { Box::new(n.to_string()) }
}
pub fn boxed<T: std::any::Any>(value: T) -> Box<dyn std::any::Any> {
    Box::new(value)
}
"#,
    ),
    // Nobody's flags but ours.
    ("guests/.cargo/config.toml", "[build]\nrustflags = [\"-Copt-level=0\", \"--cfg\", \"nobody\"]\n"),
    ("guests/tone/.gitignore", "/target\n"),
];

fn write(root: &Path) -> PathBuf {
    let put = |name: &str, text: &str| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        // Left alone where it is the same: a second run then builds nothing.
        if fs::read_to_string(&path).ok().as_deref() != Some(text) {
            fs::write(&path, text).expect("written");
        }
    };
    for (name, text) in FILES {
        put(name, text);
    }
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).expect("wit/") {
        let entry = entry.expect("an entry");
        let text = fs::read_to_string(entry.path()).expect("read");
        put(&format!("wit/{}", entry.file_name().to_string_lossy()), &text);
    }
    root.join("guests/tone")
}

/// The versions that our own plugins have: what is newest is nothing that was looked at. Cargo leaves out of
/// the lock what is not used here.
fn lock_like_our_plugins(dir: &Path) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/Cargo.lock");
    fs::copy(ours, dir.join("../Cargo.lock")).expect("copied");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--manifest-path"]).arg(dir.join("Cargo.toml"));
    let output = cargo.current_dir(dir).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn built(dir: &Path, environment: &Environment) -> Built {
    let mut said = String::new();
    let built = build(dir, environment, &mut |step| {
        if let Progress::Cargo(line) = step {
            said += line;
            said.push('\n');
        }
    });
    built.unwrap_or_else(|error| panic!("{error}: {:?}\n{said}", error.hint()))
}

#[test]
fn the_same_sources_give_the_same_bytes_wherever_they_lie() {
    let environment = Environment::new(std::env::vars_os());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    match toolchain(here, &environment) {
        Ok(found) => println!("with {found}"),
        Err(error @ BuildError::NoToolchain { .. }) => {
            assert_ne!(std::env::var("MST_REQUIRE_GUESTS").as_deref(), Ok("1"), "{error}");
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mst-plugin-build");
    let (one, two) = (write(&root.join("one")), write(&root.join("a/longer way/two")));
    lock_like_our_plugins(&one);
    let first = built(&one, &environment);
    // The same lock: what a dependency's newest version is may change between the two.
    fs::copy(one.join("../Cargo.lock"), two.join("../Cargo.lock")).expect("copied");
    let second = built(&two, &environment);
    assert_eq!(first.toolchain, second.toolchain);
    assert!(first.toolchain.starts_with("rustc 1."), "{}", first.toolchain);
    assert_eq!(first.file.manifest().id.as_str(), "acme/judge/tone");
    let places = [
        root.as_os_str().to_string_lossy().into_owned(),
        std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned()),
    ];
    for place in places {
        let found = first.file.bytes().windows(place.len()).any(|window| window == place.as_bytes());
        assert!(!found, "`{place}` stands in the component");
    }
    assert_eq!(
        first.file.digest(),
        second.file.digest(),
        "{} and {} bytes",
        first.file.bytes().len(),
        second.file.bytes().len()
    );
}
