//! `machines.jsonl`: the ledger of a run's machines, one entry a line.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mst_model::ledger::{LedgerEntry, LedgerEvent};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::lock::Lock;
use crate::{Result, StoreError, atomic, json};

/// The ledger, to be added to. Threads may share it; clones are the same ledger.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    state: Mutex<State>,
    /// Whoever can write is the run's one writer.
    _lock: Arc<Lock>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// As far as the lines are whole and on the disk.
    size: u64,
    /// Whether there may be something after that.
    torn: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    #[serde(flatten)]
    entry: &'a LedgerEntry,
}

impl Ledger {
    /// Opens the ledger, makes it where there is none, and removes a line that was cut off.
    pub(crate) fn open(layout: &Layout, lock: Arc<Lock>) -> Result<Ledger> {
        let path = layout.machines();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(StoreError::io("read", &path))?;
        let mut state = State { file, size: whole(&bytes).len() as u64, torn: false };
        if state.size < bytes.len() as u64 {
            state.mend(&path)?;
        }
        // The ledger itself must be found after a power cut, and the run that it lies in.
        sync_dir(&layout.root)?;
        if let Some(runs) = layout.root.parent().filter(|runs| *runs != Path::new("")) {
            sync_dir(runs)?;
        }
        Ok(Ledger(Arc::new(Inner { path, state: Mutex::new(state), _lock: lock })))
    }

    /// Adds a line. It is on the disk when this returns; after an error it is as if nothing had
    /// been written, and what it announces must not be done.
    pub fn append(&self, entry: &LedgerEntry) -> Result<()> {
        let path = &self.0.path;
        let line = json::line(path, &Line { schema: LedgerEntry::SCHEMA, entry })?;
        // Whatever panicked, the size counts whole lines alone.
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.torn {
            state.mend(path)?;
        }
        let written = state.add(&line, path);
        if written.is_err() {
            // A disk that is full may still be able to forget. Where it is not, the next call
            // tries again before it writes.
            let _ = state.mend(path);
        }
        written
    }
}

impl State {
    fn add(&mut self, line: &[u8], path: &Path) -> Result<()> {
        self.torn = true;
        let mut write = || {
            self.file.seek(SeekFrom::Start(self.size))?;
            self.file.write_all(line)
        };
        write().map_err(StoreError::io("write", path))?;
        atomic::sync(&self.file, path)?;
        self.size += line.len() as u64;
        self.torn = false;
        Ok(())
    }

    fn mend(&mut self, path: &Path) -> Result<()> {
        self.file.set_len(self.size).map_err(StoreError::io("mend", path))?;
        atomic::sync(&self.file, path)?;
        self.torn = false;
        Ok(())
    }
}

/// The lines that are whole. What comes after the last newline was cut off, and even if it reads
/// as an entry nobody has acted on it.
fn whole(bytes: &[u8]) -> &[u8] {
    match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => &bytes[..=last],
        None => &[],
    }
}

/// A directory's entries reach the disk.
fn sync_dir(path: &Path) -> Result<()> {
    if cfg!(unix) {
        File::open(path).and_then(|dir| dir.sync_all()).map_err(StoreError::io("sync", path))?;
    }
    Ok(())
}

/// The entries of the ledger at `path`; none where there is no ledger.
pub(crate) fn read(path: &Path) -> Result<Vec<LedgerEntry>> {
    let bytes = json::bytes(path)?.unwrap_or_default();
    let Some(lines) = whole(&bytes).strip_suffix(b"\n") else {
        return Ok(Vec::new());
    };
    lines.split(|byte| *byte == b'\n').zip(1..).map(|(line, number)| parse(path, number, line)).collect()
}

fn parse(path: &Path, number: u64, line: &[u8]) -> Result<LedgerEntry> {
    /// As much as every version has.
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        event: Option<String>,
    }
    let damaged = |source| json::damaged(path, number, source);
    let head: Head = serde_json::from_slice(line).map_err(damaged)?;
    json::check(path, head.schema, LedgerEntry::SCHEMA)?;
    match head.event {
        Some(event) if !LedgerEvent::NAMES.contains(&event.as_str()) => {
            let event = event.chars().take(64).flat_map(char::escape_debug).collect();
            Err(StoreError::UnknownEvent { path: path.to_owned(), line: number, event })
        }
        _ => serde_json::from_slice(line).map_err(damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(dir: &Path, file: File) -> Ledger {
        let layout = Layout::new(dir);
        let state = Mutex::new(State { file, size: 0, torn: false });
        let _lock = Arc::new(Lock::take(&layout).expect("locks"));
        Ledger(Arc::new(Inner { path: layout.machines(), state, _lock }))
    }

    fn entry() -> LedgerEntry {
        let at = jiff::Timestamp::UNIX_EPOCH;
        LedgerEntry { at, machine: "m".to_owned(), shard: 0, event: LedgerEvent::Intent }
    }

    #[test]
    fn what_an_append_that_failed_left_is_in_nobodys_way() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("machines.jsonl");
        let file = File::create(&path).expect("makes");
        let ledger = ledger(dir.path(), file);
        ledger.append(&entry()).expect("writes");
        // As if the disk had been full, and then not even been able to forget.
        {
            let mut state = ledger.0.state.lock().expect("locks");
            state.file.write_all(&[b'x'; 5000]).expect("writes");
            state.torn = true;
        }
        assert_eq!(read(&path).expect("reads").len(), 1);
        ledger.append(&entry()).expect("writes");
        assert_eq!(read(&path).expect("reads").len(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let dir = tempfile::tempdir().expect("makes");
        let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
            return;
        };
        let error = ledger(dir.path(), full).append(&entry()).expect_err("is full");
        assert!(matches!(error, StoreError::Io { what: "write", .. }), "{error:?}");
    }
}
