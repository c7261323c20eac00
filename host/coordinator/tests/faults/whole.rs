//! Runners that carry whole shards.

use std::time::Duration;

use mst_model::ledger::MachineStatus;
use mst_model::run::ShardEnding;

use crate::bench::{Bench, paused};
use crate::crew::{Fetch, Machine, Shard};
use crate::run::{How, Seen};

fn collected(shard: Shard, how: How, check: impl FnOnce(Seen)) {
    paused(async {
        let bench = Bench::new(2, 2, 1);
        check(bench.collect(vec![shard], how.clone()).await);
        bench.resume(&how).await;
    });
}

#[test]
fn one_that_attaches_no_worker() {
    for (machine, words) in [
        (Machine::CreateFails, "no more room in this zone"),
        (Machine::CreateFailsAfter, "it was made and is not well"),
        (Machine::CreatePanicsAfter, "mst failed: "),
        (Machine::WorkerDoesNotStart, "the runner ended without having started a worker"),
    ] {
        collected(Shard::on(machine), How::whole(), |seen| {
            assert!(seen.why().contains(words), "{}", seen.why());
            assert_eq!(seen.ledger[0].status, MachineStatus::Destroyed);
        });
    }
}

#[test]
fn one_that_does_not_come_to_it() {
    for machine in [Machine::CreateHangs, Machine::CreateLate(Duration::from_secs(500)), Machine::CopyHangs] {
        collected(Shard::on(machine), How::whole(), |seen| {
            assert_eq!(seen.why(), "its worker was not started within 20 s");
            assert!(seen.ledger[0].may_exist());
        });
    }
}

#[test]
fn a_stop_before_it_has_a_worker() {
    for machine in [Machine::CreateHangs, Machine::CreateSlow(Duration::from_secs(9))] {
        for stop in [0, 1, 5] {
            let how = How { finish: Some(Duration::from_secs(stop)), ..How::whole() };
            collected(Shard::on(machine), how, |seen| {
                assert_eq!(*seen.ending(), ShardEnding::Cancelled);
                assert!(seen.took < Duration::from_secs(20), "{:?}", seen.took);
            });
        }
    }
}

#[test]
fn one_that_does_not_bring_the_results() {
    for fetch in [Fetch::Fails, Fetch::Hangs, Fetch::Panics] {
        let shard = Shard { fetch: Some((fetch, 0)), ..Shard::healthy() };
        collected(shard, How::whole(), |seen| {
            assert!(seen.why().starts_with("the transcript of "), "{}", seen.why());
            assert_eq!(seen.troubles().len(), 1);
            assert_eq!(seen.stored, 0);
            assert_eq!(seen.ledger[0].status, MachineStatus::Destroyed);
        });
    }
}
