//! Collecting: every shard driven to its end, every transcript checked and kept.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mst_model::VariantId;
use mst_model::run::{Collect, RunRecord, ShardRecord};
use mst_protocol::Uses;
use mst_store::{RunWriter, StoreError};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::door::Door;
use crate::drive::{Driver, Tally};
use crate::event::{Event, Events};
use crate::plan::{Bundling, Choice, PlanError, Retry, ShardPlan, write_bundles};
use crate::pools::Pools;
use crate::runner::{Runner, ShardSpec};
use crate::shard::PlannedClient;
use crate::vault::Vault;

/// How many shards are started at a time.
const SIDE_BY_SIDE: usize = 8;

/// What a trial may take beside its own deadlines, on a machine that has much else to do. One that
/// takes longer is a dead worker's, even if that worker's heart beats.
const LATE: Duration = Duration::from_secs(60);

/// How a person stops a run.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Nothing new starts; what runs may end.
    pub finish: CancellationToken,
    /// What runs is ended.
    pub cancel: CancellationToken,
}

impl Stop {
    /// Whether nothing new starts any more.
    pub(crate) fn is_asked(&self) -> bool {
        self.finish.is_cancelled() || self.cancel.is_cancelled()
    }

    /// Returns once nothing new starts any more.
    pub(crate) async fn asked(&self) {
        tokio::select! {
            () = self.finish.cancelled() => {}
            () = self.cancel.cancelled() => {}
        }
    }
}

/// How a run is collected.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many trials a worker does at a time.
    pub concurrency: u32,
    /// The tokens that workers may ask for.
    pub vault: Vault,
    /// Which trials that are there are done again.
    pub retry: Retry,
}

/// What collecting came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Whether every planned trial has a transcript.
    pub collect: Collect,
    /// How many have none.
    pub missing: u64,
    /// How many shards had a worker that was let begin.
    pub begun: u64,
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
///
/// It must be awaited to its end: dropped, it leaves what `runner` set up.
pub async fn collect(
    run: &Arc<RunWriter>,
    record: &RunRecord,
    runner: Arc<dyn Runner>,
    options: Options,
    stop: &Stop,
    events: &Events,
) -> Result<Collected, CollectError> {
    let staging = Arc::new(run.scratch("collect")?);
    let Options { concurrency, vault, retry } = options;
    let pools = Arc::new(Pools::new(&record.eval, &record.eval.limits.with(&record.policy.limits)));
    let clients = Arc::new(clients(record, &pools));
    let how = Bundling { concurrency, pools: pools.clone(), clients: clients.clone(), retry };
    let plans = plan(run, record, how, events, &staging).await?;
    let trials = plans.iter().map(|plan| plan.trials.len()).sum();
    events.say(Event::Planned { trials, shards: plans.len() as u32 });

    let deadlines = &record.eval.deadlines;
    let beyond = deadlines.provision.0 + deadlines.export.0 + 2 * deadlines.cleanup.0 + LATE;
    let door = Door::new(pools.limits.iter().copied());
    let mut driving = JoinSet::new();
    let room = Arc::new(Semaphore::new(SIDE_BY_SIDE));
    let tally = Arc::new(Tally::default());
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
            staging: staging.clone(),
            mst: record.mst.to_string(),
            machine_time: record.eval.deadlines.machine.0,
            clients: clients.clone(),
            door: door.clone(),
            vault: vault.clone(),
            concurrency,
            beyond,
            room: room.clone(),
            stop: stop.clone(),
            events: events.clone(),
            tally: tally.clone(),
            denials: Mutex::default(),
        };
        let runner = runner.clone();
        driving.spawn(async move { driver.drive(plan, spec, &*runner).await });
    }
    let (mut shards, mut broken) = (Vec::new(), None);
    // Whatever became of one, the others are driven to their ends: what they set up is taken down
    // there and nowhere else.
    let mut driven = std::pin::pin!(door.tend());
    while let Some(ended) = tokio::select! {
        biased;
        ended = driving.join_next() => ended,
        never = &mut driven => match never {},
    } {
        match ended {
            Ok(shard) => shards.push(shard),
            Err(error) => broken = Some(CollectError::Host(error.to_string())),
        }
    }
    if let Some(error) = broken {
        return Err(error);
    }
    shards.sort_by_key(|shard| shard.index);
    let missing = if retry.unfinished {
        // One that was to be done again has a transcript whatever became of that.
        count_missing(run, record)?
    } else {
        // Each that was planned had none, and each is stored once at most.
        trials.saturating_sub(tally.stored.load(Ordering::Relaxed))
    };
    let begun = tally.begun.load(Ordering::Relaxed);
    let collect = if missing == 0 { Collect::Complete } else { Collect::Partial };
    Ok(Collected { collect, missing, begun, shards })
}

/// How many trials have no transcript.
fn count_missing(run: &RunWriter, record: &RunRecord) -> Result<u64, CollectError> {
    let mut missing = 0;
    for key in run.trials(&record.eval)? {
        missing += u64::from(!run.has_trial(&key?)?);
    }
    Ok(missing)
}

/// Writes the bundles, away from where others are waited for.
async fn plan(
    run: &Arc<RunWriter>,
    record: &RunRecord,
    how: Bundling,
    events: &Events,
    staging: &Arc<TempDir>,
) -> Result<Vec<ShardPlan>, CollectError> {
    let (run, record, staging, events) = (run.clone(), record.clone(), staging.clone(), events.clone());
    let explain = how.retry.explain;
    let chosen = move |trial, choice: Choice| {
        if explain {
            events.say(Event::Chosen { trial, choice });
        }
    };
    let planning = move || write_bundles(&run, &record, &how, chosen, staging.path());
    let planned = tokio::task::spawn_blocking(planning).await;
    Ok(planned.map_err(|error| CollectError::Host(error.to_string()))??)
}

/// The client of each variant.
fn clients(record: &RunRecord, pools: &Pools) -> BTreeMap<VariantId, PlannedClient> {
    let mut sets = Vec::new();
    let planned = record.eval.variants.iter().filter_map(|variant| {
        let client = record.eval.client_of(variant)?;
        let uses = Uses { providers: client.providers, servers: client.servers };
        let keys = sets.iter().position(|tokens| *tokens == client.tokens).unwrap_or_else(|| {
            sets.push(client.tokens.clone());
            sets.len() - 1
        });
        let planned = PlannedClient {
            name: client.kind.as_str().to_owned(),
            needs: pools.of_variant(&variant.id, &uses),
            uses,
            tokens: client.tokens,
            keys: keys as u16,
        };
        Some((variant.id.clone(), planned))
    });
    planned.collect()
}
