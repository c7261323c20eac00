//! The trials of a shard: which is asked for when, and what becomes of each.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mst_model::bundle::{CaseWork, Planned};
use mst_model::eval::Client;
use mst_model::outcome::Status;
use mst_model::{Case, Digest, TrialKey, VariantId};
use mst_protocol::{FromWorker, TrialDone, Uses};
use mst_store::ResultsDir;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::CollectError;
use super::bundle::WorkLines;
use super::channel::{Shared, locked, tell};
use crate::tokens::Tokens;
use crate::trial::TrialRunner;

pub(super) struct Trials {
    pub(super) bundle: Arc<Path>,
    pub(super) tokens: Option<Arc<Tokens>>,
    pub(super) uses: BTreeMap<VariantId, Uses>,
    pub(super) runner: TrialRunner,
    pub(super) results: ResultsDir,
    pub(super) shared: Arc<Shared>,
    pub(super) say: mpsc::Sender<FromWorker>,
}

impl Trials {
    /// Does the work in its order, `concurrency` trials at a time; says how many ended. Each asks leave
    /// for itself: one that waits for a thing that others hold lets the next ask.
    pub(super) async fn run(
        self: &Arc<Self>,
        mut work: WorkLines,
        concurrency: usize,
    ) -> Result<u64, CollectError> {
        let room = Arc::new(Semaphore::new(concurrency));
        let mut running: JoinSet<Result<bool, CollectError>> = JoinSet::new();
        let mut ended = 0;
        let mut count = |done: Result<Result<bool, CollectError>, tokio::task::JoinError>| {
            let done = done.map_err(|error| CollectError::Host(error.to_string()))??;
            ended += u64::from(done);
            Ok::<(), CollectError>(())
        };
        'work: while let Some(CaseWork { sha256, trials, case }) = work.next()? {
            let case = Arc::new(case);
            for planned in trials {
                let permit = tokio::select! {
                    biased;
                    () = self.shared.stop.cancelled() => break 'work,
                    permit = room.clone().acquire_owned() => permit.map_err(|error| CollectError::Host(error.to_string()))?,
                };
                while let Some(done) = running.try_join_next() {
                    count(done)?;
                }
                let (trials, case) = (self.clone(), case.clone());
                running.spawn(async move {
                    let done = match trials.acquire(&case, &planned).await? {
                        Some(waited) => trials.one(&case, sha256, &planned, waited).await,
                        None => Ok(false),
                    };
                    drop(permit);
                    done
                });
            }
        }
        while let Some(done) = running.join_next().await {
            count(done)?;
        }
        Ok(ended)
    }

    /// Waits for the tokens of a variant's client; false where the run is being stopped.
    async fn good(&self, variant: &VariantId) -> bool {
        let Some(tokens) = &self.tokens else { return true };
        tokio::select! {
            biased;
            () = tokens.good(variant) => true,
            () = self.shared.stop.cancelled() => false,
        }
    }

    /// Asks leave for a trial, and says how long that took; none where the run is being stopped.
    async fn acquire(&self, case: &Case, planned: &Planned) -> Result<Option<Duration>, CollectError> {
        if !self.good(&planned.variant).await {
            return Ok(None);
        }
        let asked = Instant::now();
        let trial = key(case, planned);
        let (grant, granted) = oneshot::channel();
        locked(&self.shared.grants).insert(trial.clone(), grant);
        let uses = self.uses.get(&planned.variant).cloned().unwrap_or_default();
        tell(&self.say, FromWorker::Acquire { trial, uses }).await?;
        tokio::select! {
            // A grant that came is used, or the coordinator would wait for its trial.
            biased;
            granted = granted => granted.map(|()| Some(asked.elapsed())).map_err(|_| CollectError::Host("a grant was lost".to_owned())),
            () = self.shared.stop.cancelled() => Ok(None),
        }
    }

    /// Does a trial, keeps it and says so; false where it was ended before its time, and is missing.
    async fn one(
        &self,
        case: &Case,
        sha256: Digest,
        planned: &Planned,
        waited: Duration,
    ) -> Result<bool, CollectError> {
        let trial = key(case, planned);
        // A token may have come to its end while the trial waited for leave.
        if let Some(tokens) = &self.tokens {
            tokio::select! {
                biased;
                () = tokens.good(&planned.variant) => {}
                // It has not begun: nobody has to wait for a source that may never answer.
                () = self.shared.stop.cancelled() => return Ok(false),
                () = self.shared.kill.cancelled() => return Ok(false),
            }
            tokens.put_back(&planned.variant)?;
        }
        let deadline = self.runner.client_deadline(case);
        locked(&self.shared.in_flight).insert(trial.clone(), (Instant::now(), deadline.as_millis() as u64));
        let stage = self.results.stage()?;
        let run =
            self.runner.run(case, sha256, &planned.variant, planned.index, planned.attempt, stage.dir());
        let transcript = tokio::select! {
            transcript = run => Some(transcript.map_err(|error| CollectError::Host(crate::whole(&error)))?),
            () = self.shared.kill.cancelled() => None,
        };
        locked(&self.shared.in_flight).remove(&trial);
        let Some(mut transcript) = transcript else {
            self.shared.cut.store(true, Ordering::Relaxed);
            return Ok(false);
        };
        transcript.previous = planned.previous;
        transcript.spent.waited_ms = waited.as_millis() as u64;
        let status = transcript.outcome.status;
        // Where the machine is being taken away under it, a trial is missing and not broken.
        if status == Status::Error && !self.bundle.exists() {
            let source = io::Error::new(io::ErrorKind::NotFound, "it is gone");
            return Err(CollectError::Bundle { path: self.bundle.to_path_buf(), source });
        }
        self.shared.unclean.fetch_or(transcript.outcome.cleanup.is_some(), Ordering::Relaxed);
        let committed = tokio::task::spawn_blocking(move || stage.commit(&transcript))
            .await
            .map_err(|error| CollectError::Host(error.to_string()))??;
        let path = committed
            .dir
            .strip_prefix(self.results.path())
            .map_err(|error| CollectError::Host(error.to_string()))?;
        let done = TrialDone {
            trial,
            status,
            path: path.to_string_lossy().into_owned(),
            size_bytes: committed.size_bytes,
            sha256: committed.sha256,
        };
        tell(&self.say, FromWorker::Trial(done)).await?;
        Ok(true)
    }
}

pub(super) fn key(case: &Case, planned: &Planned) -> TrialKey {
    TrialKey { case: case.id.clone(), variant: planned.variant.clone(), index: planned.index }
}

pub(super) fn uses(client: &Client) -> Uses {
    Uses { providers: client.providers.clone(), servers: client.servers.clone() }
}
