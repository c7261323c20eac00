//! The directory `/notes`, which a lock binds: what can be done in it, and what by links that lead
//! out of it. A test may put beside the file `inside` the links `link`, to a file that is out, `nowhere`, to one
//! that is not there, and `out`, to a directory that is.

use std::{fs, io};

use mst_sdk::judge::{Error, Trial, Verdict};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::ErrorCode;

/// What an attempt came to, where mst lets the judge say so.
pub(crate) fn attempt(what: &str) -> Result<Verdict, Error> {
    let done = |result: io::Result<()>| result.map(|()| String::new());
    let result = match what {
        "read" => fs::read_to_string("/notes/inside"),
        "read what is not there" => fs::read_to_string("/notes/nothing"),
        "read a link that leads out" => fs::read_to_string("/notes/link"),
        "read a link that leads out to nothing" => fs::read_to_string("/notes/nowhere"),
        "read below a link that leads out" => fs::read_to_string("/notes/out/secret"),
        "list a link that leads out" => fs::read_dir("/notes/out").map(|list| list.count().to_string()),
        "tell of a link that leads out" => fs::symlink_metadata("/notes/link").map(|_| String::new()),
        "write" => done(fs::write("/notes/new", "new")),
        "write a link that leads out" => done(fs::write("/notes/link", "x")),
        "write below a link that leads out" => done(fs::write("/notes/out/new", "x")),
        "move below a link that leads out" => done(fs::rename("/notes/inside", "/notes/out/new")),
        "move from below a link that leads out" => done(fs::rename("/notes/out/secret", "/notes/moved")),
        "write above" => done(fs::write("/notes/../outside/new", "x")),
        "make a link that leads out" => done(link("../outside", "own")),
        "make a link to the root" => done(link("/", "own")),
        other => return Err(Error::invalid(format!("`{other}` is no attempt of this guest"))),
    };
    Ok(Verdict::pass(format!("{:?}", result.map_err(|error| error.kind()))))
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

/// Reads and writes below `/notes/flip`, a link that the test turns in and out meanwhile.
pub(crate) fn race(trial: &Trial<'_>) -> Verdict {
    if trial.index().is_multiple_of(2) {
        return Verdict::pass(format!("read {:?}", fs::read_to_string("/notes/flip/secret").ok()));
    }
    let wrote = fs::write("/notes/flip/new", "x").is_ok();
    Verdict::pass(if wrote { "wrote" } else { "wrote nothing" })
}
