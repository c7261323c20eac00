//! A run on a disk, of which nothing was collected yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mst_model::eval::Eval;
use mst_model::run::{Collect, Identity, RunRecord, RunnerUse};
use mst_model::{Digest, TrialKey};
use mst_store::{RunDir, RunWriter, StoreError};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A run on a disk.
pub(crate) struct Bench {
    root: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) record: RunRecord,
}

impl Bench {
    /// A run of these cases, each asked so often in each variant, in so many shards, of an eval with more
    /// in it.
    pub(crate) fn with(
        cases: impl IntoIterator<Item = Value>,
        trials: u32,
        shards: u32,
        more: &Value,
    ) -> Bench {
        // Syncs are half of what a run costs, and nobody cuts the power here.
        let fast = Path::new("/dev/shm");
        let root = if fast.is_dir() { tempfile::tempdir_in(fast) } else { tempfile::tempdir() };
        let root = root.expect("made");
        let id: mst_model::RunId = "20261130-015240-k3f9".parse().expect("a run's name");
        let run = RunDir::create(root.path(), &id).expect("creates");
        let mut writer = run.write_cases().expect("begins");
        for case in cases {
            writer.push(&serde_json::from_value(case).expect("a case")).expect("adds");
        }
        let set = writer.finish().expect("finishes");
        let mut eval = json!({
            "dataset": {"plugin": "mst/dataset/jsonl"},
            "judges": [{"plugin": "mst/judge/text"}],
            "client": {"kind": "echo"},
            "variants": [{"id": "a"}],
            "trials": trials,
            "deadlines": {"machine": "20s"},
        });
        for (key, value) in more.as_object().expect("an object") {
            eval[key] = value.clone();
        }
        let eval = Eval::read(&eval).expect("an eval");
        let record = RunRecord {
            schema: RunRecord::SCHEMA.to_owned(),
            id,
            created_at: "2026-11-30T01:52:40Z".parse().expect("a time"),
            mst: semver::Version::new(0, 1, 0),
            eval_file: None,
            plugins: Vec::new(),
            identity: Identity::new(&eval, &set, &[]).expect("an identity"),
            trials: set.count * u64::from(trials) * eval.variants.len() as u64,
            cases: set,
            eval,
            runner: RunnerUse { id: "test".to_owned(), options: BTreeMap::new(), shards },
            policy: Default::default(),
            shards: Vec::new(),
            collect: Collect::Running,
        };
        run.write_record(&record).expect("writes");
        let path = run.path().to_owned();
        Bench { root, path, record }
    }

    /// The run, to be written to. Nobody else writes; but a process that another test starts holds the
    /// lock too, from its fork to its exec.
    pub(crate) fn open_write(&self) -> RunWriter {
        for _ in 0..200 {
            match RunDir::open_write(&self.path) {
                Err(StoreError::Locked { .. }) => std::thread::sleep(Duration::from_millis(10)),
                opened => return opened.expect("opens"),
            }
        }
        panic!("somebody else writes");
    }

    /// All of it.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn dir(&self) -> RunDir {
        RunDir::open_read(&self.path).expect("opens")
    }

    pub(crate) fn planned(&self) -> BTreeSet<TrialKey> {
        self.dir().trials(&self.record.eval).expect("reads").collect::<Result<_, _>>().expect("reads")
    }

    /// What lies in the run, every byte of it checked.
    pub(crate) fn stored(&self) -> BTreeMap<TrialKey, Digest> {
        let run = self.dir();
        let mut stored = BTreeMap::new();
        for key in self.planned() {
            if run.has_trial(&key).expect("reads") {
                let (transcript, digest) = run.verify_trial(&key).expect("is whole");
                assert_eq!(transcript.run, self.record.id);
                stored.insert(key, digest);
            }
        }
        stored
    }
}

/// Runs a test on a clock that stands still while anything is done.
pub(crate) fn paused(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("builds")
        .block_on(test);
}
