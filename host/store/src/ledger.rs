//! `machines.jsonl`: the ledger of a run's machines, one entry a line.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mst_model::ledger::{LedgerEntry, LedgerEvent};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::lock::Lock;
use crate::whole_lines::WholeLines;
use crate::{Result, StoreError, json};

/// The ledger, to be added to. Threads may share it; clones are the same ledger.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    lines: Mutex<WholeLines>,
    /// Whoever can write is the run's one writer.
    _lock: Arc<Lock>,
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
        let lines = WholeLines::open(path.clone(), file, whole(&bytes).len() as u64, true)?;
        // The ledger itself must be found after a power cut, and the run that it lies in.
        sync_dir(&layout.root)?;
        if let Some(runs) = layout.root.parent().filter(|runs| *runs != Path::new("")) {
            sync_dir(runs)?;
        }
        Ok(Ledger(Arc::new(Inner { path, lines: Mutex::new(lines), _lock: lock })))
    }

    /// Adds a line. It is on the disk when this returns; after an error it is as if nothing had
    /// been written, and what it announces must not be done.
    pub fn append(&self, entry: &LedgerEntry) -> Result<()> {
        let path = &self.0.path;
        let line = json::line(path, &Line { schema: LedgerEntry::SCHEMA, entry })?;
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner).add(&line)
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
