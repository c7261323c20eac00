//! `mst.lock` on disk: found beside an eval, read, and replaced as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mst_plugin::Lock;
use mst_plugin::lock::{FILE, MAX_BYTES};

use crate::error::Failure;

/// A lock and where it is.
pub(crate) struct LockFile {
    path: PathBuf,
    /// What was read; none where there was no file.
    text: Option<String>,
    pub(crate) lock: Lock,
}

impl LockFile {
    /// The lock beside an eval, or the one that the command line names. An eval without a lock has
    /// an empty one.
    pub(crate) fn beside(eval: &Path, named: Option<&Path>) -> Result<LockFile, Failure> {
        match named {
            Some(path) => LockFile::there(path),
            None => LockFile::at(&eval.parent().unwrap_or(Path::new("")).join(FILE)),
        }
    }

    /// The lock of this path; empty where there is none yet.
    pub(crate) fn at(path: &Path) -> Result<LockFile, Failure> {
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(LockFile { path: path.to_owned(), text: None, lock: Lock::default() })
            }
            Err(error) => Err(unreadable(path, &error)),
            Ok(text) => {
                let lock =
                    Lock::from_toml(&text).map_err(|error| unreadable(path, &error).hint_if(error.hint()))?;
                Ok(LockFile { path: path.to_owned(), text: Some(text), lock })
            }
        }
    }

    /// The lock of this path, which must be there.
    pub(crate) fn there(path: &Path) -> Result<LockFile, Failure> {
        if path.exists() {
            return LockFile::at(path);
        }
        Err(Failure::new(format!("there is no lock `{}`", path.display()))
            .hint(format!("`mst plugin add FILE --lock {}` makes it", path.display())))
    }

    /// Its path, as it was named.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is, wherever mst or another is; none where there is no file.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let there = self.text.is_some();
        there.then(|| std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone()))
    }

    /// The directory that its relative paths are relative to; empty for the one that mst is in.
    pub(crate) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The `--lock` that commands in messages name; none where they find it by themselves.
    pub(crate) fn argument(&self) -> Option<&Path> {
        (self.path != Path::new(FILE)).then_some(self.path.as_path())
    }

    /// Replaces the lock by this one, unless it is no longer the one that was read: what another
    /// granted meanwhile is not taken back by who did not see it.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let text = self.lock.to_toml().map_err(|error| Failure::from_error(&error))?;
        let shown = self.path.display();
        let failed = |error: io::Error| Failure::because(format!("can't write the lock `{shown}`"), &error);
        let dir = if self.dir() == Path::new("") { Path::new(".") } else { self.dir() };
        fs::create_dir_all(dir).map_err(failed)?;
        // Held until the file is replaced. The file itself can't be held, for another takes its place.
        let held = fs::File::open(dir).map_err(failed)?;
        // Where the file system knows no such thing, what remains is the look below.
        let _ = rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive);
        let now = match read(&self.path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&self.path, &error)),
        };
        if now != self.text {
            return Err(Failure::new(format!(
                "the lock `{shown}` was changed meanwhile, and stays as it is"
            ))
            .hint("look at what it says now, and give the command again"));
        }
        mst_store::atomic::write(&self.path, text.as_bytes())
            .map_err(|error| Failure::because(format!("can't write the lock `{shown}`"), &error))
    }

    /// A path of the command line's as the lock holds it: what was named relative to here stays
    /// relative, to the lock.
    pub(crate) fn relative(&self, path: &Path) -> Result<PathBuf, Failure> {
        if path.is_absolute() {
            return Ok(path.to_owned());
        }
        let real = |path: &Path| {
            fs::canonicalize(if path == Path::new("") { Path::new(".") } else { path })
                .map_err(|error| Failure::because(format!("can't find `{}`", path.display()), &error))
        };
        if self.dir() != Path::new("") {
            fs::create_dir_all(self.dir()).map_err(|error| {
                Failure::because(format!("can't make `{}`", self.dir().display()), &error)
            })?;
        }
        // The last part stays what it was called: it may be a link that its owner leads elsewhere.
        let whole = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => real(parent)?.join(name),
            _ => real(path)?,
        };
        Ok(from(&real(self.dir())?, &whole))
    }
}

/// `path` as seen from `dir`; both absolute and without links.
fn from(dir: &Path, path: &Path) -> PathBuf {
    let shared = dir.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = dir.components().skip(shared).map(|_| Path::new(".."));
    let down: PathBuf = path.components().skip(shared).collect();
    let relative = up.collect::<PathBuf>().join(down);
    if relative == Path::new("") { PathBuf::from(".") } else { relative }
}

fn read(path: &Path) -> io::Result<String> {
    use io::Read as _;
    let mut text = String::new();
    let file = fs::File::open(path)?;
    file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::because(format!("can't read the lock `{}`", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_wrote_meanwhile_is_not_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("deep").join(FILE);
        let (first, second) = (LockFile::at(&path).expect("empty"), LockFile::at(&path).expect("empty"));
        first.write().expect("writes");
        let refused = second.write().expect_err("refused").one_line();
        assert!(refused.contains("was changed meanwhile"), "{refused}");
        let again = LockFile::at(&path).expect("reads");
        fs::remove_file(&path).expect("removed");
        again.write().expect_err("refused");
        assert!(!path.exists());
    }

    #[test]
    fn paths_are_seen_from_the_lock() {
        let seen = |dir: &str, path: &str| from(Path::new(dir), Path::new(path)).display().to_string();
        assert_eq!(seen("/a/b", "/a/b/c.wasm"), "c.wasm");
        assert_eq!(seen("/a/b", "/a/x/c.wasm"), "../x/c.wasm");
        assert_eq!(seen("/a/b", "/c"), "../../c");
        assert_eq!(seen("/a/b", "/a/b"), ".");
    }
}
