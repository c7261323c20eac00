//! Directories that the lock binds: written to and read as they were granted, and never left, by
//! `test/judge/hostile` with a `dir` that it asks for.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::{Eval, Space, guest, need, wasm};

/// As no other text has it.
const OUTSIDE: &str = "what-stands-outside";

/// A place with a directory to bind and one beside it, and a judge that has `access` to the first and
/// behaves so.
fn space(access: &str, options: &Value) -> Option<Space> {
    let bytes = fs::read(guest("judge")?).expect("reads");
    let mut manifest = wasm::manifest(&bytes);
    manifest["dir"] = json!([{"name": "notes", "access": access}]);
    let space = Space::new();
    space.write("judge.wasm", wasm::with_manifest(&bytes, &manifest));
    space.write("notes/inside", "what stands inside");
    space.write("outside/secret", OUTSIDE);
    Eval::new()
        .judges(json!([{"id": "judge", "plugin": "test/judge/hostile", "options": options}]))
        .write(&space);
    let args = ["plugin", "add", "judge.wasm", "--grant", "all", "--bind", "dir:notes=notes"];
    space.mst(args).exits(0);
    Some(space)
}

/// Runs the eval, and has what the judge tells.
fn told(space: &Space) -> String {
    space.mst(["run", "eval.yaml"]).exits(0);
    let run = space.run();
    run.grade("judge", "a/v/0")["verdict"]["reason"].as_str().expect("a verdict").to_owned()
}

fn with_links(access: &str) -> Option<Space> {
    let space = space(access, &json!({"behaviour": "dir"}))?;
    symlink("../outside/secret", space.path("notes/link")).expect("linked");
    symlink("../outside", space.path("notes/out")).expect("linked");
    Some(space)
}

/// Nothing came out and nothing went there.
#[track_caller]
fn assert_outside_untouched(space: &Space) {
    let names: Vec<_> = fs::read_dir(space.path("outside"))
        .expect("lists")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(space.read("outside/secret"), OUTSIDE);
}

#[test]
fn what_may_be_written_is_written_and_no_link_leads_out() {
    let space = need!(with_links("read-write"));
    insta::assert_snapshot!(told(&space), @r#"
    read: Ok("what stands inside")
    read a link that leads out: Err(PermissionDenied)
    read below a link that leads out: Err(PermissionDenied)
    list a link that leads out: Err(PermissionDenied)
    write: Ok("")
    write a link that leads out: Err(PermissionDenied)
    write below a link that leads out: Err(PermissionDenied)
    move below a link that leads out: Err(PermissionDenied)
    write above: Err(PermissionDenied)
    make a link that leads out: Err(PermissionDenied)
    read below the link that it made: Err(NotFound)
    "#);
    assert_eq!(space.read("notes/new"), "new");
    assert_outside_untouched(&space);
}

#[test]
fn what_may_be_read_is_not_written() {
    let space = need!(with_links("read"));
    insta::assert_snapshot!(told(&space), @r#"
    read: Ok("what stands inside")
    read a link that leads out: Err(PermissionDenied)
    read below a link that leads out: Err(PermissionDenied)
    list a link that leads out: Err(PermissionDenied)
    write: Err(PermissionDenied)
    write a link that leads out: Err(PermissionDenied)
    write below a link that leads out: Err(PermissionDenied)
    move below a link that leads out: Err(PermissionDenied)
    write above: Err(PermissionDenied)
    make a link that leads out: Err(PermissionDenied)
    read below the link that it made: Err(NotFound)
    "#);
    assert!(!space.path("notes/new").exists());
    assert_outside_untouched(&space);
    let run = space.run();
    let denied = space.mst(["audit", &run.name(), "--denied"]).exits(0).stdout;
    assert!(
        denied.contains("dir:notes") && denied.contains("its manifest asks for `dir:notes` to read only"),
        "{denied}"
    );
}

/// Says that it is over, however its scope is left.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_link_that_is_changed_meanwhile_leads_out() {
    let space = need!(space("read-write", &json!({"behaviour": "dir-race", "count": 1500})));
    space.write("notes/real/secret", "inside");
    symlink("real", space.path("notes/flip")).expect("linked");
    let over = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            for target in ["../outside", "real"].iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let next = space.path("next");
                symlink(target, &next).expect("linked");
                fs::rename(&next, space.path("notes/flip")).expect("moved");
            }
        });
        // Else the scope would wait for the other for ever where this panics.
        let _ends = Ends(&over);
        told(&space)
    });
    let times = |what: &str| {
        let lines =
            told.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix(": ")?.parse::<u64>().ok());
        lines.sum::<u64>()
    };
    // It led in and out while the judge was at it.
    for (one, other) in [("read inside", "read refused"), ("wrote", "wrote nothing")] {
        assert!(times(one) > 0 && times(other) > 0, "{told}");
        assert_eq!(times(one) + times(other), 1500, "{told}");
    }
    assert_outside_untouched(&space);
}
