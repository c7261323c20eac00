//! The built-in runner `local`: the worker's own code in this process, over a pipe that never
//! leaves it. It speaks the same protocol as any machine.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mst_coordinator::{Results, Runner, RunnerError, Session, ShardSpec};
use mst_worker::collect::{Place, collect};
use mst_worker::trial::ClientEnvironment;

use crate::error::Failure;
use crate::place;

/// Runs each shard in this process.
pub(crate) struct Local {
    pub(crate) environment: ClientEnvironment,
    pub(crate) scratch: PathBuf,
    pub(crate) mst: String,
}

#[async_trait]
impl Runner for Local {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        let place = Place {
            bundle: spec.bundle.clone(),
            results: spec.staging.clone(),
            scratch: self.scratch.clone(),
            environment: self.environment.clone(),
            tokens: place::token_places(),
            mst: self.mst.clone(),
        };
        let (coordinator, worker) = tokio::io::duplex(64 << 10);
        let (from, to) = tokio::io::split(worker);
        let worker = tokio::spawn(async move {
            collect(place, from, to).await.map_err(|error| Failure::from_error(&error).one_line())
        });
        let (from_worker, to_worker) = tokio::io::split(coordinator);
        let results = Arc::new(LocalResults { dir: spec.staging.clone() });
        Ok(Session {
            from_worker: Box::new(from_worker),
            to_worker: Box::new(to_worker),
            results,
            machine: None,
            ended: Box::pin(async move { worker.await.map_err(|error| error.to_string())? }),
        })
    }
}

/// What the worker left is on this machine already.
struct LocalResults {
    dir: PathBuf,
}

#[async_trait]
impl Results for LocalResults {
    async fn fetch(&self, path: &str) -> io::Result<PathBuf> {
        Ok(self.dir.join(path))
    }

    fn are_synced(&self) -> bool {
        true
    }
}
