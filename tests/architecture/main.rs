//! Who may import whom. `host/ARCHITECTURE.md` says why; this holds it.

mod security;

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Each room and the rooms that it may import.
const ARROWS: [(&str, &[&str]); 10] = [
    ("mst-model", &[]),
    ("mst-process", &[]),
    ("mst-protocol", &["mst-model"]),
    ("mst-plugin", &["mst-model"]),
    ("mst-store", &["mst-model"]),
    ("mst-sandbox", &["mst-model", "mst-plugin", "mst-process"]),
    ("mst-worker", &["mst-model", "mst-process", "mst-protocol", "mst-store"]),
    ("mst-coordinator", &["mst-model", "mst-protocol", "mst-store"]),
    ("mst-report", &["mst-model", "mst-store"]),
    (
        "mst",
        &[
            "mst-model",
            "mst-process",
            "mst-protocol",
            "mst-plugin",
            "mst-store",
            "mst-sandbox",
            "mst-worker",
            "mst-coordinator",
            "mst-report",
        ],
    ),
];

/// What only some rooms may know.
const RESERVED: [(&str, &[&str]); 5] = [
    ("wasmtime", &["mst-sandbox"]),
    ("wasmtime-wasi", &["mst-sandbox"]),
    ("clap", &["mst"]),
    ("indicatif", &["mst"]),
    ("comfy-table", &["mst"]),
];

/// Rooms without I/O and without async.
const PURE: [&str; 2] = ["mst-model", "mst-protocol"];

fn metadata() -> Metadata {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata works")
}

/// What each package of the workspace needs to be built: tests may import anything.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let mut imports = BTreeMap::new();
    for package in metadata().packages {
        let needs = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development)
            .map(|dependency| dependency.name.clone());
        imports.insert(package.name.to_string(), needs.collect());
    }
    imports
}

#[test]
fn arrows_go_only_where_they_may() {
    let imports = imports();
    let mut faults = Vec::new();
    for (room, may) in ARROWS {
        let needs = imports.get(room).unwrap_or_else(|| panic!("there is no room `{room}`"));
        for need in needs.iter().filter(|need| imports.contains_key(*need) && !may.contains(&need.as_str())) {
            faults.push(format!("`{room}` imports `{need}`"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}\nhost/ARCHITECTURE.md says who may import whom");
}

#[test]
fn every_room_has_its_line() {
    let known: BTreeSet<&str> =
        ARROWS.iter().map(|(room, _)| *room).chain(["mst-sdk", "mst-tests"]).collect();
    let rooms: BTreeSet<String> = imports().into_keys().collect();
    let unknown: Vec<_> = rooms.iter().filter(|room| !known.contains(room.as_str())).collect();
    assert!(unknown.is_empty(), "no arrows are given for {unknown:?}");
}

#[test]
fn what_is_reserved_stays_in_its_room() {
    for (package, rooms) in RESERVED {
        for (room, needs) in imports() {
            assert!(
                !needs.contains(package) || rooms.contains(&room.as_str()),
                "`{room}` imports `{package}`"
            );
        }
    }
}

#[test]
fn pure_rooms_stay_pure() {
    let imports = imports();
    for room in PURE {
        for impure in ["tokio", "cap-std", "tempfile", "rustix", "walkdir"] {
            assert!(!imports[room].contains(impure), "`{room}` imports `{impure}`");
        }
    }
}

#[test]
fn the_top_level_is_what_it_is() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let rooms = ["wit", "host", "plugins", "sdk", "examples", "tests", "target", "runs"];
    let files = [
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ];
    let settings = ["deny.toml", "rustfmt.toml", "clippy.toml"];
    for entry in std::fs::read_dir(root).expect("the root can be read") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let known = [&rooms[..], &files[..], &settings[..]].concat().contains(&name.as_str());
        assert!(known || name.starts_with('.'), "`{name}` stands at the top level");
    }
}

#[test]
fn the_contract_is_documented_item_by_item() {
    let is_item = |line: &str| {
        let name = line.trim_end_matches([',', '{', ' ']);
        let named = name.split([':', '(', ' ']).next().unwrap_or_default();
        let word = !named.is_empty()
            && named.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
        word && !["package", "use", "import", "export"].contains(&named)
    };
    let mut bare = Vec::new();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).expect("lists") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("reads");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_item(line)) {
            if !lines[at.saturating_sub(1)].starts_with("///") {
                bare.push(format!("{}:{}: {line}", path.display(), at + 1));
            }
        }
    }
    assert!(bare.is_empty(), "these have no word of what they are:\n{}", bare.join("\n"));
}
