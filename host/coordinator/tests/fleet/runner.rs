//! Starts the simulated workers, and takes their machines away.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mst_coordinator::{Results, Runner, RunnerError, Session, ShardSpec};
use mst_model::run::ShardEnding;
use tokio::io::{duplex, split};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::line;
use crate::plan::Plan;
use crate::worker::Worker;
use crate::world::World;

pub(crate) struct Fleet {
    pub(crate) plan: Arc<Plan>,
    pub(crate) world: World,
    pub(crate) seed: u64,
    pub(crate) workers: Mutex<Vec<(u32, AbortHandle)>>,
}

#[async_trait]
impl Runner for Fleet {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        let fate = &self.plan.fates[spec.shard as usize];
        sleep(fate.starts_after).await;
        if fate.start_fails {
            return Err(RunnerError::new("no more room in this zone".to_owned()));
        }
        let (ours, theirs) = duplex(64 << 10);
        let (from, to) = split(theirs);
        let seed = self.seed ^ (u64::from(spec.shard) << 32);
        let (out, inbox) = (line::up(to, fate.way, seed), line::down(from, fate.way));
        let worker = Worker::new(self.plan.clone(), self.world.clone(), spec, out, inbox, seed);
        let working = tokio::spawn(worker.work());
        self.workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((spec.shard, working.abort_handle()));
        let (from, to) = split(ours);
        let results = Fetched { dir: spec.staging.clone(), loses: fate.loses, count: AtomicUsize::new(0) };
        let world = self.world.clone();
        let ended = async move {
            match working.await {
                Err(error) if error.is_panic() => {
                    world.wrong(format!("a simulated worker broke: {error}"));
                    Err(error.to_string())
                }
                Err(error) => Err(error.to_string()),
                Ok(ended) => ended,
            }
        };
        Ok(Session {
            from_worker: Box::new(from),
            to_worker: Box::new(to),
            results: Arc::new(results),
            ended: Box::pin(ended),
            machine: None,
        })
    }

    async fn end(&self, spec: &ShardSpec, _: &ShardEnding, _: &CancellationToken) -> Result<(), RunnerError> {
        sleep(self.plan.fates[spec.shard as usize].leaves_after).await;
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().filter(|(shard, _)| *shard == spec.shard).for_each(|(_, worker)| worker.abort());
        self.world.leave(spec.shard);
        Ok(())
    }
}

struct Fetched {
    dir: PathBuf,
    loses: Option<usize>,
    count: AtomicUsize,
}

#[async_trait]
impl Results for Fetched {
    async fn fetch(&self, path: &str) -> io::Result<PathBuf> {
        if self.loses == Some(self.count.fetch_add(1, Ordering::Relaxed)) {
            return Err(io::Error::other("the connection was reset"));
        }
        Ok(self.dir.join(path))
    }

    fn are_synced(&self) -> bool {
        true
    }
}
