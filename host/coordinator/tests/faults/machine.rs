//! Machines that fail, and runners.

use std::time::Duration;

use mst_coordinator::Event;
use mst_coordinator::machines::Keep;
use mst_model::ledger::MachineStatus;
use mst_model::run::ShardEnding;

use crate::bench::{Bench, paused};
use crate::crew::{Breaks, Fetch, Machine, Shard};
use crate::run::{How, Seen};

/// Collects a run of one shard on a machine, and then again on one that is well.
fn collected(shard: Shard, how: How, check: impl FnOnce(Seen)) {
    paused(async {
        let bench = Bench::new(2, 2, 1);
        check(bench.collect(vec![shard], how.clone()).await);
        bench.resume(&how).await;
    });
}

#[track_caller]
fn breaks(machine: Machine, words: &str) {
    collected(Shard::on(machine), How::on_machines(), |seen| {
        assert!(seen.why().contains(words), "{}", seen.why());
        assert_eq!(seen.ledger[0].status, MachineStatus::Destroyed);
        assert_eq!(seen.troubles(), Vec::<&str>::new());
    });
}

#[test]
fn a_machine_that_can_not_be_used_is_destroyed() {
    breaks(Machine::CreateFails, "no more room in this zone");
    breaks(Machine::CreateFailsAfter, "it was made and is not well");
    breaks(Machine::CreatePanicsAfter, "mst failed: a bug in create");
    breaks(Machine::OtherName, "the runner made `mst-of-another-run`, where `mst-");
    breaks(Machine::CopyFails, "no space left on device");
    breaks(Machine::CopyHangs, "its worker was not started within 20 s");
    breaks(Machine::OtherArchitecture, "is Linux vax and has no mst");
    breaks(Machine::ProbeFails, "can't be asked what it is: it ended with code 126: no sh");
    breaks(Machine::ProbeHangs, "its worker was not started within 20 s");
    breaks(Machine::WorkerDoesNotStart, "no such container");
}

#[test]
fn a_machine_that_babbles_is_not_waited_for() {
    collected(Shard::on(Machine::Babbles), How::on_machines(), |seen| {
        assert!(seen.why().ends_with("can't be asked what it is: signal 13 ended it"), "{}", seen.why());
        assert!(seen.took < Duration::from_secs(5), "{:?}", seen.took);
    });
}

#[test]
fn a_making_that_ends_soon_after_its_deadline_is_waited_for() {
    let slow = Shard::on(Machine::CreateSlow(Duration::from_secs(25)));
    collected(slow, How::on_machines(), |seen| {
        assert_eq!(seen.why(), "its worker was not started within 20 s");
        assert_eq!(seen.ledger[0].status, MachineStatus::Destroyed);
        assert!(seen.ledger[0].made.is_some(), "it is destroyed by its handle");
    });
}

#[test]
fn a_making_that_does_not_end_leaves_a_machine_that_may_be_there() {
    for machine in [Machine::CreateHangs, Machine::CreateLate(Duration::from_secs(500))] {
        collected(Shard::on(machine), How::on_machines(), |seen| {
            assert_eq!(seen.why(), "its worker was not started within 20 s");
            assert!(seen.ledger[0].may_exist());
            let why = seen.ledger[0].destroy_failed.as_deref();
            assert_eq!(why, Some("its making was cut off, and may still come to something"));
        });
    }
}

#[test]
fn a_stop_while_machines_are_made() {
    for machine in [Machine::CreateHangs, Machine::CreateSlow(Duration::from_secs(9))] {
        for stop in [0, 1, 5] {
            let stop = Some(Duration::from_secs(stop));
            for how in
                [How { finish: stop, ..How::on_machines() }, How { cancel: stop, ..How::on_machines() }]
            {
                collected(Shard::on(machine), how, |seen| {
                    assert_eq!(*seen.ending(), ShardEnding::Cancelled);
                    assert!(seen.took < Duration::from_secs(20), "{:?}", seen.took);
                });
            }
        }
    }
}

#[test]
fn a_machine_that_does_not_go_is_known() {
    for (machine, words) in [
        (Machine::DestroyFails, "it is protected"),
        (Machine::DestroyHangs, "its runner did not answer within 180 s"),
        (Machine::DestroyPanics, "mst failed: a bug in destroy"),
    ] {
        collected(Shard::on(machine), How::on_machines(), |seen| {
            assert_eq!(*seen.ending(), ShardEnding::Complete);
            assert_eq!(seen.ledger[0].destroy_failed.as_deref(), Some(words));
            assert!(seen.troubles()[0].contains("`mst machines reap"), "{:?}", seen.troubles());
        });
    }
}

#[test]
fn what_nobody_has_seen_is_not_kept() {
    for keep in [Keep::Always, Keep::Failed] {
        let how = How { machines: Some(keep), ..How::on_machines() };
        collected(Shard::on(Machine::CreateFails), how.clone(), |seen| {
            assert_eq!(seen.ledger[0].status, MachineStatus::Destroyed);
        });
        collected(Shard::on(Machine::WorkerDoesNotStart), how, |seen| {
            assert!(matches!(seen.ledger[0].status, MachineStatus::Kept { .. }));
        });
    }
}

#[test]
fn a_transcript_that_does_not_come() {
    for how in [How::here(), How::on_machines()] {
        let meets = |fetch, words: &str| {
            let shard = Shard { fetch: Some((fetch, 2)), ..Shard::healthy() };
            collected(shard, how.clone(), |seen| {
                assert!(seen.why().starts_with("the transcript of "), "{}", seen.why());
                assert!(seen.why().contains(words), "{}", seen.why());
                assert_eq!(seen.stored, 3);
            });
        };
        meets(Fetch::Fails, "can't be fetched: the connection was reset");
        meets(Fetch::Hangs, "can't be fetched: it was not here within 900 s");
        meets(Fetch::Panics, "can't be fetched: mst failed: a bug in copy-from");
        meets(Fetch::Torn, "can't be kept");
    }
}

#[test]
fn a_transcript_that_comes_slowly_is_no_silence_and_holds_up_nothing() {
    for how in [How::here(), How::on_machines()] {
        let shard = Shard { fetch: Some((Fetch::Slow(Duration::from_secs(200)), 0)), ..Shard::healthy() };
        collected(shard, how, |seen| {
            assert_eq!(*seen.ending(), ShardEnding::Complete);
            // The first trial takes 12 s, the other three come while it is on its way.
            assert!(seen.took < Duration::from_secs(220), "{:?}", seen.took);
        });
    }
}

#[test]
fn while_nothing_comes_only_a_few_more_begin() {
    for (concurrency, most) in [(1, 1 + 4), (6, 6 + 6)] {
        for how in [How::here(), How::on_machines()] {
            paused(async {
                // None comes for a quarter of an hour, in which there is time for each of them.
                let bench = Bench::new(40, 1, 1);
                let shard = Shard { fetch: Some((Fetch::Hangs, 0)), ..Shard::real() };
                let finish = Some(Duration::from_secs(800));
                let stopped = How { concurrency, finish, ..how.clone() };
                let seen = bench.collect(vec![shard], stopped).await;
                let begun = |event: &&Event| matches!(event, Event::TrialStarted { .. });
                let begun = seen.events.iter().filter(begun).count();
                assert_eq!(begun, most, "{concurrency} at a time");
                bench.resume(&How { concurrency, ..how }).await;
            });
        }
    }
}

#[test]
fn a_full_disk() {
    for how in [How::here(), How::on_machines()] {
        paused(async {
            let bench = Bench::new(3, 2, 1);
            bench.fill_disk(1);
            let seen = bench.collect(vec![Shard::healthy()], how.clone()).await;
            assert!(
                seen.why().contains("the transcript of case-1 a #0 can't be kept: can't "),
                "{}",
                seen.why()
            );
            assert_eq!(seen.stored, 4);
            bench.resume(&how).await;
        });
    }
}

#[test]
fn a_runner_that_breaks_takes_no_other_shard_with_it() {
    for (breaks, words) in [
        (Breaks::StartPanics, "mst failed: a bug in start"),
        (Breaks::StartPanicsLate, "mst failed: a bug at the end of start"),
        (Breaks::StartHangs, "its worker was not started within 20 s"),
        (Breaks::StartFails, "the runner is not well"),
        (Breaks::EndFails, ""),
        (Breaks::EndPanics, ""),
    ] {
        for how in [How::here(), How::on_machines()] {
            paused(async {
                let bench = Bench::new(12, 1, 3);
                let mut shards = vec![Shard::healthy(); 3];
                shards[0].runner = Some(breaks);
                let seen = bench.collect(shards, how.clone()).await;
                match seen.ending() {
                    ShardEnding::Broken { why } => assert!(why.contains(words) && !words.is_empty(), "{why}"),
                    _ => assert!(words.is_empty() && seen.troubles().len() == 1),
                }
                bench.resume(&how).await;
            });
        }
    }
}

#[test]
fn many_shards_wait_their_turn_and_not_on_their_own_time() {
    paused(async {
        // Eight at a time, 15 s each: the last begin after more than the 20 s that one may take.
        let bench = Bench::new(300, 1, 30);
        let slow = Shard::on(Machine::CreateSlow(Duration::from_secs(15)));
        let seen = bench.collect(vec![slow; 30], How::on_machines()).await;
        assert_eq!(seen.stored, 300);
    });
}
