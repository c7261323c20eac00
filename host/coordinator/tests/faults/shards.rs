//! Runners: one without machines, and one around another that counts and breaks.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mst_coordinator::{Results, Runner, RunnerError, Session, ShardSpec};
use mst_model::run::ShardEnding;
use tokio_util::sync::CancellationToken;

use crate::cloud::meet;
use crate::copy::copy;
use crate::crew::{Breaks, Fetch, Shard, begin};
use crate::pipe::Heard;

/// Starts workers here, as `local` does.
pub(crate) struct Here(pub(crate) Vec<(Shard, Heard)>);

#[async_trait]
impl Runner for Here {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        let (shard, heard) = &self.0[spec.shard as usize];
        let running = begin(shard, heard.clone(), spec.bundle.clone(), spec.staging.clone());
        let results =
            HereResults { dir: spec.staging.clone(), fault: shard.fetch, count: AtomicUsize::new(0) };
        Ok(Session {
            from_worker: running.from,
            to_worker: running.to,
            results: Arc::new(results),
            ended: running.ended,
            machine: None,
        })
    }
}

struct HereResults {
    dir: PathBuf,
    fault: Option<(Fetch, usize)>,
    count: AtomicUsize,
}

#[async_trait]
impl Results for HereResults {
    async fn fetch(&self, path: &str) -> io::Result<PathBuf> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let fault = self.fault.filter(|(_, at)| *at == count).map(|(fault, _)| fault);
        if fault == Some(Fetch::NoRoom) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        meet(fault).await.map_err(io::Error::other)?;
        let dir = self.dir.join(path);
        if fault != Some(Fetch::Torn) {
            return Ok(dir);
        }
        let torn = self.dir.join(format!("torn-{count}"));
        copy(&dir, &torn, true)?;
        Ok(torn)
    }
}

/// How often each shard was started and ended.
pub(crate) type Counts = Arc<Mutex<BTreeMap<u32, (usize, usize)>>>;

/// A runner around another.
pub(crate) struct Counted {
    pub(crate) inner: Arc<dyn Runner>,
    pub(crate) faults: Vec<Option<Breaks>>,
    pub(crate) counts: Counts,
}

#[async_trait]
impl Runner for Counted {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        self.counts.lock().expect("locks").entry(spec.shard).or_default().0 += 1;
        match self.faults[spec.shard as usize] {
            Some(Breaks::StartPanics) => panic!("a bug in start"),
            Some(Breaks::StartHangs) => std::future::pending().await,
            Some(Breaks::StartFails) => Err(RunnerError::new("the runner is not well".to_owned())),
            Some(Breaks::StartPanicsLate) => {
                let _session = self.inner.start(spec).await?;
                panic!("a bug at the end of start")
            }
            Some(Breaks::EndFails | Breaks::EndPanics) | None => self.inner.start(spec).await,
        }
    }

    async fn end(
        &self,
        spec: &ShardSpec,
        ending: &ShardEnding,
        cancel: &CancellationToken,
    ) -> Result<(), RunnerError> {
        self.counts.lock().expect("locks").entry(spec.shard).or_default().1 += 1;
        // What it says itself is not hidden.
        self.inner.end(spec, ending, cancel).await?;
        match self.faults[spec.shard as usize] {
            Some(Breaks::EndFails) => Err(RunnerError::new("the runner did not end well".to_owned())),
            Some(Breaks::EndPanics) => panic!("a bug in end"),
            _ => Ok(()),
        }
    }
}
