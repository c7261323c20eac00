//! A person who stops the run.

use std::time::Duration;

use mst_coordinator::Event;
use mst_coordinator::machines::Keep;
use mst_model::ledger::MachineStatus;
use mst_model::run::ShardEnding;

use crate::bench::{Bench, paused};
use crate::crew::{Fetch, Shard};
use crate::run::How;
use crate::worker::{Lie, Script};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_first_lets_trials_end_and_starts_none() {
    for how in [How::here(), How::on_machines(), How::whole()] {
        paused(async {
            let bench = Bench::new(3, 2, 1);
            let seen =
                bench.collect(vec![Shard::healthy()], How { finish: Some(secs(20)), ..how.clone() }).await;
            assert_eq!(*seen.ending(), ShardEnding::Cancelled);
            assert_eq!(seen.stored, 2);
            bench.resume(&how).await;
        });
    }
}

#[test]
fn the_second_ends_them() {
    for (finish, cancel) in [(Some(secs(15)), secs(17)), (None, secs(17))] {
        paused(async {
            let bench = Bench::new(3, 2, 1);
            let shard = Shard::script(Script { takes: secs(15), ..Script::honest() });
            let seen = bench.collect(vec![shard], How { finish, cancel: Some(cancel), ..How::here() }).await;
            assert_eq!(*seen.ending(), ShardEnding::Cancelled);
            assert_eq!(seen.stored, 1);
            assert!(seen.took <= secs(22), "{:?}", seen.took);
            bench.resume(&How::here()).await;
        });
    }
}

#[test]
fn a_worker_that_does_not_end_is_ended() {
    paused(async {
        let bench = Bench::new(3, 2, 1);
        let shard = Shard::script(Script::lies(Lie::Deaf, 1));
        let seen = bench.collect(vec![shard], How { cancel: Some(secs(100)), ..How::here() }).await;
        assert_eq!(seen.why(), "its worker did not end within 20 s of its `cancel`");
        assert!(seen.took <= secs(126), "{:?}", seen.took);
        bench.resume(&How::here()).await;
    });
}

#[test]
fn a_transcript_that_does_not_come_is_given_up() {
    for how in [How::here(), How::on_machines()] {
        paused(async {
            let bench = Bench::new(3, 2, 1);
            let shard = Shard { fetch: Some((Fetch::Hangs, 1)), ..Shard::healthy() };
            let seen = bench.collect(vec![shard], How { cancel: Some(secs(60)), ..how.clone() }).await;
            assert!(seen.why().contains("can't be fetched: the run was cancelled"), "{}", seen.why());
            assert_eq!(seen.stored, 1);
            assert!(seen.took <= secs(90), "{:?}", seen.took);
            bench.resume(&how).await;
        });
    }
}

#[test]
fn a_disk_without_room_ends_the_shard() {
    paused(async {
        let bench = Bench::new(3, 4, 1);
        let shard = Shard { fetch: Some((Fetch::NoRoom, 1)), ..Shard::healthy() };
        let seen = bench.collect(vec![shard], How::here()).await;
        assert!(seen.why().contains("can't be fetched: no storage space"), "{}", seen.why());
        // The first is kept, the second has no room, and the third is ended under way.
        let started = seen.events.iter().filter(|event| matches!(event, Event::TrialStarted { .. }));
        assert_eq!((seen.stored, started.count()), (1, 3));
        assert!(seen.took < secs(40), "{:?}", seen.took);
        bench.resume(&How::here()).await;
    });
}

#[test]
fn a_runner_that_does_not_bring_the_results_is_given_up() {
    paused(async {
        let bench = Bench::new(1, 2, 1);
        let shard = Shard { fetch: Some((Fetch::Hangs, 0)), ..Shard::healthy() };
        // Its worker is done after 24 s; from then on the runner is waited for.
        let seen = bench.collect(vec![shard], How { cancel: Some(secs(60)), ..How::whole() }).await;
        assert!(
            seen.troubles()[0].starts_with("the run was cancelled, and the runner"),
            "{:?}",
            seen.troubles()
        );
        assert!(seen.took <= secs(75), "{:?}", seen.took);
        bench.resume(&How::whole()).await;
    });
}

#[test]
fn what_was_stopped_has_not_failed_and_is_not_kept() {
    for how in [
        How { finish: Some(secs(20)), ..How::on_machines() },
        How { cancel: Some(secs(20)), ..How::on_machines() },
    ] {
        let how = How { machines: Some(Keep::Failed), ..how };
        paused(async {
            let bench = Bench::new(3, 2, 1);
            let seen = bench.collect(vec![Shard::healthy()], how.clone()).await;
            assert_eq!(*seen.ending(), ShardEnding::Cancelled);
            assert_eq!(seen.ledger[0].status, MachineStatus::Destroyed);
            bench.resume(&how).await;
        });
    }
}

#[test]
fn a_stop_before_anything_began_starts_nothing() {
    for how in [How::here(), How::on_machines()] {
        for stopped in
            [How { finish: Some(secs(0)), ..how.clone() }, How { cancel: Some(secs(0)), ..how.clone() }]
        {
            paused(async {
                let bench = Bench::new(3, 2, 1);
                let seen = bench.collect(vec![Shard::healthy()], stopped).await;
                assert_eq!(*seen.ending(), ShardEnding::Cancelled);
                assert_eq!(seen.stored, 0);
                bench.resume(&how).await;
            });
        }
    }
}
