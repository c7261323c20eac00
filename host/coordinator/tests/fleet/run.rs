//! A run of the fleet, and what must hold of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mst_coordinator::{Collected, Event, Events, Options, Stop};
use mst_model::run::{Collect, ShardEnding};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::bank::vault;
use crate::bench::Bench;
use crate::plan::Plan;
use crate::runner::Fleet;
use crate::world::World;

/// When nobody can say any more that it is only slow.
const AT_LAST: Duration = Duration::from_secs(48 * 3600);

/// What a run came to.
pub(crate) struct Went {
    pub(crate) collected: Collected,
    pub(crate) world: World,
    pub(crate) planned: usize,
    pub(crate) stored: usize,
    pub(crate) took: Duration,
}

/// Collects the run of a plan, and holds it to what must hold of any.
pub(crate) async fn go(plan: Plan, seed: u64) -> Went {
    let bench = Bench::with(plan.all_cases(), plan.trials, plan.shards, &plan.eval());
    let world = World::new(plan.services.clone());
    let vault = match plan.bank {
        Some(bank) => vault(&["gateway", "wiki-key"], bank, seed),
        None => Default::default(),
    };
    let stop = Stop::default();
    for (token, when) in [(&stop.finish, plan.finish), (&stop.cancel, plan.cancel)] {
        let Some(when) = when else { continue };
        let token = token.clone();
        tokio::spawn(async move {
            sleep(when).await;
            token.cancel();
        });
    }
    let plan = Arc::new(plan);
    let runner = Fleet { plan: plan.clone(), world: world.clone(), seed, workers: Mutex::default() };
    let run = Arc::new(bench.open_write());
    let (say, mut said) = mpsc::unbounded_channel();
    let options = Options { concurrency: plan.concurrency, vault, retry: Default::default() };
    let began = tokio::time::Instant::now();
    let (runner, events) = (Arc::new(runner), Events::to(move |event| drop(say.send(event))));
    let collecting = mst_coordinator::collect(&run, &bench.record, runner, options, &stop, &events);
    let collected = timeout(AT_LAST, collecting).await.expect("it returns").expect("it collects");
    let took = began.elapsed();
    let events: Vec<Event> = std::iter::from_fn(|| said.try_recv().ok()).collect();

    assert_eq!(world.all_wrong(), [""; 0], "in {}", bench.root().display());
    let (planned, stored) = (bench.planned(), bench.stored());
    let (mut started, mut told) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            Event::TrialStarted { trial } => assert!(started.insert(trial.clone()), "{trial} starts twice"),
            Event::TrialStored { trial, .. } => {
                assert!(told.insert(trial.clone()), "{trial} is stored twice")
            }
            _ => {}
        }
    }
    assert!(told.iter().eq(stored.keys()), "what was said to be stored is what is stored");
    let ended = world.ended();
    assert!(told.is_subset(&ended) && ended.is_subset(&started) && started.is_subset(&planned));
    assert_eq!(collected.missing as usize, planned.len() - stored.len(), "each is stored, or missing");
    assert_eq!(collected.collect == Collect::Complete, collected.missing == 0);
    for shard in &collected.shards {
        let stopped = plan.finish.or(plan.cancel).is_some();
        assert!(stopped || shard.ending != Some(ShardEnding::Cancelled), "nobody stopped {}", shard.index);
    }
    Went { collected, world, planned: planned.len(), stored: stored.len(), took }
}
