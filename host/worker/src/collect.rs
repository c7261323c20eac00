//! `collect`: a worker's life. It greets, asks leave for each trial, does it, and says so.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mst_model::bundle::{Bundle, CaseWork, Planned, ThisMachine};
use mst_model::eval::Client;
use mst_model::outcome::Status;
use mst_model::{Case, Digest, TrialKey, VariantId};
use mst_protocol::{
    FromCoordinator, FromWorker, InFlight, Lines as WireLines, Numbered, PROTOCOL, TrialDone, Uses, Work,
    encode,
};
use mst_store::{ResultsDir, StoreError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client;
use crate::trial::{ClientEnvironment, TrialRunner};

/// How often a worker says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A worker that could not go on. What it finished is on its disk and was said.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Its bundle can't be read.
    #[error("can't read the bundle `{path}`")]
    Bundle {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its results can't be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The way to the coordinator broke.
    #[error("the way to the coordinator broke")]
    Channel(#[source] io::Error),
    /// The coordinator said what is no message.
    #[error("the coordinator broke the protocol: {0}")]
    Protocol(String),
    /// The host failed.
    #[error("mst failed: {0}")]
    Host(String),
}

/// Where a worker works.
#[derive(Debug, Clone)]
pub struct Place {
    /// The bundle's directory.
    pub bundle: PathBuf,
    /// Where transcripts go.
    pub results: PathBuf,
    /// Where workspaces are made; on local disk, and not below the results.
    pub scratch: PathBuf,
    /// What clients find around them.
    pub environment: ClientEnvironment,
    /// This worker's version of mst.
    pub mst: String,
}

/// Does the bundle's trials, speaking mst.shard/v1 over `from` and `to`.
pub async fn collect(
    place: Place,
    from: impl AsyncRead + Send + Unpin + 'static,
    to: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), CollectError> {
    let bundle = read_bundle(&place.bundle)?;
    let work = WorkLines::open(&place.bundle)?;
    let results = ResultsDir::open(&place.results)?;
    let runner = TrialRunner::new(
        bundle.run.clone(),
        bundle.shard,
        bundle.clients.clone(),
        bundle.deadlines.clone(),
        place.environment.clone(),
        place.scratch.clone(),
    );
    let (say, said) = mpsc::channel(64);
    let shared = Arc::new(Shared {
        grants: Mutex::default(),
        in_flight: Mutex::default(),
        stop: CancellationToken::new(),
        kill: CancellationToken::new(),
        unclean: AtomicBool::new(false),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(write(to, said));
    tasks.spawn(listen(from, shared.clone()));
    tasks.spawn(beat(say.clone(), shared.clone()));
    let hello = FromWorker::Hello {
        protocol: PROTOCOL.to_owned(),
        mst: place.mst.clone(),
        shard: bundle.shard,
        work: Work::Collect,
        image: this_machine(&place.bundle)?.and_then(|machine| machine.image).map(|image| image.digest),
        clients: bundle
            .clients
            .iter()
            .map(|(variant, client)| (variant.clone(), client::info(client.kind)))
            .collect(),
    };
    let trials = Trials {
        bundle: place.bundle.as_path().into(),
        uses: bundle.clients.iter().map(|(variant, client)| (variant.clone(), uses(client))).collect(),
        runner: Arc::new(runner),
        results,
        shared: shared.clone(),
        say: say.clone(),
    };
    let working = async {
        tell(&say, hello).await?;
        let ended = trials.run(work, bundle.concurrency.max(1) as usize).await?;
        let clean = !shared.unclean.load(Ordering::Relaxed);
        tell(&say, FromWorker::Done { trials: ended, clean }).await
    };
    // Both tasks end only when the channel does; a channel that breaks ends the worker.
    let result = tokio::select! {
        result = working => result,
        broken = first_failure(&mut tasks) => Err(broken),
    };
    shared.kill.cancel();
    drop((trials, say));
    if result.is_ok() {
        // The last lines are still to be written.
        while let Some(ended) = tasks.join_next().await {
            if matches!(ended, Ok(Ok(Ended::Wrote))) {
                break;
            }
        }
    }
    result
}

/// How a task of the channel ended.
enum Ended {
    /// Everything that was to be said is written.
    Wrote,
    /// The coordinator has no more to say.
    Heard,
    /// Nobody waits for heartbeats any more.
    Beat,
}

async fn first_failure(tasks: &mut JoinSet<Result<Ended, CollectError>>) -> CollectError {
    loop {
        match tasks.join_next().await {
            Some(Ok(Err(error))) => return error,
            Some(Ok(Ok(Ended::Heard))) => {
                return CollectError::Channel(io::ErrorKind::UnexpectedEof.into());
            }
            Some(Ok(Ok(Ended::Wrote | Ended::Beat))) => {}
            Some(Err(error)) => return CollectError::Host(error.to_string()),
            None => std::future::pending().await,
        }
    }
}

struct Shared {
    /// Trials that wait for their `granted`.
    grants: Mutex<BTreeMap<TrialKey, oneshot::Sender<()>>>,
    in_flight: Mutex<BTreeMap<TrialKey, (Instant, u64)>>,
    /// Nothing new starts.
    stop: CancellationToken,
    /// What runs is ended.
    kill: CancellationToken,
    /// Something could not be cleaned up after a trial.
    unclean: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn tell(say: &mpsc::Sender<FromWorker>, message: FromWorker) -> Result<(), CollectError> {
    say.send(message).await.map_err(|_| CollectError::Channel(io::ErrorKind::BrokenPipe.into()))
}

/// Numbers messages and writes them, in the order in which they were said.
async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut said: mpsc::Receiver<FromWorker>,
) -> Result<Ended, CollectError> {
    let mut seq = 0;
    while let Some(message) = said.recv().await {
        seq += 1;
        let line = encode(&Numbered { seq, message });
        let line = line.map_err(|error| CollectError::Protocol(error.to_string()))?;
        to.write_all(&line).await.map_err(CollectError::Channel)?;
        to.flush().await.map_err(CollectError::Channel)?;
    }
    Ok(Ended::Wrote)
}

async fn beat(say: mpsc::Sender<FromWorker>, shared: Arc<Shared>) -> Result<Ended, CollectError> {
    let mut ticks = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shared.kill.cancelled() => return Ok(Ended::Beat),
        }
        let room =
            say.reserve().await.map_err(|_| CollectError::Channel(io::ErrorKind::BrokenPipe.into()))?;
        // Looked at and said in one step: a trial that ends meanwhile is said after it.
        let in_flight = locked(&shared.in_flight);
        let trials = in_flight.iter().map(|(trial, (since, deadline_ms))| InFlight {
            trial: trial.clone(),
            age_ms: since.elapsed().as_millis() as u64,
            deadline_ms: *deadline_ms,
        });
        room.send(FromWorker::Heartbeat { trials: trials.collect() });
    }
}

async fn listen(mut from: impl AsyncRead + Unpin, shared: Arc<Shared>) -> Result<Ended, CollectError> {
    let mut lines = WireLines::hidden();
    let mut buffer = vec![0; 16 << 10];
    let broke = |error: mst_protocol::FrameError| CollectError::Protocol(error.to_string());
    loop {
        let read = from.read(&mut buffer).await.map_err(CollectError::Channel)?;
        if read == 0 {
            return Ok(Ended::Heard);
        }
        lines.push(&buffer[..read]).map_err(broke)?;
        while let Some(message) = lines.next::<FromCoordinator>().map_err(broke)? {
            match message {
                FromCoordinator::Tokens { .. } => {
                    return Err(CollectError::Protocol("`tokens`, which were not asked for".to_owned()));
                }
                FromCoordinator::Granted { trial } => {
                    let waiting = locked(&shared.grants).remove(&trial);
                    let waiting = waiting.ok_or_else(|| {
                        CollectError::Protocol(format!("`granted` for {trial}, which did not ask"))
                    })?;
                    // A trial that was stopped meanwhile waits no more.
                    let _ = waiting.send(());
                }
                FromCoordinator::Cancel { grace_ms, .. } => {
                    shared.stop.cancel();
                    if let Some(grace_ms) = grace_ms {
                        let kill = shared.kill.clone();
                        tokio::spawn(async move {
                            tokio::time::sleep(Duration::from_millis(grace_ms)).await;
                            kill.cancel();
                        });
                    }
                }
            }
        }
    }
}

struct Trials {
    bundle: Arc<Path>,
    uses: BTreeMap<VariantId, Uses>,
    runner: Arc<TrialRunner>,
    results: ResultsDir,
    shared: Arc<Shared>,
    say: mpsc::Sender<FromWorker>,
}

impl Trials {
    /// Does the work in its order, `concurrency` trials at a time; says how many ended.
    async fn run(&self, mut work: WorkLines, concurrency: usize) -> Result<u64, CollectError> {
        let room = Arc::new(Semaphore::new(concurrency));
        let mut running: JoinSet<Result<bool, CollectError>> = JoinSet::new();
        let mut ended = 0;
        let mut count = |done: Result<Result<bool, CollectError>, tokio::task::JoinError>| {
            let done = done.map_err(|error| CollectError::Host(error.to_string()))??;
            ended += u64::from(done);
            Ok::<(), CollectError>(())
        };
        'work: while let Some(CaseWork { sha256, trials, case }) = work.next()? {
            let case = Arc::new(case);
            for planned in trials {
                let permit = tokio::select! {
                    permit = room.clone().acquire_owned() => permit.map_err(|error| CollectError::Host(error.to_string()))?,
                    () = self.shared.stop.cancelled() => break 'work,
                };
                while let Some(done) = running.try_join_next() {
                    count(done)?;
                }
                let Some(waited) = self.acquire(&case, &planned).await? else { break 'work };
                let one = One {
                    bundle: self.bundle.clone(),
                    runner: self.runner.clone(),
                    results: self.results.clone(),
                    shared: self.shared.clone(),
                    say: self.say.clone(),
                };
                let case = case.clone();
                running.spawn(async move {
                    let done = one.run(&case, sha256, &planned, waited).await;
                    drop(permit);
                    done
                });
            }
        }
        while let Some(done) = running.join_next().await {
            count(done)?;
        }
        Ok(ended)
    }

    /// Asks leave for a trial, and says how long that took; none where the run is being stopped.
    async fn acquire(&self, case: &Case, planned: &Planned) -> Result<Option<Duration>, CollectError> {
        let asked = Instant::now();
        let trial = key(case, planned);
        let (grant, granted) = oneshot::channel();
        locked(&self.shared.grants).insert(trial.clone(), grant);
        let uses = self.uses.get(&planned.variant).cloned().unwrap_or_default();
        tell(&self.say, FromWorker::Acquire { trial, uses }).await?;
        tokio::select! {
            // A grant that came is used, or the coordinator would wait for its trial.
            biased;
            granted = granted => granted.map(|()| Some(asked.elapsed())).map_err(|_| CollectError::Host("a grant was lost".to_owned())),
            () = self.shared.stop.cancelled() => Ok(None),
        }
    }
}

fn key(case: &Case, planned: &Planned) -> TrialKey {
    TrialKey { case: case.id.clone(), variant: planned.variant.clone(), index: planned.index }
}

/// One trial.
struct One {
    bundle: Arc<Path>,
    runner: Arc<TrialRunner>,
    results: ResultsDir,
    shared: Arc<Shared>,
    say: mpsc::Sender<FromWorker>,
}

impl One {
    /// Does it, keeps it and says so; false where it was ended before its time, and is missing.
    async fn run(
        &self,
        case: &Case,
        sha256: Digest,
        planned: &Planned,
        waited: Duration,
    ) -> Result<bool, CollectError> {
        let trial = key(case, planned);
        let deadline = self.runner.client_deadline(case);
        locked(&self.shared.in_flight).insert(trial.clone(), (Instant::now(), deadline.as_millis() as u64));
        let stage = self.results.stage()?;
        let run =
            self.runner.run(case, sha256, &planned.variant, planned.index, planned.attempt, stage.dir());
        let transcript = tokio::select! {
            transcript = run => Some(transcript.map_err(|error| CollectError::Host(crate::whole(&error)))?),
            () = self.shared.kill.cancelled() => None,
        };
        locked(&self.shared.in_flight).remove(&trial);
        let Some(mut transcript) = transcript else { return Ok(false) };
        transcript.spent.waited_ms = waited.as_millis() as u64;
        let status = transcript.outcome.status;
        // Where the machine is being taken away under it, a trial is missing and not broken.
        if status == Status::Error && !self.bundle.exists() {
            let source = io::Error::new(io::ErrorKind::NotFound, "it is gone");
            return Err(CollectError::Bundle { path: self.bundle.to_path_buf(), source });
        }
        self.shared.unclean.fetch_or(transcript.outcome.cleanup.is_some(), Ordering::Relaxed);
        let committed = tokio::task::spawn_blocking(move || stage.commit(&transcript))
            .await
            .map_err(|error| CollectError::Host(error.to_string()))??;
        let path = committed
            .dir
            .strip_prefix(self.results.path())
            .map_err(|error| CollectError::Host(error.to_string()))?;
        let done = TrialDone {
            trial,
            status,
            path: path.to_string_lossy().into_owned(),
            size_bytes: committed.size_bytes,
            sha256: committed.sha256,
        };
        tell(&self.say, FromWorker::Trial(done)).await?;
        Ok(true)
    }
}

fn uses(client: &Client) -> Uses {
    Uses { providers: client.providers.clone(), servers: client.servers.clone() }
}

/// The machine that the bundle lies on, where its runner made one.
fn this_machine(dir: &Path) -> Result<Option<ThisMachine>, CollectError> {
    let path = dir.join(ThisMachine::FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read
            .and_then(|bytes| Ok(Some(serde_json::from_slice(&bytes)?)))
            .map_err(|source| CollectError::Bundle { path, source }),
    }
}

fn read_bundle(dir: &Path) -> Result<Bundle, CollectError> {
    let path = dir.join(Bundle::FILE);
    let read = || -> io::Result<Bundle> {
        let bundle: Bundle = serde_json::from_slice(&std::fs::read(&path)?)?;
        if bundle.schema != Bundle::SCHEMA {
            let what = format!("its schema is `{}`, this mst reads `{}`", bundle.schema, Bundle::SCHEMA);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(bundle)
    };
    read().map_err(|source| CollectError::Bundle { path: path.clone(), source })
}

/// `work.jsonl`, a case at a time: a bundle of a million cases is never held whole.
struct WorkLines {
    path: PathBuf,
    lines: Lines<BufReader<File>>,
}

impl WorkLines {
    fn open(dir: &Path) -> Result<WorkLines, CollectError> {
        let path = dir.join(Bundle::WORK_FILE);
        match File::open(&path) {
            Ok(file) => Ok(WorkLines { path, lines: BufReader::new(file).lines() }),
            Err(source) => Err(CollectError::Bundle { path, source }),
        }
    }

    fn next(&mut self) -> Result<Option<CaseWork>, CollectError> {
        let line = self.lines.next().transpose();
        line.and_then(|line| Ok(line.map(|line| serde_json::from_str(&line)).transpose()?))
            .map_err(|source| CollectError::Bundle { path: self.path.clone(), source })
    }
}
