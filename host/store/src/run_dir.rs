//! A run, read.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use mst_model::eval::Eval;
use mst_model::grade::Grade;
use mst_model::ledger::{self, MachineState};
use mst_model::run::{CaseSet, RunRecord};
use mst_model::transcript::Transcript;
use mst_model::{CaseId, Digest, JudgeId, TrialKey};

use crate::audit::AuditLines;
use crate::cases::{self, CaseHead, CaseLines, StoredCase};
use crate::layout::{FILES, Layout, REPORT, STDERR, TRANSCRIPT};
use crate::{Result, RunWriter, StoreError, json, plan, trial};

/// A run's directory, for reading. It takes no lock: a run may be read while it runs.
#[derive(Debug, Clone)]
pub struct RunDir {
    pub(crate) layout: Layout,
}

impl RunDir {
    /// Makes the directory of run `id` under `runs` and takes its lock. A run of that name that
    /// exists is an error.
    pub fn create(runs: &Path, id: &mst_model::RunId) -> Result<RunWriter> {
        RunWriter::create(runs, id)
    }

    /// Opens the run in the directory `path`, for reading.
    pub fn open_read(path: &Path) -> Result<RunDir> {
        let layout = Layout::new(path);
        let record = layout.run_json();
        match record.try_exists() {
            Ok(true) => Ok(RunDir { layout }),
            Ok(false) => Err(StoreError::NoRun { path: path.to_owned() }),
            Err(error) => Err(StoreError::io("read", record)(error)),
        }
    }

    /// The run in the directory `path`, without a look at whether there is one: for what is worth
    /// reading of a run whose record is gone.
    pub fn at(path: &Path) -> RunDir {
        RunDir { layout: Layout::new(path) }
    }

    /// Opens the run in the directory `path`, for writing: takes its lock, then removes the
    /// leftovers of a writer that was killed.
    pub fn open_write(path: &Path) -> Result<RunWriter> {
        RunWriter::open(path)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// Its record.
    pub fn read_record(&self) -> Result<RunRecord> {
        let path = self.layout.run_json();
        match json::bytes(&path)? {
            Some(bytes) => json::parse(&path, &bytes),
            None => Err(StoreError::NoRun { path: self.layout.root.clone() }),
        }
    }

    /// What its ledger says of each machine, in the order in which they were begun; none where no
    /// machine ever was. It may be read while the run runs, and says then what is already on the
    /// disk.
    pub fn machines(&self) -> Result<Vec<MachineState>> {
        Ok(ledger::machines(crate::ledger::read(&self.layout.machines())?))
    }

    /// What its plugins called, one call at a time; nothing where no plugin ever did. It may be read
    /// while the run runs.
    pub fn audit(&self) -> Result<AuditLines> {
        AuditLines::open(self.layout.audit())
    }

    /// Its cases, one at a time.
    pub fn cases(&self) -> Result<CaseLines<StoredCase>> {
        CaseLines::open(self.layout.cases())
    }

    /// Its cases, one at a time, by the rank of their ids.
    pub fn cases_by(&self, rank: impl Fn(&CaseId) -> u64) -> Result<CaseLines<StoredCase>> {
        CaseLines::ranked(self.layout.cases(), rank)
    }

    /// Its cases' ids and digests, one at a time: much cheaper than [`cases`](RunDir::cases).
    pub fn case_heads(&self) -> Result<CaseLines<CaseHead>> {
        CaseLines::open(self.layout.cases())
    }

    /// Holds `cases.jsonl` to its record. Reads every byte.
    pub fn verify_cases(&self, set: &CaseSet) -> Result<()> {
        cases::verify(&self.layout.cases(), set)
    }

    /// Every planned trial, case by case in the order of `cases.jsonl`, one case in memory.
    pub fn trials<'a>(&self, eval: &'a Eval) -> Result<impl Iterator<Item = Result<TrialKey>> + use<'a>> {
        let cases = self.case_heads()?;
        Ok(cases.flat_map(move |head| {
            let (head, error) = match head {
                Ok(head) => (Some(head), None),
                Err(error) => (None, Some(Err(error))),
            };
            let trials = head
                .into_iter()
                .flat_map(move |head| plan::trials_of_case(eval, &head.id).map(Ok).collect::<Vec<_>>());
            trials.chain(error)
        }))
    }

    /// Where a trial is, its newest attempt, or will be.
    pub fn trial_dir(&self, key: &TrialKey) -> PathBuf {
        let is_there = |dir: &PathBuf| dir.join(TRANSCRIPT).exists();
        let later = (1..).map(|attempt| self.layout.attempt(key, attempt)).take_while(is_there);
        later.last().unwrap_or_else(|| self.layout.trial(key))
    }

    /// The attempts at a trial that others stand in for, oldest first, each with the digest of its
    /// file. Each is held to the link from the one after it.
    pub fn earlier(&self, key: &TrialKey) -> Result<Vec<(Transcript, Digest)>> {
        let Some((mut newest, _)) = self.transcript(key)? else { return Ok(Vec::new()) };
        let mut earlier = Vec::new();
        while let Some(previous) = newest.previous {
            let Some(attempt) = newest.attempt.checked_sub(1) else { break };
            let dir = self.layout.attempt(key, attempt);
            let path = dir.join(TRANSCRIPT);
            let (transcript, found) =
                trial::read_for(&dir, key)?.ok_or_else(|| StoreError::Missing { path: path.clone() })?;
            if found != previous {
                return Err(StoreError::Altered { path, found, expected: previous });
            }
            earlier.push((transcript.clone(), found));
            newest = transcript;
        }
        earlier.reverse();
        Ok(earlier)
    }

    /// Whether a trial has finished, without reading what it left.
    pub fn has_trial(&self, key: &TrialKey) -> Result<bool> {
        let path = self.trial_dir(key).join(TRANSCRIPT);
        path.try_exists().map_err(StoreError::io("read", &path))
    }

    /// The planned trials of a case that have not finished. A case of which nothing is there costs
    /// one look, however many trials it has.
    pub fn missing_trials(&self, eval: &Eval, case: &CaseId) -> Result<Vec<TrialKey>> {
        let begun = self.layout.case(case);
        let trials = plan::trials_of_case(eval, case);
        if !begun.try_exists().map_err(StoreError::io("read", &begun))? {
            return Ok(trials.collect());
        }
        let missing = trials.map(|key| Ok((!self.has_trial(&key)?).then_some(key)));
        missing.filter_map(Result::transpose).collect()
    }

    /// A trial's transcript and the digest of its file; none where the trial is missing. A
    /// damaged one is an error and never missing.
    pub fn transcript(&self, key: &TrialKey) -> Result<Option<(Transcript, Digest)>> {
        trial::read_for(&self.trial_dir(key), key)
    }

    /// Holds a trial's directory to its transcript, as [`crate::verify_trial`] does.
    pub fn verify_trial(&self, key: &TrialKey) -> Result<(Transcript, Digest)> {
        trial::verify_trial(&self.trial_dir(key), key)
    }

    /// The client's answer, to be read; none where there is no such file.
    pub fn open_report(&self, key: &TrialKey) -> Result<Option<File>> {
        open(self.trial_dir(key).join(REPORT))
    }

    /// What the client said beside it, to be read; none where there is no such file.
    pub fn open_stderr(&self, key: &TrialKey) -> Result<Option<File>> {
        open(self.trial_dir(key).join(STDERR))
    }

    /// A file of the workspace that a trial left, to be read; none where there is no such file.
    /// `path` is one of [`Transcript::files`]; another that is no path in a workspace is refused.
    pub fn open_file(&self, key: &TrialKey, path: &str) -> Result<Option<File>> {
        let whole = self.trial_dir(key).join(FILES).join(path);
        match mst_model::case::check_path(path) {
            Ok(()) => open(whole),
            Err(error) => Err(StoreError::Io {
                what: "open",
                path: whole,
                source: io::Error::new(io::ErrorKind::InvalidInput, error),
            }),
        }
    }

    /// The client's answer as a whole; none where there is no such file. As big as the client's
    /// `max_output_bytes` admits.
    pub fn read_report(&self, key: &TrialKey) -> Result<Option<Vec<u8>>> {
        json::bytes(&self.trial_dir(key).join(REPORT))
    }

    /// What `judge` says of a trial; none where it has not said anything yet, or where a power cut took
    /// what it said.
    pub fn grade(&self, judge: &JudgeId, key: &TrialKey) -> Result<Option<Grade>> {
        let path = self.layout.grade(judge, key);
        let Some(bytes) = json::bytes(&path)?.filter(|bytes| bytes.iter().any(|byte| *byte != 0)) else {
            return Ok(None);
        };
        let grade: Grade = json::parse(&path, &bytes)?;
        if grade.judge == *judge && grade.trial == *key {
            return Ok(Some(grade));
        }
        Err(StoreError::Misplaced {
            path,
            found: format!("{} of {}", grade.judge, grade.trial),
            expected: format!("{judge} of {key}"),
        })
    }
}

fn open(path: PathBuf) -> Result<Option<File>> {
    match File::open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", &path)(error)),
    }
}
