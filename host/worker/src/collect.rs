//! `collect`: a worker's life. It greets, asks leave for each trial, does it, and says so.

use std::collections::{BTreeMap, BTreeSet};
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
    FromCoordinator, FromWorker, InFlight, Lines as WireLines, Need, Numbered, PROTOCOL, Token, TrialDone,
    Uses, Work, encode,
};
use mst_store::{ResultsDir, StoreError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::tokens::{PlaceError, TokenDir, Tokens};
use crate::trial::{ClientEnvironment, TrialRunner};
use crate::version;

/// How often a worker says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How long a worker waits at its end for what it ended to be gone.
const SETTLE: Duration = Duration::from_secs(3);

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
    /// Its tokens have no place.
    #[error(transparent)]
    Tokens(#[from] PlaceError),
    /// It is not known who would be asked.
    #[error("{0}")]
    Client(String),
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
    /// Where tokens may lie, the best first. The first that is fit for them is taken.
    pub tokens: Vec<PathBuf>,
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
    let infos = version::of_clients(&bundle.clients, &place.environment, &place.scratch, &place.mst);
    let infos = infos.await.map_err(CollectError::Client)?;
    let runner = TrialRunner::new(
        bundle.run.clone(),
        bundle.shard,
        bundle.clients.clone(),
        bundle.deadlines.clone(),
        place.environment.clone(),
        place.scratch.clone(),
    )
    .with_infos(infos.clone());
    let tokens = tokens(&place, &bundle)?;
    let runner = match &tokens {
        Some(tokens) => runner.with_tokens(tokens.clone()),
        None => runner,
    };
    let (say, said) = mpsc::channel(64);
    let (give, given) = mpsc::channel(1);
    let shared = Arc::new(Shared {
        given: give,
        needs: AtomicBool::new(false),
        grants: Mutex::default(),
        in_flight: Mutex::default(),
        stop: CancellationToken::new(),
        kill: CancellationToken::new(),
        unclean: AtomicBool::new(false),
        cut: AtomicBool::new(false),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(write(to, said));
    tasks.spawn(listen(from, shared.clone()));
    let renewing = tokens.clone().map(|tokens| (tokens, say.clone(), shared.clone()));
    let hello = FromWorker::Hello {
        protocol: PROTOCOL.to_owned(),
        mst: place.mst.clone(),
        shard: bundle.shard,
        work: Work::Collect,
        image: this_machine(&place.bundle)?.and_then(|machine| machine.image).map(|image| image.digest),
        clients: infos,
    };
    let trials = Arc::new(Trials {
        bundle: place.bundle.as_path().into(),
        tokens: tokens.clone(),
        uses: bundle.clients.iter().map(|(variant, client)| (variant.clone(), uses(client))).collect(),
        runner,
        results,
        shared: shared.clone(),
        say: say.clone(),
    });
    let working = async {
        tell(&say, hello).await?;
        tasks.spawn(beat(say.clone(), shared.clone()));
        if let Some((tokens, say, shared)) = renewing {
            tasks.spawn(renew(tokens, say, shared, given));
        }
        let ended = tokio::select! {
            ended = trials.run(work, bundle.concurrency.max(1) as usize) => ended?,
            broken = first_failure(&mut tasks) => return Err(broken),
        };
        // Also where that failed, it is said and no more can be done.
        let removed = remove(&tokens).await;
        let cut = shared.cut.load(Ordering::Relaxed);
        let gone = !cut || nothing_left(&place.scratch).await;
        let clean = removed.is_ok() && gone && !shared.unclean.load(Ordering::Relaxed);
        tell(&say, FromWorker::Done { trials: ended, clean }).await
    };
    // The tasks end only when the channel does; a channel that breaks ends the worker.
    let result = working.await;
    shared.kill.cancel();
    // Done already, where it went well.
    remove(&tokens).await?;
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

/// Removes the tokens, away from where others are waited for.
async fn remove(tokens: &Option<Arc<Tokens>>) -> Result<(), CollectError> {
    let Some(tokens) = tokens.clone() else { return Ok(()) };
    let removed = tokio::task::spawn_blocking(move || tokens.remove()).await;
    Ok(removed.map_err(|error| CollectError::Host(error.to_string()))??)
}

/// Whether trials that were ended before their time have left nothing: no process, and nothing in
/// `scratch`, which is theirs alone.
async fn nothing_left(scratch: &Path) -> bool {
    let scratch = scratch.to_owned();
    let looked = tokio::task::spawn_blocking(move || {
        let empty = || match std::fs::read_dir(&scratch) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let until = std::time::Instant::now() + SETTLE;
        let settled = mst_process::settle(SETTLE) == 0;
        // A workspace may be on its way out.
        while !empty() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        settled && empty()
    });
    looked.await.unwrap_or(false)
}

/// How a task of the channel ended.
enum Ended {
    /// Everything that was to be said is written.
    Wrote,
    /// The coordinator has no more to say.
    Heard,
    /// Nobody waits for heartbeats any more, or for tokens.
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
    /// Tokens that came.
    given: mpsc::Sender<Vec<Token>>,
    /// Whether tokens were asked for, and have not come.
    needs: AtomicBool,
    /// Trials that wait for their `granted`.
    grants: Mutex<BTreeMap<TrialKey, oneshot::Sender<()>>>,
    in_flight: Mutex<BTreeMap<TrialKey, (Instant, u64)>>,
    /// Nothing new starts.
    stop: CancellationToken,
    /// What runs is ended.
    kill: CancellationToken,
    /// Something could not be cleaned up after a trial.
    unclean: AtomicBool,
    /// A trial was ended before its time: what became of its processes is still to be seen.
    cut: AtomicBool,
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

/// Asks for tokens at the start, and for each again before its end.
async fn renew(
    tokens: Arc<Tokens>,
    say: mpsc::Sender<FromWorker>,
    shared: Arc<Shared>,
    mut given: mpsc::Receiver<Vec<Token>>,
) -> Result<Ended, CollectError> {
    let (mut names, mut why) = (tokens.names(), Need::Start);
    loop {
        shared.needs.store(true, Ordering::Release);
        tell(&say, FromWorker::NeedTokens { names: names.clone(), why }).await?;
        let came = loop {
            tokio::select! {
                came = given.recv() => break came,
                // They did not come in time: nobody is to hold what has ended.
                () = until(tokens.ends_at()) => tokens.forget_ended()?,
                () = shared.kill.cancelled() => return Ok(Ended::Beat),
            }
        };
        let Some(came) = came else { return Ok(Ended::Beat) };
        if came.iter().map(|token| &token.name).collect::<BTreeSet<_>>() != names.iter().collect() {
            return Err(CollectError::Protocol("`tokens`, and not those that were asked for".to_owned()));
        }
        tokens.take(came)?;
        let Some((at, due)) = tokens.next() else {
            shared.kill.cancelled().await;
            return Ok(Ended::Beat);
        };
        tokio::select! {
            () = tokio::time::sleep_until(at) => {}
            () = shared.kill.cancelled() => return Ok(Ended::Beat),
        }
        (names, why) = (due, Need::Expiring);
    }
}

/// Returns then; never, where there is no such time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
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
                FromCoordinator::Tokens { tokens } => {
                    let asked = shared.needs.swap(false, Ordering::AcqRel);
                    if !asked || shared.given.try_send(tokens).is_err() {
                        return Err(CollectError::Protocol("`tokens`, which were not asked for".to_owned()));
                    }
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
    tokens: Option<Arc<Tokens>>,
    uses: BTreeMap<VariantId, Uses>,
    runner: TrialRunner,
    results: ResultsDir,
    shared: Arc<Shared>,
    say: mpsc::Sender<FromWorker>,
}

impl Trials {
    /// Does the work in its order, `concurrency` trials at a time; says how many ended. Each asks leave
    /// for itself: one that waits for a thing that others hold lets the next ask.
    async fn run(self: &Arc<Self>, mut work: WorkLines, concurrency: usize) -> Result<u64, CollectError> {
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
                    biased;
                    () = self.shared.stop.cancelled() => break 'work,
                    permit = room.clone().acquire_owned() => permit.map_err(|error| CollectError::Host(error.to_string()))?,
                };
                while let Some(done) = running.try_join_next() {
                    count(done)?;
                }
                let (trials, case) = (self.clone(), case.clone());
                running.spawn(async move {
                    let done = match trials.acquire(&case, &planned).await? {
                        Some(waited) => trials.one(&case, sha256, &planned, waited).await,
                        None => Ok(false),
                    };
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

    /// Waits for the tokens of a variant's client; false where the run is being stopped.
    async fn good(&self, variant: &VariantId) -> bool {
        let Some(tokens) = &self.tokens else { return true };
        tokio::select! {
            biased;
            () = tokens.good(variant) => true,
            () = self.shared.stop.cancelled() => false,
        }
    }

    /// Asks leave for a trial, and says how long that took; none where the run is being stopped.
    async fn acquire(&self, case: &Case, planned: &Planned) -> Result<Option<Duration>, CollectError> {
        if !self.good(&planned.variant).await {
            return Ok(None);
        }
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

    /// Does a trial, keeps it and says so; false where it was ended before its time, and is missing.
    async fn one(
        &self,
        case: &Case,
        sha256: Digest,
        planned: &Planned,
        waited: Duration,
    ) -> Result<bool, CollectError> {
        let trial = key(case, planned);
        // A token may have come to its end while the trial waited for leave.
        if let Some(tokens) = &self.tokens {
            tokio::select! {
                biased;
                () = tokens.good(&planned.variant) => {}
                // It has not begun: nobody has to wait for a source that may never answer.
                () = self.shared.stop.cancelled() => return Ok(false),
                () = self.shared.kill.cancelled() => return Ok(false),
            }
            tokens.put_back(&planned.variant)?;
        }
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
        let Some(mut transcript) = transcript else {
            self.shared.cut.store(true, Ordering::Relaxed);
            return Ok(false);
        };
        transcript.previous = planned.previous;
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

fn key(case: &Case, planned: &Planned) -> TrialKey {
    TrialKey { case: case.id.clone(), variant: planned.variant.clone(), index: planned.index }
}

/// A place for the tokens of the bundle's clients; none where they need none.
fn tokens(place: &Place, bundle: &Bundle) -> Result<Option<Arc<Tokens>>, CollectError> {
    if bundle.tokens().is_empty() {
        return Ok(None);
    }
    let name = format!("{}-{}", bundle.run, bundle.shard);
    let dir = TokenDir::make(&place.tokens, &name, bundle.tokens_on_disk)?;
    let needs = bundle.clients.iter().map(|(variant, client)| (variant.clone(), client.tokens.clone()));
    Ok(Some(Arc::new(Tokens::new(needs.collect(), dir))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_trial_left_is_seen_at_the_end() {
        let scratch = tempfile::tempdir().expect("made");
        assert!(nothing_left(&scratch.path().join("none")).await);
        assert!(nothing_left(scratch.path()).await);
        std::fs::create_dir(scratch.path().join("work")).expect("made");
        assert!(!nothing_left(scratch.path()).await);
    }
}
