//! What a seed makes: a run, what it talks to, and what becomes of each shard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mst_coordinator::plan::shard_of;
use mst_model::TrialKey;
use mst_model::tokens::OnFailure;
use serde_json::{Value, json};

use crate::bank::Bank;
use crate::chance::Chance;
use crate::line::Way;
use crate::world::Service;

/// What becomes of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Well,
    /// It is killed, perhaps in the middle of a word; what it started goes on until its machine is gone.
    Dies(Duration, bool),
    /// It says of its so manieth trial twice that it has ended.
    Doubles(usize),
    /// It says its so manieth message twice.
    Repeats(u64),
    /// It is gone as soon as it has asked for so many.
    AsksAndGoes(usize),
}

/// What becomes of a shard.
#[derive(Debug, Clone)]
pub(crate) struct Fate {
    pub(crate) starts_after: Duration,
    pub(crate) start_fails: bool,
    pub(crate) way: Way,
    pub(crate) end: End,
    /// How many of its places it uses.
    pub(crate) busy: usize,
    /// Whether it leaves a place to another trial where one waits.
    pub(crate) heeds: bool,
    /// How many seconds a trial takes at the most.
    pub(crate) takes: usize,
    /// How long its machine takes to be gone.
    pub(crate) leaves_after: Duration,
    /// Which of its transcripts does not come.
    pub(crate) loses: Option<usize>,
}

/// The shard that asks last, for all the room that there is.
pub(crate) const PROBE: u32 = 0;

/// A run of the fleet.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) shards: u32,
    pub(crate) concurrency: u32,
    pub(crate) trials: u32,
    pub(crate) cases: Vec<String>,
    pub(crate) services: BTreeMap<&'static str, Service>,
    pub(crate) fates: Vec<Fate>,
    pub(crate) bank: Option<Bank>,
    pub(crate) finish: Option<Duration>,
    pub(crate) cancel: Option<Duration>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut chance = Chance(seed);
        // Mostly small: the orders that matter are those of a few.
        let (shards, cases) = match seed % 1000 {
            500 => (1000, 1500),
            at if at % 100 == 50 => (60 + chance.below(60), 200),
            at if at % 10 == 5 => (8 + chance.below(12), 40),
            _ => (2 + chance.below(4), 2 + chance.below(10)),
        };
        let services = services(&mut chance);
        let most = services.values().filter_map(|service| service.concurrency).max().unwrap_or(1);
        let starts = services.values().any(|service| service.starts_per_minute.is_some());
        let concurrency = most.max(1 + chance.below(4) as u32);
        // Where starts are counted, the same time passes on the way of each.
        let down_ms = if chance.one_in(2) { 0 } else { chance.below(1500) as u64 };
        let fate = |chance: &mut Chance| {
            let mut fate = fate(chance, concurrency, shards > 200);
            if starts || chance.one_in(2) {
                fate.way.down_ms = down_ms;
            }
            fate
        };
        let mut fates: Vec<Fate> = (0..shards).map(|_| fate(&mut chance)).collect();
        let probe = &mut fates[PROBE as usize];
        (probe.start_fails, probe.end, probe.loses, probe.heeds) = (false, End::Well, None, true);
        (probe.way.dies, probe.busy) = (None, concurrency as usize);
        let bank = chance.one_in(2).then(|| Bank {
            lives: Duration::from_secs(chance.pick(&[60, 300, 3600])),
            takes: chance.pick(&[1, 10, 18]),
            fails: chance.one_in(2).then_some(4),
            on_failure: chance.pick(&[OnFailure::Wait, OnFailure::Wait, OnFailure::End]),
        });
        let stops = |chance: &mut Chance| chance.one_in(8).then(|| chance.time(300));
        let (finish, cancel) = (stops(&mut chance), stops(&mut chance));
        let mut plan = Plan {
            shards: shards as u32,
            concurrency,
            trials: 1 + chance.below(2) as u32,
            cases: Vec::new(),
            services,
            fates,
            bank,
            finish,
            cancel,
        };
        plan.cases = plan.name_cases(cases, &mut chance);
        plan
    }

    /// Cases, of which enough are in the shard that asks for everything.
    fn name_cases(&self, count: usize, chance: &mut Chance) -> Vec<String> {
        let mut cases: Vec<String> =
            (0..count).map(|at| format!("case-{at}{}", if chance.one_in(3) { "-big" } else { "" })).collect();
        let in_probe = |case: &String| shard_of(&case.parse().expect("an id"), self.shards) == PROBE;
        let more = (0..).map(|at| format!("probe-{at}-big")).filter(in_probe);
        cases.extend(more.take(self.concurrency as usize));
        cases
    }

    pub(crate) fn all_cases(&self) -> impl Iterator<Item = Value> {
        self.cases.iter().map(|id| {
            let tags = if id.ends_with("-big") { json!(["big"]) } else { json!([]) };
            json!({"id": id, "prompt": [{"role": "user", "content": "why?"}], "tags": tags})
        })
    }

    /// The shards that have something to do.
    pub(crate) fn busy_shards(&self) -> BTreeSet<u32> {
        self.cases.iter().map(|case| shard_of(&case.parse().expect("an id"), self.shards)).collect()
    }

    /// The names of the tokens that a variant needs.
    pub(crate) fn tokens(&self, variant: &str) -> &'static [&'static str] {
        match variant {
            "a" if self.bank.is_some() => &["gateway", "wiki-key"],
            "b" if self.bank.is_some() => &["gateway"],
            _ => &[],
        }
    }

    /// What a trial uses of what there is too little of.
    pub(crate) fn uses(&self, trial: &TrialKey) -> Vec<&'static str> {
        let all: &[&'static str] = match trial.variant.as_str() {
            "a" => &["models", "wiki", "desk"],
            "b" => &["models"],
            _ => &[],
        };
        let big: &[&'static str] = if trial.case.as_str().ends_with("-big") { &["gpu"] } else { &[] };
        all.iter().chain(big).filter(|name| self.services.contains_key(*name)).copied().collect()
    }

    /// How many trials that use everything may start at once where nobody else does anything.
    pub(crate) fn room(&self) -> u32 {
        let of = |service: &Service| {
            let starts = service.starts_per_minute.unwrap_or(u32::MAX);
            service.concurrency.unwrap_or(u32::MAX).min(starts)
        };
        self.services.values().map(of).min().unwrap_or(u32::MAX).min(self.concurrency)
    }

    /// What the eval says beyond its cases.
    pub(crate) fn eval(&self) -> Value {
        let tokens = |variant| json!(self.tokens(variant));
        let mut eval = json!({
            "variants": [
                {"id": "a", "client": {"kind": "echo", "providers": ["models"], "servers": ["wiki"], "tokens": tokens("a")}},
                {"id": "b", "client": {"kind": "echo", "providers": ["models"], "tokens": tokens("b")}},
                {"id": "c", "client": {"kind": "echo"}},
            ],
            "deadlines": {"machine": "60s"},
        });
        if self.bank.is_some() {
            eval["tokens"] =
                json!({"gateway": {"env": "NOBODY_READS_THIS"}, "wiki-key": {"env": "NOR_THIS"}});
        }
        let (mut limits, mut capacity) = (json!({}), Vec::new());
        for (name, service) in &self.services {
            let limit = service.concurrency;
            match *name {
                "gpu" => capacity.push(json!({"key": "gpu", "limit": limit, "tags": ["big"]})),
                "desk" => capacity.push(json!({"key": "desk", "limit": limit, "variants": ["a"]})),
                _ => {
                    let kind = if *name == "models" { "providers" } else { "servers" };
                    let mut said = json!({});
                    if let Some(limit) = limit {
                        said["concurrency"] = json!(limit);
                    }
                    if let Some(starts) = service.starts_per_minute {
                        said["starts_per_minute"] = json!(starts);
                    }
                    limits[kind] = json!({ *name: said });
                }
            }
        }
        eval["limits"] = limits;
        eval["capacity"] = json!(capacity);
        eval
    }
}

fn services(chance: &mut Chance) -> BTreeMap<&'static str, Service> {
    let mut services = BTreeMap::new();
    for (name, paced) in [("models", true), ("wiki", true), ("desk", false), ("gpu", false)] {
        if chance.one_in(3) {
            continue;
        }
        let at_a_time = Some(1 + chance.below(4) as u32);
        let per_minute = (paced && chance.one_in(2)).then(|| 4 + chance.below(12) as u32);
        let both = per_minute.is_none() || chance.one_in(2);
        let service = Service::of(at_a_time.filter(|_| both), per_minute);
        services.insert(name, service);
    }
    services
}

fn fate(chance: &mut Chance, concurrency: u32, many: bool) -> Fate {
    let when = chance.time(120);
    let end = match chance.below(10) {
        0 => End::Dies(when, chance.one_in(2)),
        1 => End::Doubles(chance.below(3)),
        2 => End::Repeats(2 + chance.below(8) as u64),
        3 => End::AsksAndGoes(1 + chance.below(4)),
        _ => End::Well,
    };
    let late = if many { 1 } else { 20 };
    Fate {
        starts_after: if chance.one_in(2) { Duration::ZERO } else { chance.time(late) },
        start_fails: chance.one_in(20),
        way: Way {
            up_ms: chance.pick(&[0, 0, 30, 4000]),
            down_ms: 0,
            dies: chance.one_in(12).then_some(when),
        },
        end,
        busy: 1 + chance.below(concurrency as usize),
        heeds: !chance.one_in(4),
        takes: chance.pick(&[1, 12, 60]),
        leaves_after: if chance.one_in(2) { Duration::ZERO } else { chance.time(60) },
        loses: chance.one_in(10).then(|| chance.below(4)),
    }
}
