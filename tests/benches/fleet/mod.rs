//! A run on a disk, and workers of it that do nothing but talk.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mst_coordinator::{Results, Runner, RunnerError, Session, ShardSpec};
use mst_model::bundle::{Bundle, CaseWork};
use mst_model::eval::Eval;
use mst_model::outcome::Status;
use mst_model::run::{Collect, Identity, Policy, RunRecord, RunnerUse};
use mst_model::transcript::ClientInfo;
use mst_model::{Digest, TrialKey};
use mst_protocol::{FromWorker, PROTOCOL, TrialDone, Uses, Work};
use mst_store::RunDir;
use serde_json::json;
use tokio::io::{DuplexStream, duplex, split};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::common::{peak_rss, thread_cpu};

pub(crate) const SHARDS: u32 = 1000;
pub(crate) const VARIANTS: u64 = 2;
/// Trials at a time, on each machine.
pub(crate) const CONCURRENCY: u32 = 4;
pub(crate) const VERSION: &str = "0.1.0";

/// What a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Cases and variants.
    Plain,
    /// A seed, limits of two services and two pools too; there is room for everybody.
    Limited,
}

impl Kind {
    pub(crate) fn uses(self) -> Uses {
        let name = |name: &str| [name.parse().expect("a name")].into();
        match self {
            Kind::Plain => Uses::default(),
            Kind::Limited => Uses { providers: name("models"), servers: name("wiki") },
        }
    }
}

/// A run with so many trials, of which none is there.
pub(crate) fn make(root: &Path, trials: u64, kind: Kind) -> PathBuf {
    let id: mst_model::RunId = "20261130-015240-k3f9".parse().expect("a run's name");
    let run = RunDir::create(root, &id).expect("creates");
    let mut writer = run.write_cases().expect("begins");
    for case in 0..trials / VARIANTS {
        let case = json!({
            "id": format!("case-{case}"),
            "prompt": [{"role": "user", "content": "What is to be done here, and by whom?"}],
            "tags": if kind == Kind::Limited && case % 3 == 0 { vec!["big"] } else { Vec::new() },
        });
        writer.push(&serde_json::from_value(case).expect("a case")).expect("adds");
    }
    let cases = writer.finish().expect("finishes");
    let variants: Vec<_> = (0..VARIANTS).map(|n| json!({"id": format!("variant-{n}")})).collect();
    let mut eval = json!({
        "dataset": {"plugin": "mst/dataset/jsonl"},
        "judges": [{"plugin": "mst/judge/text"}],
        "client": {"kind": "echo"},
        "variants": variants,
    });
    if kind == Kind::Limited {
        eval["client"] = json!({"kind": "echo", "providers": ["models"], "servers": ["wiki"]});
        eval["limits"] = json!({
            "providers": {"models": {"concurrency": 100_000, "starts_per_minute": 1_000_000}},
            "servers": {"wiki": {"concurrency": 100_000}},
        });
        eval["capacity"] = json!([
            {"key": "gpu", "limit": 100_000, "tags": ["big"]},
            {"key": "desk", "limit": 100_000, "variants": ["variant-0"]},
        ]);
    }
    let eval = Eval::read(&eval).expect("an eval");
    let record = RunRecord {
        schema: RunRecord::SCHEMA.to_owned(),
        id,
        created_at: "2026-11-30T01:52:40Z".parse().expect("a time"),
        mst: VERSION.parse().expect("a version"),
        eval_file: None,
        plugins: Vec::new(),
        identity: Identity::new(&eval, &cases, &[]).expect("an identity"),
        trials,
        cases,
        eval,
        runner: RunnerUse { id: "bench".to_owned(), options: BTreeMap::new(), shards: SHARDS },
        shards: Vec::new(),
        policy: Policy { seed: if kind == Kind::Limited { 7 } else { 0 }, ..Policy::default() },
        collect: Collect::Running,
    };
    run.write_record(&record).expect("writes");
    run.path().to_owned()
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// Processor time of all threads of this process.
pub(crate) fn process_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("an account");
    let after_name = stat.rsplit_once(')').expect("a name").1;
    let ticks =
        after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks"));
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// The trials of a bundle, as they are read.
pub(crate) fn trials(bundle: &Path) -> io::Result<impl Iterator<Item = TrialKey> + use<>> {
    // Small, as all that a simulated worker has: it lives in the process that is measured.
    let work = BufReader::with_capacity(1 << 10, std::fs::File::open(bundle.join(Bundle::WORK_FILE))?);
    Ok(work.lines().flat_map(|line| {
        let CaseWork { trials, case, .. } = serde_json::from_str(&line.expect("reads")).expect("work");
        let key = move |trial: mst_model::bundle::Planned| TrialKey {
            case: case.id.clone(),
            variant: trial.variant,
            index: trial.index,
        };
        trials.into_iter().map(key)
    }))
}

/// Starts workers that do nothing but say so.
pub(crate) struct Simulated<W> {
    pub(crate) elsewhere: Handle,
    /// What a worker does.
    pub(crate) work: W,
    /// When the first worker was asked for: the time, the process's and this thread's processor
    /// time until then, and the largest resident size.
    pub(crate) begun: std::sync::OnceLock<(Duration, Duration, Duration, u64)>,
    pub(crate) wall: Instant,
    pub(crate) cpu: Duration,
}

#[async_trait]
impl<W, F> Runner for Simulated<W>
where
    W: Fn(DuplexStream, PathBuf, u32) -> F + Send + Sync,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        self.begun.get_or_init(|| (self.wall.elapsed(), process_cpu() - self.cpu, thread_cpu(), peak_rss()));
        let (ours, theirs) = duplex(8 << 10);
        let worker = self.elsewhere.spawn((self.work)(theirs, spec.bundle.clone(), spec.shard));
        let (from, to) = split(ours);
        Ok(Session {
            from_worker: Box::new(from),
            to_worker: Box::new(to),
            results: Arc::new(Refused),
            ended: Box::pin(async move {
                worker.await.map_err(io::Error::other).flatten().map_err(|error| error.to_string())
            }),
            machine: None,
        })
    }
}

struct Refused;

#[async_trait]
impl Results for Refused {
    async fn fetch(&self, _: &str) -> io::Result<PathBuf> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) fn hello(shard: u32) -> FromWorker {
    let client = || ClientInfo { name: "echo".to_owned(), version: None };
    let clients = (0..VARIANTS).map(|n| (format!("variant-{n}").parse().expect("an id"), client()));
    FromWorker::Hello {
        protocol: PROTOCOL.to_owned(),
        mst: VERSION.to_owned(),
        shard,
        work: Work::Collect,
        image: None,
        clients: clients.collect(),
    }
}

pub(crate) fn acquire(trial: TrialKey, uses: Uses) -> FromWorker {
    FromWorker::Acquire { trial, uses }
}

pub(crate) fn done(trial: TrialKey) -> FromWorker {
    FromWorker::Trial(TrialDone {
        path: format!("trials/{}.{}.{}", trial.case, trial.variant, trial.index),
        trial,
        status: Status::Completed,
        size_bytes: 700,
        sha256: Digest::of(b"a transcript"),
    })
}
