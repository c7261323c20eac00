//! What a worker announced, on its way into the run: fetched, checked, and moved to its place.

use std::io::{self, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use mst_model::case::check_path;
use mst_protocol::TrialDone;
use mst_store::Expected;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::door::Seat;
use crate::drive::Driver;
use crate::event::Event;
use crate::guard::guarded;
use crate::runner::{Results, RunnerError};

/// With less room than this, in bytes, there is none.
const ROOM: usize = 1 << 20;

/// How long a trial may be on its way here.
const FETCH: Duration = Duration::from_secs(900);

/// A trial that a worker said is on its disk, and what it must be.
pub(crate) struct Announced {
    pub(crate) done: TrialDone,
    pub(crate) expected: Expected,
}

/// Why a trial that was announced is not in the run.
pub(crate) struct Unkept {
    pub(crate) why: String,
    /// Whether no other can be kept either: this machine has no room, or the runner is not granted to
    /// bring any.
    nor_others: bool,
}

impl Driver {
    /// Keeps what was announced, in its order, until there is no more. One that can't be kept is
    /// missing, and takes no other with it; the first such says why the shard is broken.
    pub(crate) async fn keep(
        &self,
        results: &dyn Results,
        mut announced: UnboundedReceiver<Announced>,
        seat: &Seat,
        over: &CancellationToken,
        full: &CancellationToken,
    ) -> Result<(), String> {
        let mut kept = Ok(());
        while let Some(announced) = announced.recv().await {
            let stored = self.store(results, announced, over).await;
            seat.arrive();
            if stored.as_ref().is_err_and(|unkept| unkept.nor_others) {
                full.cancel();
            }
            kept = kept.and(stored.map_err(|unkept| unkept.why));
        }
        kept
    }

    /// Fetches a trial, checks it and moves it into the run.
    pub(crate) async fn store(
        &self,
        results: &dyn Results,
        announced: Announced,
        over: &CancellationToken,
    ) -> Result<(), Unkept> {
        let Announced { done: TrialDone { trial, path, .. }, expected } = announced;
        let unkept = |what: String| Unkept { why: what, nor_others: false };
        check_path(&path).map_err(|error| unkept(format!("`trial` for {trial}: {error}")))?;
        let lost = |why: &str| format!("the transcript of {trial} can't be fetched: {why}");
        let fetched = tokio::select! {
            biased;
            () = over.cancelled() => return Err(unkept(lost("the run was cancelled"))),
            fetched = timeout(FETCH, guarded(results.fetch(&path))) => match fetched {
                Ok(Ok(fetched)) => fetched,
                Ok(Err(panic)) => return Err(unkept(lost(&panic))),
                Err(_) => return Err(unkept(lost(&format!("it was not here within {} s", FETCH.as_secs())))),
            },
        };
        let from = match fetched {
            Ok(from) => from,
            Err(error) => {
                let runners = error.get_ref().and_then(|error| error.downcast_ref::<RunnerError>());
                if let Some(denied) = runners.filter(|error| !error.denials.is_empty()) {
                    return Err(Unkept { why: lost(&self.why(denied)), nor_others: true });
                }
                let nor_others = self.no_room(&error).await;
                return Err(Unkept { why: lost(&error.to_string()), nor_others });
            }
        };
        let (run, staging, key) = (self.run.clone(), self.staging.clone(), trial.clone());
        let synced = results.are_synced();
        // This one is not given up: nothing may be removed around it while it is under way.
        let kept = tokio::task::spawn_blocking(move || {
            let kept = match synced {
                true => run.adopt_synced(&key, &from, &expected),
                false => run.adopt(&key, &from, &expected),
            };
            drop(staging);
            kept
        });
        match kept.await {
            Ok(Ok(transcript)) => {
                // As the transcript has it, which was checked, and not as the worker said it.
                let status = transcript.outcome.status;
                self.tally.stored.fetch_add(1, Ordering::Relaxed);
                self.events.say(Event::TrialStored { trial, status });
                Ok(())
            }
            Ok(Err(error)) => Err(Unkept {
                why: format!("the transcript of {trial} can't be kept: {}", whole(&error)),
                nor_others: error.no_room(),
            }),
            Err(error) => Err(unkept(format!("mst failed while it kept the transcript of {trial}: {error}"))),
        }
    }

    /// Whether a transcript did not come because there is no room for it here. What a runner's
    /// program says it says in its own words: then this side tries for itself.
    async fn no_room(&self, error: &io::Error) -> bool {
        if error.kind() != io::ErrorKind::Other {
            return mst_store::no_room(error);
        }
        let staging = self.staging.clone();
        let tried = tokio::task::spawn_blocking(move || {
            let mut file = tempfile::tempfile_in(staging.path())?;
            file.write_all(&vec![0; ROOM])?;
            file.sync_data()
        });
        matches!(tried.await, Ok(Err(error)) if mst_store::no_room(&error))
    }
}

/// An error with its causes, on one line.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
