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
use mst_model::run::ShardEnding;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::machines::{GIVEN_UP, Keep, Staging, Started, maybe_left, mint};
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
    /// None where it was seen to end.
    call: Option<JoinHandle<Result<(), RunnerError>>>,
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
        let program = self.staging.fill_bundle(&spec.bundle).await?;
        let results = spec.staging.clone();
        let made = results.clone();
        tokio::task::spawn_blocking(move || std::fs::create_dir_all(made))
            .await
            .map_err(io::Error::other)
            .and_then(|made| made)
            .map_err(|error| RunnerError::new(format!("no directory for the results: {error}")))?;
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
        let (shards, notes, shard) = (self.shards.clone(), self.notes.clone(), spec.shard);
        // The intent is the call's, so that a shard which is given up meanwhile has both or neither.
        let call = tokio::spawn(async move {
            notes.note(shard, &whole.name, LedgerEvent::Intent).await?;
            shards.run(whole, attach).await
        });
        self.under_way().insert(shard, UnderWay { name, call: Some(call), over, attached: false });
        let Ok(Started { from, to, ended }) = worker.await else {
            // The runner returned, or broke, before it attached a worker.
            return Err(match self.take(spec.shard).await {
                Err(error) => error,
                Ok(()) => RunnerError::new("the runner ended without having started a worker".to_owned()),
            });
        };
        if let Some(shard) = self.under_way().get_mut(&spec.shard) {
            shard.attached = true;
        }
        let results = Arc::new(ResultsAtTheEnd { dir: results });
        Ok(Session { from_worker: from, to_worker: to, results, ended, machine: None })
    }

    async fn end(
        &self,
        spec: &ShardSpec,
        ending: &ShardEnding,
        cancel: &CancellationToken,
    ) -> Result<(), RunnerError> {
        let Some(UnderWay { name, call, over, attached }) = self.under_way().remove(&spec.shard) else {
            return Ok(());
        };
        // Nobody waits for it where no worker was attached.
        let complete = *ending == ShardEnding::Complete;
        let _ = over.send(if complete { Spoken::Complete } else { Spoken::Partial });
        let patience = if attached { BRING } else { GIVEN_UP };
        let mut cut_off = false;
        let ended = match call {
            None => Ok(()),
            Some(mut call) => match in_time(&mut call, patience, cancel).await {
                // Given up before it had a worker, it has nothing to say that was not said.
                Ok(_) if !attached => Ok(()),
                Ok(Ok(ended)) => ended,
                Ok(Err(error)) => Err(RunnerError::new(format!("mst failed: {error}"))),
                Err(why) => {
                    call.abort();
                    cut_off = !attached;
                    Err(RunnerError::new(why))
                }
            },
        };
        let destroy = async {
            self.shards.destroy(&spec.run, &name).await?;
            if cut_off { Err(maybe_left()) } else { Ok(()) }
        };
        let removed = self.notes.remove(spec, &name, self.keep, ending, destroy).await;
        match (ended, removed) {
            (Err(ended), Err(mut removed)) => {
                removed.denials.splice(..0, ended.denials);
                Err(removed.in_words(|removed| format!("{}; {removed}", ended.message)))
            }
            (ended, removed) => ended.and(removed),
        }
    }
}

impl OnShards {
    /// The end of a call that attached nothing. The shard stays known: `end` cleans up after it.
    async fn take(&self, shard: u32) -> Result<(), RunnerError> {
        let call = self.under_way().get_mut(&shard).and_then(|shard| shard.call.take());
        match call {
            None => Ok(()),
            Some(call) => match call.await {
                Ok(ended) => ended,
                Err(error) => Err(RunnerError::new(format!("mst failed: {error}"))),
            },
        }
    }
}

/// What the call ended with; or why it is not waited for any more.
async fn in_time<T>(
    call: &mut JoinHandle<T>,
    patience: Duration,
    cancel: &CancellationToken,
) -> Result<Result<T, JoinError>, String> {
    let given_up = async {
        cancel.cancelled().await;
        sleep(GIVEN_UP).await;
    };
    tokio::select! {
        biased;
        ended = call => Ok(ended),
        () = sleep(patience) => Err(format!("the runner did not end within {} s", patience.as_secs())),
        () = given_up => {
            Err(format!("the run was cancelled, and the runner did not end within {} s", GIVEN_UP.as_secs()))
        }
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
