//! A directory for what a process needs for a while: workspaces, and where runners' programs
//! start. One whose process was killed is removed by the next mst of the same user.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

use crate::error::Failure;

/// What the directories' names begin with.
const PREFIX: &str = "mst-";

/// Held by the process that a directory belongs to, for as long as it lives.
const LOCK: &str = ".mst-scratch";

/// A directory, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// A new, empty one.
    pub(crate) fn new() -> Result<Scratch, Failure> {
        Scratch::within(&std::env::temp_dir()).map_err(|error| {
            Failure::because("can't make a directory for workspaces", &error)
                .hint("`TMPDIR` says where directories for a while are made")
        })
    }

    fn within(parent: &Path) -> io::Result<Scratch> {
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // It gets its name only when it is held: a lock that can be taken is nobody's.
        let unnamed = dir.path().join(".new");
        let lock = File::create_new(&unnamed)?;
        lock.lock()?;
        fs::rename(unnamed, dir.path().join(LOCK))?;
        Ok(Scratch { dir, _lock: lock })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes what killed processes of this user left. What can't be removed stays: nobody waits for
/// it.
pub(crate) fn sweep() {
    sweep_in(&std::env::temp_dir());
}

fn sweep_in(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            let _ = remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(dir: &Path) -> io::Result<()> {
    // Another user could put a link there, or a directory of theirs.
    let meta = fs::symlink_metadata(dir)?;
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    // To open a FIFO that somebody put there would take for ever.
    if !fs::symlink_metadata(dir.join(LOCK))?.is_file() {
        return Ok(());
    }
    let lock = File::open(dir.join(LOCK))?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // A client may leave directories that nobody may write to.
            open_up(dir)?;
            fs::remove_dir_all(dir)
        }
        removed => removed,
    }
}

/// Lets this user into every directory below.
fn open_up(dir: &Path) -> io::Result<()> {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            // Links are not followed.
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_and_what_is_held_stays() {
        let parent = tempfile::tempdir().expect("made");
        let held = Scratch::within(parent.path()).expect("made");
        let left = Scratch::within(parent.path()).expect("made");
        let closed = left.path().join("trials/closed");
        fs::create_dir_all(&closed).expect("made");
        fs::write(closed.join("file"), "").expect("written");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("set");
        // As when its process is killed: nothing is dropped, the lock is gone.
        let Scratch { dir, _lock } = left;
        let left = dir.keep();
        drop(_lock);
        // Not of our making.
        let other = parent.path().join("mst-other");
        fs::create_dir(&other).expect("made");
        let fifo = other.join(LOCK);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("made");
        let link = parent.path().join("mst-link");
        std::os::unix::fs::symlink(&other, &link).expect("linked");
        sweep_in(parent.path());
        // A process that another test is about to start may have the lock for a moment.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while left.exists() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
            sweep_in(parent.path());
        }
        assert!(!left.exists());
        assert!(held.path().is_dir() && other.is_dir() && link.is_symlink());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
