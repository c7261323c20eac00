//! What a worker was given to do.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use mst_model::Case;
use mst_model::bundle::{Bundle, CaseWork, Planned, ThisMachine};
use serde::Deserialize;

use super::CollectError;

/// The machine that the bundle lies on, where its runner made one.
pub(super) fn this_machine(dir: &Path) -> Result<Option<ThisMachine>, CollectError> {
    let path = dir.join(ThisMachine::FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read
            .and_then(|bytes| Ok(Some(serde_json::from_slice(&bytes)?)))
            .map_err(|source| CollectError::Bundle { path, source }),
    }
}

pub(super) fn read_bundle(dir: &Path) -> Result<Bundle, CollectError> {
    let path = dir.join(Bundle::FILE);
    let read = || -> io::Result<Bundle> {
        let bundle: Bundle = serde_json::from_slice(&std::fs::read(&path)?)?;
        if bundle.schema != Bundle::SCHEMA {
            let what = format!("its schema is `{}`, this mst reads `{}`", bundle.schema, Bundle::SCHEMA);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(bundle)
    };
    read().map_err(|source| CollectError::Bundle { path: path.clone(), source })
}

/// `work.jsonl`, a case at a time: a bundle of a million cases is never held whole.
pub(super) struct WorkLines {
    path: PathBuf,
    lines: BufReader<File>,
    /// Where the next line begins.
    at: u64,
}

/// A line, and where it begins.
pub(super) struct WorkLine {
    pub(super) at: u64,
    pub(super) trials: Vec<Planned>,
    text: String,
}

/// What tells whose line it is: the case in it may be long.
#[derive(Deserialize)]
struct Head {
    trials: Vec<Planned>,
}

impl WorkLines {
    pub(super) fn open(dir: &Path) -> Result<WorkLines, CollectError> {
        let path = dir.join(Bundle::WORK_FILE);
        match File::open(&path) {
            Ok(file) => Ok(WorkLines { path, lines: BufReader::new(file), at: 0 }),
            Err(source) => Err(CollectError::Bundle { path, source }),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<WorkLine>, CollectError> {
        let mut text = String::new();
        let at = self.at;
        let read = || -> io::Result<Option<WorkLine>> {
            match self.lines.read_line(&mut text)? {
                0 => Ok(None),
                read => {
                    self.at += read as u64;
                    let Head { trials } = serde_json::from_str(&text)?;
                    Ok(Some(WorkLine { at, trials, text }))
                }
            }
        };
        read().map_err(|source| CollectError::Bundle { path: self.path.clone(), source })
    }

    /// The case of a line.
    pub(super) fn case(&self, line: &WorkLine) -> Result<CaseWork, CollectError> {
        let read = serde_json::from_str(&line.text);
        read.map_err(|error| CollectError::Bundle { path: self.path.clone(), source: error.into() })
    }
}

/// The case of the line that begins there.
pub(super) fn case_at(dir: &Path, at: u64) -> Result<Case, CollectError> {
    let path = dir.join(Bundle::WORK_FILE);
    let read = || -> io::Result<Case> {
        let mut file = BufReader::new(File::open(&path)?);
        file.seek(SeekFrom::Start(at))?;
        let mut line = String::new();
        file.read_line(&mut line)?;
        Ok(serde_json::from_str::<CaseWork>(&line)?.case)
    };
    read().map_err(|source| CollectError::Bundle { path: path.clone(), source })
}
