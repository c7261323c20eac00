//! The trials of a shard: which is asked for when, and what becomes of each.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mst_model::bundle::Planned;
use mst_model::eval::Client;
use mst_model::outcome::Status;
use mst_model::{TrialKey, VariantId};
use mst_protocol::{FromWorker, TrialDone, Uses};
use mst_store::ResultsDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::CollectError;
use super::channel::{Answer, Shared, locked, tell};
use super::lanes::{Lanes, Next};
use crate::tokens::{Changes, Tokens};
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

/// A trial that asks leave.
struct Asking {
    next: Next,
    lane: usize,
    since: Instant,
    /// Whether it waits for what others hold, and leaves its place to another meanwhile.
    waits: bool,
}

/// Trials that were let start and have not ended.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(count: &Arc<AtomicUsize>) -> UnderWay {
        count.fetch_add(1, Ordering::AcqRel);
        UnderWay(count.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Trials {
    /// Does the work in its order, `concurrency` trials at a time; says how many ended. What waits for
    /// room that others hold takes no place here, and what has no tokens does not ask: others go on.
    pub(super) async fn run(
        self: &Arc<Self>,
        mut lanes: Lanes,
        mut answers: mpsc::Receiver<Answer>,
        concurrency: usize,
    ) -> Result<u64, CollectError> {
        let under_way = Arc::new(AtomicUsize::new(0));
        let mut running: JoinSet<Result<bool, CollectError>> = JoinSet::new();
        let mut asking: BTreeMap<TrialKey, Asking> = BTreeMap::new();
        let mut changes = self.tokens.as_ref().map(|tokens| tokens.changes());
        let (mut ended, mut stopped) = (0, false);
        loop {
            // What a stop gives up frees a place before the stop is heard of here.
            if !stopped && !self.shared.stop.is_cancelled() {
                self.ask(&mut lanes, &mut asking, running.len(), concurrency).await?;
            }
            if running.is_empty() && (stopped || (asking.is_empty() && lanes.is_empty())) {
                return Ok(ended);
            }
            tokio::select! {
                // A grant that came is used, or the coordinator would wait for its trial.
                biased;
                Some(answer) = answers.recv() => match answer {
                    Answer::Granted(trial) => {
                        let Some(asked) = asking.remove(&trial) else { return Err(unasked("granted", &trial)) };
                        lanes.answered(asked.lane);
                        // This one came too late.
                        if stopped {
                            continue;
                        }
                        if under_way.load(Ordering::Acquire) >= concurrency {
                            let what = format!("`granted` for {trial}, which is one more than {concurrency} at a time");
                            return Err(CollectError::Protocol(what));
                        }
                        let (trials, begun) = (self.clone(), UnderWay::begin(&under_way));
                        running.spawn(async move { trials.one(asked.next, asked.since.elapsed(), begun).await });
                    }
                    Answer::Waits(trial) => match asking.get_mut(&trial) {
                        Some(asking) if !asking.waits => {
                            asking.waits = true;
                            // Any number may wait, and a case may be long.
                            asking.next.case = None;
                        }
                        _ => return Err(unasked("waits", &trial)),
                    },
                },
                Some(done) = running.join_next() => {
                    let done = done.map_err(|error| CollectError::Host(error.to_string()))??;
                    ended += u64::from(done);
                }
                () = self.shared.stop.cancelled(), if !stopped => stopped = true,
                () = next_of(&mut changes), if !stopped => {}
            }
        }
    }

    /// Asks leave for as many trials as there are places for.
    async fn ask(
        &self,
        lanes: &mut Lanes,
        asking: &mut BTreeMap<TrialKey, Asking>,
        running: usize,
        concurrency: usize,
    ) -> Result<(), CollectError> {
        let has_tokens =
            |planned: &Planned| self.tokens.as_ref().is_none_or(|tokens| tokens.is_good(&planned.variant));
        while running + asking.values().filter(|asking| !asking.waits).count() < concurrency {
            let Some((lane, next)) = lanes.next(concurrency, has_tokens)? else { break };
            let trial = next.key.clone();
            let uses = self.uses.get(&trial.variant).cloned().unwrap_or_default();
            asking.insert(trial.clone(), Asking { next, lane, since: Instant::now(), waits: false });
            tell(&self.say, FromWorker::Acquire { trial, uses }).await?;
        }
        Ok(())
    }

    /// Does a trial, keeps it and says so; false where it was ended before its time, and is missing.
    async fn one(&self, mut next: Next, waited: Duration, begun: UnderWay) -> Result<bool, CollectError> {
        let case = next.case(&self.bundle).await?;
        let Next { key: trial, sha256, planned, .. } = next;
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
        let deadline = self.runner.client_deadline(&case);
        locked(&self.shared.in_flight).insert(trial.clone(), (Instant::now(), deadline.as_millis() as u64));
        let stage = self.results.stage()?;
        let run =
            self.runner.run(&case, sha256, &planned.variant, planned.index, planned.attempt, stage.dir());
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
        // Its room is free as soon as it is said.
        drop(begun);
        tell(&self.say, FromWorker::Trial(done)).await?;
        Ok(true)
    }
}

pub(super) fn unasked(what: &str, trial: &TrialKey) -> CollectError {
    CollectError::Protocol(format!("`{what}` for {trial}, which did not ask"))
}

/// Returns at the next change of the tokens; never, where there are none.
async fn next_of(changes: &mut Option<Changes>) {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}

pub(super) fn uses(client: &Client) -> Uses {
    Uses { providers: client.providers.clone(), servers: client.servers.clone() }
}
