//! One writer a run.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};

use crate::layout::Layout;
use crate::{Result, StoreError};

/// The lock of a run, held as long as this lives. The system lets go of it when the process
/// ends, however it ends, so a lock is never stale and its file is never removed: to remove a
/// file that somebody else is about to lock would make two writers.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(crate) fn take(layout: &Layout) -> Result<Lock> {
        let path = layout.lock();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // It has the lock a moment before it has written its number; and where locks are
                // mandatory the number can't be read at all. Then there is none to tell.
                let mut text = String::new();
                let read = (&file).take(32).read_to_string(&mut text);
                let pid = read.ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Locked { path: layout.root.clone(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &path)(error)),
        }
        // The number is for people; it decides nothing.
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(StoreError::io("write", &path))?;
        Ok(Lock { _file: file })
    }
}
