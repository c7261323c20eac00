//! Trying to leave the directory that was given.

use std::path::Path;
use std::{fs, io};

/// What the attempt of this number came to; none beyond the last. The test may have put a symbolic link
/// `link` that leads out, and a file `inside`, beside the path.
pub(crate) fn attempt(path: &str, number: u64) -> Option<String> {
    let path = Path::new(path);
    let dir = path.parent().unwrap_or(path);
    let (new, inside) = (dir.join("mst-escape"), dir.join("inside"));
    let read = |name: &str| fs::read(dir.join(name)).map(|bytes| bytes.len());
    let list = |name: &str| fs::read_dir(name).map(|entries| entries.count());
    let done = |result: io::Result<()>| result.map(|()| 0);
    let (what, result) = match number {
        0 => ("read beside it", read("inside")),
        1 => ("read by a link", read("link")),
        2 => ("read above", read("../etc/passwd")),
        3 => ("read far above", read("../../../../etc/passwd")),
        4 => ("read above by `.`", read("./../etc/passwd")),
        5 => ("read above by a file", read("inside/../../etc/passwd")),
        6 => ("read from the root", read("/etc/passwd")),
        7 => ("read from /proc", read("/proc/self/environ")),
        8 => ("list the root", list("/")),
        9 => ("list where it is", list("..")),
        10 => ("list above", list("/data/..")),
        11 => ("list /tmp", list("/tmp")),
        12 => ("write", done(fs::write(&new, "x"))),
        13 => ("overwrite", done(fs::write(&inside, "x"))),
        14 => ("remove", done(fs::remove_file(&inside))),
        15 => ("rename", done(fs::rename(&inside, &new))),
        16 => ("make a directory", done(fs::create_dir(&new))),
        17 => ("link", done(fs::hard_link(&inside, &new))),
        _ => return None,
    };
    Some(format!("{what}: {:?}", result.map_err(|error| error.kind())))
}
