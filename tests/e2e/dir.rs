//! Directories that the lock binds: written to and read as they were granted, and never left, by
//! `test/judge/hostile` with a `dir` that it asks for. Whoever tries has its call ended.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Mode;
use serde_json::{Value, json};

use crate::support::{Eval, Space, case, guest, need, wasm};

/// As no other text has it.
const OUTSIDE: &str = "what-stands-outside";

/// How many trials meet a link that is changed meanwhile.
const TRIALS: usize = 300;

/// A place with a directory to bind and one beside it, and judges of a plugin that has `access` to the
/// first.
fn space(access: &str, eval: Eval) -> Option<Space> {
    let bytes = fs::read(guest("judge")?).expect("reads");
    let mut manifest = wasm::manifest(&bytes);
    manifest["dir"] = json!([{"name": "notes", "access": access}]);
    let space = Space::new();
    space.write("judge.wasm", wasm::with_manifest(&bytes, &manifest));
    space.write("notes/inside", "what stands inside");
    space.write("outside/secret", OUTSIDE);
    eval.write(&space);
    let args = ["plugin", "add", "judge.wasm", "--grant", "all", "--bind", "dir:notes=notes"];
    space.mst(args).exits(0);
    Some(space)
}

fn judge(id: &str, options: &Value) -> Value {
    json!({"id": id, "plugin": "test/judge/hostile", "options": options})
}

const ATTEMPTS: [&str; 29] = [
    "read",
    "read what is not there",
    "read a link that leads out",
    "read a link that leads out to nothing",
    "read below a link that leads out",
    "read a pipe",
    "write to a pipe by a link",
    "read by a link that leads out and back",
    "read up from a directory within",
    "read out from a directory within",
    "read where a link leads",
    "read where an absolute link leads",
    "list a link that leads out",
    "tell of a link that leads out",
    "write",
    "write to what is open for reading",
    "cut what is open for reading",
    "write a link that leads out",
    "write below a link that leads out",
    "move below a link that leads out",
    "move from below a link that leads out",
    "remove a link that leads out",
    "write above",
    "make a link that leads out",
    "make a link within",
    "move a link",
    "give a link another name",
    "give a file another name",
    "make a link to the root",
];

/// What comes of each attempt, each in a call of its own, a line each: what the judge was told, or why its
/// call was ended.
fn attempts(access: &str) -> Option<(Space, String)> {
    let id = |attempt: &str| attempt.replace(' ', "-");
    let judges: Vec<Value> = ATTEMPTS
        .iter()
        .map(|attempt| judge(&id(attempt), &json!({"behaviour": "dir", "attempt": attempt})))
        .collect();
    let space = space(access, Eval::new().judges(json!(judges)))?;
    symlink("../outside/secret", space.path("notes/link")).expect("linked");
    symlink("../outside/nothing", space.path("notes/nowhere")).expect("linked");
    symlink("../outside/secret", space.path("notes/spare")).expect("linked");
    symlink("../outside", space.path("notes/out")).expect("linked");
    symlink("inside", space.path("notes/near")).expect("linked");
    symlink(space.path("notes/inside"), space.path("notes/far")).expect("linked");
    fs::create_dir(space.path("notes/sub")).expect("made");
    rustix::fs::mkfifoat(rustix::fs::CWD, space.path("notes/pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    symlink("pipe", space.path("notes/piped")).expect("linked");
    space.mst(["run", "eval.yaml"]).exits(106);
    let run = space.run();
    let mut told = String::new();
    for attempt in ATTEMPTS {
        let result = run.grade(&id(attempt), "a/v/0");
        let what = result["verdict"]["reason"].as_str().or_else(|| result["error"]["message"].as_str());
        let what = what.unwrap_or_else(|| panic!("neither a verdict nor an error: {result}"));
        told.push_str(&format!("{attempt}: {}\n", what.replace("`test/judge/hostile` was ", "")));
    }
    Some((space, told))
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
fn what_may_be_written_is_written_and_who_leads_out_is_ended() {
    let (space, told) = need!(attempts("read-write"));
    insta::assert_snapshot!(told, @r#"
    read: Ok("what stands inside")
    read what is not there: Err(NotFound)
    read a link that leads out: denied `descriptor.open-at(/notes/link)`: a link on the path leads out of the directory that it was given, or begins at the root
    read a link that leads out to nothing: denied `descriptor.open-at(/notes/nowhere)`: a link on the path leads out of the directory that it was given, or begins at the root
    read below a link that leads out: denied `descriptor.open-at(/notes/out/secret)`: a link on the path leads out of the directory that it was given, or begins at the root
    read a pipe: denied `descriptor.open-at(/notes/pipe)`: what stands there is neither a file nor a directory
    write to a pipe by a link: denied `descriptor.open-at(/notes/piped)`: what stands there is neither a file nor a directory
    read by a link that leads out and back: denied `descriptor.open-at(/notes/out/../inside)`: a link on the path leads out of the directory that it was given, or begins at the root
    read up from a directory within: Err(PermissionDenied)
    read out from a directory within: denied `descriptor.open-at(/notes/sub/../../outside/secret)`: the path leads out of the directory that it was given
    read where a link leads: Ok("inside")
    read where an absolute link leads: Err(PermissionDenied)
    list a link that leads out: denied `descriptor.open-at(/notes/out)`: a link on the path leads out of the directory that it was given, or begins at the root
    tell of a link that leads out: Ok("")
    write: Ok("")
    write to what is open for reading: Err(Uncategorized)
    cut what is open for reading: Err(InvalidInput)
    write a link that leads out: denied `descriptor.open-at(/notes/link)`: a link on the path leads out of the directory that it was given, or begins at the root
    write below a link that leads out: denied `descriptor.open-at(/notes/out/new)`: a link on the path leads out of the directory that it was given, or begins at the root
    move below a link that leads out: denied `descriptor.rename-at(/notes/out/new)`: a link on the path leads out of the directory that it was given, or begins at the root
    move from below a link that leads out: denied `descriptor.rename-at(/notes/out/secret)`: a link on the path leads out of the directory that it was given, or begins at the root
    remove a link that leads out: Ok("")
    write above: denied `descriptor.open-at(/notes/../outside/new)`: the path leads out of the directory that it was given
    make a link that leads out: denied `descriptor.symlink-at(/notes/own)`: no plugin makes links, moves them or gives them another name
    make a link within: denied `descriptor.symlink-at(/notes/own)`: no plugin makes links, moves them or gives them another name
    move a link: denied `descriptor.rename-at(/notes/near)`: no plugin makes links, moves them or gives them another name
    give a link another name: denied `descriptor.link-at(/notes/near)`: no plugin makes links, moves them or gives them another name
    give a file another name: Ok("")
    make a link to the root: denied `descriptor.symlink-at(/notes/own)`: no plugin makes links, moves them or gives them another name
    "#);
    assert_eq!(space.read("notes/new"), "new");
    assert_outside_untouched(&space);
    let audit = space.run().audit();
    let through = |path: &str| {
        let lines = audit.iter().filter(|line| line["call"] == "descriptor.use" && line["args"] == path);
        let bytes = |line: &Value, what: &str| line[what].as_u64().unwrap_or(0);
        lines.map(|line| (bytes(line, "bytes_in"), bytes(line, "bytes_out"))).collect::<Vec<_>>()
    };
    assert_eq!(through("/notes/inside"), [("what stands inside".len() as u64, 0)]);
    assert_eq!(through("/notes/new"), [(0, "new".len() as u64)]);
}

#[test]
fn what_may_be_read_is_not_written_and_who_tries_is_ended() {
    let (space, told) = need!(attempts("read"));
    insta::assert_snapshot!(told, @r#"
    read: Ok("what stands inside")
    read what is not there: Err(NotFound)
    read a link that leads out: denied `descriptor.open-at(/notes/link)`: a link on the path leads out of the directory that it was given, or begins at the root
    read a link that leads out to nothing: denied `descriptor.open-at(/notes/nowhere)`: a link on the path leads out of the directory that it was given, or begins at the root
    read below a link that leads out: denied `descriptor.open-at(/notes/out/secret)`: a link on the path leads out of the directory that it was given, or begins at the root
    read a pipe: denied `descriptor.open-at(/notes/pipe)`: what stands there is neither a file nor a directory
    write to a pipe by a link: denied `descriptor.open-at(/notes/piped)`: its manifest asks for `dir:notes` to read only
    read by a link that leads out and back: denied `descriptor.open-at(/notes/out/../inside)`: a link on the path leads out of the directory that it was given, or begins at the root
    read up from a directory within: Err(PermissionDenied)
    read out from a directory within: denied `descriptor.open-at(/notes/sub/../../outside/secret)`: the path leads out of the directory that it was given
    read where a link leads: Ok("inside")
    read where an absolute link leads: Err(PermissionDenied)
    list a link that leads out: denied `descriptor.open-at(/notes/out)`: a link on the path leads out of the directory that it was given, or begins at the root
    tell of a link that leads out: Ok("")
    write: denied `descriptor.open-at(/notes/new)`: its manifest asks for `dir:notes` to read only
    write to what is open for reading: denied `descriptor.write-via-stream(/notes/inside)`: its manifest asks for `dir:notes` to read only
    cut what is open for reading: denied `descriptor.set-size(/notes/inside)`: its manifest asks for `dir:notes` to read only
    write a link that leads out: denied `descriptor.open-at(/notes/link)`: its manifest asks for `dir:notes` to read only
    write below a link that leads out: denied `descriptor.open-at(/notes/out/new)`: its manifest asks for `dir:notes` to read only
    move below a link that leads out: denied `descriptor.rename-at(/notes/inside)`: its manifest asks for `dir:notes` to read only
    move from below a link that leads out: denied `descriptor.rename-at(/notes/out/secret)`: its manifest asks for `dir:notes` to read only
    remove a link that leads out: denied `descriptor.unlink-file-at(/notes/spare)`: its manifest asks for `dir:notes` to read only
    write above: denied `descriptor.open-at(/notes/../outside/new)`: the path leads out of the directory that it was given
    make a link that leads out: denied `descriptor.symlink-at(/notes/own)`: its manifest asks for `dir:notes` to read only
    make a link within: denied `descriptor.symlink-at(/notes/own)`: its manifest asks for `dir:notes` to read only
    move a link: denied `descriptor.rename-at(/notes/near)`: its manifest asks for `dir:notes` to read only
    give a link another name: denied `descriptor.link-at(/notes/near)`: its manifest asks for `dir:notes` to read only
    give a file another name: denied `descriptor.link-at(/notes/inside)`: its manifest asks for `dir:notes` to read only
    make a link to the root: denied `descriptor.symlink-at(/notes/own)`: its manifest asks for `dir:notes` to read only
    "#);
    assert!(!space.path("notes/new").exists());
    assert_outside_untouched(&space);
    let run = space.run();
    let denied = space.mst(["audit", &run.name(), "--denied"]).exits(0).stdout;
    assert!(
        denied.contains("dir:notes") && denied.contains("its manifest asks for `dir:notes` to read only"),
        "{denied}"
    );
    assert!(denied.contains("a link on the path leads out of the directory"), "{denied}");
}

#[test]
fn a_refused_path_ends_each_trial_that_meets_it_and_is_said_once() {
    let write = judge("judge", &json!({"behaviour": "dir", "attempt": "write"}));
    let eval = Eval::new().cases(["a", "b", "c"].map(case)).judges(json!([write]));
    let space = need!(space("read", eval));
    let output = space.mst(["run", "eval.yaml"]).exits(106);
    let denial =
        "was denied `descriptor.open-at(/notes/new)`: its manifest asks for `dir:notes` to read only";
    assert_eq!(output.stdout.matches(denial).count(), 1, "however many trials met it: {output}");
    let run = space.run();
    for case in ["a", "b", "c"] {
        let error = run.grade("judge", &format!("{case}/v/0"))["error"]["message"].to_string();
        assert!(error.contains("to read only"), "{case}: {error}");
    }
    assert!(!space.path("notes/new").exists());
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
    let eval = Eval::new()
        .set("trials", json!(TRIALS))
        .judges(json!([judge("judge", &json!({"behaviour": "dir-race"}))]));
    let space = need!(space("read-write", eval));
    space.write("notes/real/secret", "inside");
    symlink("real", space.path("notes/flip")).expect("linked");
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
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
        let mut seen = BTreeSet::new();
        // Who turns the link may not have had its turn.
        for _ in 0..10 {
            seen.extend(outcomes(&space));
            if ["ended", "read inside", "wrote"].iter().all(|what| seen.contains(*what)) {
                break;
            }
        }
        seen
    });
    // One that saw it lead out was ended, unless it led in again when that was looked into: then the path was
    // just not permitted.
    let known = ["ended", "read inside", "read nothing", "wrote", "wrote nothing"];
    assert!(seen.iter().all(|what| known.contains(&what.as_str())), "{seen:?}");
    for what in ["ended", "read inside", "wrote"] {
        assert!(seen.contains(what), "{seen:?}");
    }
    assert_outside_untouched(&space);
}

/// What trials of a run came to that met a link which was turned meanwhile.
fn outcomes(space: &Space) -> BTreeSet<String> {
    let output = space.mst(["run", "eval.yaml"]);
    assert!([0, 106].contains(&output.code), "{output}");
    let run = space.run();
    let mut seen = BTreeSet::new();
    for index in 0..TRIALS {
        let result = run.grade("judge", &format!("a/v/{index}"));
        match result["verdict"]["reason"].as_str() {
            Some(told) => seen.extend(told.lines().map(str::to_owned)),
            None => {
                let error = result["error"]["message"].as_str().expect("an error");
                assert!(error.contains("a link on the path leads out of the directory"), "{error}");
                seen.insert("ended".to_owned());
            }
        }
    }
    fs::remove_dir_all(space.path("runs")).expect("removed");
    seen
}
