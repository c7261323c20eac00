//! Which trials a run still needs, and in which shard each runs: a bundle a shard.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mst_model::bundle::{Bundle, CaseWork, Planned};
use mst_model::run::RunRecord;
use mst_model::{CaseId, Digest, TrialKey};
use mst_store::{RunDir, StoreError, trials_of_case};

use crate::pools::Pools;

/// A shard, its bundle written.
#[derive(Debug)]
pub struct ShardPlan {
    /// Which, from 0.
    pub shard: u32,
    /// The directory of its bundle.
    pub bundle: PathBuf,
    /// Its trials, in dispatch order.
    pub trials: Vec<PlannedTrial>,
    /// The cases of its trials.
    pub cases: Vec<PlannedCase>,
}

/// A trial of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTrial {
    /// Which.
    pub key: TrialKey,
    /// Which attempt at it, from 0.
    pub attempt: u32,
    /// Where its case is in [`ShardPlan::cases`].
    pub case: u32,
}

/// What the plan says of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCase {
    /// Its digest.
    pub sha256: Digest,
    /// What its client may take.
    pub deadline: Duration,
    /// The pools that it uses, in the variants that do.
    pub(crate) pools: Box<[u16]>,
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

/// Where something with this name comes in the order of a seed.
fn rank(seed: u64, name: &str) -> u64 {
    let digest = Digest::of(format!("{seed}/{name}").as_bytes());
    digest.as_bytes().first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
}

/// Writes a bundle for each shard below `dir`, with the trials that have no transcript yet, in the
/// order of the run's seed: 0 is the dataset's own.
pub(crate) fn write_bundles(
    run: &RunDir,
    record: &RunRecord,
    concurrency: u32,
    pools: &Pools,
    dir: &Path,
) -> Result<Vec<ShardPlan>, PlanError> {
    let mut open = (0..record.runner.shards)
        .map(|shard| OpenBundle::create(record, shard, concurrency, dir))
        .collect::<Result<Vec<_>, _>>()?;
    let seed = record.policy.seed;
    let cases = if seed == 0 { run.cases()? } else { run.cases_by(|id| rank(seed, id.as_str()))? };
    for stored in cases {
        let stored = stored?;
        let mut missing = Vec::new();
        for key in trials_of_case(&record.eval, &stored.case.id) {
            if !run.has_trial(&key)? {
                missing.push(key);
            }
        }
        if missing.is_empty() {
            continue;
        }
        if seed != 0 {
            missing.sort_by_cached_key(|key| rank(seed, &key.to_string()));
        }
        let of_case = pools.of_case(&stored.case);
        let shard = shard_of(&stored.case.id, record.runner.shards);
        if let Some(bundle) = open.get_mut(shard as usize) {
            let deadline =
                stored.case.deadline_ms.map_or(record.eval.deadlines.client.0, Duration::from_millis);
            bundle.push(CaseWork {
                sha256: stored.sha256,
                trials: missing
                    .iter()
                    .map(|key| Planned { variant: key.variant.clone(), index: key.index, attempt: 0 })
                    .collect(),
                case: stored.case.for_client(),
            })?;
            let case = bundle.plan.cases.len() as u32;
            bundle.plan.cases.push(PlannedCase { sha256: stored.sha256, deadline, pools: of_case });
            let planned = missing.into_iter().map(|key| PlannedTrial { key, attempt: 0, case });
            bundle.plan.trials.extend(planned);
        }
    }
    open.into_iter().map(OpenBundle::finish).collect()
}

struct OpenBundle {
    plan: ShardPlan,
    path: PathBuf,
    work: BufWriter<File>,
}

impl OpenBundle {
    fn create(record: &RunRecord, shard: u32, concurrency: u32, dir: &Path) -> Result<OpenBundle, PlanError> {
        let bundle = dir.join(shard.to_string());
        let clients: BTreeMap<_, _> = record
            .eval
            .variants
            .iter()
            .filter_map(|variant| Some((variant.id.clone(), record.eval.client_of(variant)?)))
            .collect();
        let head = Bundle {
            schema: Bundle::SCHEMA.to_owned(),
            run: record.id.clone(),
            shard,
            concurrency,
            clients,
            deadlines: record.eval.deadlines.clone(),
            tokens_on_disk: record.policy.tokens_on_disk,
        };
        let write = |path: &Path| {
            std::fs::create_dir_all(&bundle)?;
            std::fs::write(bundle.join(Bundle::FILE), serde_json::to_vec_pretty(&head)?)?;
            Ok(BufWriter::new(File::create(path)?))
        };
        let path = bundle.join(Bundle::WORK_FILE);
        let work = write(&path).map_err(|source| PlanError::Write { path: path.clone(), source })?;
        Ok(OpenBundle {
            plan: ShardPlan { shard, bundle, trials: Vec::new(), cases: Vec::new() },
            path,
            work,
        })
    }

    fn push(&mut self, case: CaseWork) -> Result<(), PlanError> {
        let mut write = || {
            serde_json::to_writer(&mut self.work, &case)?;
            self.work.write_all(b"\n")
        };
        write().map_err(|source| PlanError::Write { path: self.path.clone(), source })
    }

    fn finish(mut self) -> Result<ShardPlan, PlanError> {
        self.work.flush().map_err(|source| PlanError::Write { path: self.path, source })?;
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
