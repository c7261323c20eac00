//! The directory `/notes`, which a lock binds: what can be done in it, and what by links that lead
//! out of it. A test may put beside the file `inside` the links `link`, to a file that is out, `nowhere`, to one
//! that is not there, `spare`, which it removes, `out`, to a directory that is, `near`, to `inside`, and
//! `far`, to an absolute path; the directory `sub`; and `pipe`, which is one, with the link `piped` to it.

use std::fs;
use std::io::{self, Write as _};

use mst_sdk::judge::{Error, Trial, Verdict};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

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
        "read a pipe" => fs::read_to_string("/notes/pipe"),
        "write to a pipe by a link" => done(fs::write("/notes/piped", "x")),
        "read by a link that leads out and back" => fs::read_to_string("/notes/out/../inside"),
        "read up from a directory within" => up("inside"),
        "read out from a directory within" => up("../outside/secret"),
        "read where a link leads" => fs::read_link("/notes/near").map(|to| to.display().to_string()),
        "read where an absolute link leads" => done(fs::read_link("/notes/far").map(drop)),
        "remove a link that leads out" => done(fs::remove_file("/notes/spare")),
        "tell of a link that leads out" => fs::symlink_metadata("/notes/link").map(|_| String::new()),
        "write" => done(fs::write("/notes/new", "new")),
        "write to what is open for reading" => {
            done(fs::File::open("/notes/inside").and_then(|mut file| file.write_all(b"x")))
        }
        "cut what is open for reading" => {
            done(fs::File::open("/notes/inside").and_then(|file| file.set_len(0)))
        }
        "write a link that leads out" => done(fs::write("/notes/link", "x")),
        "write below a link that leads out" => done(fs::write("/notes/out/new", "x")),
        "move below a link that leads out" => done(fs::rename("/notes/inside", "/notes/out/new")),
        "move from below a link that leads out" => done(fs::rename("/notes/out/secret", "/notes/moved")),
        "write above" => done(fs::write("/notes/../outside/new", "x")),
        "make a link that leads out" => done(link("../outside", "own")),
        "make a link within" => done(link("inside", "own")),
        "move a link" => done(fs::rename("/notes/near", "/notes/sub/near")),
        "give a link another name" => done(fs::hard_link("/notes/near", "/notes/sub/near")),
        "give a file another name" => done(fs::hard_link("/notes/inside", "/notes/sub/inside")),
        "make a link to the root" => done(link("/", "own")),
        other => return Err(Error::invalid(format!("`{other}` is no attempt of this guest"))),
    };
    Ok(Verdict::pass(format!("{:?}", result.map_err(|error| error.kind()))))
}

fn notes() -> io::Result<Descriptor> {
    let notes = get_directories().into_iter().find(|(_, name)| name == "/notes");
    notes.map(|(notes, _)| notes).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn in_words(error: ErrorCode) -> io::Error {
    match error {
        ErrorCode::NotPermitted => io::ErrorKind::PermissionDenied.into(),
        other => io::Error::other(other),
    }
}

fn link(target: &str, path: &str) -> io::Result<()> {
    notes()?.symlink_at(target, path).map_err(in_words)
}

/// Opens `../PATH` from the directory `sub`.
fn up(path: &str) -> io::Result<String> {
    let open = |from: &Descriptor, path: &str, open: OpenFlags| {
        from.open_at(PathFlags::empty(), path, open, DescriptorFlags::READ).map_err(in_words)
    };
    let sub = open(&notes()?, "sub", OpenFlags::DIRECTORY)?;
    open(&sub, &format!("../{path}"), OpenFlags::empty()).map(|_| String::new())
}

/// Reads and writes below `/notes/flip`, a link that the test turns in and out meanwhile: once or, in every
/// third trial, as often as it may.
pub(crate) fn race(trial: &Trial<'_>) -> Verdict {
    let read = || {
        let text = fs::read_to_string("/notes/flip/secret");
        format!("read {}", text.as_deref().unwrap_or("nothing"))
    };
    let write = || if fs::write("/notes/flip/new", "x").is_ok() { "wrote" } else { "wrote nothing" };
    Verdict::pass(match trial.index() % 3 {
        0 => read(),
        1 => write().to_owned(),
        _ => (0..100).map(|_| format!("{}\n{}\n", read(), write())).collect(),
    })
}
