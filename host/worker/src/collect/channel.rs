//! The way to the coordinator and back: what is said is numbered and written in one order, what is
//! heard goes to whom it is for.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mst_model::TrialKey;
use mst_protocol::{FromCoordinator, FromWorker, InFlight, Lines, Numbered, Token, encode};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::CollectError;

/// How often a worker says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How a task of the channel ended.
pub(super) enum Ended {
    /// Everything that was to be said is written.
    Wrote,
    /// Nobody takes what is said any more.
    Mute(io::Error),
    /// The coordinator has no more to say.
    Heard,
    /// Nobody waits for heartbeats any more, or for tokens.
    Beat,
}

pub(super) async fn first_failure(tasks: &mut JoinSet<Result<Ended, CollectError>>) -> CollectError {
    loop {
        match tasks.join_next().await {
            Some(Ok(Err(error))) => return error,
            Some(Ok(Ok(Ended::Heard))) => {
                return CollectError::Channel(io::ErrorKind::UnexpectedEof.into());
            }
            Some(Ok(Ok(Ended::Mute(error)))) => return CollectError::Channel(error),
            Some(Ok(Ok(Ended::Wrote | Ended::Beat))) => {}
            Some(Err(error)) => return CollectError::Host(error.to_string()),
            None => std::future::pending().await,
        }
    }
}

pub(super) struct Shared {
    /// Tokens that came.
    given: mpsc::Sender<Vec<Token>>,
    /// Whether tokens were asked for, and have not come.
    pub(super) needs: AtomicBool,
    /// What is said of trials that asked leave.
    answers: mpsc::Sender<Answer>,
    pub(super) in_flight: Mutex<BTreeMap<TrialKey, (Instant, u64)>>,
    /// Nothing new starts.
    pub(super) stop: CancellationToken,
    /// What runs is ended.
    pub(super) kill: CancellationToken,
    /// Something could not be cleaned up after a trial.
    pub(super) unclean: AtomicBool,
    /// A trial was ended before its time: what became of its processes is still to be seen.
    pub(super) cut: AtomicBool,
}

/// What the coordinator says of a trial that asked leave.
pub(super) enum Answer {
    /// It may start.
    Granted(TrialKey),
    /// It waits for what others hold.
    Waits(TrialKey),
}

/// What is heard from the coordinator.
pub(super) struct Heard {
    /// Tokens.
    pub(super) tokens: mpsc::Receiver<Vec<Token>>,
    /// Of trials that asked leave.
    pub(super) answers: mpsc::Receiver<Answer>,
}

impl Shared {
    pub(super) fn new() -> (Arc<Shared>, Heard) {
        let (give, tokens) = mpsc::channel(1);
        let (answer, answers) = mpsc::channel(64);
        let shared = Shared {
            answers: answer,
            given: give,
            needs: AtomicBool::new(false),
            in_flight: Mutex::default(),
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            unclean: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        };
        (Arc::new(shared), Heard { tokens, answers })
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) async fn tell(say: &mpsc::Sender<FromWorker>, message: FromWorker) -> Result<(), CollectError> {
    say.send(message).await.map_err(|_| CollectError::Channel(io::ErrorKind::BrokenPipe.into()))
}

/// Numbers messages and writes them, in the order in which they were said.
pub(super) async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut said: mpsc::Receiver<FromWorker>,
) -> Result<Ended, CollectError> {
    let mut seq = 0;
    while let Some(message) = said.recv().await {
        seq += 1;
        let line = encode(&Numbered { seq, message });
        let line = line.map_err(|error| CollectError::Protocol(error.to_string()))?;
        let written = async {
            to.write_all(&line).await?;
            to.flush().await
        };
        if let Err(error) = written.await {
            return Ok(Ended::Mute(error));
        }
    }
    Ok(Ended::Wrote)
}

pub(super) async fn beat(say: mpsc::Sender<FromWorker>, shared: Arc<Shared>) -> Result<Ended, CollectError> {
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
pub(super) async fn listen(
    mut from: impl AsyncRead + Unpin,
    shared: Arc<Shared>,
) -> Result<Ended, CollectError> {
    let mut lines = Lines::hidden();
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
                // Who would hear it may be done: then it comes too late to matter.
                FromCoordinator::Granted { trial } => {
                    let _ = shared.answers.send(Answer::Granted(trial)).await;
                }
                FromCoordinator::Waits { trial } => {
                    let _ = shared.answers.send(Answer::Waits(trial)).await;
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
