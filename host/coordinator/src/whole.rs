//! Shards that a runner carries whole: it starts a worker somewhere and hands it on, and what the
//! worker left is here when it is done.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mst_model::RunId;
use mst_model::ledger::LedgerEvent;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::machines::{Keep, Staging, Started, mint};
use crate::notes::Notes;
use crate::runner::{Results, Runner, RunnerError, Session, ShardSpec};

/// How long a runner may take, after its worker has ended, to bring the results.
const BRING: Duration = Duration::from_secs(600);

/// A shard for a runner that carries it whole.
#[derive(Debug, Clone)]
pub struct WholeSpec {
    /// The name that whatever is made for it bears.
    pub name: String,
    /// The run.
    pub run: RunId,
    /// What the worker needs, its program among it.
    pub bundle: PathBuf,
    /// The worker's program, relative to the bundle.
    pub program: String,
    /// Where results go.
    pub results: PathBuf,
}

/// How the conversation with a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// Each trial has an outcome.
    Complete,
    /// Some have none.
    Partial,
}

/// Takes the worker that a runner started, and says when the conversation is over.
pub type Attachment =
    Box<dyn FnOnce(Started) -> Pin<Box<dyn Future<Output = Result<Spoken, String>> + Send>> + Send>;

/// A runner that carries whole shards.
#[async_trait]
pub trait WholeShards: Send + Sync {
    /// Runs a shard; returns when its results are there. Dropped, it ends.
    async fn run(&self, spec: WholeSpec, attach: Attachment) -> Result<(), RunnerError>;
    /// Removes what was made for a shard; done already is done.
    async fn destroy(&self, run: &RunId, name: &str) -> Result<(), RunnerError>;
    /// The names of the run's shards of which something still exists.
    async fn list(&self, run: &RunId) -> Result<Vec<String>, RunnerError>;
}

/// Runs each shard by a runner that carries it whole.
pub struct OnShards {
    shards: Arc<dyn WholeShards>,
    notes: Notes,
    keep: Keep,
    staging: Staging,
    under_way: Mutex<BTreeMap<u32, UnderWay>>,
}

/// A shard that a runner carries.
struct UnderWay {
    name: String,
    call: JoinHandle<Result<(), RunnerError>>,
    over: oneshot::Sender<Spoken>,
    /// Whether it handed on a worker.
    attached: bool,
}

impl OnShards {
    /// A runner for the shards of the run whose ledger this is.
    pub fn new(shards: Arc<dyn WholeShards>, notes: Notes, keep: Keep, staging: Staging) -> OnShards {
        OnShards { shards, notes, keep, staging, under_way: Mutex::default() }
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Runner for OnShards {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        let name = mint(&spec.run, spec.shard)?;
        let program = self.staging.into_bundle(&spec.bundle).await?;
        let results = spec.staging.clone();
        let made = results.clone();
        tokio::task::spawn_blocking(move || std::fs::create_dir_all(made))
            .await
            .map_err(io::Error::other)
            .and_then(|made| made)
            .map_err(|error| RunnerError(format!("no directory for the results: {error}")))?;
        self.notes.note(spec.shard, &name, LedgerEvent::Intent).await?;
        let (attached, worker) = oneshot::channel();
        let (over, is_over) = oneshot::channel();
        let attach: Attachment = Box::new(move |started| {
            let handed = attached.send(started);
            Box::pin(async move {
                if handed.is_err() {
                    return Err("the shard was given up".to_owned());
                }
                is_over.await.map_err(|_| "the shard was given up".to_owned())
            })
        });
        let whole = WholeSpec {
            name: name.clone(),
            run: spec.run.clone(),
            bundle: spec.bundle.clone(),
            program,
            results: results.clone(),
        };
        let shards = self.shards.clone();
        let call = tokio::spawn(async move { shards.run(whole, attach).await });
        self.under_way().insert(spec.shard, UnderWay { name, call, over, attached: false });
        let Ok(Started { from, to, ended }) = worker.await else {
            // The runner returned, or broke, before it attached a worker.
            return Err(match self.take(spec.shard).await {
                Err(error) => error,
                Ok(()) => RunnerError("the runner ended without having started a worker".to_owned()),
            });
        };
        if let Some(shard) = self.under_way().get_mut(&spec.shard) {
            shard.attached = true;
        }
        let results = Arc::new(ResultsAtTheEnd { dir: results });
        Ok(Session { from_worker: from, to_worker: to, results, ended, machine: None })
    }

    async fn end(&self, spec: &ShardSpec, failed: bool) -> Result<(), RunnerError> {
        let Some(UnderWay { name, mut call, over, attached }) = self.under_way().remove(&spec.shard) else {
            return Ok(());
        };
        if !attached {
            // Given up while the runner still made something.
            call.abort();
        }
        // Nobody waits for it where no worker was attached.
        let _ = over.send(if failed { Spoken::Partial } else { Spoken::Complete });
        let ended = match tokio::time::timeout(BRING, &mut call).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) if error.is_cancelled() => Ok(()),
            Ok(Err(error)) => Err(RunnerError(format!("mst failed: {error}"))),
            Err(_) => {
                call.abort();
                Err(RunnerError(format!("the runner did not end within {} s of its worker", BRING.as_secs())))
            }
        };
        let removed =
            self.notes.remove(spec, &name, self.keep, failed, self.shards.destroy(&spec.run, &name)).await;
        ended.and(removed)
    }
}

impl OnShards {
    /// The end of a call that attached nothing. The shard stays known: `end` cleans up after it.
    async fn take(&self, shard: u32) -> Result<(), RunnerError> {
        let Some(UnderWay { name, call, over, attached }) = self.under_way().remove(&shard) else {
            return Ok(());
        };
        let ended = match call.await {
            Ok(ended) => ended,
            Err(error) => Err(RunnerError(format!("mst failed: {error}"))),
        };
        let call = tokio::spawn(async { Ok(()) });
        self.under_way().insert(shard, UnderWay { name, call, over, attached });
        ended
    }
}

/// Results that are there only when the runner has returned.
struct ResultsAtTheEnd {
    dir: PathBuf,
}

#[async_trait]
impl Results for ResultsAtTheEnd {
    async fn fetch(&self, path: &str) -> io::Result<PathBuf> {
        Ok(self.dir.join(path))
    }

    fn come_at_the_end(&self) -> bool {
        true
    }
}
