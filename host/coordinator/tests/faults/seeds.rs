//! Everything at once, as a seed has it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mst_coordinator::machines::Keep;
use serde_json::json;

use crate::bench::{Bench, paused};
use crate::chance::Chance;
use crate::crew::{Breaks, Fetch, Machine, Shard};
use crate::pipe::{Break, Gag};
use crate::run::How;
use crate::worker::{Lie, Script};

const SEEDS: u64 = 400;

#[test]
fn seeds_lose_double_and_leave_nothing() {
    if let Ok(seed) = std::env::var("MST_FAULT_SEED") {
        return run(seed.parse().expect("a seed is a number"));
    }
    // Half of what breaks here breaks by a panic, which nobody wants to read.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failed: Vec<String> = (0..SEEDS)
        .filter_map(|seed| {
            let panic = catch_unwind(AssertUnwindSafe(|| run(seed))).err()?;
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            Some(format!("MST_FAULT_SEED={seed}: {}", said.unwrap_or_default()))
        })
        .collect();
    std::panic::set_hook(told);
    assert!(failed.is_empty(), "{failed:#?}");
}

fn run(seed: u64) {
    let mut chance = Chance(seed);
    let count = 1 + chance.below(4);
    let (cases, trials) = (1 + chance.below(4) * count, 1 + chance.below(2) as u32);
    let shards: Vec<Shard> = (0..count).map(|_| shard(&mut chance)).collect();
    // What it meets when it is collected for the second time.
    let again: Vec<Shard> = (0..count).map(|_| shard(&mut chance)).collect();
    let stops = |chance: &mut Chance, one_in| chance.one_in(one_in).then(|| chance.time(90));
    // Nobody but a person ends a worker that says for ever that it is still there.
    let deaf = shards.iter().chain(&again).any(Shard::is_deaf);
    let cancel = stops(&mut chance, 4).or(deaf.then_some(Duration::from_secs(300)));
    let how = How {
        machines: (!chance.one_in(3))
            .then(|| chance.pick(&[Keep::Never, Keep::Never, Keep::Failed, Keep::Always])),
        whole: chance.one_in(3),
        concurrency: 1 + chance.below(3) as u32,
        finish: stops(&mut chance, 4),
        cancel,
        vault: Default::default(),
        poor: false,
    };
    let full = chance.one_in(12).then(|| chance.below(cases));
    let limits = limits(&mut chance);
    if std::env::var_os("MST_FAULT_SEED").is_some() {
        println!("{shards:#?}\n{again:#?}\n{how:#?}, full: {full:?}, {limits}");
    }
    paused(async {
        let bench = Bench::of(cases, trials, count as u32, &limits);
        if let Some(case) = full {
            bench.fill_disk(case);
        }
        bench.collect(shards, how.clone()).await;
        bench.collect(again, how.clone()).await;
        bench.resume(&how).await;
    });
}

/// What there is room for, in two runs of three.
fn limits(chance: &mut Chance) -> serde_json::Value {
    if chance.one_in(3) {
        return json!({});
    }
    let mut models = json!({"concurrency": 1 + chance.below(3)});
    if chance.one_in(2) {
        models["starts_per_minute"] = json!(1 + chance.below(4));
    }
    let mut limits = json!({
        "client": {"kind": "echo", "providers": ["models"]},
        "limits": {"providers": {"models": models}},
    });
    if chance.one_in(2) {
        limits["capacity"] = json!([{"key": "gpu", "limit": 1 + chance.below(2)}]);
    }
    limits
}

fn shard(chance: &mut Chance) -> Shard {
    let script = Script {
        lie: chance.one_in(3).then(|| (chance.pick(&Lie::ALL), chance.below(4))),
        noise: if chance.one_in(8) { chance.below(80) } else { 0 },
        takes: chance.time(40),
    };
    let mut shard = if chance.one_in(2) { Shard::real() } else { Shard::script(script) };
    let at = chance.below(2500);
    let time = chance.time(60);
    if chance.one_in(4) {
        let breaks = [
            Break::Cut(at),
            Break::Fail(at),
            Break::Stall(at),
            Break::Garble(at),
            Break::Delay(at, time),
            Break::Panic(at),
        ];
        shard.ear = Some(chance.pick(&breaks));
    }
    if chance.one_in(8) {
        shard.gag = Some(chance.pick(&[Gag::Fail(at / 8), Gag::Block(at / 8)]));
    }
    if chance.one_in(6) {
        let time = Duration::from_secs(chance.below(100) as u64);
        let fetches = [Fetch::Fails, Fetch::Hangs, Fetch::Slow(time), Fetch::Torn, Fetch::Panics];
        shard.fetch = Some((chance.pick(&fetches), chance.below(4)));
    }
    if chance.one_in(3) {
        shard.machine = Some(chance.pick(&[
            Machine::CreateHangs,
            Machine::CreateLate(time),
            Machine::CreateSlow(time),
            Machine::CreateFails,
            Machine::CreateFailsAfter,
            Machine::CreatePanicsAfter,
            Machine::OtherName,
            Machine::DestroyFails,
            Machine::DestroyHangs,
            Machine::DestroyPanics,
            Machine::CopyFails,
            Machine::CopyHangs,
            Machine::OtherArchitecture,
            Machine::Babbles,
            Machine::ProbeHangs,
            Machine::ProbeFails,
            Machine::WorkerDoesNotStart,
        ]));
    }
    if chance.one_in(8) {
        shard.runner = Some(chance.pick(&[
            Breaks::StartPanics,
            Breaks::StartPanicsLate,
            Breaks::StartHangs,
            Breaks::StartFails,
            Breaks::EndFails,
            Breaks::EndPanics,
        ]));
    }
    shard
}
