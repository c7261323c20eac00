//! Trying to leave the directory that was given.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What each attempt came to, a line each. The test may have put a symbolic link `link` that
/// leads out, and a file `inside`, beside the path.
pub(crate) fn attempts(path: &str) -> String {
    let path = Path::new(path);
    let dir = path.parent().unwrap_or(path);
    let mut found = String::new();
    let reads = [
        "inside",
        "link",
        "../etc/passwd",
        "../../../../etc/passwd",
        "./../etc/passwd",
        "inside/../../etc/passwd",
    ];
    for name in
        reads.iter().map(|name| dir.join(name)).chain(["/etc/passwd", "/proc/self/environ"].map(Into::into))
    {
        let _ = writeln!(
            found,
            "read {}: {:?}",
            name.display(),
            fs::read(&name).map(|bytes| bytes.len()).map_err(|error| error.kind())
        );
    }
    for name in ["/", "..", "/data/..", "/tmp"] {
        let names = fs::read_dir(name).map(|entries| entries.count()).map_err(|error| error.kind());
        let _ = writeln!(found, "list {name}: {names:?}");
    }
    let (new, inside) = (dir.join("mst-escape"), dir.join("inside"));
    let _ = writeln!(found, "write: {:?}", fs::write(&new, "x").map_err(|error| error.kind()));
    let _ = writeln!(found, "overwrite: {:?}", fs::write(&inside, "x").map_err(|error| error.kind()));
    let _ = writeln!(found, "remove: {:?}", fs::remove_file(&inside).map_err(|error| error.kind()));
    let _ = writeln!(found, "rename: {:?}", fs::rename(&inside, &new).map_err(|error| error.kind()));
    let _ = writeln!(found, "mkdir: {:?}", fs::create_dir(&new).map_err(|error| error.kind()));
    let _ = writeln!(found, "hard link: {:?}", fs::hard_link(&inside, &new).map_err(|error| error.kind()));
    found
}
