//! A run that is collected, and what must hold however that went.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mst_coordinator::machines::{Keep, OnMachines, Staging};
use mst_coordinator::plan::shard_of;
use mst_coordinator::vault::Vault;
use mst_coordinator::whole::OnShards;
use mst_coordinator::{Collected, Event, Events, Notes, Options, Runner, Stop};
use mst_model::ledger::{MachineState, MachineStatus};
use mst_model::run::{Collect, RunRecord, ShardEnding};
use mst_model::{Digest, TrialKey};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::bench::Bench;
use crate::cloud::Cloud;
use crate::crew::{Fetch, Shard, Who};
use crate::pipe::{Break, Heard};
use crate::shards::{Counted, Counts, Here};

/// When nobody can say any more that it is only slow.
const AT_LAST: Duration = Duration::from_secs(4 * 3600);

/// How a run is collected.
#[derive(Debug, Clone)]
pub(crate) struct How {
    /// On machines, which are kept so; or here.
    pub(crate) machines: Option<Keep>,
    /// Whether the runner carries whole shards there.
    pub(crate) whole: bool,
    pub(crate) concurrency: u32,
    /// When nothing new is to start.
    pub(crate) finish: Option<Duration>,
    /// When what runs is to be ended.
    pub(crate) cancel: Option<Duration>,
    /// Where tokens come from.
    pub(crate) vault: Vault,
    /// Whether tokens that are needed can't be had.
    pub(crate) poor: bool,
}

impl How {
    pub(crate) fn here() -> How {
        How {
            machines: None,
            whole: false,
            concurrency: 1,
            finish: None,
            cancel: None,
            vault: Vault::default(),
            poor: false,
        }
    }

    pub(crate) fn on_machines() -> How {
        How { machines: Some(Keep::Never), ..How::here() }
    }

    pub(crate) fn whole() -> How {
        How { whole: true, ..How::on_machines() }
    }
}

/// What collecting came to, as far as a person sees it.
pub(crate) struct Seen {
    pub(crate) collected: Collected,
    pub(crate) events: Vec<Event>,
    /// How many trials were stored.
    pub(crate) stored: usize,
    /// What the ledger says of the machines that were made for it.
    pub(crate) ledger: Vec<MachineState>,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Seen {
    /// How the only shard ended.
    pub(crate) fn ending(&self) -> &ShardEnding {
        self.collected.shards[0].ending.as_ref().expect("it ended")
    }

    /// Why the only shard broke.
    #[track_caller]
    pub(crate) fn why(&self) -> &str {
        match self.ending() {
            ShardEnding::Broken { why } => why,
            other => panic!("the shard did not break: {other:?}"),
        }
    }

    pub(crate) fn troubles(&self) -> Vec<&str> {
        fn trouble(event: &Event) -> Option<&str> {
            match event {
                Event::Trouble { what, .. } => Some(what),
                _ => None,
            }
        }
        self.events.iter().filter_map(trouble).collect()
    }
}

impl Bench {
    /// A run of so many cases, each asked so often, in so many shards.
    pub(crate) fn new(cases: usize, trials: u32, shards: u32) -> Bench {
        Bench::of(cases, trials, shards, &json!({}))
    }

    /// The same, of an eval with more in it.
    pub(crate) fn of(cases: usize, trials: u32, shards: u32, more: &serde_json::Value) -> Bench {
        let case = |at| json!({"id": format!("case-{at}"), "prompt": [{"role": "user", "content": "why?"}]});
        Bench::with((0..cases).map(case), trials, shards, more)
    }

    pub(crate) fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Collects the run with these shards, and holds the outcome to what must hold of any.
    pub(crate) async fn collect(&self, shards: Vec<Shard>, how: How) -> Seen {
        let before = self.stored();
        let machines_before = self.dir().machines().expect("reads").len();
        let began = tokio::time::Instant::now();
        let run = Arc::new(self.open_write());
        let shards: Vec<(Shard, Heard)> = shards.into_iter().map(|shard| (shard, Heard::default())).collect();
        assert_eq!(shards.len() as u32, self.record.runner.shards);
        let executable = self.root().join("mst");
        std::fs::write(&executable, "an executable").expect("writes");
        let cloud = Cloud::new(self.root().join("machines"), self.path.clone(), shards.clone());
        let inner: Arc<dyn Runner> = match how.machines {
            None => Arc::new(Here(shards.clone())),
            Some(keep) if how.whole => Arc::new(OnShards::new(
                Arc::new(cloud.clone()),
                Notes(run.ledger().expect("opens")),
                keep,
                Staging::new(executable, Vec::new()),
            )),
            Some(keep) => Arc::new(OnMachines::new(
                Arc::new(cloud.clone()),
                Notes(run.ledger().expect("opens")),
                keep,
                Staging::new(executable, Vec::new()),
                "0.1.0".to_owned(),
            )),
        };
        let counts = Counts::default();
        let faults = shards.iter().map(|(shard, _)| shard.runner).collect();
        let runner = Arc::new(Counted { inner, faults, counts: counts.clone() });

        let stop = Stop::default();
        for (token, when) in [(&stop.finish, how.finish), (&stop.cancel, how.cancel)] {
            let Some(when) = when else { continue };
            let token = token.clone();
            tokio::spawn(async move {
                sleep(when).await;
                token.cancel();
            });
        }
        let (say, mut said) = mpsc::unbounded_channel();
        let say = Events::to(move |event| drop(say.send(event)));
        let options =
            Options { concurrency: how.concurrency, vault: how.vault.clone(), retry: Default::default() };
        let collecting = mst_coordinator::collect(&run, &self.record, runner, options, &stop, &say);
        let collected = timeout(AT_LAST, collecting).await.expect("it returns").expect("it collects");
        let took = began.elapsed();
        let events: Vec<Event> = std::iter::from_fn(|| said.try_recv().ok()).collect();

        let stored = self.stored();
        let seen = Seen {
            collected,
            events,
            stored: stored.len() - before.len(),
            ledger: self.dir().machines().expect("reads").split_off(machines_before),
            took,
        };
        self.check_trials(&before, &stored, &seen, &shards);
        self.check_shards(&stored, &seen, &shards, &how);
        self.check_what_was_announced(&before, &stored, &shards, &how);
        for (shard, (starts, ends)) in counts.lock().expect("locks").iter() {
            assert_eq!((*starts, *ends), (1, 1), "shard {shard} is started and ended once");
        }
        if let Some(keep) = how.machines {
            drop(run);
            self.check_machines(&seen, &cloud, keep, &how).await;
        }
        seen
    }

    /// No trial is lost, doubled or invented.
    fn check_trials(
        &self,
        before: &BTreeMap<TrialKey, Digest>,
        stored: &BTreeMap<TrialKey, Digest>,
        seen: &Seen,
        shards: &[(Shard, Heard)],
    ) {
        let planned = self.planned();
        let mut told = Vec::new();
        let mut started = BTreeSet::new();
        for event in &seen.events {
            match event {
                Event::Planned { trials, .. } => assert_eq!(*trials as usize, planned.len() - before.len()),
                Event::TrialStarted { trial } => {
                    assert!(started.insert(trial.clone()), "{trial} starts once")
                }
                Event::TrialStored { trial, .. } => told.push(trial.clone()),
                _ => {}
            }
        }
        told.sort();
        let new: Vec<_> = stored.keys().filter(|key| !before.contains_key(*key)).cloned().collect();
        assert_eq!(told, new, "what was said to be stored is what is stored");
        assert!(started.iter().all(|key| !before.contains_key(key)), "what is stored is not done again");
        assert!(new.iter().all(|key| started.contains(key)), "nothing is stored that was not let start");
        for (key, digest) in before {
            assert_eq!(stored.get(key), Some(digest), "{key} stays as it was");
        }
        let mut announced = BTreeSet::new();
        for (_, heard) in shards {
            announced.extend(trials_in(&heard.lock().expect("locks")));
        }
        for key in &new {
            assert!(announced.contains(&(key.clone(), stored[key])), "{key} was announced as it is");
        }
        let missing = planned.len() - stored.len();
        assert_eq!(seen.collected.missing as usize, missing);
        assert_eq!(seen.collected.collect == Collect::Complete, missing == 0);
    }

    fn check_shards(
        &self,
        stored: &BTreeMap<TrialKey, Digest>,
        seen: &Seen,
        shards: &[(Shard, Heard)],
        how: &How,
    ) {
        assert_eq!(seen.collected.shards.len(), shards.len());
        let count = shards.len() as u32;
        let planned = self.planned();
        for (record, (shard, _)) in seen.collected.shards.iter().zip(shards) {
            let mine = planned.iter().filter(|key| shard_of(&key.case, count) == record.index);
            let whole = mine.into_iter().all(|key| stored.contains_key(key));
            let ending = record.ending.clone().expect("it ended");
            match &ending {
                ShardEnding::Complete => assert!(whole, "a shard that is complete has all"),
                ShardEnding::Cancelled => assert!(how.finish.or(how.cancel).is_some(), "somebody stopped it"),
                ShardEnding::Broken { why } => {
                    assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}");
                }
            }
            let well = shard.ear.is_none()
                && shard.gag.is_none()
                && shard.fetch.is_none()
                && shard.machine.is_none()
                && shard.runner.is_none()
                && match &shard.who {
                    Who::Real => true,
                    Who::Script(script) => script.lie.is_none() && script.noise <= 64,
                };
            if well && !how.poor && !self.is_full() && how.finish.or(how.cancel).is_none() {
                assert_eq!(ending, ShardEnding::Complete, "no other shard's fault is its own");
            }
        }
        let ended = seen.events.iter().filter(|event| matches!(event, Event::ShardEnded { .. })).count();
        assert_eq!(ended, shards.len());
    }

    /// Whatever broke: what a worker announced before it is stored.
    fn check_what_was_announced(
        &self,
        before: &BTreeMap<TrialKey, Digest>,
        stored: &BTreeMap<TrialKey, Digest>,
        shards: &[(Shard, Heard)],
        how: &How,
    ) {
        for (shard, heard) in shards {
            let spoils = match &shard.who {
                Who::Script(script) => script.lie.is_some_and(|(lie, _)| lie.spoils()),
                Who::Real => false,
            };
            // Some that were announced can't be kept, or are given up.
            let given_up = (how.cancel.is_some() || how.whole) && shard.fetch.is_some();
            if spoils || given_up || self.is_full() || matches!(shard.ear, Some(Break::Garble(_))) {
                continue;
            }
            let lost = shard.fetch.filter(|(fetch, _)| !matches!(fetch, Fetch::Slow(_))).map(|(_, at)| at);
            let mut good = BTreeSet::new();
            let heard = heard.lock().expect("locks");
            for (at, (key, digest)) in trials_in(&heard).into_iter().enumerate() {
                if good.insert(key.clone())
                    && lost != Some(at)
                    && !before.contains_key(&key)
                    && self.planned().contains(&key)
                {
                    let granted = format!(
                        r#""type":"acquire","trial":{}"#,
                        serde_json::to_string(&key).expect("writes")
                    );
                    if !String::from_utf8_lossy(&heard).contains(&granted) {
                        break;
                    }
                    assert_eq!(stored.get(&key), Some(&digest), "{key} was announced and is lost");
                }
            }
        }
    }

    /// No machine is left that nobody knows of.
    async fn check_machines(&self, seen: &Seen, cloud: &Cloud, keep: Keep, how: &How) {
        let there = cloud.there();
        for state in &seen.ledger {
            let ending = seen.collected.shards[state.shard as usize].ending.clone();
            match &state.status {
                MachineStatus::Destroyed => assert!(!there.contains(&state.machine), "it is gone: {state:?}"),
                MachineStatus::Kept { .. } => {
                    let failed = matches!(ending, Some(ShardEnding::Broken { .. }));
                    assert!(keep == Keep::Always || (keep == Keep::Failed && failed), "{state:?}");
                    assert!(there.contains(&state.machine) || how.whole, "what is kept is there");
                }
                MachineStatus::Intended | MachineStatus::Created => {
                    assert!(state.destroy_failed.is_some(), "it was to go: {state:?}");
                    let said = seen.troubles().iter().any(|what| what.contains(&state.machine));
                    assert!(said, "a person hears of it: {:?}", seen.troubles());
                }
            }
        }
        // Whatever was still on its way there has come.
        sleep(AT_LAST).await;
        let known: BTreeSet<_> = seen.ledger.iter().map(|state| state.machine.clone()).collect();
        let alive: BTreeSet<_> =
            seen.ledger.iter().filter(|state| state.may_exist()).map(|state| state.machine.clone()).collect();
        assert!(cloud.ever().is_subset(&known), "each has its intent");
        assert!(cloud.there().is_subset(&alive), "{:?} are there, {alive:?} may be", cloud.there());
    }

    /// The trials of a case can't be written, as if the disk were full.
    pub(crate) fn fill_disk(&self, case: usize) {
        let dir = self.path.join(format!("trials/case-{case}"));
        std::fs::create_dir_all(&dir).expect("makes");
        std::os::unix::fs::symlink("nowhere", dir.join("a")).expect("links");
    }

    fn in_the_way(&self) -> Option<PathBuf> {
        let cases = std::fs::read_dir(self.path.join("trials")).ok()?;
        cases.flatten().map(|case| case.path().join("a")).find(|path| path.is_symlink())
    }

    fn is_full(&self) -> bool {
        self.in_the_way().is_some()
    }

    /// Collects what is missing with a runner that is well: it must become complete.
    pub(crate) async fn resume(&self, how: &How) -> Seen {
        if let Some(path) = self.in_the_way() {
            std::fs::remove_file(path).expect("removes");
        }
        let missing = self.planned().len() - self.stored().len();
        let shards = vec![Shard::healthy(); self.record.runner.shards as usize];
        let seen = self.collect(shards, How { finish: None, cancel: None, ..how.clone() }).await;
        assert_eq!(seen.collected.collect, Collect::Complete);
        assert_eq!(seen.stored, missing, "only what is missing is done again");
        seen
    }
}

/// The trials that a worker announced, in their order, as far as its words make sense.
fn trials_in(bytes: &[u8]) -> Vec<(TrialKey, Digest)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut greeted = false;
    let mut trials = Vec::new();
    for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
        match mst_protocol::decode::<mst_protocol::Numbered>(line.trim_ascii_end()) {
            Ok(message) => {
                greeted = true;
                if let mst_protocol::FromWorker::Trial(done) = message.message {
                    trials.push((done.trial, done.sha256));
                }
            }
            Err(_) if greeted => break,
            Err(_) => {}
        }
    }
    trials
}
