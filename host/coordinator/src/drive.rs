//! One shard, from the start of its worker until what was set up for it is taken down.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mst_model::run::{ShardEnding, ShardRecord};
use mst_model::{Denial, VariantId};
use mst_store::RunWriter;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::collect::Stop;
use crate::converse::{AtTheDoor, Talked};
use crate::door::Door;
use crate::event::{Event, Events};
use crate::guard::guarded;
use crate::keep::Announced;
use crate::plan::ShardPlan;
use crate::runner::{Results, Runner, RunnerError, Session, ShardSpec};
use crate::shard::{Conversation, PlannedClient, Terms};
use crate::trials::Trials;
use crate::vault::Vault;

/// So many trials may be on their way while a worker does others, and as many as it does at a time where
/// that is more: they are lost with this process, and one that comes slowly holds up no other.
const BACKLOG: u32 = 4;

/// What drives a shard.
pub(crate) struct Driver {
    pub(crate) run: Arc<RunWriter>,
    /// Where results are put together. Whatever still works there holds it.
    pub(crate) staging: Arc<TempDir>,
    /// The coordinator's version.
    pub(crate) mst: String,
    /// How long a worker's start may take, and how long its `hello`.
    pub(crate) machine_time: Duration,
    /// Of each variant.
    pub(crate) clients: Arc<BTreeMap<VariantId, PlannedClient>>,
    /// Where trials ask for room.
    pub(crate) door: Arc<Door>,
    /// Where tokens come from.
    pub(crate) vault: Vault,
    /// How many trials a worker does at a time.
    pub(crate) concurrency: u32,
    /// By how much a trial may be longer than its client's deadline.
    pub(crate) beyond: Duration,
    /// How many shards may be started at a time.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) stop: Stop,
    pub(crate) events: Events,
    pub(crate) tally: Arc<Tally>,
    /// What the shard's runner was denied.
    pub(crate) denials: Mutex<Vec<Denial>>,
}

/// What all shards came to.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Trials that came into the run.
    pub(crate) stored: AtomicU64,
    /// Workers that were let begin.
    pub(crate) begun: AtomicU64,
}

/// What a runner's `start` came to.
enum Started {
    Session(Session),
    Stopped,
    Failed(String),
}

/// Trials that can be fetched only now that the runner has ended.
struct Late {
    results: Arc<dyn Results>,
    waiting: Vec<Announced>,
}

impl Driver {
    pub(crate) async fn drive(self, plan: ShardPlan, spec: ShardSpec, runner: &dyn Runner) -> ShardRecord {
        let ShardPlan { shard, trials, .. } = plan;
        let mut record = ShardRecord {
            index: shard,
            machine: None,
            image: None,
            worker_mst: None,
            clean: None,
            denials: Vec::new(),
            ending: None,
        };
        let ending = if trials.is_empty() {
            ShardEnding::Complete
        } else {
            self.run(trials, &spec, runner, &mut record).await
        };
        self.events.say(Event::ShardEnded { shard, ending: ending.clone() });
        record.denials = self.denials.into_inner().unwrap_or_else(PoisonError::into_inner);
        record.ending = Some(ending);
        record
    }

    /// Why a runner could not, for people; what it was denied is kept for the record.
    pub(crate) fn why(&self, error: &RunnerError) -> String {
        let mut kept = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        for denial in &error.denials {
            if !kept.contains(denial) {
                kept.push(denial.clone());
            }
        }
        error.message.clone()
    }

    async fn run(
        &self,
        trials: Trials,
        spec: &ShardSpec,
        runner: &dyn Runner,
        record: &mut ShardRecord,
    ) -> ShardEnding {
        // The time that others take to start is not this shard's.
        let room = tokio::select! {
            biased;
            () = self.stop.asked() => return ShardEnding::Cancelled,
            room = self.room.acquire() => room,
        };
        let started = self.start(spec, runner).await;
        drop(room);
        // What its trials hold is given back when its machine is gone, and they with it.
        let (seat, told) = self.door.enter(spec.shard, self.concurrency, self.backlog(&started));
        let (mut ending, late) = match started {
            Started::Session(session) => {
                self.talk(trials, session, AtTheDoor { seat: &seat, told }, record).await
            }
            Started::Stopped => (ShardEnding::Cancelled, None),
            Started::Failed(why) => (ShardEnding::Broken { why }, None),
        };
        let ended = guarded(runner.end(spec, &ending, &self.stop.cancel)).await;
        drop(seat);
        let trouble = match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(self.why(&error)),
            Err(panic) => Some(panic),
        };
        if let Some(what) = trouble {
            self.events.say(Event::Trouble { shard: record.index, what });
        }
        let Some(Late { results, waiting }) = late else { return ending };
        for announced in waiting {
            let kept = self.store(&*results, announced, &CancellationToken::new()).await;
            if let (Err(unkept), ShardEnding::Complete | ShardEnding::Cancelled) = (kept, &ending) {
                ending = ShardEnding::Broken { why: unkept.why };
            }
        }
        ending
    }

    /// How many trials that have ended may be on their way while the worker does others. What comes at the
    /// end waits for that, however much it is.
    fn backlog(&self, started: &Started) -> u32 {
        match started {
            Started::Session(session) if session.results.come_at_the_end() => u32::MAX,
            _ => self.concurrency.max(BACKLOG),
        }
    }

    async fn start(&self, spec: &ShardSpec, runner: &dyn Runner) -> Started {
        tokio::select! {
            biased;
            () = self.stop.asked() => Started::Stopped,
            session = timeout(self.machine_time, guarded(runner.start(spec))) => match session {
                Ok(Ok(Ok(session))) => Started::Session(session),
                Ok(Ok(Err(error))) => Started::Failed(self.why(&error)),
                Ok(Err(panic)) => Started::Failed(panic),
                Err(_) => {
                    let limit = self.machine_time.as_secs();
                    Started::Failed(format!("its worker was not started within {limit} s"))
                }
            },
        }
    }

    async fn talk(
        &self,
        trials: Trials,
        session: Session,
        door: AtTheDoor<'_>,
        record: &mut ShardRecord,
    ) -> (ShardEnding, Option<Late>) {
        if let Some(machine) = &session.machine {
            record.machine = Some(machine.name.clone());
            record.image = machine.image.clone();
        }
        let results = session.results.clone();
        let terms = Terms {
            shard: record.index,
            mst: self.mst.clone(),
            image: record.image.as_ref().map(|image| image.digest.clone()),
            clients: (*self.clients).clone(),
            concurrency: self.concurrency,
            beyond: self.beyond,
        };
        let mut conversation = Conversation::new(terms, trials);
        let Talked { how, waiting } = self.converse(session, door, &mut conversation, record).await;
        let ending = match how {
            Ok(()) if conversation.complete() => ShardEnding::Complete,
            Ok(()) if self.stop.is_asked() => ShardEnding::Cancelled,
            Ok(()) => ShardEnding::Broken { why: "its worker ended before its trials did".to_owned() },
            Err(why) => ShardEnding::Broken { why },
        };
        (ending, Some(Late { results, waiting }))
    }
}
