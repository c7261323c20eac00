//! The directory `/notes`, which a lock binds: what can be done in it, and what by links that lead
//! out of it. A test may put beside the file `inside` the links `link`, to a file that is out, and
//! `out`, to a directory that is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::{fs, io};

use mst_sdk::judge::Verdict;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::ErrorCode;

/// What each attempt came to, a line each.
pub(crate) fn attempts() -> Verdict {
    let read = |path: &str| fs::read_to_string(path);
    let done = |result: io::Result<()>| result.map(|()| String::new());
    let attempts = [
        ("read", read("/notes/inside")),
        ("read a link that leads out", read("/notes/link")),
        ("read below a link that leads out", read("/notes/out/secret")),
        ("list a link that leads out", fs::read_dir("/notes/out").map(|list| list.count().to_string())),
        ("write", done(fs::write("/notes/new", "new"))),
        ("write a link that leads out", done(fs::write("/notes/link", "x"))),
        ("write below a link that leads out", done(fs::write("/notes/out/new", "x"))),
        ("move below a link that leads out", done(fs::rename("/notes/new", "/notes/out/new"))),
        ("write above", done(fs::write("/notes/../outside/new", "x"))),
        ("make a link that leads out", link("../outside", "own").map(|()| String::new())),
        ("read below the link that it made", read("/notes/own/secret")),
    ];
    let mut found = String::new();
    for (what, result) in attempts {
        let _ = writeln!(found, "{what}: {:?}", result.map_err(|error| error.kind()));
    }
    Verdict::pass(found)
}

fn link(target: &str, path: &str) -> io::Result<()> {
    let directories = get_directories();
    let notes = directories.iter().find(|(_, name)| name == "/notes");
    let (notes, _) = notes.ok_or(io::ErrorKind::NotFound)?;
    notes.symlink_at(target, path).map_err(|error| match error {
        ErrorCode::NotPermitted => io::ErrorKind::PermissionDenied.into(),
        other => io::Error::other(other),
    })
}

/// Reads and writes below `/notes/flip` again and again, a link that the test turns in and out meanwhile.
pub(crate) fn race(times: u64) -> Verdict {
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..times {
        let read = fs::read_to_string("/notes/flip/secret").unwrap_or_else(|_| "refused".to_owned());
        *tally.entry(format!("read {read}")).or_default() += 1;
        let wrote = if fs::write("/notes/flip/new", "x").is_ok() { "wrote" } else { "wrote nothing" };
        *tally.entry(wrote.to_owned()).or_default() += 1;
    }
    Verdict::pass(tally.iter().map(|(what, times)| format!("{what}: {times}\n")).collect::<String>())
}
