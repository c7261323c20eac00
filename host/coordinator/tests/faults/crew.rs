//! Workers, as something that starts them sees them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use mst_worker::collect::Place;
use mst_worker::trial::ClientEnvironment;
use tokio::io::{AsyncRead, AsyncWrite, duplex, split};
use tokio::task::JoinHandle;

use crate::pipe::{Break, Ear, Gag, Heard, Mouth};
use crate::worker::{Lie, Script, Worker};

/// Who works.
#[derive(Debug, Clone)]
pub(crate) enum Who {
    /// A script.
    Script(Script),
    /// mst's own worker, with the client `echo`.
    Real,
}

/// How the transcripts of a shard fail to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fetch {
    Fails,
    Hangs,
    Slow(Duration),
    Torn,
    Panics,
    /// There is no room for them on this side.
    NoRoom,
}

/// How a machine fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Machine {
    CreateHangs,
    /// It comes so long after it was asked for, whether anybody waits for it or not.
    CreateLate(Duration),
    CreateSlow(Duration),
    CreateFails,
    CreateFailsAfter,
    CreatePanicsAfter,
    OtherName,
    DestroyFails,
    DestroyHangs,
    DestroyPanics,
    CopyFails,
    CopyHangs,
    OtherArchitecture,
    Babbles,
    ProbeHangs,
    ProbeFails,
    WorkerDoesNotStart,
}

/// How a runner fails, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Breaks {
    StartPanics,
    StartPanicsLate,
    StartHangs,
    StartFails,
    EndFails,
    EndPanics,
}

/// All that a shard meets.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    pub(crate) who: Who,
    pub(crate) ear: Option<Break>,
    pub(crate) gag: Option<Gag>,
    /// Of the how manieth.
    pub(crate) fetch: Option<(Fetch, usize)>,
    pub(crate) machine: Option<Machine>,
    pub(crate) runner: Option<Breaks>,
}

impl Shard {
    pub(crate) fn healthy() -> Shard {
        Shard {
            who: Who::Script(Script::honest()),
            ear: None,
            gag: None,
            fetch: None,
            machine: None,
            runner: None,
        }
    }

    pub(crate) fn script(script: Script) -> Shard {
        Shard { who: Who::Script(script), ..Shard::healthy() }
    }

    pub(crate) fn real() -> Shard {
        Shard { who: Who::Real, ..Shard::healthy() }
    }

    /// Whether it goes on for ever unless it is cancelled.
    pub(crate) fn is_deaf(&self) -> bool {
        matches!(&self.who, Who::Script(Script { lie: Some((Lie::Deaf, _)), .. }))
    }

    pub(crate) fn on(machine: Machine) -> Shard {
        Shard { machine: Some(machine), ..Shard::healthy() }
    }
}

type Ended = Pin<Box<dyn Future<Output = Result<(), String>> + Send + Sync>>;

/// A worker that runs.
pub(crate) struct Running {
    pub(crate) from: Box<dyn AsyncRead + Send + Sync + Unpin>,
    pub(crate) to: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// Dropped, it ends the worker.
    pub(crate) ended: Ended,
}

/// Starts the worker of a shard.
pub(crate) fn begin(shard: &Shard, heard: Heard, bundle: PathBuf, results: PathBuf) -> Running {
    let (ours, theirs) = duplex(64 << 10);
    let (from, to) = split(theirs);
    let worker = match &shard.who {
        Who::Script(script) => tokio::spawn(Worker::new(script.clone(), bundle, results, from, to).work()),
        Who::Real => tokio::spawn(real(bundle, results, from, to)),
    };
    let (from, to) = split(ours);
    Running {
        from: Box::new(Ear::new(from, shard.ear, heard)),
        to: Box::new(Mouth { inner: to, fault: shard.gag, said: 0 }),
        ended: Box::pin(OnDrop(worker)),
    }
}

async fn real(
    bundle: PathBuf,
    results: PathBuf,
    from: impl AsyncRead + Send + Unpin + 'static,
    to: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), String> {
    let scratch = results.with_extension("scratch");
    let tokens = vec![results.with_extension("tokens")];
    let environment = ClientEnvironment {
        path: String::new(),
        home: String::new(),
        vars: BTreeMap::new(),
        base_dir: scratch.clone(),
    };
    let place = Place { bundle, results, scratch, environment, tokens, mst: "0.1.0".to_owned() };
    mst_worker::collect::collect(place, from, to).await.map_err(|error| error.to_string())
}

struct OnDrop(JoinHandle<Result<(), String>>);

impl Future for OnDrop {
    type Output = Result<(), String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| ended.map_err(|error| error.to_string())?)
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
