//! The door to the rooms of a run, at which every shard asks.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use mst_model::TrialKey;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};

use crate::room::{Limit, Rooms, Told};
use crate::shard::Lane;

/// The door of a run.
pub(crate) struct Door {
    inner: Mutex<Inner>,
    /// When a trial may start by time alone has changed.
    changed: Notify,
    began: Instant,
}

struct Inner {
    rooms: Rooms,
    /// Where each shard hears of its trials. Each goes there twice at most, so that the plan bounds how
    /// many wait.
    shards: HashMap<u32, UnboundedSender<Told>>,
}

impl Door {
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Arc<Door> {
        let inner = Inner { rooms: Rooms::new(limits), shards: HashMap::new() };
        Arc::new(Door { inner: Mutex::new(inner), changed: Notify::new(), began: Instant::now() })
    }

    /// A shard begins to ask, whose worker does so many trials at a time, and others while up to `backlog`
    /// that have ended are on their way. What it holds is given back when its seat is dropped.
    pub(crate) fn enter(
        self: &Arc<Door>,
        shard: u32,
        places: u32,
        backlog: u32,
    ) -> (Seat, UnboundedReceiver<Told>) {
        let (say, said) = mpsc::unbounded_channel();
        self.change(|inner| {
            inner.shards.insert(shard, say);
            inner.rooms.enter(shard, places, backlog);
        });
        (Seat { door: self.clone(), shard }, said)
    }

    /// Changes something, and tells whoever may start by that.
    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = inner.rooms.opens_at();
        change(&mut inner);
        for (shard, told) in inner.rooms.settle(self.began.elapsed()) {
            // A shard that is gone gives back all that it holds when its seat is dropped.
            if let Some(say) = inner.shards.get(&shard) {
                let _ = say.send(told);
            }
        }
        if inner.rooms.opens_at() != before {
            self.changed.notify_one();
        }
    }

    /// Lets in whoever waits for time alone. It never returns.
    pub(crate) async fn tend(&self) -> Infallible {
        loop {
            let opens = self.inner.lock().unwrap_or_else(PoisonError::into_inner).rooms.opens_at();
            match opens {
                Some(opens) => tokio::select! {
                    () = sleep_until(self.began + opens) => self.change(|_| {}),
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }
}

/// A shard's place at the door.
pub(crate) struct Seat {
    door: Arc<Door>,
    shard: u32,
}

impl Seat {
    /// A trial would start; true where it may at once. Else the shard hears of it.
    #[must_use]
    pub(crate) fn ask(&self, trial: &TrialKey, Lane { needs, keys }: Lane) -> bool {
        let now = self.door.began.elapsed();
        let mut may = false;
        self.door.change(|inner| {
            may = inner.rooms.start(now, self.shard, trial, &needs, keys);
            if !may {
                inner.rooms.ask(self.shard, trial.clone(), needs, keys);
            }
        });
        may
    }

    /// The worker has not got these sets of tokens.
    pub(crate) fn lock(&self, locked: BTreeSet<u16>) {
        self.door.change(|inner| inner.rooms.lock(self.shard, locked));
    }

    /// A trial has ended and is on its way into the run.
    pub(crate) fn end(&self, trial: &TrialKey) {
        self.door.change(|inner| inner.rooms.end(self.shard, trial));
    }

    /// A trial that had ended is in the run, or will never be.
    pub(crate) fn arrive(&self) {
        self.door.change(|inner| inner.rooms.arrive(self.shard));
    }

    /// A trial does not start after all.
    pub(crate) fn give_up(&self, trial: &TrialKey) {
        self.door.change(|inner| inner.rooms.give_up(self.shard, trial));
    }

    /// The shard asks no more. The trials that `stay` keep their room until the seat is dropped.
    pub(crate) fn leave(&self, stay: impl Fn(&TrialKey) -> bool) {
        self.door.change(|inner| {
            inner.shards.remove(&self.shard);
            inner.rooms.leave(self.shard, stay);
        });
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.door.change(|inner| {
            inner.shards.remove(&self.shard);
            inner.rooms.leave(self.shard, |_| false);
        });
    }
}
