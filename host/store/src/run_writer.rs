//! A run, written.

use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mst_model::audit::{Decision, Phase};
use mst_model::grade::{Finding, Grade, Graded};
use mst_model::ledger::MachineState;
use mst_model::run::RunRecord;
use mst_model::transcript::Transcript;
use mst_model::{Digest, RunId, TrialKey};
use tempfile::TempDir;

use crate::layout::{Layout, TRANSCRIPT};
use crate::lock::Lock;
use crate::unsynced::Unsynced;
use crate::{
    AuditLog, CasesWriter, Ledger, Result, RunDir, StoreError, TrialStage, atomic, json, stage, tree, trial,
};

/// What is no longer than this is after a power cut there or not, and never there in part.
const PAGE: usize = 4096;

/// What a trial that was made elsewhere must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Of its `transcript.json`, as its maker said.
    pub sha256: Digest,
    /// Of its case, as planned.
    pub case_sha256: Digest,
    /// The shard that it was planned for.
    pub shard: u32,
    /// The attempt that was planned.
    pub attempt: u32,
    /// The attempt before it, as planned.
    pub previous: Option<Digest>,
}

/// A run's directory, for writing too: it holds the run's lock as long as it lives. Threads may
/// share it; each write is atomic by itself.
#[derive(Debug)]
pub struct RunWriter {
    dir: RunDir,
    lock: Arc<Lock>,
    /// Once it was asked for.
    ledger: Mutex<Option<Ledger>>,
    /// Once it was asked for.
    audit: Mutex<Option<AuditLog>>,
    /// Once it is known.
    id: OnceLock<RunId>,
    grades: Unsynced,
    /// Whether it takes nothing more.
    closed: AtomicBool,
}

impl Deref for RunWriter {
    type Target = RunDir;

    fn deref(&self) -> &RunDir {
        &self.dir
    }
}

impl RunWriter {
    pub(crate) fn create(runs: &Path, id: &RunId) -> Result<RunWriter> {
        fs::create_dir_all(runs).map_err(StoreError::io("make directory", runs))?;
        let path = runs.join(id.as_str());
        fs::create_dir(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::RunExists { path: path.clone() },
            _ => StoreError::io("make directory", &path)(error),
        })?;
        match RunWriter::locked(Layout::new(&path)) {
            Ok(run) => Ok(RunWriter { id: id.clone().into(), ..run }),
            Err(error) => {
                // As on a full disk: what was made a moment ago is no run.
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    pub(crate) fn open(path: &Path) -> Result<RunWriter> {
        let dir = RunDir::open_read(path)?;
        RunWriter::locked(dir.layout)
    }

    fn locked(layout: Layout) -> Result<RunWriter> {
        let lock = Lock::take(&layout)?;
        stage::clear_tmp(&layout)?;
        Ok(RunWriter {
            dir: RunDir { layout },
            lock: Arc::new(lock),
            ledger: Mutex::default(),
            audit: Mutex::default(),
            id: OnceLock::new(),
            grades: Unsynced::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// The run's name: the one that it was created with or, for a directory may have been moved,
    /// the one in its record.
    fn id(&self) -> Result<&RunId> {
        if let Some(id) = self.id.get() {
            return Ok(id);
        }
        let id = self.read_record()?.id;
        Ok(self.id.get_or_init(|| id))
    }

    /// The ledger of the run's machines, to be added to. Each call gives the same one, and the
    /// run stays locked as long as any of them lives.
    pub fn ledger(&self) -> Result<Ledger> {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match &*ledger {
            Some(open) => Ok(open.clone()),
            None => Ok(ledger.insert(Ledger::open(&self.layout, self.lock.clone())?).clone()),
        }
    }

    /// The audit of what the run's plugins call, to be added to. Each call gives the same one, and
    /// the run stays locked as long as any of them lives.
    pub fn audit_log(&self) -> Result<AuditLog> {
        let mut audit = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        match &*audit {
            Some(open) => Ok(open.clone()),
            None => Ok(audit.insert(AuditLog::open(&self.layout, self.lock.clone())?).clone()),
        }
    }

    /// Removes a run that never began: everything that was written since
    /// [`create`](RunDir::create). A run whose record was written stays, and is an error; so does
    /// one whose ledger was begun, and one whose plugins did what is to be read of.
    pub fn discard(self) -> Result<()> {
        let path = self.path();
        if self.layout.run_json().exists() {
            return Err(StoreError::RunExists { path: path.to_owned() });
        }
        if self.layout.machines().exists() {
            return Err(StoreError::HasMachines { path: path.to_owned() });
        }
        self.check_calls()?;
        fs::remove_dir_all(path).map_err(StoreError::io("remove", path))
    }

    /// An error where a plugin did something outside the host, or was kept from it: that is worth
    /// reading of whatever became of the run, and worth most where the run came to nothing.
    fn check_calls(&self) -> Result<()> {
        self.flush_calls()?;
        for line in self.audit()? {
            let call = line?.call;
            if call.phase == Phase::Begun || call.decision == Decision::Denied {
                return Err(StoreError::HasCalls { path: self.path().to_owned() });
            }
        }
        Ok(())
    }

    /// Removes a run that came to nothing: one with no trial, no machine that may be there, and no
    /// call of a plugin that left the host or was denied. Another stays, and is an error. The lock is
    /// held on, on a file that has no name any more.
    pub fn abandon(&self) -> Result<()> {
        let path = self.path();
        if self.layout.trials().exists() {
            return Err(StoreError::HasTrials { path: path.to_owned() });
        }
        if self.machines()?.iter().any(MachineState::may_exist) {
            return Err(StoreError::HasMachines { path: path.to_owned() });
        }
        self.check_calls()?;
        // What makes it a run goes first: cut off after that, it is none.
        let record = self.layout.run_json();
        fs::remove_file(&record).map_err(StoreError::io("remove", &record))?;
        fs::remove_dir_all(path).map_err(StoreError::io("remove", path))
    }

    /// From here on it takes no trial, no grade and no record, whoever has one: whoever kills what is under
    /// way has it closed before, so that nothing that was killed reads as something that ended.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Writes the calls of plugins that the audit keeps. When this returns they are with the system.
    pub fn flush_calls(&self) -> Result<()> {
        let audit = self.audit.lock().unwrap_or_else(PoisonError::into_inner).clone();
        audit.map_or(Ok(()), |audit| audit.flush())
    }

    /// [`flush_calls`](RunWriter::flush_calls) where that has not to wait for anybody: for a program that
    /// ends whatever else hangs.
    pub fn try_flush_calls(&self) {
        let audit = self.audit.try_lock().ok().and_then(|audit| audit.clone());
        if let Some(audit) = audit {
            audit.try_flush();
        }
    }

    /// Whether it takes what something came to. Nothing has its place before the calls that it came of are
    /// in the audit.
    fn takes(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(StoreError::Closed);
        }
        self.flush_calls()
    }

    /// Replaces the run's record.
    pub fn write_record(&self, record: &RunRecord) -> Result<()> {
        self.takes()?;
        let path = self.layout.run_json();
        atomic::write_via(&self.layout.tmp(), &path, &json::pretty(&path, record)?)
    }

    /// Begins the run's cases. They are written once.
    pub fn write_cases(&self) -> Result<CasesWriter> {
        CasesWriter::begin(&self.layout)
    }

    /// A directory on the run's file system for what is on its way; removed when dropped, and
    /// with everything else in `tmp/` when the run is next opened for writing.
    pub fn scratch(&self, prefix: &str) -> Result<TempDir> {
        let tmp = self.layout.tmp();
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(&tmp);
        made.map_err(StoreError::io("make a directory in", &tmp))
    }

    /// Begins a trial.
    pub fn stage(&self) -> Result<TrialStage> {
        TrialStage::begin(self.path())
    }

    /// Moves a trial that a worker made, in a directory of its own, into the run, after holding
    /// it to what the worker said and to the plan: its `transcript.json` has the digest that was
    /// said and is trial `key`'s in this run, of the case, the shard and the attempt that were
    /// planned, and the directory holds what it lists, byte for byte, and nothing else.
    pub fn adopt(&self, key: &TrialKey, from: &Path, expected: &Expected) -> Result<Transcript> {
        let transcript = self.verify_sent(key, from, expected)?;
        tree::sync(from)?;
        self.takes()?;
        stage::adopt(&self.layout, key, expected.attempt, from)?;
        Ok(transcript)
    }

    /// [`adopt`](RunWriter::adopt) for a trial that a worker of this machine committed: that has
    /// synced it already, and syncs are most of what a trial costs.
    pub fn adopt_synced(&self, key: &TrialKey, from: &Path, expected: &Expected) -> Result<Transcript> {
        let transcript = self.verify_sent(key, from, expected)?;
        self.takes()?;
        stage::adopt(&self.layout, key, expected.attempt, from)?;
        Ok(transcript)
    }

    fn verify_sent(&self, key: &TrialKey, dir: &Path, expected: &Expected) -> Result<Transcript> {
        let (transcript, found) = trial::verify_trial(dir, key)?;
        let path = dir.join(TRANSCRIPT);
        if found != expected.sha256 {
            return Err(StoreError::Altered { path, found, expected: expected.sha256 });
        }
        let (run, is) = (self.id()?, &transcript);
        let pairs = [
            (format!("run {}", is.run), format!("run {run}")),
            (format!("case {}", is.case_sha256), format!("case {}", expected.case_sha256)),
            (format!("shard {}", is.shard), format!("shard {}", expected.shard)),
            (format!("attempt {}", is.attempt), format!("attempt {}", expected.attempt)),
            (after(is.previous), after(expected.previous)),
        ];
        match pairs.into_iter().find(|(found, expected)| found != expected) {
            Some((found, expected)) => Err(StoreError::Misplaced { path, found, expected }),
            None => Ok(transcript),
        }
    }

    /// Writes a grade, to be synced by [`sync_grades`](RunWriter::sync_grades). The same
    /// judge's earlier grade of the same trial is kept aside.
    pub fn write_grade(&self, grade: &Grade) -> Result<PathBuf> {
        self.takes()?;
        if !has_json_numbers(grade) {
            return Err(StoreError::BadNumber { trial: grade.trial.clone(), judge: grade.judge.clone() });
        }
        let path = self.layout.grade(&grade.judge, &grade.trial);
        if path.exists() {
            let aside = (0..).map(|number| self.layout.earlier_grade(&grade.judge, &grade.trial, number));
            let free = aside.into_iter().find(|aside| !aside.exists());
            let aside = free.unwrap_or_else(|| path.with_extension("earlier"));
            if let Some(parent) = aside.parent() {
                fs::create_dir_all(parent).map_err(StoreError::io("make directory", parent))?;
            }
            fs::rename(&path, &aside).map_err(StoreError::io("keep aside", &path))?;
        }
        let bytes = json::line(&path, grade)?;
        if bytes.len() > PAGE {
            atomic::write_via(&self.layout.tmp(), &path, &bytes)?;
        } else {
            atomic::write_unsynced_via(&self.layout.tmp(), &path, &bytes)?;
            self.grades.push(path.clone());
        }
        Ok(path)
    }

    /// When this returns every grade that was written is on the disk.
    pub fn sync_grades(&self) -> Result<()> {
        self.grades.sync()
    }
}

/// Which attempt one comes after, in words.
fn after(previous: Option<Digest>) -> String {
    previous
        .map_or("no attempt before it".to_owned(), |previous| format!("the attempt before it, {previous}"))
}

/// JSON writes what is no number as `null`, which then does not read back.
fn has_json_numbers(grade: &Grade) -> bool {
    let Graded::Verdict(verdict) = &grade.result else {
        return true;
    };
    let score = match verdict.finding {
        Finding::Score(score) => (0.0..=1.0).contains(&score),
        _ => true,
    };
    let cost = verdict.usage.as_ref().and_then(|usage| usage.cost_usd);
    score
        && verdict.measures.iter().all(|measure| measure.value.is_finite())
        && cost.is_none_or(f64::is_finite)
}
