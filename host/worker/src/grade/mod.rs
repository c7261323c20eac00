//! Grading: judges over stored trials. A judge is a trait here; whether it is wasm is not known.

mod judge;
mod stored;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mst_model::grade::{Grade, Graded};
use mst_model::outcome::{InstrumentError, Stage, Status};
use mst_model::run::RunRecord;
use mst_model::{JudgeId, TrialKey};
use mst_store::{RunWriter, StoreError, StoredCase, trials_of_case};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use judge::{Judge, Named, NoVerdict};
pub use stored::StoredTrial;
pub use workspace::{Command, GradeWorkspace, Surroundings, WorkspaceError};

/// How long a grade may be in its place and not on the disk.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What grading says of itself while it goes.
#[derive(Debug, Clone, PartialEq)]
pub enum GradeEvent {
    /// A judge has answered on a trial, or broke.
    Graded {
        /// The judge.
        judge: JudgeId,
        /// The trial.
        trial: TrialKey,
        /// Why there is no verdict, where there is none.
        error: Option<String>,
    },
    /// No judge is asked from here on.
    Stopping {
        /// Grades that are still under way.
        in_flight: u64,
    },
}

/// Grading that could not go on. What was graded is in the run.
#[derive(Debug, thiserror::Error)]
pub enum GradeError {
    /// The run can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The host failed.
    #[error("mst failed while it graded: {0}")]
    Host(String),
}

/// Where and how trials are graded.
pub struct Grader {
    /// The run.
    pub run: Arc<RunWriter>,
    /// Its judges.
    pub judges: Vec<Arc<Named>>,
    /// Where workspaces are restored.
    pub scratch: PathBuf,
    /// What the judges' commands find around them.
    pub surroundings: Surroundings,
    /// Whether judges that broke are asked again.
    pub retry: bool,
    /// How many trials are graded at a time.
    pub concurrency: u32,
    /// Who listens, and holds up nobody.
    pub events: Arc<dyn Fn(GradeEvent) + Send + Sync>,
    /// Nothing new starts.
    pub finish: CancellationToken,
    /// What runs is ended.
    pub cancel: CancellationToken,
}

impl Grader {
    /// Grades every trial of `record` that has a transcript, by every judge that has not yet
    /// graded that transcript.
    pub async fn grade(self, record: &RunRecord) -> Result<(), GradeError> {
        let this = Arc::new(self);
        let graded = tokio::select! {
            graded = this.clone().all(record) => graded,
            failed = keep_synced(&this.run) => Err(failed),
        };
        // Also what was graded before something failed.
        let synced = sync(&this.run).await;
        graded.and(synced)
    }

    async fn all(self: Arc<Self>, record: &RunRecord) -> Result<(), GradeError> {
        let scoring = record.eval.deadlines.scoring.0;
        let mut running: JoinSet<Result<(), GradeError>> = JoinSet::new();
        let result = self.clone().start(record, scoring, &mut running).await;
        let mut told = false;
        loop {
            tokio::select! {
                biased;
                () = self.finish.cancelled(), if !told && !running.is_empty() => {
                    told = true;
                    (self.events)(GradeEvent::Stopping { in_flight: running.len() as u64 });
                }
                done = running.join_next() => match done {
                    Some(done) => joined(done)?,
                    None => return result,
                }
            }
        }
    }

    async fn start(
        self: Arc<Self>,
        record: &RunRecord,
        scoring: Duration,
        running: &mut JoinSet<Result<(), GradeError>>,
    ) -> Result<(), GradeError> {
        for stored in self.run.cases()? {
            let stored = Arc::new(stored?);
            for key in trials_of_case(&record.eval, &stored.case.id) {
                for judge in &self.judges {
                    while running.len() >= self.concurrency.max(1) as usize {
                        tokio::select! {
                            biased;
                            () = self.finish.cancelled() => return Ok(()),
                            Some(done) = running.join_next() => joined(done)?,
                        }
                    }
                    if self.finish.is_cancelled() {
                        return Ok(());
                    }
                    let one = One {
                        grader: self.clone(),
                        judge: judge.clone(),
                        stored: stored.clone(),
                        key: key.clone(),
                        scoring,
                    };
                    running.spawn(one.grade());
                }
            }
        }
        Ok(())
    }
}

/// Has the grades of `run` synced every now and then: of slow judges little is lost with the power. It
/// ends only where that fails.
async fn keep_synced(run: &Arc<RunWriter>) -> GradeError {
    loop {
        sleep(SYNC_EVERY).await;
        if let Err(error) = sync(run).await {
            return error;
        }
    }
}

async fn sync(run: &Arc<RunWriter>) -> Result<(), GradeError> {
    let run = run.clone();
    let synced = spawn_blocking(move || run.sync_grades()).await;
    Ok(synced.map_err(|error| GradeError::Host(error.to_string()))??)
}

fn joined(done: Result<Result<(), GradeError>, tokio::task::JoinError>) -> Result<(), GradeError> {
    done.map_err(|error| GradeError::Host(error.to_string()))?
}

/// One judge on one trial.
struct One {
    grader: Arc<Grader>,
    judge: Arc<Named>,
    stored: Arc<StoredCase>,
    key: TrialKey,
    scoring: Duration,
}

impl One {
    async fn grade(self) -> Result<(), GradeError> {
        if !self.grader.run.has_trial(&self.key)? {
            return Ok(());
        }
        // Whole, and byte for byte what it says: a run may have come from elsewhere, and what a
        // judge is shown must be what the client left.
        let (transcript, transcript_sha256) = self.grader.run.verify_trial(&self.key)?;
        // The instrument broke before there was anything to judge.
        if transcript.outcome.status == Status::Error {
            return Ok(());
        }
        if let Some(grade) = self.grader.run.grade(&self.judge.name, &self.key)?
            && grade.transcript_sha256 == transcript_sha256
            && !(self.grader.retry && matches!(grade.result, Graded::Error(_)))
        {
            return Ok(());
        }
        let started = Instant::now();
        let dir = self.grader.run.trial_dir(&self.key);
        let trial = Arc::new(StoredTrial::new(dir, self.stored.clone(), transcript));
        let workspace = Arc::new(GradeWorkspace::new(
            trial.clone(),
            &self.grader.scratch,
            self.grader.surroundings.clone(),
        ));
        let judged = tokio::select! {
            judged = self.judge.judge.judge(trial, workspace.clone(), self.scoring) => judged,
            // Not graded, and nobody's failure: a later grading finds it missing.
            () = self.grader.cancel.cancelled() => return Ok(()),
        };
        let result = match judged {
            Ok(verdict) => Graded::Verdict(verdict),
            Err(NoVerdict { message, denial }) => {
                Graded::Error(InstrumentError { stage: Stage::Scoring, message, denial })
            }
        };
        let error = match &result {
            Graded::Error(error) => Some(error.message.clone()),
            Graded::Verdict(_) => None,
        };
        let grade = Grade {
            schema: Grade::SCHEMA.to_owned(),
            judge: self.judge.name.clone(),
            plugin: self.judge.plugin.clone(),
            plugin_sha256: self.judge.plugin_sha256,
            trial: self.key.clone(),
            transcript_sha256,
            result,
            spent_ms: started.elapsed().as_millis() as u64,
        };
        self.grader.run.write_grade(&grade)?;
        let event = GradeEvent::Graded { judge: self.judge.name.clone(), trial: self.key, error };
        (self.grader.events)(event);
        Ok(())
    }
}
