//! The coordinator with simulated workers: how many messages a second one core takes, and in how
//! much memory. The workers live on a thread of their own, and the coordinator's processor time is
//! its thread's. Nothing is stored: every transcript is refused as soon as it is asked for, so that
//! what is measured is planning and talking; `trial_cost` has the storing. Each measurement has a
//! process of its own, so that its largest resident size is its own too.

mod common;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use common::{mib, ms, peak_rss, row, thread_cpu, times};
use mst_coordinator::{Event, Events, Options, Results, Runner, RunnerError, Session, ShardSpec, Stop};
use mst_model::bundle::{Bundle, CaseWork};
use mst_model::eval::Eval;
use mst_model::outcome::Status;
use mst_model::run::{Collect, Identity, Policy, RunRecord, RunnerUse};
use mst_model::transcript::ClientInfo;
use mst_model::{Digest, TrialKey};
use mst_protocol::{
    FromCoordinator, FromWorker, Lines, Numbered, PROTOCOL, TrialDone, Uses, Work, decode, encode,
};
use mst_store::RunDir;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;

const SHARDS: u32 = 1000;
const TRIALS: [u64; 2] = [100_000, 1_000_000];
const VARIANTS: u64 = 2;
/// Trials at a time, on each machine.
const CONCURRENCY: u32 = 4;
const VERSION: &str = "0.1.0";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, child, dir] = &args[..]
        && child == "child"
    {
        return self::child(Path::new(dir));
    }
    println!("coordinator: {SHARDS} simulated workers, {CONCURRENCY} trials at a time on each");
    for trials in TRIALS {
        let root = tempfile::tempdir().expect("a directory");
        let dir = make(root.path(), trials);
        let bare = codec(trials);
        let mut command = Command::new(std::env::current_exe().expect("this bench"));
        let output = command.arg("child").arg(&dir).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).expect("text");
        let numbers: Vec<u64> =
            said.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        let [plan, plan_wall, talk, talk_wall, messages, before, rss] = numbers[..] else { panic!("{said}") };
        let time = Duration::from_nanos;
        let rate = |time: Duration| format!("{:.0}/s", messages as f64 / time.as_secs_f64());
        println!("\n  {trials} trials, {messages} messages");
        row("messages, on one core", rate(time(talk)), "goal ≥ 100,000/s");
        row("baseline: the codec alone, on one core", rate(bare), &times(time(talk), bare));
        row("processor time of the talk, on the clock", ms(time(talk)), &ms(time(talk_wall)));
        row("planning, processor time, on the clock", ms(time(plan)), &ms(time(plan_wall)));
        row("largest resident size", mib(rss), &format!("goal ≤ 200 MB; {} before", mib(before)));
    }
}

/// A run with so many trials, of which none is there.
fn make(root: &Path, trials: u64) -> PathBuf {
    let id: mst_model::RunId = "20261130-015240-k3f9".parse().expect("a run's name");
    let run = RunDir::create(root, &id).expect("creates");
    let mut writer = run.write_cases().expect("begins");
    for case in 0..trials / VARIANTS {
        let case = json!({
            "id": format!("case-{case}"),
            "prompt": [{"role": "user", "content": "What is to be done here, and by whom?"}],
        });
        writer.push(&serde_json::from_value(case).expect("a case")).expect("adds");
    }
    let cases = writer.finish().expect("finishes");
    let variants: Vec<_> = (0..VARIANTS).map(|n| json!({"id": format!("variant-{n}")})).collect();
    let eval = Eval::read(&json!({
        "dataset": {"plugin": "mst/dataset/jsonl"},
        "judges": [{"plugin": "mst/judge/text"}],
        "client": {"kind": "echo"},
        "variants": variants,
    }));
    let eval = eval.expect("an eval");
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
        policy: Policy::default(),
        collect: Collect::Running,
    };
    run.write_record(&record).expect("writes");
    run.path().to_owned()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn child(dir: &Path) {
    let run = Arc::new(RunDir::open_write(dir).expect("opens"));
    let record = run.read_record().expect("reads");
    // The workers and whoever hears of the run, elsewhere.
    let (say, elsewhere) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = runtime();
        say.send(runtime.handle().clone()).expect("waited for");
        runtime.block_on(std::future::pending::<()>());
    });
    let elsewhere = elsewhere.recv().expect("it starts");
    let (events, mut happened) = mpsc::unbounded_channel();
    let (planned, when_planned) = std::sync::mpsc::channel();
    let listening = elsewhere.spawn(async move {
        let mut started = 0_u64;
        while let Some(event) = happened.recv().await {
            match event {
                Event::Planned { .. } => planned.send(()).expect("waited for"),
                Event::TrialStarted { .. } => started += 1,
                _ => {}
            }
        }
        started
    });
    let before = peak_rss();
    let (wall, cpu) = (Instant::now(), process_cpu());
    let mut at_plan = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let runner = Arc::new(Simulated { elsewhere, begun: std::sync::OnceLock::new(), wall, cpu });
    let asked = runner.clone();
    let (collected, ended) = runtime().block_on(async {
        let (stop, options) = (Stop::default(), Options { concurrency: CONCURRENCY, ..Options::default() });
        let collected = mst_coordinator::collect(&run, &record, asked, options, &stop, &Events(events)).await;
        (collected.expect("it collects"), thread_cpu())
    });
    when_planned.recv().expect("it was planned");
    if let Some((wall, cpu, thread)) = runner.begun.get() {
        at_plan = (*wall, *cpu, *thread);
    }
    let talk_wall = wall.elapsed() - at_plan.0;
    let started = runtime().block_on(listening).expect("it listens");
    assert_eq!((started, collected.missing), (record.trials, record.trials), "each was started");
    // An `acquire`, a `granted` and a `trial` each; a `hello` and a `done` a shard.
    let messages = 3 * record.trials + 2 * u64::from(SHARDS);
    let nanos = |time: Duration| time.as_nanos();
    println!(
        "{} {} {} {} {messages} {before} {}",
        nanos(at_plan.1),
        nanos(at_plan.0),
        nanos(ended - at_plan.2),
        nanos(talk_wall),
        peak_rss()
    );
}

/// Processor time of all threads of this process.
fn process_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("an account");
    let after_name = stat.rsplit_once(')').expect("a name").1;
    let ticks =
        after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks"));
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Starts workers that do nothing but say so.
struct Simulated {
    elsewhere: Handle,
    /// When the first worker was asked for: the time, the process's and this thread's processor
    /// time until then.
    begun: std::sync::OnceLock<(Duration, Duration, Duration)>,
    wall: Instant,
    cpu: Duration,
}

#[async_trait]
impl Runner for Simulated {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        self.begun.get_or_init(|| (self.wall.elapsed(), process_cpu() - self.cpu, thread_cpu()));
        let (ours, theirs) = duplex(8 << 10);
        let (bundle, shard) = (spec.bundle.clone(), spec.shard);
        let worker = self.elsewhere.spawn(async move { work(theirs, &bundle, shard).await });
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

/// A worker's side of the talk.
async fn work(channel: DuplexStream, bundle: &Path, shard: u32) -> io::Result<()> {
    let (mut from, mut to) = split(channel);
    let work = BufReader::new(std::fs::File::open(bundle.join(Bundle::WORK_FILE))?);
    let mut trials = work.lines().flat_map(|line| {
        let CaseWork { trials, case, .. } = serde_json::from_str(&line.expect("reads")).expect("work");
        let key = move |trial: mst_model::bundle::Planned| TrialKey {
            case: case.id.clone(),
            variant: trial.variant,
            index: trial.index,
        };
        trials.into_iter().map(key)
    });
    let mut seq = 0;
    let mut say = |out: &mut Vec<u8>, message| {
        seq += 1;
        out.extend_from_slice(&encode(&Numbered { seq, message }).expect("fits"));
    };
    let (mut out, mut read, mut ended) = (Vec::new(), vec![0; 4096], 0);
    say(&mut out, hello(shard));
    loop {
        let now: Vec<TrialKey> = trials.by_ref().take(CONCURRENCY as usize).collect();
        for trial in &now {
            say(&mut out, acquire(trial.clone()));
        }
        if now.is_empty() {
            say(&mut out, FromWorker::Done { trials: ended, clean: true });
        }
        to.write_all(&out).await?;
        out.clear();
        let mut waiting = now.len();
        while waiting > 0 {
            let size = from.read(&mut read).await?;
            if size == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            waiting -= read[..size].iter().filter(|byte| **byte == b'\n').count();
        }
        if now.is_empty() {
            return Ok(());
        }
        ended += now.len() as u64;
        for trial in now {
            say(&mut out, done(trial));
        }
    }
}

fn hello(shard: u32) -> FromWorker {
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

fn acquire(trial: TrialKey) -> FromWorker {
    FromWorker::Acquire { trial, uses: Uses::default() }
}

fn done(trial: TrialKey) -> FromWorker {
    FromWorker::Trial(TrialDone {
        path: format!("trials/{}.{}.{}", trial.case, trial.variant, trial.index),
        trial,
        status: Status::Completed,
        size_bytes: 700,
        sha256: Digest::of(b"a transcript"),
    })
}

/// The same messages through the codec and nothing else: those of the workers read, the
/// coordinator's written.
fn codec(trials: u64) -> Duration {
    let key = |n: u64| TrialKey {
        case: format!("case-{}", n / VARIANTS).parse().expect("an id"),
        variant: format!("variant-{}", n % VARIANTS).parse().expect("an id"),
        index: 0,
    };
    const BATCH: u64 = 1000;
    let (mut spent, mut seq, mut seen) = (Duration::ZERO, 0, 0);
    let mut lines = Lines::default();
    for first in (0..trials).step_by(BATCH as usize) {
        let batch = first..first + BATCH;
        let mut bytes = Vec::new();
        for message in batch.clone().flat_map(|n| [acquire(key(n)), done(key(n))]) {
            seq += 1;
            bytes.extend_from_slice(&encode(&Numbered { seq, message }).expect("fits"));
        }
        let granted: Vec<_> = batch.map(|n| FromCoordinator::Granted { trial: key(n) }).collect();
        let before = thread_cpu();
        // As they come from a pipe.
        for piece in bytes.chunks(4096) {
            lines.push(piece).expect("lines");
            while let Some(line) = lines.next_line() {
                seen += decode::<Numbered>(&line).expect("a message").seq;
            }
        }
        for message in &granted {
            seen += encode(message).expect("fits").len() as u64;
        }
        spent += thread_cpu() - before;
    }
    assert!(seen > 0);
    spent
}
