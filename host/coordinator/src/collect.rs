//! Collecting: every shard driven to its end, every transcript checked and kept.

use std::sync::Arc;
use std::time::Duration;

use mst_model::case::check_path;
use mst_model::run::{Collect, RunRecord, ShardEnding, ShardRecord};
use mst_protocol::{FromCoordinator, Lines, MAX_NOISE_LINES, Numbered, TrialDone, decode, encode};
use mst_store::{RunWriter, StoreError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::event::{Event, Events};
use crate::plan::{PlanError, ShardPlan, write_bundles};
use crate::runner::{Results, Runner, Session, ShardSpec};
use crate::shard::{Action, Conversation};

/// A worker that says nothing for so long is dead: three of its heartbeats.
const SILENCE: Duration = Duration::from_secs(30);

/// What a worker that was cancelled gets to end its clients.
const GRACE: Duration = Duration::from_secs(5);

/// How a person stops a run.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Nothing new starts; what runs may end.
    pub finish: CancellationToken,
    /// What runs is ended.
    pub cancel: CancellationToken,
}

/// What collecting came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Whether every planned trial has a transcript.
    pub collect: Collect,
    /// How many have none.
    pub missing: u64,
    /// How each shard ended.
    pub shards: Vec<ShardRecord>,
}

/// A run that could not be collected at all.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Its plan could not be written.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Its directory can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The host failed.
    #[error("mst failed while it collected: {0}")]
    Host(String),
}

/// Collects every trial of `record` that has no transcript yet. A shard that breaks is no error
/// here: what it stored is kept, and what it did not is missing.
pub async fn collect(
    run: &Arc<RunWriter>,
    record: &RunRecord,
    runner: Arc<dyn Runner>,
    concurrency: u32,
    stop: &Stop,
    events: &Events,
) -> Result<Collected, CollectError> {
    let staging = run.scratch("collect")?;
    let plans = write_bundles(run, record, concurrency, staging.path())?;
    let trials = plans.iter().map(|plan| plan.trials.len() as u64).sum();
    events.say(Event::Planned { trials, shards: plans.len() as u32 });

    let mut driving = JoinSet::new();
    for plan in plans {
        let spec = ShardSpec {
            run: record.id.clone(),
            shard: plan.shard,
            shards: record.runner.shards,
            bundle: plan.bundle.clone(),
            staging: staging.path().join(format!("results-{}", plan.shard)),
        };
        let driver = Driver {
            run: run.clone(),
            events: events.clone(),
            stop: stop.clone(),
            conversation: Conversation::new(plan.shard, &record.mst.to_string(), plan.trials.iter().cloned()),
            provision: record.eval.deadlines.provision.0,
        };
        driving.spawn(driver.drive(plan, spec, runner.clone()));
    }
    let mut shards = Vec::new();
    while let Some(ended) = driving.join_next().await {
        shards.push(ended.map_err(|error| CollectError::Host(error.to_string()))?);
    }
    shards.sort_by_key(|shard| shard.index);
    let mut missing = 0;
    for key in run.trials(&record.eval)? {
        if !run.has_trial(&key?)? {
            missing += 1;
        }
    }
    let collect = if missing == 0 { Collect::Complete } else { Collect::Partial };
    Ok(Collected { collect, missing, shards })
}

struct Driver {
    run: Arc<RunWriter>,
    events: Events,
    stop: Stop,
    conversation: Conversation,
    provision: Duration,
}

impl Driver {
    async fn drive(mut self, plan: ShardPlan, spec: ShardSpec, runner: Arc<dyn Runner>) -> ShardRecord {
        let mut record =
            ShardRecord { index: plan.shard, machine: None, image: None, worker_mst: None, ending: None };
        let ending = if plan.trials.is_empty() {
            ShardEnding::Complete
        } else {
            let ending = match self.start(&spec, &*runner).await {
                Ok(Some(session)) => self.converse(session, &mut record).await,
                Ok(None) => ShardEnding::Cancelled,
                Err(why) => ShardEnding::Broken { why },
            };
            if let Err(error) = runner.end(&spec, ending != ShardEnding::Complete).await {
                self.events.say(Event::Trouble { shard: plan.shard, what: error.to_string() });
            }
            ending
        };
        self.events.say(Event::ShardEnded { shard: plan.shard, ending: ending.clone() });
        record.ending = Some(ending);
        record
    }

    async fn start(&self, spec: &ShardSpec, runner: &dyn Runner) -> Result<Option<Session>, String> {
        tokio::select! {
            () = self.stop.finish.cancelled() => Ok(None),
            session = tokio::time::timeout(self.provision, runner.start(spec)) => match session {
                Ok(session) => session.map(Some).map_err(|error| error.to_string()),
                Err(_) => Err(format!("its machine was not ready within {} s", self.provision.as_secs())),
            },
        }
    }

    async fn converse(&mut self, mut session: Session, record: &mut ShardRecord) -> ShardEnding {
        if let Some(machine) = &session.machine {
            record.machine = Some(machine.name.clone());
            record.image = machine.image.clone();
        }
        match self.listen(&mut session, record).await {
            Ok(()) if self.conversation.complete() => ShardEnding::Complete,
            Ok(()) if self.stop.finish.is_cancelled() => ShardEnding::Cancelled,
            Ok(()) => ShardEnding::Broken { why: "its worker ended before its trials did".to_owned() },
            Err(why) => ShardEnding::Broken { why },
        }
    }

    async fn listen(&mut self, session: &mut Session, record: &mut ShardRecord) -> Result<(), String> {
        let mut lines = Lines::default();
        let mut noise = 0;
        let mut buffer = vec![0; 16 << 10];
        let mut heard = Instant::now();
        let mut told_to = Told::Nothing;
        loop {
            let patience = if self.conversation.greeting() { self.provision } else { SILENCE };
            tokio::select! {
                read = session.from_worker.read(&mut buffer) => {
                    let read = read.map_err(|error| format!("the way from its worker broke: {error}"))?;
                    if read == 0 {
                        let cut = lines.end().map_err(|error| error.to_string());
                        return Err(match tokio::time::timeout(GRACE, &mut session.ended).await {
                            Ok(Err(why)) => format!("its worker failed: {why}"),
                            _ => cut.err().unwrap_or_else(|| "the way from its worker ended before `done`".to_owned()),
                        });
                    }
                    heard = Instant::now();
                    lines.push(&buffer[..read]).map_err(|error| error.to_string())?;
                    while let Some(line) = lines.next_line() {
                        let message: Numbered = match decode(&line) {
                            Ok(message) => message,
                            Err(error) if self.conversation.greeting() && noise < MAX_NOISE_LINES => {
                                noise += 1;
                                let _ = error;
                                let line = line[..line.len().min(256)].escape_ascii().to_string();
                                self.events.say(Event::Noise { shard: record.index, line });
                                continue;
                            }
                            Err(error) => return Err(error.to_string()),
                        };
                        if let mst_protocol::FromWorker::Hello { mst, .. } = &message.message {
                            record.worker_mst = mst.parse().ok();
                        }
                        match self.conversation.on(message).map_err(|breach| breach.to_string())? {
                            Action::Begin => self.events.say(Event::ShardStarted { shard: record.index }),
                            Action::Grant(trial) => {
                                self.events.say(Event::TrialStarted { trial: trial.clone() });
                                say(session, &FromCoordinator::Granted { trial }).await?;
                            }
                            Action::Store(done) => self.store(session.results.clone(), done).await?,
                            Action::Nothing => {}
                            Action::End => return Ok(()),
                        }
                    }
                }
                () = self.stop.cancel.cancelled(), if told_to < Told::Cancel => {
                    told_to = Told::Cancel;
                    self.conversation.stop();
                    let why = "the run was cancelled".to_owned();
                    say(session, &FromCoordinator::Cancel { why, grace_ms: Some(GRACE.as_millis() as u64) }).await?;
                }
                () = self.stop.finish.cancelled(), if told_to < Told::Finish => {
                    told_to = Told::Finish;
                    self.conversation.stop();
                    self.events.say(Event::Stopping { in_flight: self.conversation.in_flight() });
                    let why = "the run was stopped".to_owned();
                    say(session, &FromCoordinator::Cancel { why, grace_ms: None }).await?;
                }
                () = sleep_until(heard + patience) => {
                    return Err(format!("its worker said nothing for {} s", patience.as_secs()));
                }
            }
        }
    }

    async fn store(&self, results: Arc<dyn Results>, done: TrialDone) -> Result<(), String> {
        let TrialDone { trial, status, path, sha256, .. } = done;
        check_path(&path).map_err(|error| format!("`trial` for {trial}: {error}"))?;
        let from = results.fetch(&path).await;
        let from = from.map_err(|error| format!("the transcript of {trial} can't be fetched: {error}"))?;
        let (run, key) = (self.run.clone(), trial.clone());
        let kept = tokio::task::spawn_blocking(move || run.adopt(&key, &from, &sha256));
        match kept.await {
            Ok(Ok(_)) => {
                self.events.say(Event::TrialStored { trial, status });
                Ok(())
            }
            Ok(Err(error)) => Err(format!("the transcript of {trial} can't be kept: {}", whole(&error))),
            Err(error) => Err(format!("mst failed while it kept the transcript of {trial}: {error}")),
        }
    }
}

/// What a worker was told already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    Finish,
    Cancel,
}

async fn say(session: &mut Session, message: &FromCoordinator) -> Result<(), String> {
    let line = encode(message).map_err(|error| error.to_string())?;
    let sent = async {
        session.to_worker.write_all(&line).await?;
        session.to_worker.flush().await
    };
    sent.await.map_err(|error: std::io::Error| format!("the way to its worker broke: {error}"))
}

/// An error with its causes, on one line.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
