//! Limits, and shards that hold room when they break.

use std::time::Duration;

use mst_coordinator::Event;
use mst_model::run::ShardEnding;
use serde_json::{Value, json};

use crate::bench::{Bench, paused};
use crate::crew::{Fetch, Machine, Shard};
use crate::run::How;
use crate::worker::{Lie, Script};

/// Two shards of trials of twelve seconds, one at a time.
fn bench() -> Bench {
    let more = json!({
        "client": {"kind": "echo", "providers": ["models"]},
        "limits": {"providers": {"models": {"concurrency": 1}}},
    });
    Bench::of(12, 1, 2, &more)
}

#[test]
fn one_at_a_time_is_one_at_a_time() {
    paused(async {
        let bench = bench();
        let seen = bench.collect(vec![Shard::healthy(); 2], How::here()).await;
        assert_eq!(seen.stored, 12);
        assert!(seen.took >= Duration::from_secs(12 * 12), "{:?}", seen.took);
    });
}

#[test]
fn a_shard_that_is_gone_holds_no_room_while_its_results_come() {
    for how in [How::here(), How::on_machines()] {
        paused(async {
            let bench = bench();
            // Its first trial is a quarter of an hour on its way; it asks for the next, and is gone.
            let gone = Script::lies(Lie::AsksAndGoes, 1);
            let gone = Shard { fetch: Some((Fetch::Hangs, 0)), ..Shard::script(gone) };
            let how = How { finish: Some(Duration::from_secs(300)), ..how.clone() };
            let seen = bench.collect(vec![gone, Shard::healthy()], how.clone()).await;
            let ending = seen.collected.shards[1].ending.clone();
            assert_eq!(ending, Some(ShardEnding::Complete), "it waited for a shard that was gone");
            assert_eq!(
                seen.collected.shards[0].ending,
                Some(ShardEnding::Broken { why: "the way from its worker ended before `done`".to_owned() })
            );
            bench.resume(&how).await;
        });
    }
}

/// An eval whose first variant talks to a provider with this limit, and whose second to nobody.
fn limited_and_free([limited, free]: [&str; 2], limit: &Value) -> Value {
    json!({
        "variants": [
            {"id": limited, "client": {"kind": "echo", "providers": ["models"]}},
            {"id": free, "client": {"kind": "echo"}},
        ],
        "limits": {"providers": {"models": limit}},
    })
}

#[test]
fn a_trial_that_uses_nothing_limited_does_not_wait_behind_one_that_does() {
    paused(async {
        let more = limited_and_free(["a", "b"], &json!({"starts_per_minute": 1}));
        let bench = Bench::of(2, 1, 1, &more);
        let how = How { concurrency: 2, ..How::here() };
        let stopped = How { finish: Some(Duration::from_secs(30)), ..how.clone() };
        let seen = bench.collect(vec![Shard::real()], stopped).await;
        assert_eq!(seen.stored, 3, "one that needs a start, and two that do not");
        assert_eq!(bench.collect(vec![Shard::real()], how).await.stored, 1);
    });
}

#[test]
fn a_trial_that_uses_no_pool_never_waits_for_one_whatever_its_worker_waits_for() {
    for concurrency in 1..=3 {
        paused(async {
            let more = limited_and_free(["a", "b"], &json!({"starts_per_minute": 1}));
            let bench = Bench::of(6, 1, 1, &more);
            let how = How { concurrency, ..How::here() };
            let stopped = How { finish: Some(Duration::from_secs(30)), ..how.clone() };
            let seen = bench.collect(vec![Shard::real()], stopped).await;
            assert_eq!(seen.stored, 7, "the one start of the minute, and all that need none");
            assert_eq!(bench.collect(vec![Shard::real()], how).await.stored, 5);
        });
    }
}

#[test]
fn where_there_is_room_for_all_they_start_in_the_order_of_the_plan() {
    for concurrency in 1..=3 {
        paused(async {
            let more = limited_and_free(["b", "a"], &json!({"concurrency": 3}));
            let bench = Bench::of(20, 2, 1, &more);
            let how = How { concurrency, ..How::here() };
            let seen = bench.collect(vec![Shard::real()], how).await;
            let started = seen.events.iter().filter_map(|event| match event {
                Event::TrialStarted { trial } => Some(trial.to_string()),
                _ => None,
            });
            let in_order = |case| ["b #0", "b #1", "a #0", "a #1"].map(|arm| format!("case-{case} {arm}"));
            assert_eq!(started.collect::<Vec<_>>(), (0..20).flat_map(in_order).collect::<Vec<_>>());
        });
    }
}

#[test]
fn what_a_dead_workers_trial_holds_is_held_until_its_machine_is_gone() {
    let took = |dies: Shard| {
        let mut took = Duration::ZERO;
        paused(async {
            let bench = bench();
            // The other comes when it has room, and waits.
            let slow = Shard::on(Machine::CreateSlow(Duration::from_secs(5)));
            let seen = bench.collect(vec![dies, slow], How::on_machines()).await;
            assert_eq!(seen.collected.shards[1].ending, Some(ShardEnding::Complete));
            took = seen.took;
            bench.resume(&How::on_machines()).await;
        });
        took
    };
    let dies = Shard::script(Script::lies(Lie::AsksAndGoes, 0));
    let goes = took(dies.clone());
    let stays = took(Shard { machine: Some(Machine::DestroyHangs), ..dies });
    assert!(stays >= goes + Duration::from_secs(150), "{stays:?}, and {goes:?} where it goes at once");
}

#[test]
fn who_waits_for_room_is_stopped_as_others_are() {
    for how in [How::here(), How::on_machines(), How::whole()] {
        for stopped in [
            How { cancel: Some(Duration::from_secs(20)), ..how.clone() },
            How { finish: Some(Duration::from_secs(20)), ..how.clone() },
        ] {
            paused(async {
                let bench = bench();
                let seen = bench.collect(vec![Shard::healthy(); 2], stopped).await;
                assert!(
                    seen.collected.shards.iter().all(|shard| shard.ending == Some(ShardEnding::Cancelled))
                );
                assert!(seen.took <= Duration::from_secs(45), "{:?}", seen.took);
                bench.resume(&how).await;
            });
        }
    }
}
