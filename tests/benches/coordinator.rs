//! The coordinator with simulated workers: how many messages a second one core takes, and in how
//! much memory; and how long an `acquire` waits for its `granted`. The workers live on a thread of their
//! own, and the coordinator's processor time is its thread's. Nothing is stored: every transcript is
//! refused as soon as it is asked for, so that what is measured is planning and talking; `trial_cost` has
//! the storing. Each measurement has a process of its own, so that its largest resident size is its own
//! too.

mod common;
mod fleet;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use common::{mib, ms, peak_rss, row, thread_cpu, times, us};
use fleet::{
    CONCURRENCY, Kind, SHARDS, Simulated, VARIANTS, acquire, done, hello, make, process_cpu, runtime, trials,
};
use mst_coordinator::{Event, Events, Options, Stop};
use mst_model::TrialKey;
use mst_protocol::{FromCoordinator, FromWorker, Lines, Numbered, decode, encode};
use mst_store::RunDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::sync::mpsc;

/// How many, and of which kind.
const RUNS: [(u64, Kind); 3] = [(100_000, Kind::Plain), (1_000_000, Kind::Plain), (1_000_000, Kind::Limited)];

/// How many trials each of them does that ask now and then.
const NOW_AND_THEN: u64 = 20;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match &args[..] {
        [_, what, dir] if what == "talk" => return self::talk(Path::new(dir)),
        [_, what, dir] if what == "ask" => return self::ask(Path::new(dir)),
        _ => {}
    }
    let time = Duration::from_nanos;
    println!("coordinator: {SHARDS} simulated workers, {CONCURRENCY} trials at a time on each");
    for (trials, kind) in RUNS {
        let root = tempfile::tempdir().expect("a directory");
        let dir = make(root.path(), trials, kind);
        let bare = codec(trials, kind);
        let [messages, plan, plan_wall, planned, talk, talk_wall, before, rss] = in_child("talk", &dir);
        let rate = |time: Duration| format!("{:.0}/s", messages as f64 / time.as_secs_f64());
        let what = if kind == Kind::Limited { ", with a seed, limits and pools" } else { "" };
        println!("\n  {trials} trials, {messages} messages{what}");
        row("messages, on one core", rate(time(talk)), "goal ≥ 100,000/s");
        row("baseline: the codec alone, on one core", rate(bare), &times(time(talk), bare));
        row("processor time of the talk, on the clock", ms(time(talk)), &ms(time(talk_wall)));
        row("planning, processor time, on the clock", ms(time(plan)), &ms(time(plan_wall)));
        row("largest resident size when it is planned", mib(planned), &format!("{} before", mib(before)));
        row("largest resident size", mib(rss), "goal ≤ 200 MB");
    }
    let root = tempfile::tempdir().expect("a directory");
    let dir = make(root.path(), NOW_AND_THEN * u64::from(SHARDS), Kind::Limited);
    let [count, p50, p99, bare, p50_bare, p99_bare] = in_child("ask", &dir);
    println!("\n  `acquire` until `granted`, with limits and pools, each of {SHARDS} about once a second");
    row("half of them within", us(time(p50)), &format!("{} of {count}", count / 2));
    row("99 of 100 within", us(time(p99)), "");
    row("baseline: somebody who says yes: half within", us(time(p50_bare)), &format!("of {bare}"));
    row("… 99 of 100 within", us(time(p99_bare)), &times(time(p99), time(p99_bare)));
}

/// The numbers that a process of its own says.
fn in_child<const N: usize>(what: &str, dir: &Path) -> [u64; N] {
    let mut command = Command::new(std::env::current_exe().expect("this bench"));
    let output = command.arg(what).arg(dir).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    let numbers: Vec<u64> = said.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{said}"))
}

/// Where the workers live, and whoever hears of the run.
fn elsewhere() -> tokio::runtime::Handle {
    let (say, elsewhere) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = runtime();
        say.send(runtime.handle().clone()).expect("waited for");
        runtime.block_on(std::future::pending::<()>());
    });
    elsewhere.recv().expect("it starts")
}

fn talk(dir: &Path) {
    let run = Arc::new(RunDir::open_write(dir).expect("opens"));
    let record = run.read_record().expect("reads");
    let kind = if record.eval.limits.is_empty() { Kind::Plain } else { Kind::Limited };
    let elsewhere = elsewhere();
    let (events, mut happened) = mpsc::unbounded_channel();
    let listening = elsewhere.spawn(async move {
        let mut started = 0_u64;
        while let Some(event) = happened.recv().await {
            started += u64::from(matches!(event, Event::TrialStarted { .. }));
        }
        started
    });
    let events = Events::to(move |event| drop(events.send(event)));
    let before = peak_rss();
    let (wall, cpu) = (Instant::now(), process_cpu());
    let work = move |channel, bundle, shard| work(channel, bundle, shard, kind);
    let runner = Arc::new(Simulated { elsewhere, work, begun: OnceLock::new(), wall, cpu });
    let asked = runner.clone();
    let (collected, ended) = runtime().block_on(async {
        let (stop, options) = (Stop::default(), Options { concurrency: CONCURRENCY, ..Options::default() });
        let collected = mst_coordinator::collect(&run, &record, asked, options, &stop, &events).await;
        (collected.expect("it collects"), thread_cpu())
    });
    let (plan_wall, plan_cpu, thread, planned) = runner.begun.get().copied().expect("a worker was started");
    let talk_wall = wall.elapsed() - plan_wall;
    let started = runtime().block_on(listening).expect("it listens");
    assert_eq!((started, collected.missing), (record.trials, record.trials), "each was started");
    // An `acquire`, a `granted` and a `trial` each; a `hello` and a `done` a shard.
    let messages = 3 * record.trials + 2 * u64::from(SHARDS);
    let nanos = |time: Duration| time.as_nanos();
    println!(
        "{messages} {} {} {planned} {} {} {before} {}",
        nanos(plan_cpu),
        nanos(plan_wall),
        nanos(ended - thread),
        nanos(talk_wall),
        peak_rss()
    );
}

/// How long workers wait who ask now and then, of the coordinator and of somebody who says yes.
fn ask(dir: &Path) {
    let run = Arc::new(RunDir::open_write(dir).expect("opens"));
    let record = run.read_record().expect("reads");
    let elsewhere = elsewhere();
    let waited = Arc::new(Mutex::new(Vec::new()));
    let samples = waited.clone();
    let work = move |channel, bundle: PathBuf, shard| now_and_then(channel, bundle, shard, samples.clone());
    let (wall, cpu) = (Instant::now(), process_cpu());
    let asked = Simulated { elsewhere: elsewhere.clone(), work, begun: OnceLock::new(), wall, cpu };
    let events = Events::to(|_| {});
    runtime().block_on(async {
        let (stop, options) = (Stop::default(), Options { concurrency: CONCURRENCY, ..Options::default() });
        let collecting = mst_coordinator::collect(&run, &record, Arc::new(asked), options, &stop, &events);
        collecting.await.expect("it collects");
    });
    let of_coordinator = of_hundred(&waited);
    // The same trials, in one bundle for all: what is in it does not matter.
    let bundle = tempfile::tempdir().expect("a directory");
    bundle_of(bundle.path(), &record.cases.count.to_string());
    let said_yes = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let mut workers = Vec::new();
        for shard in 0..SHARDS {
            let (ours, theirs) = duplex(8 << 10);
            let (samples, bundle) = (said_yes.clone(), bundle.path().to_owned());
            workers.push(elsewhere.spawn(now_and_then(theirs, bundle, shard, samples)));
            tokio::spawn(say_yes(ours));
        }
        for worker in workers {
            worker.await.expect("it works").expect("it is told");
        }
    });
    let bare = of_hundred(&said_yes);
    println!(
        "{} {} {} {} {} {}",
        of_coordinator.0, of_coordinator.1, of_coordinator.2, bare.0, bare.1, bare.2
    );
}

/// How many there are, and within which time half of them are, and 99 of 100, in nanoseconds.
fn of_hundred(waited: &Mutex<Vec<Duration>>) -> (usize, u128, u128) {
    let mut waited = std::mem::take(&mut *waited.lock().expect("locks"));
    waited.sort();
    let at = |hundredth: usize| waited[waited.len() * hundredth / 100].as_nanos();
    (waited.len(), at(50), at(99))
}

/// Work for a worker that has no coordinator.
fn bundle_of(dir: &Path, case: &str) {
    let trials: Vec<_> = (0..NOW_AND_THEN)
        .map(|index| serde_json::json!({"variant": "variant-0", "index": index, "attempt": 0}))
        .collect();
    let case = serde_json::json!({"id": format!("case-{case}"), "prompt": []});
    let sha256 = mst_model::Digest::of(b"a case");
    let line = serde_json::json!({"sha256": sha256, "trials": trials, "case": case});
    std::fs::write(dir.join(mst_model::bundle::Bundle::WORK_FILE), format!("{line}\n")).expect("writes");
}

/// Reads, and lets everybody start.
async fn say_yes(channel: DuplexStream) -> io::Result<()> {
    let (mut from, mut to) = split(channel);
    let (mut lines, mut buffer) = (Lines::default(), vec![0; 16 << 10]);
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        lines.push(&buffer[..read]).expect("lines");
        while let Some(line) = lines.next_line() {
            if let FromWorker::Acquire { trial, .. } = decode::<Numbered>(&line).expect("a message").message {
                to.write_all(&encode(&FromCoordinator::Granted { trial }).expect("fits")).await?;
            }
        }
    }
}

/// A worker that asks about once a second, and how long it waited each time.
async fn now_and_then(
    channel: DuplexStream,
    bundle: PathBuf,
    shard: u32,
    waited: Arc<Mutex<Vec<Duration>>>,
) -> io::Result<()> {
    let (mut from, mut to) = split(channel);
    let mut seq = 0;
    let mut line = |message| {
        seq += 1;
        encode(&Numbered { seq, message }).expect("fits")
    };
    to.write_all(&line(hello(shard))).await?;
    let (mut buffer, mut ended) = (vec![0; 4096], 0);
    for (at, trial) in trials(&bundle)?.enumerate() {
        // Spread evenly, and for each another.
        let pause = 500 + (u64::from(shard) * 7919 + at as u64 * 104_729) % 1000;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let ask = line(acquire(trial.clone(), Kind::Limited.uses()));
        let began = Instant::now();
        to.write_all(&ask).await?;
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if buffer[..read].ends_with(b"\n") {
                break;
            }
        }
        waited.lock().expect("locks").push(began.elapsed());
        to.write_all(&line(done(trial))).await?;
        ended += 1;
    }
    to.write_all(&line(FromWorker::Done { trials: ended, clean: true })).await
}

/// A worker's side of the talk.
async fn work(channel: DuplexStream, bundle: PathBuf, shard: u32, kind: Kind) -> io::Result<()> {
    let (mut from, mut to) = split(channel);
    let mut trials = trials(&bundle)?;
    let mut seq = 0;
    let mut say = |out: &mut Vec<u8>, message| {
        seq += 1;
        out.extend_from_slice(&encode(&Numbered { seq, message }).expect("fits"));
    };
    let (mut out, mut read, mut ended) = (Vec::new(), [0; 512], 0);
    say(&mut out, hello(shard));
    loop {
        let now: Vec<TrialKey> = trials.by_ref().take(CONCURRENCY as usize).collect();
        for trial in &now {
            say(&mut out, acquire(trial.clone(), kind.uses()));
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

/// The same messages through the codec and nothing else: those of the workers read, the
/// coordinator's written.
fn codec(trials: u64, kind: Kind) -> Duration {
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
        for message in batch.clone().flat_map(|n| [acquire(key(n), kind.uses()), done(key(n))]) {
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
