//! `collect`: a worker's life. It greets, asks leave for each trial, does it, and says so.

mod bundle;
mod channel;
mod lanes;
mod renew;
mod trials;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mst_protocol::{FromWorker, PROTOCOL, Work};
use mst_store::{ResultsDir, StoreError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::client::{Asks, InPerson};
use crate::tokens::PlaceError;
use crate::trial::{ClientEnvironment, TrialRunner};
use crate::version;

use bundle::{read_bundle, this_machine};
use channel::{Ended, Shared, beat, first_failure, listen, tell, write};
use lanes::Lanes;
use renew::{remove, renew, tokens};
use trials::{Trials, uses};

/// How long a worker waits at its end for what it ended to be gone.
const SETTLE: Duration = Duration::from_secs(3);

/// How long the last lines may take to be written once nobody says anything any more.
const LAST_WORDS: Duration = Duration::from_secs(5);

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
    collect_by(Arc::new(InPerson), place, from, to).await
}

/// The same, with these who ask the clients.
async fn collect_by(
    asks: Arc<dyn Asks>,
    place: Place,
    from: impl AsyncRead + Send + Unpin + 'static,
    to: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), CollectError> {
    let bundle = read_bundle(&place.bundle)?;
    let (dir, count) = (place.bundle.clone(), bundle.lanes);
    let lanes = tokio::task::spawn_blocking(move || Lanes::open(&dir, count)).await;
    let lanes = lanes.map_err(|error| CollectError::Host(error.to_string()))??;
    let results = ResultsDir::open(&place.results)?;
    let (say, said) = mpsc::channel(64);
    let (shared, heard) = Shared::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(write(to, said));
    tasks.spawn(listen(from, shared.clone()));
    let infos = tokio::select! {
        infos = version::of_clients(&bundle.clients, &place.environment, &place.scratch, &place.mst) => {
            infos.map_err(CollectError::Client)?
        }
        broken = first_failure(&mut tasks) => return Err(broken),
        // It will ask nobody anything.
        () = shared.stop.cancelled() => version::unasked(&bundle.clients, &place.mst),
    };
    let runner = TrialRunner::new(
        bundle.run.clone(),
        bundle.shard,
        bundle.clients.clone(),
        bundle.deadlines.clone(),
        place.environment.clone(),
        place.scratch.clone(),
    )
    .with_infos(infos.clone())
    .asked_by(asks);
    let tokens = tokens(&place, &bundle)?;
    let runner = match &tokens {
        Some(tokens) => runner.with_tokens(tokens.clone()),
        None => runner,
    };
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
            tasks.spawn(renew(tokens, say, shared, heard.tokens));
        }
        let ended = tokio::select! {
            ended = trials.run(lanes, heard.answers, bundle.concurrency.max(1) as usize) => ended?,
            broken = first_failure(&mut tasks) => return Err(broken),
        };
        // Also where that failed, it is said and no more can be done.
        let removed = remove(&tokens).await;
        let cut = shared.cut.load(Ordering::Relaxed);
        let gone = !cut || nothing_left(&place.scratch).await;
        let clean = removed.is_ok() && gone && !shared.unclean.load(Ordering::Relaxed);
        tokio::select! {
            biased;
            told = tell(&say, FromWorker::Done { trials: ended, clean }) => told,
            broken = first_failure(&mut tasks) => Err(broken),
        }
    };
    // The tasks end only when the channel does; a channel that breaks ends the worker.
    let result = working.await;
    shared.kill.cancel();
    // Done already, where it went well.
    remove(&tokens).await?;
    drop((trials, say));
    if result.is_ok() {
        last_words(&mut tasks).await?;
    }
    result
}

/// Waits until the last lines are written. The coordinator may hold the way from it open and say nothing
/// there, ever; where it says that it is gone, who takes the lines may be too.
async fn last_words(tasks: &mut JoinSet<Result<Ended, CollectError>>) -> Result<(), CollectError> {
    let mut until = None;
    loop {
        let ended = tokio::select! {
            ended = tasks.join_next() => ended,
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                return Err(CollectError::Channel(io::ErrorKind::TimedOut.into()));
            }
        };
        match ended {
            None | Some(Ok(Ok(Ended::Wrote))) => return Ok(()),
            Some(Ok(Ok(Ended::Mute(error)))) => return Err(CollectError::Channel(error)),
            Some(Ok(Ok(Ended::Heard) | Err(_))) => until = Some(Instant::now() + LAST_WORDS),
            Some(Ok(Ok(Ended::Beat)) | Err(_)) => {}
        }
    }
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

#[cfg(test)]
mod tests;
