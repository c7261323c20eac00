//! Long runs of many workers in which nothing breaks.

use std::collections::BTreeMap;
use std::time::Duration;

use mst_coordinator::plan::shard_of;
use mst_model::run::ShardEnding;
use mst_model::tokens::OnFailure;

use crate::bank::Bank;
use crate::bench::paused;
use crate::plan::{End, Fate, Plan};
use crate::run::go;
use crate::world::Service;

/// Nothing of it breaks, and every way takes its time.
fn plan(shards: u32, cases: usize, services: BTreeMap<&'static str, Service>) -> Plan {
    let fate = |shard: u32| Fate {
        starts_after: Duration::from_millis(u64::from(shard) * 7 % 900),
        start_fails: false,
        way: crate::line::Way { up_ms: 200, down_ms: 100, dies: None },
        end: End::Well,
        busy: 4,
        heeds: true,
        takes: 20,
        leaves_after: Duration::from_secs(3),
        loses: None,
    };
    Plan {
        shards,
        concurrency: 4,
        trials: 1,
        cases: (0..cases).map(|at| format!("case-{at}")).collect(),
        services,
        fates: (0..shards).map(fate).collect(),
        bank: None,
        finish: None,
        cancel: None,
    }
}

/// Workers hold a coordinator that gives them tokens to the time that those have.
#[test]
fn an_hour_of_tokens_that_live_five_minutes() {
    let services = [("models", Service::of(None, Some(10)))].into();
    let bank =
        Bank { lives: Duration::from_secs(300), takes: 15, fails: Some(5), on_failure: OnFailure::Wait };
    // Of each case two trials are counted: 600 starts take an hour.
    let plan = Plan { bank: Some(bank), ..plan(40, 300, services) };
    paused(async {
        let went = go(plan, 1).await;
        assert_eq!((went.stored, went.planned), (900, 900));
        assert!(went.took > Duration::from_secs(58 * 60), "{:?}", went.took);
    });
}

#[test]
fn a_thousand_workers_keep_a_provider_at_its_limit() {
    let services = [("models", Service::of(Some(50), None)), ("desk", Service::of(Some(25), None))].into();
    paused(async {
        let went = go(plan(1000, 1500, services), 2).await;
        assert_eq!(went.stored, went.planned);
        assert_eq!((went.world.most("models"), went.world.most("desk")), (50, 25));
        let complete = |shard: &&mst_model::run::ShardRecord| shard.ending == Some(ShardEnding::Complete);
        assert_eq!(went.collected.shards.iter().filter(complete).count(), 1000);
        // Trials of ten seconds on average, and at the end what one shard keeps back: it is kept full
        // nearly all the time.
        let least = Duration::from_secs(3000 * 10 / 50);
        assert!(went.took < least + least / 3, "{:?}", went.took);
    });
}

#[test]
fn the_shard_that_asks_last_is_one_that_has_enough_to_ask_for() {
    for seed in [0, 5, 50] {
        let plan = Plan::of(seed);
        let mine =
            |case: &&String| shard_of(&case.parse().expect("an id"), plan.shards) == crate::plan::PROBE;
        let big = plan.cases.iter().filter(mine).filter(|case| case.ends_with("-big")).count() as u32;
        assert!(big * plan.trials >= plan.room().min(plan.concurrency), "{big} in {seed}");
    }
}
