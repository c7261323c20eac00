//! `cases.jsonl`: the cases of a run as they were resolved, one `{"case": …, "sha256": …}` a line.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use mst_model::digest::Digester;
use mst_model::run::CaseSet;
use mst_model::{Case, CaseId, Digest};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

use crate::layout::Layout;
use crate::{Result, StoreError, atomic, json, name};

/// A case as it is stored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StoredCase {
    /// Its digest.
    pub sha256: Digest,
    /// The case.
    pub case: Case,
}

/// As much of a stored case as a plan needs; reading it makes nothing of the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseHead {
    /// The case's digest.
    pub sha256: Digest,
    /// The case's id.
    pub id: CaseId,
}

impl<'de> Deserialize<'de> for CaseHead {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Line {
            sha256: Digest,
            case: Id,
        }
        #[derive(Deserialize)]
        struct Id {
            id: CaseId,
        }
        let line = Line::deserialize(deserializer)?;
        Ok(CaseHead { sha256: line.sha256, id: line.case.id })
    }
}

/// Writes `cases.jsonl`. Its memory is one case, and 16 bytes (in a set, so up to 50) for each. Dropped before
/// [`finish`](CasesWriter::finish), it leaves nothing.
#[derive(Debug)]
pub struct CasesWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    digester: Digester,
    count: u64,
    bytes: u64,
    /// Of the *names* that the cases' directories will have, letters' case aside: where an id
    /// stands twice its name does, and two ids that would share a directory must not pass either.
    names: HashSet<u128>,
}

impl CasesWriter {
    pub(crate) fn begin(layout: &Layout) -> Result<CasesWriter> {
        let file = BufWriter::with_capacity(64 << 10, atomic::temp_file(&layout.tmp())?);
        Ok(CasesWriter {
            path: layout.cases(),
            file,
            digester: Digester::default(),
            count: 0,
            bytes: 0,
            names: HashSet::new(),
        })
    }

    /// Adds a case and returns its digest. A second case of the same id is an error.
    pub fn push(&mut self, case: &Case) -> Result<Digest> {
        let name = name::escape(&case.id).to_ascii_lowercase();
        if !self.names.insert(half(&Digest::of(name.as_bytes()))) {
            return Err(StoreError::DuplicateCase { id: case.id.clone() });
        }
        let no_json = |source| StoreError::NoJson { path: self.path.clone(), source };
        // The text that `Case::digest` is taken of, so that it need not be made twice.
        let json =
            serde_json::to_value(case).and_then(|value| serde_json::to_vec(&value)).map_err(no_json)?;
        let sha256 = Digest::of(&json);
        let head = format!("{{\"sha256\":\"{sha256}\",\"case\":");
        for piece in [head.as_bytes(), &json, b"}\n"] {
            self.digester.update(piece);
            self.file.write_all(piece).map_err(StoreError::io("write", &self.path))?;
            self.bytes += piece.len() as u64;
        }
        self.count += 1;
        Ok(sha256)
    }

    /// How many cases it has so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts the file in its place, where there must be none yet: the run's identity is over it.
    pub fn finish(self) -> Result<CaseSet> {
        let CasesWriter { path, file, digester, count, .. } = self;
        let file = file.into_inner().map_err(|error| StoreError::io("write", &path)(error.into_error()))?;
        atomic::sync(file.as_file(), &path)?;
        file.persist_noclobber(&path).map_err(|refused| StoreError::io("write", &path)(refused.error))?;
        Ok(CaseSet { count, sha256: digester.finish() })
    }
}

/// Half a digest: 2^64 cases would have to be tried until two meet.
fn half(digest: &Digest) -> u128 {
    let bytes = digest.as_bytes().first_chunk();
    bytes.map_or(0, |bytes| u128::from_be_bytes(*bytes))
}

/// The lines of `cases.jsonl`, one at a time. After an error there are no more.
#[derive(Debug)]
pub struct CaseLines<T> {
    path: PathBuf,
    file: Option<BufReader<File>>,
    line: Vec<u8>,
    number: u64,
    /// Where each line begins, where they are read in an order of their own.
    order: Option<std::vec::IntoIter<(u64, u64)>>,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> CaseLines<T> {
    pub(crate) fn open(path: PathBuf) -> Result<CaseLines<T>> {
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::Missing { path: path.clone() },
            _ => StoreError::io("open", &path)(error),
        })?;
        Ok(CaseLines {
            path,
            file: Some(BufReader::with_capacity(64 << 10, file)),
            line: Vec::new(),
            number: 0,
            order: None,
            kind: PhantomData,
        })
    }

    /// The same lines, by the rank of each case's id. 24 bytes a case are held meanwhile.
    pub(crate) fn ranked(path: PathBuf, rank: impl Fn(&CaseId) -> u64) -> Result<CaseLines<T>> {
        let mut heads = CaseLines::<CaseHead>::open(path.clone())?;
        let (mut ranks, mut at) = (Vec::new(), 0);
        while let Some(head) = heads.read()? {
            ranks.push((rank(&head.id), at, heads.number));
            at += heads.line.len() as u64;
        }
        ranks.sort_unstable();
        let order: Vec<_> = ranks.into_iter().map(|(_, at, number)| (at, number)).collect();
        let mut lines = CaseLines::open(path)?;
        lines.order = Some(order.into_iter());
        Ok(lines)
    }

    fn read(&mut self) -> Result<Option<T>> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        if let Some(order) = &mut self.order {
            let Some((at, number)) = order.next() else { return Ok(None) };
            self.number = number - 1;
            file.seek(SeekFrom::Start(at)).map_err(StoreError::io("read", &self.path))?;
        }
        self.line.clear();
        let size = file.read_until(b'\n', &mut self.line).map_err(StoreError::io("read", &self.path))?;
        if size == 0 {
            return Ok(None);
        }
        self.number += 1;
        serde_json::from_slice(&self.line)
            .map(Some)
            .map_err(|source| json::damaged(&self.path, self.number, source))
    }
}

impl<T: DeserializeOwned> Iterator for CaseLines<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read().transpose();
        if !matches!(item, Some(Ok(_))) {
            self.file = None;
        }
        item
    }
}

/// Holds the file to its record: count and digest.
pub(crate) fn verify(path: &Path, set: &CaseSet) -> Result<()> {
    let found = crate::trial::digest_of(path)?;
    if found == set.sha256 {
        Ok(())
    } else {
        Err(StoreError::Altered { path: path.to_owned(), found, expected: set.sha256 })
    }
}
