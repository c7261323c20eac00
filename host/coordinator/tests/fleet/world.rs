//! What all workers talk to: it sees who uses it, and knows of no coordinator.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mst_model::TrialKey;
use tokio::time::Instant;

/// Over what starts are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// Something of which there is only so much.
#[derive(Debug, Clone, Default)]
pub(crate) struct Service {
    pub(crate) concurrency: Option<u32>,
    pub(crate) starts_per_minute: Option<u32>,
    used: u32,
    starts: VecDeque<Instant>,
    /// The most that ever used it at a time.
    pub(crate) most: u32,
}

impl Service {
    pub(crate) fn of(concurrency: Option<u32>, starts_per_minute: Option<u32>) -> Service {
        Service { concurrency, starts_per_minute, ..Service::default() }
    }
}

#[derive(Debug, Default)]
struct Inner {
    services: BTreeMap<&'static str, Service>,
    /// Who uses what, by their shards.
    users: BTreeMap<(u32, TrialKey), Vec<&'static str>>,
    began: BTreeSet<TrialKey>,
    ended: BTreeSet<TrialKey>,
    /// Shards that are gone, machines and all.
    gone: BTreeSet<u32>,
    wrong: Vec<String>,
}

/// Shared by everybody.
#[derive(Debug, Clone)]
pub(crate) struct World {
    began: Instant,
    inner: Arc<Mutex<Inner>>,
}

impl World {
    pub(crate) fn new(services: BTreeMap<&'static str, Service>) -> World {
        let inner = Inner { services, ..Inner::default() };
        World { began: Instant::now(), inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When everything began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Something that must not be.
    pub(crate) fn wrong(&self, what: String) {
        self.inner().wrong.push(what);
    }

    /// A trial of a shard begins to use these.
    pub(crate) fn begin(&self, shard: u32, trial: &TrialKey, uses: Vec<&'static str>) {
        let now = Instant::now();
        let inner = &mut *self.inner();
        if !inner.began.insert(trial.clone()) {
            inner.wrong.push(format!("{trial} began twice"));
        }
        for name in &uses {
            let Some(service) = inner.services.get_mut(name) else { continue };
            service.used += 1;
            service.most = service.most.max(service.used);
            service.starts.push_back(now);
            while service.starts.front().is_some_and(|start| *start + MINUTE <= now) {
                service.starts.pop_front();
            }
            if service.concurrency.is_some_and(|limit| service.used > limit) {
                inner.wrong.push(format!("`{name}` is used by {} at a time, at {trial}", service.used));
            }
            let starts = service.starts.len() as u32;
            if service.starts_per_minute.is_some_and(|limit| starts > limit) {
                inner.wrong.push(format!("`{name}` sees {starts} starts in a minute, at {trial}"));
            }
        }
        inner.users.insert((shard, trial.clone()), uses);
    }

    /// It does no more.
    pub(crate) fn end(&self, shard: u32, trial: &TrialKey) {
        let inner = &mut *self.inner();
        for name in inner.users.remove(&(shard, trial.clone())).into_iter().flatten() {
            if let Some(service) = inner.services.get_mut(name) {
                service.used -= 1;
            }
        }
    }

    /// It has ended by itself.
    pub(crate) fn finish(&self, shard: u32, trial: &TrialKey) {
        self.end(shard, trial);
        self.inner().ended.insert(trial.clone());
    }

    /// A shard's machine is gone, and what still ran there.
    pub(crate) fn leave(&self, shard: u32) {
        let trials: Vec<TrialKey> = self
            .inner()
            .users
            .keys()
            .filter(|(of, _)| *of == shard)
            .map(|(_, trial)| trial.clone())
            .collect();
        trials.iter().for_each(|trial| self.end(shard, trial));
        self.inner().gone.insert(shard);
    }

    /// Whether all of these shards are gone.
    pub(crate) fn are_gone(&self, shards: u32) -> bool {
        self.inner().gone.len() as u32 >= shards
    }

    pub(crate) fn ended(&self) -> BTreeSet<TrialKey> {
        self.inner().ended.clone()
    }

    /// The most that ever used a service at a time.
    pub(crate) fn most(&self, name: &str) -> u32 {
        self.inner().services.get(name).map_or(0, |service| service.most)
    }

    /// Everything that must not have been.
    pub(crate) fn all_wrong(&self) -> Vec<String> {
        let inner = self.inner();
        let mut wrong = inner.wrong.clone();
        wrong.extend(inner.users.keys().map(|(shard, trial)| format!("{trial} of shard {shard} never ends")));
        wrong
    }
}
