//! Whatever a coordinator says and when, the worker keeps its own rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mst_model::bundle::{Bundle, CaseWork, Planned};
use mst_model::{Case, TrialKey};
use mst_protocol::Lines;
use proptest::prelude::*;
use serde_json::json;
use tokio::io::duplex;
use tokio::time::{Instant, timeout};

use super::super::{CollectError, Place, collect_by};
use super::client::{Shared, Watchful};
use super::coordinator::{Coordinator, Fault, Heard, Step, left};
use crate::trial::ClientEnvironment;

const SECOND: Duration = Duration::from_secs(1);

/// What a worker meets.
#[derive(Debug, Clone)]
struct Schedule {
    cases: usize,
    concurrency: usize,
    /// In how many lanes the trials of each variant are.
    lanes: u32,
    /// Whether one of the two variants needs tokens.
    keyed: bool,
    /// Milliseconds that trials take, again and again.
    takes: Vec<u64>,
    /// What is said, and how many milliseconds after what was said before.
    steps: Vec<(u64, Step)>,
    /// What tokens live that are given once there is no more to say, in milliseconds.
    lives: Option<u64>,
}

fn step() -> impl Strategy<Value = Step> {
    let lives = prop_oneof![Just(None), (500_u64..20_000).prop_map(Some), (500_u64..400_000).prop_map(Some)];
    let grace = prop_oneof![Just(None), (0_u64..20_000).prop_map(Some)];
    prop_oneof![
        12 => any::<usize>().prop_map(Step::Grant),
        6 => lives.prop_map(Step::Tokens),
        2 => grace.prop_map(Step::Cancel),
        4 => any::<usize>().prop_map(Step::Wait),
        1 => any::<usize>().prop_map(Step::WaitAgain),
        1 => Just(Step::GrantTooMany),
        1 => any::<usize>().prop_map(Step::GrantAgain),
        1 => any::<usize>().prop_map(Step::GrantUnasked),
        1 => Just(Step::TokensToo),
        1 => Just(Step::OtherTokens),
        1 => Just(Step::TokensUnasked),
        1 => Just(Step::Garbage),
        1 => Just(Step::Cut),
        1 => any::<usize>().prop_map(Step::CutInFrame),
        1 => Just(Step::Deaf),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let takes = prop::collection::vec(prop_oneof![Just(0), 0_u64..40_000], 1..6);
    let pause = prop_oneof![3 => 1_u64..50, 3 => 1_u64..5_000, 1 => 1_u64..120_000];
    let steps = prop::collection::vec((pause, step()), 0..24);
    let lives = prop_oneof![Just(None), (8_000_u64..300_000).prop_map(Some)];
    (1_usize..7, 1_usize..4, 1_u32..4, any::<bool>(), takes, steps, lives).prop_map(
        |(cases, concurrency, lanes, keyed, takes, steps, lives)| Schedule {
            cases,
            concurrency,
            lanes,
            keyed,
            takes,
            steps,
            lives,
        },
    )
}

/// A bundle with one trial a case of each of two variants, and the lanes of its trials.
fn bundle(dir: &Path, schedule: &Schedule) -> Vec<(TrialKey, u32)> {
    let tokens = if schedule.keyed { json!(["gateway", "wiki"]) } else { json!([]) };
    let head = json!({
        "schema": Bundle::SCHEMA,
        "run": "20261130-015240-k3f9",
        "shard": 0,
        "concurrency": schedule.concurrency,
        "lanes": 2 * schedule.lanes,
        "clients": {"plain": {"kind": "echo"}, "keyed": {"kind": "echo", "tokens": tokens}},
        "deadlines": {},
        "tokens_on_disk": true,
    });
    std::fs::create_dir(dir).expect("made");
    std::fs::write(dir.join(Bundle::FILE), head.to_string()).expect("written");
    let mut lines = String::new();
    let mut planned = Vec::new();
    for at in 0..schedule.cases {
        let case = json!({"id": format!("case-{at}"), "prompt": [{"role": "user", "content": "why?"}]});
        let case: Case = serde_json::from_value(case).expect("a case");
        let trial = |variant: &str, of_two: u32| Planned {
            variant: variant.parse().expect("a name"),
            index: 0,
            attempt: 0,
            lane: at as u32 % schedule.lanes * 2 + of_two,
            previous: None,
        };
        let trials = vec![trial("keyed", 0), trial("plain", 1)];
        for trial in &trials {
            let key = TrialKey { case: case.id.clone(), variant: trial.variant.clone(), index: 0 };
            planned.push((key, trial.lane));
        }
        let work = CaseWork { sha256: case.digest().expect("digests"), trials, case };
        lines.push_str(&serde_json::to_string(&work).expect("writes"));
        lines.push('\n');
    }
    std::fs::write(dir.join(Bundle::WORK_FILE), lines).expect("written");
    planned
}

/// Where a worker works, with a bundle of so many cases.
pub(super) fn place(root: &Path, cases: usize) -> Place {
    let schedule = Schedule {
        cases,
        concurrency: 1,
        lanes: 1,
        keyed: false,
        takes: vec![0],
        steps: Vec::new(),
        lives: None,
    };
    bundle(&root.join("bundle"), &schedule);
    place_of(root)
}

fn place_of(root: &Path) -> Place {
    Place {
        bundle: root.join("bundle"),
        results: root.join("results"),
        scratch: root.join("scratch"),
        environment: ClientEnvironment {
            path: String::new(),
            home: String::new(),
            vars: BTreeMap::new(),
            base_dir: root.join("scratch"),
        },
        tokens: vec![root.join("tokens")],
        mst: "0.1.0".to_owned(),
    }
}

/// What became of it: how the worker ended, what was heard, how many trials there were, and how often a
/// token was looked at.
struct Went {
    result: Result<(), CollectError>,
    heard: Heard,
    planned: usize,
    looked: u64,
}

async fn go(schedule: &Schedule) -> Went {
    let fast = Path::new("/dev/shm");
    let root = if fast.is_dir() { tempfile::tempdir_in(fast) } else { tempfile::tempdir() };
    let root = root.expect("made");
    let at = |name: &str| root.path().join(name);
    let lanes: BTreeMap<_, _> = bundle(&at("bundle"), schedule).into_iter().collect();
    let planned: Vec<_> = lanes.keys().cloned().collect();
    let takes: BTreeMap<_, _> = planned
        .iter()
        .zip(schedule.takes.iter().cycle())
        .map(|(key, takes)| (key.clone(), Duration::from_millis(*takes)))
        .collect();
    let shared = Shared::new(schedule.concurrency, takes);
    let place = place_of(root.path());
    let (ours, theirs) = (duplex(64 << 10), duplex(64 << 10));
    let asks = Arc::new(Watchful(shared.clone()));
    let mut worker = tokio::spawn(collect_by(asks, place, ours.1, theirs.1));
    let needed: BTreeSet<_> = ["gateway", "wiki"].map(|name| name.parse().expect("a name")).into();
    let mut coordinator = Coordinator {
        to: Some(ours.0),
        from: Some(theirs.0),
        shared: shared.clone(),
        planned: planned.clone(),
        needs: BTreeMap::from([
            ("plain".to_owned(), BTreeSet::new()),
            ("keyed".to_owned(), if schedule.keyed { needed } else { BTreeSet::new() }),
        ]),
        concurrency: schedule.concurrency,
        lanes,
        results: at("results"),
        tokens: at("tokens"),
        heard: Heard::default(),
    };
    let mut lines = Lines::default();
    for (pause, step) in &schedule.steps {
        coordinator.listen(Duration::from_millis(*pause), &mut lines).await;
        if coordinator.heard.over || coordinator.heard.fault.is_some() {
            break;
        }
        coordinator.step(*step).await;
    }
    // Who is well served is done in the end; who is not ends at once, or when its heart beats.
    let patience = if coordinator.heard.fault.is_some() { 11 * SECOND } else { 7200 * SECOND };
    let until = Instant::now() + patience;
    while !coordinator.heard.over && Instant::now() < until && !worker.is_finished() {
        // What it says to the last word is heard before the next: both count alike.
        coordinator.listen(Duration::from_millis(1), &mut lines).await;
        if coordinator.heard.fault.is_none() && !coordinator.heard.over {
            coordinator.give(schedule.lives).await;
            if coordinator.heard.cancelled.is_none() {
                coordinator.grant(0).await;
            }
        }
        coordinator.listen(Duration::from_millis(500), &mut lines).await;
    }
    let ended = timeout(SECOND, &mut worker).await.expect("it ends by itself");
    let result = ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    coordinator.listen(SECOND, &mut lines).await;
    let book = shared.book();
    assert!(book.running.is_empty(), "{:?} outlive their worker", book.running);
    assert_eq!(left(&at("tokens")), 0, "tokens outlive their worker");
    for (trial, end) in book.started.iter().map(|(trial, start)| (trial, *start + book.takes[trial])) {
        // What could end before it was to be ended is kept.
        let grace = coordinator.heard.cancelled.and_then(|(_, over)| over);
        if result.is_ok() && grace.is_none_or(|over| end < over) {
            assert!(coordinator.heard.ended.contains_key(trial), "{trial} was given up");
        }
    }
    Went { result, looked: book.looked, heard: coordinator.heard, planned: planned.len() }
}

fn check(schedule: &Schedule) -> Went {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let went = runtime.expect("builds").block_on(go(schedule));
    match went.heard.fault {
        Some(Fault::Illegal) => {
            let refused = matches!(went.result, Err(CollectError::Protocol(_)));
            assert!(refused && !went.heard.done, "{:?}", went.result);
        }
        Some(Fault::Broken) => {
            assert!(matches!(went.result, Err(CollectError::Channel(_))), "{:?}", went.result);
        }
        None => {
            assert!(went.result.is_ok() && went.heard.done, "{:?}", went.result);
            if went.heard.cancelled.is_none() {
                assert_eq!(went.heard.ended.len(), went.planned, "each has ended");
            }
        }
    }
    went
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 400, ..ProptestConfig::default() })]
    #[test]
    fn whatever_it_is_told_it_keeps_its_rules(schedule in schedule()) {
        check(&schedule);
    }
}

#[test]
fn a_grant_that_comes_after_a_stop_starts_nothing() {
    let steps = vec![(10, Step::Cancel(None)), (10, Step::Grant(0)), (10, Step::Grant(0))];
    let schedule =
        Schedule { cases: 2, concurrency: 2, lanes: 1, keyed: false, takes: vec![10], steps, lives: None };
    assert_eq!(check(&schedule).heard.ended.len(), 0);
}

#[test]
fn a_place_that_a_stop_frees_is_asked_for_by_nobody() {
    // The first may start when its token has just ended, and is given up while it waits for another.
    let steps = vec![
        (1, Step::Wait(1)),
        (1, Step::Tokens(Some(500))),
        (500, Step::Grant(2)),
        (1, Step::Grant(1)),
        (1, Step::Cancel(None)),
    ];
    let schedule =
        Schedule { cases: 3, concurrency: 2, lanes: 1, keyed: true, takes: vec![0], steps, lives: None };
    check(&schedule);
}

#[test]
fn an_hour_of_tokens_that_live_a_minute() {
    // Two at a time, of twenty minutes each.
    let schedule = Schedule {
        cases: 3,
        concurrency: 2,
        lanes: 1,
        keyed: true,
        takes: vec![1_200_000],
        steps: Vec::new(),
        lives: Some(60_000),
    };
    let went = check(&schedule);
    assert!(went.looked > 5000, "{}", went.looked);
}

#[test]
fn a_token_that_is_not_renewed_is_gone_when_it_ends() {
    // Half of the trial's time nobody answers, and a second token is asked for.
    let steps = vec![(10, Step::Tokens(Some(20_000))), (10, Step::Grant(0)), (60_000, Step::Grant(0))];
    let schedule = Schedule {
        cases: 1,
        concurrency: 1,
        lanes: 1,
        keyed: true,
        takes: vec![40_000],
        steps,
        lives: Some(60_000),
    };
    check(&schedule);
}

#[test]
fn a_worker_that_nobody_hears_any_more_ends_also_at_its_end() {
    let steps = vec![(1, Step::Grant(0)), (1, Step::Cancel(Some(3000))), (1, Step::Deaf)];
    let schedule =
        Schedule { cases: 1, concurrency: 1, lanes: 1, keyed: false, takes: vec![7000], steps, lives: None };
    check(&schedule);
}

#[test]
fn what_waits_for_others_takes_no_place_from_the_rest() {
    // Of the one lane all but the first three wait for ever; of the other all are done.
    let waits = (0..3).flat_map(|_| [(10, Step::Wait(0))]);
    let steps = waits.chain((0..6).map(|_| (1000, Step::Grant(usize::MAX)))).collect();
    let schedule =
        Schedule { cases: 6, concurrency: 1, lanes: 1, keyed: false, takes: vec![10], steps, lives: None };
    let went = check(&schedule);
    assert_eq!(went.heard.ended.len(), 12);
}
