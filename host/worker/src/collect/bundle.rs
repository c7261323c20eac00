//! What a worker was given to do.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};

use mst_model::bundle::{Bundle, CaseWork, ThisMachine};

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
    lines: Lines<BufReader<File>>,
}

impl WorkLines {
    pub(super) fn open(dir: &Path) -> Result<WorkLines, CollectError> {
        let path = dir.join(Bundle::WORK_FILE);
        match File::open(&path) {
            Ok(file) => Ok(WorkLines { path, lines: BufReader::new(file).lines() }),
            Err(source) => Err(CollectError::Bundle { path, source }),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<CaseWork>, CollectError> {
        let line = self.lines.next().transpose();
        line.and_then(|line| Ok(line.map(|line| serde_json::from_str(&line)).transpose()?))
            .map_err(|source| CollectError::Bundle { path: self.path.clone(), source })
    }
}
