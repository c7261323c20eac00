//! Files that were written and not synced yet: many of them are synced at once.
//!
//! A sync of one file costs as much as all the rest of writing it, and so does one of the whole file
//! system, however many files it has on their way.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::{Result, StoreError, atomic};

/// From so many on the file system is synced instead of each: others may have much of theirs on its way.
const MANY: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    waiting: Mutex<Vec<PathBuf>>,
    /// Held while some are synced.
    syncing: Mutex<()>,
}

impl Unsynced {
    /// One more was written.
    pub(crate) fn push(&self, path: PathBuf) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }

    /// Syncs all that wait, and waits for those that another syncs. It may take as long as the file
    /// system has to write, and holds up nobody who writes one more.
    pub(crate) fn sync(&self) -> Result<()> {
        let _one_at_a_time = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        sync(waiting)
    }
}

fn sync(paths: Vec<PathBuf>) -> Result<()> {
    let open = |path: &PathBuf| File::open(path).map_err(StoreError::io("open", path));
    #[cfg(target_os = "linux")]
    if paths.len() >= MANY
        && let Some(path) = paths.last()
    {
        let synced = rustix::fs::syncfs(open(path)?).map_err(std::io::Error::from);
        return synced.map_err(StoreError::io("sync", path));
    }
    paths.iter().try_for_each(|path| atomic::sync(&open(path)?, path))
}
