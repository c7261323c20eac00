//! Room at providers, servers and other things that trials share: who may start now. It has no I/O
//! and no clock, so that every schedule can be tried.
//!
//! Whoever asked first goes first, among those who need the same. One that has to wait keeps a place
//! free in its pools, in the order of their numbers, up to the first that is full, and there: nobody
//! who asked later takes it, and what needs much comes to its turn too. In the pools after that one it
//! keeps none, for it could not use it: what needs only those does not wait for it.

use std::collections::{BTreeMap, HashMap, VecDeque};
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

#[derive(Debug, Clone)]
struct Waiting {
    ticket: u64,
    shard: u32,
    trial: TrialKey,
}

/// Who has room, and who waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Rooms {
    pools: Vec<Pool>,
    /// By what they need: of those who need the same, one comes after the other.
    queues: BTreeMap<Needs, VecDeque<Waiting>>,
    held: HashMap<(u32, TrialKey), Needs>,
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
            queues: BTreeMap::new(),
            held: HashMap::new(),
            tickets: 0,
        }
    }

    /// A trial would start. Each asks once.
    pub(crate) fn ask(&mut self, shard: u32, trial: TrialKey, needs: Needs) {
        self.tickets += 1;
        let waiting = Waiting { ticket: self.tickets, shard, trial };
        self.queues.entry(needs).or_default().push_back(waiting);
    }

    /// A trial has ended, or does not start after all. A second time changes nothing.
    pub(crate) fn free(&mut self, shard: u32, trial: &TrialKey) {
        // The key is made anew, since a pair of references is no reference to a pair.
        if let Some(needs) = self.held.remove(&(shard, trial.clone())) {
            self.give_back(&needs);
        }
    }

    /// A shard asks no more: it waits for nothing, and of what it holds the trials that `stay` do.
    pub(crate) fn leave(&mut self, shard: u32, stay: impl Fn(&TrialKey) -> bool) {
        let goes = |(of, trial): &&(u32, TrialKey)| *of == shard && !stay(trial);
        let held: Vec<_> = self.held.keys().filter(goes).cloned().collect();
        for key in held {
            if let Some(needs) = self.held.remove(&key) {
                self.give_back(&needs);
            }
        }
        self.queues.retain(|_, queue| {
            queue.retain(|waiting| waiting.shard != shard);
            !queue.is_empty()
        });
    }

    fn give_back(&mut self, needs: &Needs) {
        for pool in needs.iter() {
            if let Some(pool) = self.pools.get_mut(usize::from(*pool)) {
                pool.used = pool.used.saturating_sub(1);
            }
        }
    }

    /// Everybody who may start at `now`, in the order in which they may; they hold their room from
    /// here on.
    pub(crate) fn settle(&mut self, now: Duration) -> Vec<(u32, TrialKey)> {
        self.pools.iter_mut().for_each(|pool| pool.forget(now));
        let mut granted = Vec::new();
        let mut kept = vec![0; self.pools.len()];
        // The first of each queue, the longest wait first. One that must wait lets its queue wait.
        let mut firsts: BTreeMap<u64, Needs> = BTreeMap::new();
        for (needs, queue) in &self.queues {
            if let Some(first) = queue.front() {
                firsts.insert(first.ticket, needs.clone());
            }
        }
        while let Some((_, needs)) = firsts.pop_first() {
            let fits = |at: usize| self.pools.get(at).is_none_or(|pool| pool.fits(kept[at]));
            if let Some(full) = needs.iter().position(|pool| !fits(usize::from(*pool))) {
                needs.iter().take(full + 1).for_each(|pool| kept[usize::from(*pool)] += 1);
                continue;
            }
            let Some(queue) = self.queues.get_mut(&needs) else { continue };
            let Some(Waiting { shard, trial, .. }) = queue.pop_front() else { continue };
            match queue.front() {
                Some(next) => drop(firsts.insert(next.ticket, needs.clone())),
                None => drop(self.queues.remove(&needs)),
            }
            for at in needs.iter().map(|pool| usize::from(*pool)) {
                let Some(pool) = self.pools.get_mut(at) else { continue };
                pool.used += 1;
                if pool.limit.starts_per_minute.is_some() {
                    pool.starts.push_back(now);
                }
            }
            self.held.insert((shard, trial.clone()), needs);
            granted.push((shard, trial));
        }
        granted
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(index: u32) -> TrialKey {
        TrialKey { case: "case".parse().expect("id"), variant: "v".parse().expect("id"), index }
    }

    fn at_a_time(concurrency: u32) -> Limit {
        Limit { concurrency: Some(concurrency), starts_per_minute: None }
    }

    fn needs(pools: &[u16]) -> Needs {
        pools.into()
    }

    fn granted(rooms: &mut Rooms, now: u32) -> Vec<(u32, u32)> {
        rooms.settle(now * SECOND).into_iter().map(|(shard, trial)| (shard, trial.index)).collect()
    }

    #[test]
    fn who_asked_first_goes_first() {
        let mut rooms = Rooms::new([at_a_time(2)]);
        for (shard, trial) in [(0, 0), (1, 0), (2, 0), (0, 1)] {
            rooms.ask(shard, key(trial), needs(&[0]));
        }
        assert_eq!(granted(&mut rooms, 0), [(0, 0), (1, 0)]);
        rooms.free(1, &key(0));
        assert_eq!(granted(&mut rooms, 0), [(2, 0)]);
        // Given back already.
        rooms.free(1, &key(0));
        assert_eq!(granted(&mut rooms, 0), []);
        rooms.leave(2, |_| false);
        assert_eq!(granted(&mut rooms, 0), [(0, 1)]);
    }

    #[test]
    fn what_needs_much_comes_to_its_turn_and_what_needs_nothing_does_not_wait() {
        let mut rooms = Rooms::new([at_a_time(1), at_a_time(1)]);
        rooms.ask(0, key(0), needs(&[1]));
        rooms.ask(1, key(0), needs(&[0, 1]));
        // It could start, but the one before it would never find both free.
        rooms.ask(2, key(0), needs(&[0]));
        rooms.ask(3, key(0), needs(&[]));
        assert_eq!(granted(&mut rooms, 0), [(0, 0), (3, 0)]);
        rooms.free(0, &key(0));
        assert_eq!(granted(&mut rooms, 0), [(1, 0)]);
        rooms.free(1, &key(0));
        assert_eq!(granted(&mut rooms, 0), [(2, 0)]);
    }

    #[test]
    fn starts_are_counted_over_any_minute() {
        let mut rooms = Rooms::new([Limit { concurrency: None, starts_per_minute: Some(2) }]);
        for trial in 0..4 {
            rooms.ask(0, key(trial), needs(&[0]));
        }
        assert_eq!(granted(&mut rooms, 10), [(0, 0), (0, 1)]);
        rooms.leave(7, |_| false);
        assert_eq!((granted(&mut rooms, 69), rooms.opens_at()), (vec![], Some(70 * SECOND)));
        assert_eq!(granted(&mut rooms, 70), [(0, 2), (0, 3)]);
        assert_eq!(rooms.opens_at(), None, "nobody waits");
    }

    #[test]
    fn nobody_waits_for_one_who_waits_for_something_else() {
        // A graphics card that is held for an hour, and a provider.
        let mut rooms = Rooms::new([at_a_time(1), at_a_time(1)]);
        rooms.ask(0, key(0), needs(&[0]));
        rooms.ask(1, key(0), needs(&[0, 1]));
        rooms.ask(2, key(0), needs(&[1]));
        assert_eq!(granted(&mut rooms, 0), [(0, 0), (2, 0)]);
        // It lacks the provider alone, and is the next who gets it.
        rooms.free(0, &key(0));
        rooms.ask(3, key(0), needs(&[1]));
        rooms.ask(3, key(1), needs(&[0]));
        assert_eq!(granted(&mut rooms, 1), []);
        rooms.free(2, &key(0));
        assert_eq!(granted(&mut rooms, 2), [(1, 0)]);
    }

    #[test]
    fn a_start_that_is_forgotten_lets_in_who_needs_nothing_else() {
        let starts = Limit { concurrency: None, starts_per_minute: Some(2) };
        let mut rooms = Rooms::new([starts, at_a_time(1)]);
        rooms.ask(0, key(0), needs(&[1]));
        rooms.ask(0, key(1), needs(&[0]));
        assert_eq!(granted(&mut rooms, 0), [(0, 0), (0, 1)]);
        // It keeps the second start of the minute, and may not have it before the other pool is free.
        rooms.ask(1, key(0), needs(&[0, 1]));
        rooms.ask(2, key(0), needs(&[0]));
        assert_eq!((granted(&mut rooms, 1), rooms.opens_at()), (vec![], Some(60 * SECOND)));
        assert_eq!(granted(&mut rooms, 60), [(2, 0)]);
    }

    /// What stands beside the machine and counts by itself.
    #[derive(Default)]
    struct Seen {
        asked: BTreeMap<(u32, u32), Needs>,
        order: Vec<(u32, u32)>,
        holds: BTreeSet<(u32, u32)>,
        done: BTreeSet<(u32, u32)>,
        starts: Vec<(Duration, Needs)>,
    }

    impl Seen {
        fn settle(&mut self, rooms: &mut Rooms, limits: &[Limit], now: Duration) {
            for (shard, trial) in rooms.settle(now) {
                let who = (shard, trial.index);
                assert!(self.asked.contains_key(&who) && !self.done.contains(&who), "nobody asked");
                assert!(self.holds.insert(who), "granted twice");
                self.starts.push((now, self.asked[&who].clone()));
            }
            for (at, limit) in limits.iter().enumerate() {
                let uses = |needs: &Needs| needs.contains(&(at as u16));
                let used = self.holds.iter().filter(|who| uses(&self.asked[*who])).count() as u32;
                assert!(limit.concurrency.is_none_or(|limit| used <= limit), "{used} in pool {at}");
                let minute = self.starts.iter().filter(|(start, needs)| *start + MINUTE > now && uses(needs));
                let starts = minute.count() as u32;
                assert!(limit.starts_per_minute.is_none_or(|limit| starts <= limit), "{starts} in pool {at}");
            }
            self.nobody_waits_in_vain(limits, now);
            // No wake-up is lost: before the time that is said nobody may start, by time alone.
            let just_before = rooms.opens_at().map_or(now + 10 * MINUTE, |at| at - Duration::from_nanos(1));
            let early = rooms.clone().settle(just_before);
            assert!(early.is_empty(), "{early:?} may start before {:?}", rooms.opens_at());
        }

        /// Whoever waits lacks a place, or only as many are free as others keep who asked before. Where
        /// one lacks something outright, it keeps none in the pools after that.
        fn nobody_waits_in_vain(&self, limits: &[Limit], now: Duration) {
            let free = |pool: &u16| {
                let limit = limits[usize::from(*pool)];
                let used = self.holds.iter().filter(|who| self.asked[*who].contains(pool)).count() as u32;
                let minute =
                    |(start, needs): &&(Duration, Needs)| *start + MINUTE > now && needs.contains(pool);
                let starts = self.starts.iter().filter(minute).count() as u32;
                let left = |limit: Option<u32>, taken| limit.map_or(u32::MAX, |limit: u32| limit - taken);
                left(limit.concurrency, used).min(left(limit.starts_per_minute, starts))
            };
            let waits = |who: &&(u32, u32)| !self.holds.contains(*who) && !self.done.contains(*who);
            let mut kept = vec![0; limits.len()];
            for who in self.order.iter().filter(waits) {
                let needs = &self.asked[who];
                let lacks = needs.iter().any(|pool| free(pool) <= kept[usize::from(*pool)]);
                assert!(lacks, "{who:?} waits, and there is room");
                let full = needs.iter().position(|pool| free(pool) == 0).unwrap_or(needs.len());
                needs.iter().take(full + 1).for_each(|pool| kept[usize::from(*pool)] += 1);
            }
        }

        fn ask(&mut self, rooms: &mut Rooms, who: (u32, u32), needs: Needs) {
            rooms.ask(who.0, key(who.1), needs.clone());
            self.asked.insert(who, needs);
            self.order.push(who);
        }

        fn end(&mut self, rooms: &mut Rooms, who: (u32, u32)) {
            rooms.free(who.0, &key(who.1));
            self.holds.remove(&who);
            self.done.insert(who);
        }

        fn leave(&mut self, rooms: &mut Rooms, shard: u32) {
            rooms.leave(shard, |_| false);
            self.holds.retain(|who| who.0 != shard);
            self.done.extend(self.asked.keys().filter(|who| who.0 == shard));
        }

        /// Everything that waits comes to its turn.
        fn drain(mut self, rooms: &mut Rooms, limits: &[Limit], mut now: Duration) {
            for _ in 0..10_000 {
                self.settle(rooms, limits, now);
                if let Some(who) = self.holds.first().copied() {
                    self.end(rooms, who);
                } else if let Some(at) = rooms.opens_at() {
                    assert!(at > now, "it is open and nobody was let in");
                    now = at;
                } else {
                    break;
                }
            }
            assert_eq!(self.done.len(), self.asked.len(), "somebody waits for ever");
            assert!(rooms.held.is_empty() && rooms.queues.is_empty());
            assert!(rooms.pools.iter().all(|pool| pool.used == 0), "room was lost");
        }
    }

    fn limit() -> impl Strategy<Value = Limit> {
        (prop::option::of(1u32..4), prop::option::of(1u32..4))
            .prop_map(|(concurrency, starts_per_minute)| Limit { concurrency, starts_per_minute })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn limits_hold_at_any_moment_and_everybody_comes_to_their_turn(
            limits in prop::collection::vec(limit(), 3),
            script in prop::collection::vec((0u8..8, 0u32..4, prop::collection::btree_set(0u16..3, 0..4)), 0..60),
        ) {
            let mut rooms = Rooms::new(limits.clone());
            let mut seen = Seen::default();
            let mut now = Duration::ZERO;
            for (at, (what, shard, pools)) in script.into_iter().enumerate() {
                match what {
                    0..=3 => {
                        let needs: Needs = pools.into_iter().collect();
                        seen.ask(&mut rooms, (shard, at as u32), needs);
                    }
                    4 | 5 => {
                        if let Some(who) = seen.holds.iter().copied().nth(shard as usize) {
                            seen.end(&mut rooms, who);
                            rooms.free(who.0, &key(who.1));
                        }
                    }
                    6 => now += (7 * (shard + 1)) * SECOND,
                    _ => seen.leave(&mut rooms, shard),
                }
                seen.settle(&mut rooms, &limits, now);
            }
            seen.drain(&mut rooms, &limits, now);
        }

        /// While one waits, each other shard passes it at most as often as it asked before.
        #[test]
        fn no_shard_takes_more_than_its_turn(shards in 2u32..6, at_once in 1u32..4, limit in 1u32..4) {
            let mut rooms = Rooms::new([at_a_time(limit)]);
            let mut next = vec![0; shards as usize];
            let mut asks = |rooms: &mut Rooms, shard: u32| {
                rooms.ask(shard, key(next[shard as usize]), needs(&[0]));
                next[shard as usize] += 1;
            };
            (0..shards).for_each(|shard| (0..at_once).for_each(|_| asks(&mut rooms, shard)));
            let (mut holds, mut had) = (VecDeque::new(), vec![0u32; shards as usize]);
            for _ in 0..300 {
                for (shard, trial) in rooms.settle(Duration::ZERO) {
                    had[shard as usize] += 1;
                    holds.push_back((shard, trial));
                }
                prop_assert_eq!(holds.len() as u32, limit.min(shards * at_once), "kept at the limit");
                let (shard, trial) = holds.pop_front().expect("somebody has room");
                rooms.free(shard, &trial);
                asks(&mut rooms, shard);
                let (least, most) = (had.iter().min(), had.iter().max());
                prop_assert!(most.expect("one") - least.expect("one") <= at_once, "{had:?}");
            }
        }
    }

    /// Every order of everything that can happen to three shards of two trials each, in pools of
    /// one and of two, and of two starts a minute: a state is what was done so far, and each is reached
    /// from each before it.
    #[test]
    fn every_schedule_of_a_small_run() {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        enum Step {
            Ask(u32, u32),
            End(u32, u32),
            Leave(u32),
            HalfAMinute,
        }
        let few_starts = Limit { concurrency: Some(2), starts_per_minute: Some(2) };
        let of = |shard: u32| -> Needs { [needs(&[0]), needs(&[0, 1]), needs(&[1])][shard as usize].clone() };
        let replay = |limits: [Limit; 2], steps: &[Step]| {
            let (mut rooms, mut seen) = (Rooms::new(limits), Seen::default());
            let mut now = Duration::ZERO;
            for step in steps {
                match *step {
                    Step::Ask(shard, trial) => seen.ask(&mut rooms, (shard, trial), of(shard)),
                    Step::End(shard, trial) => seen.end(&mut rooms, (shard, trial)),
                    Step::Leave(shard) => seen.leave(&mut rooms, shard),
                    Step::HalfAMinute => now += MINUTE / 2,
                }
                seen.settle(&mut rooms, &limits, now);
            }
            (rooms, seen, now)
        };
        let mut reached = BTreeSet::new();
        let pools = [[at_a_time(1), at_a_time(2)], [at_a_time(1), few_starts], [few_starts, at_a_time(1)]];
        let mut open: Vec<_> =
            pools.into_iter().zip(0..).map(|(limits, of)| (of, limits, Vec::new())).collect();
        while let Some((which, limits, steps)) = open.pop() {
            let (mut rooms, seen, now) = replay(limits, &steps);
            let left = |shard: u32| steps.contains(&Step::Leave(shard));
            let mut next = Vec::new();
            for shard in (0..3).filter(|shard| !left(*shard)) {
                let asked = (0..2).find(|trial| !seen.asked.contains_key(&(shard, *trial)));
                next.extend(asked.map(|trial| Step::Ask(shard, trial)));
                next.push(Step::Leave(shard));
            }
            next.extend(seen.holds.iter().map(|(shard, trial)| Step::End(*shard, *trial)));
            if !rooms.queues.is_empty() && rooms.pools.iter().any(|pool| !pool.starts.is_empty()) {
                next.push(Step::HalfAMinute);
            }
            // What matters of a state: who waits in which order, who holds, who is gone, and how long ago
            // the starts were.
            let ages: Vec<Vec<Duration>> = rooms
                .pools
                .iter()
                .map(|pool| pool.starts.iter().map(|start| now - *start).collect())
                .collect();
            let waiting: Vec<_> = rooms
                .queues
                .values()
                .map(|queue| queue.iter().map(|one| (one.shard, one.trial.index)).collect::<Vec<_>>())
                .collect();
            let mut order: Vec<_> =
                rooms.queues.values().flatten().map(|one| (one.ticket, one.shard)).collect();
            order.sort_unstable();
            let order: Vec<u32> = order.into_iter().map(|(_, shard)| shard).collect();
            let gone: Vec<u32> = (0..3).filter(|shard| left(*shard)).collect();
            if !reached.insert((which, waiting, order, seen.holds.clone(), seen.done.clone(), gone, ages)) {
                continue;
            }
            seen.drain(&mut rooms, &limits, now);
            open.extend(next.into_iter().map(|step| (which, limits, [&steps[..], &[step]].concat())));
        }
        assert!(reached.len() > 1000, "{} states", reached.len());
    }
}
