//! `audit.jsonl`: what plugins called, one line a call.
//!
//! Each append is one write to the file and no sync: a line that was appended outlives the process,
//! and not a power cut. What an eval's plugins did in the last seconds before one is not worth a sync
//! a call.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mst_model::audit::{AuditCall, AuditLine, Caller};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::lock::Lock;
use crate::{Result, StoreError, json};

/// The longest line that is read.
const MAX_LINE: u64 = 1 << 20;

/// The audit, to be added to. Threads may share it; clones are the same audit.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: Mutex<File>,
    /// Whoever can write is the run's one writer.
    _lock: Arc<Lock>,
}

/// What the lines of one append have in common.
#[derive(Serialize)]
struct LineHead<'a> {
    schema: &'static str,
    #[serde(flatten)]
    by: &'a Caller,
}

impl AuditLog {
    /// Opens the audit, makes it where there is none, and removes a line that was cut off.
    pub(crate) fn open(layout: &Layout, lock: Arc<Lock>) -> Result<AuditLog> {
        let path = layout.audit();
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        let whole = end_of_whole_lines(&mut file).map_err(StoreError::io("read", &path))?;
        file.set_len(whole).map_err(StoreError::io("mend", &path))?;
        Ok(AuditLog(Arc::new(Inner { path, file: Mutex::new(file), _lock: lock })))
    }

    /// Adds a line for each call. When this returns they are with the system.
    pub fn append(&self, by: &Caller, calls: &[AuditCall]) -> Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let path = &self.0.path;
        let no_json = |source| StoreError::NoJson { path: path.clone(), source };
        let head = LineHead { schema: AuditLine::SCHEMA, by };
        let mut bytes = Vec::with_capacity(calls.len() * 320);
        serde_json::to_writer(&mut bytes, &head).map_err(no_json)?;
        // A line is the fields of the head and those of the call, in one object: the head's closing
        // brace and the call's opening one make a comma.
        let head = bytes.len() - 1;
        for (at, call) in calls.iter().enumerate() {
            match at {
                0 => bytes.truncate(head),
                _ => bytes.extend_from_within(..head),
            }
            let joint = bytes.len();
            serde_json::to_writer(&mut bytes, call).map_err(no_json)?;
            bytes[joint] = b',';
            bytes.push(b'\n');
        }
        let mut file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&bytes).map_err(StoreError::io("write", path))
    }
}

/// Where the last whole line ends.
fn end_of_whole_lines(file: &mut File) -> std::io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = [0; 4096];
    while end > 0 {
        let from = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - from) as usize];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(part)?;
        if let Some(last) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + last as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// The lines of an audit, one at a time.
#[derive(Debug)]
pub struct AuditLines {
    path: PathBuf,
    reader: Option<BufReader<File>>,
    line: u64,
}

impl AuditLines {
    /// Of the audit at `path`; none where there is no such file.
    pub(crate) fn open(path: PathBuf) -> Result<AuditLines> {
        match File::open(&path) {
            Ok(file) => Ok(AuditLines { path, reader: Some(BufReader::new(file)), line: 0 }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(AuditLines { path, reader: None, line: 0 })
            }
            Err(error) => Err(StoreError::io("open", &path)(error)),
        }
    }

    fn read(&mut self) -> Result<Option<AuditLine>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let mut bytes = Vec::new();
        self.line += 1;
        reader
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(StoreError::io("read", &self.path))?;
        // A last line that was cut off is as good as not written.
        if bytes.last() != Some(&b'\n') && (bytes.len() as u64) < MAX_LINE {
            return Ok(None);
        }
        parse(&self.path, self.line, &bytes).map(Some)
    }
}

impl Iterator for AuditLines {
    type Item = Result<AuditLine>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().transpose();
        if !matches!(read, Some(Ok(_))) {
            // After an error there is no telling where the next line begins.
            self.reader = None;
        }
        read
    }
}

fn parse(path: &Path, number: u64, line: &[u8]) -> Result<AuditLine> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_slice(line).map_err(|source| json::damaged(path, number, source))?;
    json::check(path, head.schema, AuditLine::SCHEMA)?;
    serde_json::from_slice(line).map_err(|source| json::damaged(path, number, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mst_model::Digest;
    use mst_model::audit::{Decision, Phase};

    fn caller() -> Caller {
        Caller { plugin: "a/judge/b".parse().expect("an id"), sha256: Digest::of(b"x"), about: None }
    }

    fn call(args: &str) -> AuditCall {
        AuditCall {
            at: jiff::Timestamp::UNIX_EPOCH,
            within: "judge".into(),
            call: "evidence.read".into(),
            phase: Phase::Ended,
            asks: None,
            decision: Decision::Allowed,
            rule: "its own trial".into(),
            grant: None,
            args: args.to_owned(),
            result: "ok".into(),
            bytes_in: 0,
            bytes_out: 0,
            duration_ns: 0,
            count: 1,
            counts: Default::default(),
        }
    }

    fn args(dir: &Path) -> Vec<String> {
        let lines = AuditLines::open(Layout::new(dir).audit()).expect("opens");
        lines.map(|line| line.expect("a line").call.args).collect()
    }

    #[test]
    fn lines_are_added_and_one_that_was_cut_off_goes() {
        let dir = tempfile::tempdir().expect("makes");
        let layout = Layout::new(dir.path());
        assert!(args(dir.path()).is_empty(), "no audit is an empty one");
        let lock = Arc::new(Lock::take(&layout).expect("locks"));
        let log = AuditLog::open(&layout, lock.clone()).expect("opens");
        log.append(&caller(), &[call("1"), call("2")]).expect("writes");
        log.append(&caller(), &[]).expect("writes nothing");
        assert_eq!(args(dir.path()), ["1", "2"]);
        drop(log);
        // Longer than the block that is read from the end.
        let mut file = OpenOptions::new().append(true).open(layout.audit()).expect("opens");
        file.write_all(&[b'x'; 10_000]).expect("writes");
        assert_eq!(args(dir.path()), ["1", "2"]);
        let log = AuditLog::open(&layout, lock).expect("opens");
        log.append(&caller(), &[call("3")]).expect("writes");
        assert_eq!(args(dir.path()), ["1", "2", "3"]);
    }

    #[test]
    fn what_is_no_line_of_ours_is_an_error() {
        let dir = tempfile::tempdir().expect("makes");
        let path = Layout::new(dir.path()).audit();
        for (text, word) in
            [("{\"schema\":\"mst.audit/v2\"}\n", "v2"), ("{}\n", "schema"), ("nonsense\n", "")]
        {
            std::fs::write(&path, text).expect("writes");
            let mut lines = AuditLines::open(path.clone()).expect("opens");
            let error = lines.next().expect("something").expect_err("no line");
            let mut said = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                said += &source.to_string();
            }
            assert!(said.contains(word), "{said}");
            assert!(lines.next().is_none());
        }
    }
}
