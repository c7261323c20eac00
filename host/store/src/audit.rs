//! `audit.jsonl`: what plugins called, one line a call.
//!
//! Each append is one write to the file and no sync: a line that was appended outlives the process,
//! and not a power cut. What an eval's plugins did in the last seconds before one is not worth a sync
//! a call. Lines that are only kept are written with the next ones that are appended, or before anything
//! that came of them has its place in the run.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use mst_model::audit::{AuditCall, AuditLine, Caller, Phase};
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::lock::Lock;
use crate::whole_lines::WholeLines;
use crate::{Result, StoreError, json};

/// The longest line that is read.
const MAX_LINE: u64 = 1 << 20;

/// Room for a line, as long as most are.
const LINE_GUESS: usize = 512;

/// So many calls are kept at most, and what one caller hands over at once; more only where they could not be
/// written, and then nothing gets its place in the run.
const MAX_KEPT: usize = 1024;

#[derive(Serialize)]
struct Schema {
    schema: &'static str,
}

/// The audit, to be added to. Threads may share it; clones are the same audit.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Taken before `kept`, by whoever takes both.
    lines: Mutex<WholeLines>,
    kept: Mutex<Kept>,
    /// Whoever can write is the run's one writer.
    _lock: Arc<Lock>,
}

/// Calls that are not in the file yet.
#[derive(Debug, Default)]
struct Kept {
    from: Vec<(Arc<Caller>, Vec<AuditCall>)>,
    count: usize,
}

impl AuditLog {
    /// Opens the audit, makes it where there is none, and removes a line that was cut off.
    pub(crate) fn open(layout: &Layout, lock: Arc<Lock>) -> Result<AuditLog> {
        let path = layout.audit();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        let whole = end_of_whole_lines(&mut file).map_err(StoreError::io("read", &path))?;
        let lines = Mutex::new(WholeLines::open(path.clone(), file, whole, false)?);
        Ok(AuditLog(Arc::new(Inner { path, lines, kept: Mutex::default(), _lock: lock })))
    }

    /// Adds a line for each call, after those that are kept. When this returns they are with the system.
    pub fn append(&self, by: &Caller, calls: &[AuditCall]) -> Result<()> {
        self.0.write(Some((by, calls)))
    }

    /// Keeps calls, to be written with the next that are appended.
    pub fn keep(&self, by: &Arc<Caller>, calls: Vec<AuditCall>) -> Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let many = {
            let mut kept = self.0.kept();
            kept.count += calls.len();
            kept.from.push((by.clone(), calls));
            kept.count >= MAX_KEPT
        };
        if many { self.flush() } else { Ok(()) }
    }

    /// Writes what is kept. When this returns it is with the system.
    pub fn flush(&self) -> Result<()> {
        self.0.write(None)
    }

    /// [`flush`](AuditLog::flush) where nobody else is writing.
    pub(crate) fn try_flush(&self) {
        let lines = match self.0.lines.try_lock() {
            Ok(lines) => lines,
            Err(TryLockError::Poisoned(lines)) => lines.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // Nobody is left to be told.
        let _ = self.0.write_to(lines, None);
    }
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, last: Option<(&Caller, &[AuditCall])>) -> Result<()> {
        self.write_to(self.lines.lock().unwrap_or_else(PoisonError::into_inner), last)
    }

    fn write_to(
        &self,
        mut lines: MutexGuard<'_, WholeLines>,
        last: Option<(&Caller, &[AuditCall])>,
    ) -> Result<()> {
        let kept = std::mem::take(&mut *self.kept());
        let from = kept.from.iter().map(|(by, calls)| (&**by, &calls[..])).chain(last);
        // What has no JSON will have none the next time.
        let bytes =
            bytes_of(from).map_err(|source| StoreError::NoJson { path: self.path.clone(), source })?;
        if bytes.is_empty() {
            return Ok(());
        }
        let written = lines.add(&bytes);
        if written.is_err() {
            self.put_back(kept, last);
        }
        written
    }

    /// Keeps what could not be written, before what others have kept since. A call that was about to be done
    /// is not done then, and is in no audit.
    fn put_back(&self, mut back: Kept, last: Option<(&Caller, &[AuditCall])>) {
        if let Some((by, calls)) = last {
            let over: Vec<_> = calls.iter().filter(|call| call.phase == Phase::Ended).cloned().collect();
            back.count += over.len();
            back.from.push((Arc::new(by.clone()), over));
        }
        let mut now = self.kept();
        back.count += now.count;
        back.from.append(&mut now.from);
        *now = back;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.write(None);
    }
}

fn bytes_of<'a>(from: impl Iterator<Item = (&'a Caller, &'a [AuditCall])>) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (by, calls) in from.filter(|(_, calls)| !calls.is_empty()) {
        // A line is one object of three: the schema, who called, and what. Where one ends and the next begins
        // a comma joins them.
        let head = bytes.len();
        bytes.reserve(LINE_GUESS);
        serde_json::to_writer(&mut bytes, &Schema { schema: AuditLine::SCHEMA })?;
        join(&mut bytes, by)?;
        let head = head..bytes.len();
        for (at, call) in calls.iter().enumerate() {
            bytes.reserve(LINE_GUESS);
            if at > 0 {
                bytes.extend_from_within(head.clone());
            }
            join(&mut bytes, call)?;
            bytes.push(b'\n');
        }
    }
    Ok(bytes)
}

/// Adds the fields of `more` to the object that `bytes` end with.
fn join(bytes: &mut Vec<u8>, more: &impl Serialize) -> serde_json::Result<()> {
    bytes.pop();
    let joint = bytes.len();
    serde_json::to_writer(&mut *bytes, more)?;
    debug_assert!(bytes.len() > joint + 2, "an object of nothing has no comma before it");
    bytes[joint] = b',';
    Ok(())
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
    use mst_model::audit::Decision;

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
        std::io::Write::write_all(&mut file, &[b'x'; 10_000]).expect("writes");
        assert_eq!(args(dir.path()), ["1", "2"]);
        let log = AuditLog::open(&layout, lock).expect("opens");
        log.append(&caller(), &[call("3")]).expect("writes");
        assert_eq!(args(dir.path()), ["1", "2", "3"]);
    }

    #[test]
    fn what_is_kept_is_written_with_the_next_that_is_appended_and_at_the_end() {
        let dir = tempfile::tempdir().expect("makes");
        let layout = Layout::new(dir.path());
        let lock = Arc::new(Lock::take(&layout).expect("locks"));
        let log = AuditLog::open(&layout, lock).expect("opens");
        let (one, other) = (Arc::new(caller()), Arc::new(Caller { about: Some("b".into()), ..caller() }));
        log.keep(&one, vec![call("1"), call("2")]).expect("kept");
        log.keep(&one, vec![]).expect("kept");
        log.keep(&other, vec![call("3")]).expect("kept");
        assert!(args(dir.path()).is_empty());
        log.append(&one, &[call("4")]).expect("written");
        assert_eq!(args(dir.path()), ["1", "2", "3", "4"]);
        let lines = AuditLines::open(layout.audit()).expect("opens");
        let about: Vec<_> = lines.map(|line| line.expect("a line").by.about).collect();
        assert_eq!(about, [None, None, Some("b".into()), None]);
        log.keep(&one, vec![call("5")]).expect("kept");
        log.flush().expect("written");
        assert_eq!(args(dir.path()).len(), 5);
        log.keep(&one, vec![call("6")]).expect("kept");
        drop(log);
        assert_eq!(args(dir.path()).len(), 6);
    }

    #[test]
    fn no_more_than_so_many_are_kept() {
        let dir = tempfile::tempdir().expect("makes");
        let layout = Layout::new(dir.path());
        let log = AuditLog::open(&layout, Arc::new(Lock::take(&layout).expect("locks"))).expect("opens");
        let by = Arc::new(caller());
        for _ in 0..10 * MAX_KEPT {
            log.keep(&by, vec![call("x")]).expect("kept");
            assert!(log.0.kept().count < MAX_KEPT);
        }
        assert_eq!(args(dir.path()).len(), 10 * MAX_KEPT);
    }

    #[test]
    fn what_could_not_be_written_is_kept_and_comes_first() {
        let dir = tempfile::tempdir().expect("makes");
        let layout = Layout::new(dir.path());
        let log = AuditLog::open(&layout, Arc::new(Lock::take(&layout).expect("locks"))).expect("opens");
        let by = Arc::new(caller());
        log.keep(&by, vec![call("1")]).expect("kept");
        // As a disk without room.
        let unwritable = File::open(layout.audit()).expect("opens");
        let unwritable = WholeLines::open(layout.audit(), unwritable, 0, false).expect("opens");
        let good = std::mem::replace(&mut *log.0.lines.lock().expect("locks"), unwritable);
        let begun = AuditCall { phase: Phase::Begun, ..call("not done") };
        log.append(&by, &[call("over"), begun]).expect_err("no room");
        log.flush().expect_err("no room");
        let many = vec![call("many"); MAX_KEPT];
        log.keep(&by, many).expect_err("no room");
        log.keep(&by, vec![call("one more")]).expect_err("no room");
        *log.0.lines.lock().expect("locks") = good;
        log.keep(&by, vec![call("2")]).expect("kept");
        log.flush().expect("written");
        let args = args(dir.path());
        assert_eq!((&args[..2], args.len()), (&["1".to_owned(), "over".to_owned()][..], 2 + MAX_KEPT + 2));
        assert_eq!(args[args.len() - 2..], ["one more", "2"]);
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
