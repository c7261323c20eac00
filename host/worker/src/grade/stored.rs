//! A stored trial, as a judge may look at it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mst_model::transcript::Transcript;
use mst_model::{Case, TrialKey};
use mst_store::StoredCase;

/// A finished trial in its directory, and its case.
pub struct StoredTrial {
    dir: PathBuf,
    stored: Arc<StoredCase>,
    transcript: Transcript,
}

impl StoredTrial {
    /// The trial whose directory is `dir`.
    pub fn new(dir: PathBuf, stored: Arc<StoredCase>, transcript: Transcript) -> StoredTrial {
        StoredTrial { dir, stored, transcript }
    }

    /// Its key.
    pub fn key(&self) -> &TrialKey {
        &self.transcript.trial
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its case.
    pub fn case(&self) -> &Case {
        &self.stored.case
    }

    /// Its transcript.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Its case, as `mst.case/v1`.
    pub fn case_json(&self) -> String {
        json(&self.stored.case)
    }

    /// Its outcome, as `mst.outcome/v1`.
    pub fn outcome_json(&self) -> String {
        json(&self.transcript.outcome)
    }

    /// What can be read, in the order of the names, with sizes in bytes.
    pub fn entries(&self) -> Vec<(String, u64)> {
        let files =
            self.transcript.files.iter().map(|file| (format!("files/{}", file.path), file.size_bytes));
        let report = self.transcript.report.iter().map(|report| ("report".to_owned(), report.size_bytes));
        let stderr = self.transcript.stderr.iter().map(|stderr| ("stderr".to_owned(), stderr.size_bytes));
        files.chain(report).chain(stderr).collect()
    }

    /// At most `limit` bytes of an entry from `offset`, and how many come after; none where the
    /// transcript lists no such entry.
    pub fn read(&self, name: &str, offset: u64, limit: u32) -> io::Result<Option<(Vec<u8>, u64)>> {
        // Only what the transcript lists, so that no name leads anywhere else.
        let Some(size) = self.size(name) else { return Ok(None) };
        let mut bytes = Vec::new();
        if offset < size {
            let mut file = File::open(self.dir.join(name))?;
            file.seek(SeekFrom::Start(offset))?;
            file.take(u64::from(limit).min(size - offset)).read_to_end(&mut bytes)?;
        }
        let rest = size.saturating_sub(offset.saturating_add(bytes.len() as u64));
        Ok(Some((bytes, rest)))
    }

    fn size(&self, name: &str) -> Option<u64> {
        match name {
            "report" => self.transcript.report.as_ref().map(|report| report.size_bytes),
            "stderr" => self.transcript.stderr.as_ref().map(|stderr| stderr.size_bytes),
            _ => {
                let path = name.strip_prefix("files/")?;
                self.transcript.files.iter().find(|file| file.path == path).map(|file| file.size_bytes)
            }
        }
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    // Both are plain data with string keys, which always have a text.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}
