//! Files that are there whole or not at all.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::{Result, StoreError};

/// What a temporary file's name starts with.
pub const TEMP_PREFIX: &str = ".tmp-";

/// Puts `bytes` at `path`, in place of what is there, through a temporary file in the same
/// directory. Missing directories are made. Whoever reads `path` meanwhile gets the old file or
/// the new one.
///
/// A process killed on the way may leave a file whose name starts with [`TEMP_PREFIX`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = parent(path);
    fs::create_dir_all(parent).map_err(StoreError::io("make directory", parent))?;
    write_via(parent, path, bytes)
}

/// [`write()`], with the temporary file in `staging`, which must be on the same file system.
pub fn write_via(staging: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temp = temp_file(staging)?;
    temp.write_all(bytes).map_err(StoreError::io("write", path))?;
    sync(temp.as_file(), path)?;
    persist(temp, path)
}

/// [`write_via()`] without the sync: after a power cut the file may be empty.
pub(crate) fn write_unsynced_via(staging: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut temp = temp_file(staging)?;
    temp.write_all(bytes).map_err(StoreError::io("write", path))?;
    persist(temp, path)
}

fn persist(temp: NamedTempFile, path: &Path) -> Result<()> {
    let mut outcome = temp.persist(path);
    // A directory is mostly there already: asking first would cost every write a system call.
    if let Err(refused) = outcome {
        outcome = match refused.error.kind() {
            io::ErrorKind::NotFound => {
                let parent = parent(path);
                fs::create_dir_all(parent).map_err(StoreError::io("make directory", parent))?;
                refused.file.persist(path)
            }
            _ => Err(refused),
        };
    }
    match outcome {
        Ok(_) => Ok(()),
        Err(refused) => Err(StoreError::io("write", path)(refused.error)),
    }
}

pub(crate) fn temp_file(staging: &Path) -> Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMP_PREFIX);
    // The lib.rs of this crate says why not 0600.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(staging).map_err(StoreError::io("make a file in", staging))
}

/// The bytes, and what is needed to find them, reach the disk; the file's times need not.
pub(crate) fn sync(file: &fs::File, path: &Path) -> Result<()> {
    file.sync_data().map_err(StoreError::io("sync", path))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_replaces_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("a/b/file");
        write(&path, b"one").expect("writes");
        write(&path, b"two").expect("replaces");
        assert_eq!(fs::read(&path).expect("reads"), b"two");
        assert_eq!(fs::read_dir(path.parent().expect("has one")).expect("lists").count(), 1);
    }

    #[test]
    fn a_refused_write_leaves_the_old_file_and_no_other() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("taken");
        fs::create_dir(&path).expect("makes");
        fs::write(path.join("in the way"), "").expect("writes");
        assert!(matches!(write(&path, b"x"), Err(StoreError::Io { what: "write", .. })));
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn the_umask_decides_the_mode() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("makes");
        let mode = |name: &str| dir.path().join(name).metadata().expect("is there").permissions().mode();
        fs::write(dir.path().join("plain"), "").expect("writes");
        write(&dir.path().join("atomic"), b"").expect("writes");
        assert_eq!(mode("plain"), mode("atomic"));
    }
}
