//! Room at providers, servers and other things that trials share, and at the workers themselves: who
//! may start now. It has no I/O and no clock, so that every schedule can be tried.
//!
//! Whoever asked first goes first, among those who need the same. One that has to wait keeps a place
//! free in its pools, in the order of their numbers, up to the first that is full, and there: nobody
//! who asked later takes it, and what needs much comes to its turn too. In the pools after that one it
//! keeps none, for it could not use it: what needs only those does not wait for it.
//!
//! Nor does it keep a place of its own worker's, which does other trials meanwhile; and while its
//! worker has no place for it, or no tokens, it keeps none in the pools.
//!
//! A trial that has ended needs nothing in the pools any more. Its worker's place it keeps while more than
//! a few are on their way into the run: they would all have to be done again if this process died.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mst_model::TrialKey;

/// What starts are counted over.
const MINUTE: Duration = Duration::from_secs(60);

/// What a pool admits. Without a number it admits everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    /// Trials at a time.
    pub(crate) concurrency: Option<u32>,
    /// Starts in any minute.
    pub(crate) starts_per_minute: Option<u32>,
}

/// The pools that a trial needs, by their number, in order, each once.
pub(crate) type Needs = Arc<[u16]>;

#[derive(Debug, Clone)]
struct Pool {
    limit: Limit,
    used: u32,
    /// When the starts of the last minute were, oldest first; kept where they are counted.
    starts: VecDeque<Duration>,
}

/// A trial that waits.
#[derive(Debug, Clone)]
struct Waiting {
    trial: TrialKey,
    needs: Needs,
    /// Which set of tokens it needs.
    keys: u16,
    /// Whether its worker was told that it waits for others.
    told: bool,
}

/// A shard's worker.
#[derive(Debug, Clone, Default)]
struct Worker {
    /// It asks no more, and its trials may still hold their room.
    gone: bool,
    /// How many more trials it could do.
    places: u32,
    /// How many of its trials that have ended may be on their way while it does others.
    backlog: u32,
    /// How many are.
    on_their_way: u32,
    /// What its trials hold.
    held: HashMap<TrialKey, Needs>,
    /// The sets of tokens that it has not got: what needs one of them does not start.
    locked: BTreeSet<u16>,
    /// Its trials that wait, by their tickets.
    waiting: BTreeMap<u64, Waiting>,
}

/// What a shard is told of a trial that asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// It may start, and holds its room from here on.
    Granted(TrialKey),
    /// It has to wait, and its worker has a place that it does not need meanwhile. Said once of a trial.
    Waits(TrialKey),
}

/// Shards, by what their trials need and by their tickets.
type Queues = BTreeMap<Needs, BTreeMap<u64, u32>>;

/// Who has room, and who waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Rooms {
    pools: Vec<Pool>,
    workers: HashMap<u32, Worker>,
    /// The trials that wait and whose workers have a place and the tokens. Of those who need the same, one comes after
    /// the other.
    queues: Queues,
    /// Trials that came into a queue and whose shard may have to be told that they wait.
    fresh: Vec<(u32, u64)>,
    tickets: u64,
}

impl Pool {
    fn forget(&mut self, now: Duration) {
        while self.starts.front().is_some_and(|start| *start + MINUTE <= now) {
            self.starts.pop_front();
        }
    }

    /// Whether one more fits, beside `kept` that are kept free.
    fn fits(&self, kept: u32) -> bool {
        let below =
            |limit: Option<u32>, taken: u32| limit.is_none_or(|limit| taken.saturating_add(kept) < limit);
        below(self.limit.concurrency, self.used)
            && below(self.limit.starts_per_minute, self.starts.len() as u32)
    }

    /// When one more start is forgotten than is by now. Who fits by that depends on all who wait.
    fn opens_at(&self) -> Option<Duration> {
        self.starts.front().map(|start| *start + MINUTE)
    }
}

impl Rooms {
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Rooms {
        let pool = |limit| Pool { limit, used: 0, starts: VecDeque::new() };
        Rooms {
            pools: limits.into_iter().map(pool).collect(),
            workers: HashMap::new(),
            queues: BTreeMap::new(),
            fresh: Vec::new(),
            tickets: 0,
        }
    }

    /// A shard begins to ask; its worker does so many trials at a time, and others while up to `backlog`
    /// that have ended are on their way.
    pub(crate) fn enter(&mut self, shard: u32, places: u32, backlog: u32) {
        self.workers.insert(shard, Worker { places, backlog, ..Worker::default() });
    }

    /// Whether a trial that would start may at once, as it is mostly: it has room, and there is nobody who
    /// waits whom it would pass. It holds its room from here on.
    pub(crate) fn start(
        &mut self,
        now: Duration,
        shard: u32,
        trial: &TrialKey,
        needs: &Needs,
        keys: u16,
    ) -> bool {
        let Some(worker) = self.workers.get_mut(&shard) else { return false };
        if worker.gone || worker.places == 0 || worker.locked.contains(&keys) {
            return false;
        }
        if !needs.is_empty() {
            self.pools.iter_mut().for_each(|pool| pool.forget(now));
            let fits = |at: &u16| self.pools.get(usize::from(*at)).is_none_or(|pool| pool.fits(0));
            if !self.queues.is_empty() || !needs.iter().all(fits) {
                return false;
            }
        }
        take(&mut self.pools, needs, now);
        worker.hold(trial.clone(), needs.clone(), &mut self.queues);
        true
    }

    /// A trial would start, and waits. Each asks once; one of a shard that does not ask any more is passed
    /// over.
    pub(crate) fn ask(&mut self, shard: u32, trial: TrialKey, needs: Needs, keys: u16) {
        let Some(worker) = self.workers.get_mut(&shard).filter(|worker| !worker.gone) else { return };
        self.tickets += 1;
        worker.waiting.insert(self.tickets, Waiting { trial, needs, keys, told: false });
        if worker.places > 0 {
            self.line_up(shard, self.tickets);
        }
    }

    /// A shard's worker has not got these sets of tokens, and all others.
    pub(crate) fn lock(&mut self, shard: u32, locked: BTreeSet<u16>) {
        let Some(worker) = self.workers.get_mut(&shard).filter(|worker| worker.locked != locked) else {
            return;
        };
        if worker.places == 0 {
            worker.locked = locked;
            return;
        }
        out_of(&mut self.queues, worker);
        worker.locked = locked;
        self.line_up(shard, 0);
    }

    /// Puts what waits of a worker's, from a ticket on, into the queues.
    fn line_up(&mut self, shard: u32, from: u64) {
        let Some(worker) = self.workers.get(&shard) else { return };
        for (ticket, waiting) in worker.waiting.range(from..) {
            if !worker.locked.contains(&waiting.keys) {
                self.queues.entry(waiting.needs.clone()).or_default().insert(*ticket, shard);
            }
            if !waiting.told {
                self.fresh.push((shard, *ticket));
            }
        }
    }

    /// A trial has ended and is on its way. A second time changes nothing.
    pub(crate) fn end(&mut self, shard: u32, trial: &TrialKey) {
        let Some(worker) = self.workers.get_mut(&shard) else { return };
        let Some(needs) = worker.held.remove(trial) else { return };
        give_back(&mut self.pools, &needs);
        worker.on_their_way += 1;
        if worker.on_their_way <= worker.backlog {
            self.leave_place(shard);
        }
    }

    /// A trial that had ended is on its way no more.
    pub(crate) fn arrive(&mut self, shard: u32) {
        let Some(worker) = self.workers.get_mut(&shard).filter(|worker| worker.on_their_way > 0) else {
            return;
        };
        worker.on_their_way -= 1;
        if worker.on_their_way >= worker.backlog {
            self.leave_place(shard);
        }
    }

    /// A trial does not start after all.
    pub(crate) fn give_up(&mut self, shard: u32, trial: &TrialKey) {
        let Some(worker) = self.workers.get_mut(&shard) else { return };
        let Some(needs) = worker.held.remove(trial) else { return };
        give_back(&mut self.pools, &needs);
        self.leave_place(shard);
    }

    /// A worker has a place more.
    fn leave_place(&mut self, shard: u32) {
        let Some(worker) = self.workers.get_mut(&shard) else { return };
        worker.places += 1;
        if worker.places == 1 {
            self.line_up(shard, 0);
        }
    }

    /// A shard asks no more: it waits for nothing, and of what it holds the trials that `stay` do.
    pub(crate) fn leave(&mut self, shard: u32, stay: impl Fn(&TrialKey) -> bool) {
        let Some(worker) = self.workers.get_mut(&shard) else { return };
        out_of(&mut self.queues, worker);
        worker.waiting.clear();
        worker.gone = true;
        for (_, needs) in worker.held.extract_if(|trial, _| !stay(trial)) {
            give_back(&mut self.pools, &needs);
        }
        if worker.held.is_empty() {
            self.workers.remove(&shard);
        }
    }

    /// Everybody who may start at `now`, in the order in which they may, and after them whoever has to
    /// wait and was not told so.
    pub(crate) fn settle(&mut self, now: Duration) -> Vec<(u32, Told)> {
        self.pools.iter_mut().for_each(|pool| pool.forget(now));
        if self.queues.is_empty() && self.fresh.is_empty() {
            return Vec::new();
        }
        let mut told = Vec::new();
        // Where a worker has no place any more, what its trials kept is free again.
        while self.pass(now, &mut told) {}
        for (shard, ticket) in std::mem::take(&mut self.fresh) {
            let Some(worker) = self.workers.get_mut(&shard).filter(|worker| worker.places > 0) else {
                continue;
            };
            let Some(waiting) = worker.waiting.get_mut(&ticket) else { continue };
            if !std::mem::replace(&mut waiting.told, true) {
                told.push((shard, Told::Waits(waiting.trial.clone())));
            }
        }
        told
    }

    /// Lets in whoever may start; true where that took a worker's last place, and others of its trials
    /// wait.
    fn pass(&mut self, now: Duration, told: &mut Vec<(u32, Told)>) -> bool {
        let mut again = false;
        let mut kept = vec![0; self.pools.len()];
        // The first of each queue, the longest wait first. One that must wait lets its queue wait.
        let mut firsts: BTreeMap<u64, Needs> = BTreeMap::new();
        for (needs, queue) in &self.queues {
            if let Some((ticket, _)) = queue.first_key_value() {
                firsts.insert(*ticket, needs.clone());
            }
        }
        while let Some((ticket, needs)) = firsts.pop_first() {
            let Some(queue) = self.queues.get_mut(&needs) else { continue };
            let shard = queue.get(&ticket).copied();
            if let Some(shard) = shard {
                let fits = |at: usize| self.pools.get(at).is_none_or(|pool| pool.fits(kept[at]));
                if let Some(full) = needs.iter().position(|pool| !fits(usize::from(*pool))) {
                    needs.iter().take(full + 1).for_each(|pool| kept[usize::from(*pool)] += 1);
                    continue;
                }
                queue.remove(&ticket);
                if queue.is_empty() {
                    self.queues.remove(&needs);
                }
                again |= self.admit(shard, ticket, &needs, now, told);
            }
            // Also where the first of the queue is gone, with its worker's last place.
            if let Some((next, _)) = self.queues.get(&needs).and_then(BTreeMap::first_key_value) {
                firsts.insert(*next, needs);
            }
        }
        again
    }

    /// Lets one in that waited; true where others of its worker's wait, and have no place there any more.
    fn admit(
        &mut self,
        shard: u32,
        ticket: u64,
        needs: &Needs,
        now: Duration,
        told: &mut Vec<(u32, Told)>,
    ) -> bool {
        take(&mut self.pools, needs, now);
        let Some(worker) = self.workers.get_mut(&shard) else { return false };
        let Some(Waiting { trial, .. }) = worker.waiting.remove(&ticket) else { return false };
        told.push((shard, Told::Granted(trial.clone())));
        worker.hold(trial, needs.clone(), &mut self.queues)
    }

    /// Before when nobody who waits may start unless somebody ends. Then it is to be looked again, and
    /// perhaps for nothing.
    pub(crate) fn opens_at(&self) -> Option<Duration> {
        if self.queues.is_empty() {
            return None;
        }
        self.pools.iter().filter_map(Pool::opens_at).min()
    }
}

impl Worker {
    /// Does one more trial; true where others of its trials wait, and have no place any more.
    fn hold(&mut self, trial: TrialKey, needs: Needs, queues: &mut Queues) -> bool {
        self.held.insert(trial, needs);
        self.places = self.places.saturating_sub(1);
        let parked = self.places == 0 && !self.waiting.is_empty();
        if parked {
            out_of(queues, self);
        }
        parked
    }
}

/// Takes a place in each pool, at `now`.
fn take(pools: &mut [Pool], needs: &Needs, now: Duration) {
    for at in needs.iter() {
        let Some(pool) = pools.get_mut(usize::from(*at)) else { continue };
        pool.used += 1;
        if pool.limit.starts_per_minute.is_some() {
            pool.starts.push_back(now);
        }
    }
}

fn give_back(pools: &mut [Pool], needs: &Needs) {
    for at in needs.iter() {
        if let Some(pool) = pools.get_mut(usize::from(*at)) {
            pool.used = pool.used.saturating_sub(1);
        }
    }
}

/// What waits of a worker's waits in no queue any more.
fn out_of(queues: &mut Queues, worker: &Worker) {
    for (ticket, waiting) in &worker.waiting {
        if let Some(queue) = queues.get_mut(&waiting.needs) {
            queue.remove(ticket);
            if queue.is_empty() {
                queues.remove(&waiting.needs);
            }
        }
    }
}

#[cfg(test)]
mod tests;
