//! What the coordinator knows of a runner.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use mst_model::machine::Machine;
use mst_model::run::ShardEnding;
use mst_model::{Denial, RunId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// A shard to run somewhere.
#[derive(Debug, Clone)]
pub struct ShardSpec {
    /// The run.
    pub run: RunId,
    /// Which shard, from 0.
    pub shard: u32,
    /// Of how many.
    pub shards: u32,
    /// The bundle: a directory with all that the worker needs.
    pub bundle: PathBuf,
    /// A directory of the run, on its file system, where results may be put together.
    pub staging: PathBuf,
}

/// A runner that could not do what it was asked for.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct RunnerError {
    /// Why, for people.
    pub message: String,
    /// What it was denied, where that is why.
    pub denials: Vec<Denial>,
}

impl RunnerError {
    /// For this reason.
    pub fn new(message: impl Into<String>) -> RunnerError {
        RunnerError { message: message.into(), denials: Vec::new() }
    }

    /// The same in other words.
    pub(crate) fn in_words(self, words: impl FnOnce(String) -> String) -> RunnerError {
        RunnerError { message: words(self.message), ..self }
    }
}

/// A worker that was started, and the way to it.
pub struct Session {
    /// The worker's stdout.
    pub from_worker: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// The worker's stdin. Dropping it tells the worker that nobody listens any more.
    pub to_worker: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// What it leaves.
    pub results: Arc<dyn Results>,
    /// How the worker itself ended, with its own words where it failed. Asked for only after its
    /// stdout has ended.
    pub ended: Pin<Box<dyn Future<Output = Result<(), String>> + Send + Sync>>,
    /// The machine that it is on, where it is not this one.
    pub machine: Option<Machine>,
}

/// The results of one worker.
#[async_trait]
pub trait Results: Send + Sync {
    /// Brings a trial's directory, which the worker named by `path`, to this machine, and says
    /// where it is. The coordinator checks it and moves it into the run.
    async fn fetch(&self, path: &str) -> io::Result<PathBuf>;

    /// Whether what [`fetch`](Results::fetch) gives has reached this machine's disk already, as
    /// what a worker in this process committed has. Syncs are most of what a trial costs.
    fn are_synced(&self) -> bool {
        false
    }

    /// Whether they can be fetched only after [`Runner::end`].
    fn come_at_the_end(&self) -> bool {
        false
    }
}

/// Where shards run.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Starts a shard's worker. Dropped before it returns, it is given up, and [`end`](Runner::end)
    /// comes next.
    async fn start(&self, shard: &ShardSpec) -> Result<Session, RunnerError>;

    /// The shard is over, or could not be started: takes down what was set up for it. Called once
    /// for every `start`, also one that failed or was given up. Once `cancel` is, somebody waits
    /// for the end: what may still be brought is not waited for.
    async fn end(
        &self,
        spec: &ShardSpec,
        ending: &ShardEnding,
        cancel: &CancellationToken,
    ) -> Result<(), RunnerError> {
        let _ = (spec, ending, cancel);
        Ok(())
    }
}
