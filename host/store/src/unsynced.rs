//! Files that were written and not synced yet: many of them are synced at once.
//!
//! A sync of one file costs as much as all the rest of writing it, and so does one of the whole file
//! system, however many files it has on their way.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::{Result, StoreError, atomic};

/// So many wait at the most.
const MOST: usize = 64;

/// From so many on the file system is synced instead of each: others may have much of theirs on its way.
const MANY: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Unsynced(Mutex<Vec<PathBuf>>);

impl Unsynced {
    /// One more was written. Syncs where it is one too many.
    pub(crate) fn push(&self, path: PathBuf) -> Result<()> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(path);
        match waiting.len() {
            0..MOST => Ok(()),
            _ => sync(std::mem::take(&mut waiting)),
        }
    }

    /// Syncs all that wait.
    pub(crate) fn sync(&self) -> Result<()> {
        sync(std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)))
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
