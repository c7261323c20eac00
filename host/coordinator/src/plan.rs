//! Which trials a run still needs, and in which shard each runs: a bundle a shard.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mst_model::bundle::{Bundle, CaseWork, Planned};
use mst_model::outcome::Status;
use mst_model::run::RunRecord;
use mst_model::{CaseId, Digest, TrialKey, VariantId};
use mst_store::{RunDir, StoreError, trials_of_case};

use crate::pools::Pools;
use crate::shard::{Lane, PlannedClient};
use crate::trials::{Arms, PlannedCase, Trials};

/// How many bytes of all bundles together wait in memory until they are written.
const BUFFERED: usize = 16 << 20;

/// A shard, its bundle written.
#[derive(Debug)]
pub struct ShardPlan {
    /// Which, from 0.
    pub shard: u32,
    /// The directory of its bundle.
    pub bundle: PathBuf,
    /// Its trials.
    pub trials: Trials,
}

/// A plan that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The run can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bundle can't be written.
    #[error("can't write the bundle `{path}`")]
    Write {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The shard of a case: stable, and the same for all its trials, so that a paired comparison
/// runs on one machine.
pub fn shard_of(case: &CaseId, shards: u32) -> u32 {
    let digest = Digest::of(case.as_str().as_bytes());
    let mut head = [0; 8];
    head.copy_from_slice(&digest.as_bytes()[..8]);
    (u64::from_be_bytes(head) % u64::from(shards.max(1))) as u32
}

/// What is done about a trial, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// It has not finished: it is done.
    Missing,
    /// It has finished: it stays, whatever judges say of it.
    Kept {
        /// How it ended.
        status: Status,
    },
    /// Its instrument broke, and nobody asked to do it again.
    Broken {
        /// What broke.
        why: String,
    },
    /// Its instrument broke: it is done again, and the attempt before is kept.
    Again {
        /// What broke.
        why: String,
        /// Which attempt this is.
        attempt: u32,
        /// Of the `transcript.json` of the one before.
        previous: Digest,
    },
}

fn choose(run: &RunDir, key: &TrialKey, retry: Retry) -> Result<Choice, StoreError> {
    let Some((transcript, previous)) = run.transcript(key)? else { return Ok(Choice::Missing) };
    let status = transcript.outcome.status;
    if status != Status::Error {
        return Ok(Choice::Kept { status });
    }
    let why = transcript.outcome.error.map_or("no reason was recorded".to_owned(), |error| error.message);
    if !retry.unfinished {
        return Ok(Choice::Broken { why });
    }
    Ok(Choice::Again { why, attempt: transcript.attempt + 1, previous })
}

/// Which trials that are there are done again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retry {
    /// Those whose instrument broke.
    pub unfinished: bool,
    /// Whether somebody is to hear of each trial why it is done or not.
    pub explain: bool,
}

impl Retry {
    /// Whether finished trials are looked into; a run may have a million.
    fn looks(self) -> bool {
        self.unfinished || self.explain
    }
}

/// Where something with this name comes in the order of a seed.
fn rank(seed: u64, name: &str) -> u64 {
    let digest = Digest::of(format!("{seed}/{name}").as_bytes());
    digest.as_bytes().first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
}

/// How bundles are written.
#[derive(Debug)]
pub(crate) struct Bundling {
    /// How many trials a worker does at a time.
    pub(crate) concurrency: u32,
    pub(crate) pools: Arc<Pools>,
    pub(crate) clients: Arc<BTreeMap<VariantId, PlannedClient>>,
    pub(crate) retry: Retry,
}

/// How many lanes a shard has at the most; trials of the last may wait for each other.
const LANES: usize = 64;

/// Writes a bundle for each shard below `dir`, with the trials that have no transcript yet, in the
/// order of the run's seed: 0 is the dataset's own.
pub(crate) fn write_bundles(
    run: &RunDir,
    record: &RunRecord,
    how: &Bundling,
    chosen: impl Fn(TrialKey, Choice),
    dir: &Path,
) -> Result<Vec<ShardPlan>, PlanError> {
    let Bundling { pools, clients, retry, .. } = how;
    let arms = Arms::of(&record.eval);
    // No more than one is open at a time: there may be more shards than this process may have files.
    let room = (BUFFERED / record.runner.shards.max(1) as usize).max(4 << 10);
    let mut bundles = (0..record.runner.shards)
        .map(|shard| OpenBundle::create(shard, dir, &arms))
        .collect::<Result<Vec<_>, _>>()?;
    let seed = record.policy.seed;
    let cases = if seed == 0 { run.cases()? } else { run.cases_by(|id| rank(seed, id.as_str()))? };
    for stored in cases {
        let stored = stored?;
        let (mut missing, mut again) = (Vec::new(), BTreeMap::new());
        if retry.looks() {
            for key in trials_of_case(&record.eval, &stored.case.id) {
                let choice = choose(run, &key, *retry)?;
                match &choice {
                    Choice::Missing => missing.push(key.clone()),
                    Choice::Again { attempt, previous, .. } => {
                        again.insert(key.clone(), (*attempt, *previous));
                        missing.push(key.clone());
                    }
                    Choice::Kept { .. } | Choice::Broken { .. } => {}
                }
                chosen(key, choice);
            }
        } else {
            missing = run.missing_trials(&record.eval, &stored.case.id)?;
        }
        if missing.is_empty() {
            continue;
        }
        if seed != 0 {
            missing.sort_by_cached_key(|key| rank(seed, &key.to_string()));
        }
        let of_case = pools.of_case(&stored.case);
        let shard = shard_of(&stored.case.id, record.runner.shards);
        if let Some(bundle) = bundles.get_mut(shard as usize) {
            let trials = missing.into_iter();
            let trials: Vec<_> = trials
                .map(|key| {
                    let again = again.get(&key).copied();
                    let lane = clients.get(&key.variant).map(|client| client.lane(&of_case));
                    Planned {
                        lane: lane.map_or(0, |lane| bundle.lane(lane)),
                        attempt: again.map_or(0, |(attempt, _)| attempt),
                        previous: again.map(|(_, previous)| previous),
                        variant: key.variant,
                        index: key.index,
                    }
                })
                .collect();
            let deadline =
                stored.case.deadline_ms.map_or(record.eval.deadlines.client.0, Duration::from_millis);
            let planned = PlannedCase { sha256: stored.sha256, deadline, pools: of_case };
            bundle.plan.trials.add(stored.case.id.clone(), planned, &trials);
            bundle.push(&CaseWork { sha256: stored.sha256, trials, case: stored.case.for_client() })?;
            if bundle.lines.len() > room {
                bundle.write()?;
            }
        }
    }
    bundles.into_iter().map(|bundle| bundle.finish(record, how.concurrency)).collect()
}

struct OpenBundle {
    plan: ShardPlan,
    path: PathBuf,
    /// In the order in which they came up.
    lanes: Vec<Lane>,
    /// What is still to be written.
    lines: Vec<u8>,
}

impl OpenBundle {
    fn create(shard: u32, dir: &Path, arms: &Arc<Arms>) -> Result<OpenBundle, PlanError> {
        let bundle = dir.join(shard.to_string());
        let path = bundle.join(Bundle::WORK_FILE);
        let create = || std::fs::create_dir_all(&bundle).and_then(|()| File::create(&path));
        create().map_err(|source| PlanError::Write { path: path.clone(), source })?;
        let plan = ShardPlan { shard, bundle, trials: Trials::new(arms.clone()) };
        Ok(OpenBundle { plan, path, lanes: Vec::new(), lines: Vec::new() })
    }

    /// The number of a lane.
    fn lane(&mut self, lane: Lane) -> u32 {
        let known = self.lanes.iter().position(|known| *known == lane);
        let at = known.unwrap_or_else(|| {
            if self.lanes.len() < LANES {
                self.lanes.push(lane);
            }
            self.lanes.len() - 1
        });
        at as u32
    }

    fn push(&mut self, case: &CaseWork) -> Result<(), PlanError> {
        let pushed = serde_json::to_writer(&mut self.lines, case);
        pushed.map_err(|error| PlanError::Write { path: self.path.clone(), source: error.into() })?;
        self.lines.push(b'\n');
        Ok(())
    }

    fn write(&mut self) -> Result<(), PlanError> {
        let append = || OpenOptions::new().append(true).open(&self.path)?.write_all(&self.lines);
        append().map_err(|source| PlanError::Write { path: self.path.clone(), source })?;
        self.lines.clear();
        Ok(())
    }

    fn finish(mut self, record: &RunRecord, concurrency: u32) -> Result<ShardPlan, PlanError> {
        if !self.lines.is_empty() {
            self.write()?;
        }
        let clients = record.eval.variants.iter();
        let head = Bundle {
            schema: Bundle::SCHEMA.to_owned(),
            run: record.id.clone(),
            shard: self.plan.shard,
            concurrency,
            lanes: self.lanes.len().max(1) as u32,
            clients: clients
                .filter_map(|variant| Some((variant.id.clone(), record.eval.client_of(variant)?)))
                .collect(),
            deadlines: record.eval.deadlines.clone(),
            tokens_on_disk: record.policy.tokens_on_disk,
        };
        let path = self.plan.bundle.join(Bundle::FILE);
        let write = || std::fs::write(&path, serde_json::to_vec_pretty(&head)?);
        write().map_err(|source| PlanError::Write { path: path.clone(), source })?;
        Ok(self.plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_keeps_its_shard() {
        // Written down, so that a change of the hash is seen: a resumed run depends on it.
        let shards: Vec<u32> = ["HumanEval/0", "HumanEval/1", "HumanEval/2", "HumanEval/3", "a", "b"]
            .iter()
            .map(|id| shard_of(&id.parse().expect("id"), 4))
            .collect();
        assert_eq!(shards, [0, 0, 3, 0, 2, 2]);
        assert_eq!(shard_of(&"a".parse().expect("id"), 1), 0);
    }

    #[test]
    fn a_seed_has_its_order() {
        let order = |seed| {
            let mut names = ["a", "b", "c", "d", "e"];
            names.sort_by_key(|name| rank(seed, name));
            names.concat()
        };
        // Written down, so that a change is seen: a run that is done again starts as it did before.
        assert_eq!([order(1), order(2), order(3)], ["deabc", "caebd", "cbdae"]);
    }

    #[test]
    fn a_bundle_does_not_hold_what_is_the_judges() {
        let case =
            r#"{"id":"a","prompt":[],"tags":["t"],"expected":"the answer","metadata":{"k":"the answer"}}"#;
        let case: mst_model::Case = serde_json::from_str(case).expect("a case");
        let text = serde_json::to_string(&case.for_client()).expect("writes");
        assert_eq!(text, r#"{"id":"a","prompt":[],"tags":["t"]}"#);
    }

    #[test]
    fn cases_spread_over_shards() {
        let mut counts = [0u32; 8];
        for case in 0..8000 {
            counts[shard_of(&format!("case-{case}").parse().expect("id"), 8) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
