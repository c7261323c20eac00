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

/// With more workers and places than anybody needs.
fn open(limits: impl IntoIterator<Item = Limit>) -> Rooms {
    let mut rooms = Rooms::new(limits);
    (0..8).for_each(|shard| rooms.enter(shard, 99, 99));
    rooms
}

/// Who may start, and who is told to wait.
fn settled(rooms: &mut Rooms, now: Duration) -> [Vec<(u32, u32)>; 2] {
    let mut settled = [Vec::new(), Vec::new()];
    for (shard, told) in rooms.settle(now) {
        match told {
            Told::Granted(trial) => settled[0].push((shard, trial.index)),
            Told::Waits(trial) => settled[1].push((shard, trial.index)),
        }
    }
    settled
}

fn granted(rooms: &mut Rooms, now: u32) -> Vec<(u32, u32)> {
    let [granted, _] = settled(rooms, now * SECOND);
    granted
}

#[test]
fn who_asked_first_goes_first() {
    let mut rooms = open([at_a_time(2)]);
    for (shard, trial) in [(0, 0), (1, 0), (2, 0), (0, 1)] {
        rooms.ask(shard, key(trial), needs(&[0]), 0);
    }
    assert_eq!(granted(&mut rooms, 0), [(0, 0), (1, 0)]);
    rooms.end(1, &key(0));
    assert_eq!(granted(&mut rooms, 0), [(2, 0)]);
    // Given back already.
    rooms.end(1, &key(0));
    assert_eq!(granted(&mut rooms, 0), []);
    rooms.leave(2, |_| false);
    assert_eq!(granted(&mut rooms, 0), [(0, 1)]);
}

#[test]
fn what_needs_much_comes_to_its_turn_and_what_needs_nothing_does_not_wait() {
    let mut rooms = open([at_a_time(1), at_a_time(1)]);
    rooms.ask(0, key(0), needs(&[1]), 0);
    rooms.ask(1, key(0), needs(&[0, 1]), 0);
    // It could start, but the one before it would never find both free.
    rooms.ask(2, key(0), needs(&[0]), 0);
    rooms.ask(3, key(0), needs(&[]), 0);
    assert_eq!(granted(&mut rooms, 0), [(0, 0), (3, 0)]);
    rooms.end(0, &key(0));
    assert_eq!(granted(&mut rooms, 0), [(1, 0)]);
    rooms.end(1, &key(0));
    assert_eq!(granted(&mut rooms, 0), [(2, 0)]);
}

#[test]
fn starts_are_counted_over_any_minute() {
    let mut rooms = open([Limit { concurrency: None, starts_per_minute: Some(2) }]);
    for trial in 0..4 {
        rooms.ask(0, key(trial), needs(&[0]), 0);
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
    let mut rooms = open([at_a_time(1), at_a_time(1)]);
    rooms.ask(0, key(0), needs(&[0]), 0);
    rooms.ask(1, key(0), needs(&[0, 1]), 0);
    rooms.ask(2, key(0), needs(&[1]), 0);
    assert_eq!(granted(&mut rooms, 0), [(0, 0), (2, 0)]);
    // It lacks the provider alone, and is the next who gets it.
    rooms.end(0, &key(0));
    rooms.ask(3, key(0), needs(&[1]), 0);
    rooms.ask(3, key(1), needs(&[0]), 0);
    assert_eq!(granted(&mut rooms, 1), []);
    rooms.end(2, &key(0));
    assert_eq!(granted(&mut rooms, 2), [(1, 0)]);
}

#[test]
fn a_start_that_is_forgotten_lets_in_who_needs_nothing_else() {
    let starts = Limit { concurrency: None, starts_per_minute: Some(2) };
    let mut rooms = open([starts, at_a_time(1)]);
    rooms.ask(0, key(0), needs(&[1]), 0);
    rooms.ask(0, key(1), needs(&[0]), 0);
    assert_eq!(granted(&mut rooms, 0), [(0, 0), (0, 1)]);
    // It keeps the second start of the minute, and may not have it before the other pool is free.
    rooms.ask(1, key(0), needs(&[0, 1]), 0);
    rooms.ask(2, key(0), needs(&[0]), 0);
    assert_eq!((granted(&mut rooms, 1), rooms.opens_at()), (vec![], Some(60 * SECOND)));
    assert_eq!(granted(&mut rooms, 60), [(2, 0)]);
}

#[test]
fn who_waits_for_others_leaves_its_workers_place_to_the_next() {
    let mut rooms = Rooms::new([at_a_time(1)]);
    (0..2).for_each(|shard| rooms.enter(shard, 1, 99));
    rooms.ask(0, key(0), needs(&[0]), 0);
    rooms.ask(1, key(0), needs(&[0]), 0);
    assert_eq!(settled(&mut rooms, SECOND), [vec![(0, 0)], vec![(1, 0)]]);
    rooms.ask(1, key(1), needs(&[]), 0);
    assert_eq!(settled(&mut rooms, SECOND), [vec![(1, 1)], vec![]]);
    // What it waited for is free, and its worker is busy; it is the first as soon as it is not.
    rooms.end(0, &key(0));
    rooms.ask(1, key(2), needs(&[]), 0);
    assert_eq!(settled(&mut rooms, SECOND), [vec![], vec![]]);
    rooms.end(1, &key(1));
    assert_eq!(settled(&mut rooms, SECOND), [vec![(1, 0)], vec![]]);
    // Meanwhile nobody waits for it.
    rooms.ask(1, key(3), needs(&[0]), 0);
    rooms.end(1, &key(0));
    rooms.ask(0, key(1), needs(&[0]), 0);
    assert_eq!(settled(&mut rooms, SECOND), [vec![(1, 2), (0, 1)], vec![]]);
    rooms.end(1, &key(2));
    assert_eq!(settled(&mut rooms, SECOND), [vec![], vec![(1, 3)]]);
}

/// What stands beside the machine and counts by itself.
#[derive(Clone, Default)]
struct Seen {
    /// How many trials each worker does at a time.
    places: u32,
    /// And how many that have ended may be on their way meanwhile.
    backlog: u32,
    asked: BTreeMap<(u32, u32), Needs>,
    order: Vec<(u32, u32)>,
    holds: BTreeSet<(u32, u32)>,
    done: BTreeSet<(u32, u32)>,
    /// Those that have ended and are not in the run.
    on_their_way: BTreeSet<(u32, u32)>,
    starts: Vec<(Duration, Needs)>,
    /// Those that were told to wait.
    told: BTreeSet<(u32, u32)>,
    /// The sets of tokens that shards lack.
    locked: BTreeSet<(u32, u16)>,
}

impl Seen {
    fn settle(&mut self, rooms: &mut Rooms, limits: &[Limit], now: Duration) {
        let [granted, told] = settled(rooms, now);
        granted.into_iter().for_each(|who| self.granted(now, who));
        for (at, limit) in limits.iter().enumerate() {
            let uses = |needs: &Needs| needs.contains(&(at as u16));
            let used = self.holds.iter().filter(|who| uses(&self.asked[*who])).count() as u32;
            assert!(limit.concurrency.is_none_or(|limit| used <= limit), "{used} in pool {at}");
            let minute = self.starts.iter().filter(|(start, needs)| *start + MINUTE > now && uses(needs));
            let starts = minute.count() as u32;
            assert!(limit.starts_per_minute.is_none_or(|limit| starts <= limit), "{starts} in pool {at}");
        }
        for who in told {
            assert!(!self.holds.contains(&who) && self.told.insert(who), "{who:?} is told once, if it waits");
            assert!(self.has_place(who.0), "{who:?} waits for its own worker");
        }
        self.nobody_waits_in_vain(limits, now);
        // No wake-up is lost: before the time that is said nobody may start, by time alone.
        let just_before = rooms.opens_at().map_or(now + 10 * MINUTE, |at| at - Duration::from_nanos(1));
        let [early, _] = settled(&mut rooms.clone(), just_before);
        assert!(early.is_empty(), "{early:?} may start before {:?}", rooms.opens_at());
    }

    /// Of each shard's trials every other needs the one set of tokens, the rest the other.
    fn keys(who: &(u32, u32)) -> u16 {
        (who.1 % 2) as u16
    }

    fn is_locked(&self, who: &(u32, u32)) -> bool {
        self.locked.contains(&(who.0, Seen::keys(who)))
    }

    fn lock(&mut self, rooms: &mut Rooms, shard: u32, keys: BTreeSet<u16>) {
        self.locked.retain(|(of, _)| *of != shard);
        self.locked.extend(keys.iter().map(|keys| (shard, *keys)));
        rooms.lock(shard, keys);
    }

    fn has_place(&self, shard: u32) -> bool {
        let of = |whose: &BTreeSet<(u32, u32)>| whose.iter().filter(|who| who.0 == shard).count() as u32;
        let (under_way, on_their_way) = (of(&self.holds), of(&self.on_their_way));
        assert!(under_way <= self.places, "{under_way} at a time in shard {shard}");
        let most = self.places + self.backlog;
        assert!(
            under_way + on_their_way <= most,
            "{under_way} and {on_their_way} of shard {shard} can be lost"
        );
        under_way < self.places && under_way + on_their_way < most
    }

    /// Whoever waits lacks a place, or only as many are free as others keep who asked before. Where
    /// one lacks something outright, it keeps none in the pools after that; and where its worker has no
    /// place for it, none at all.
    fn nobody_waits_in_vain(&self, limits: &[Limit], now: Duration) {
        let free = |pool: &u16| {
            let limit = limits[usize::from(*pool)];
            let used = self.holds.iter().filter(|who| self.asked[*who].contains(pool)).count() as u32;
            let minute = |(start, needs): &&(Duration, Needs)| *start + MINUTE > now && needs.contains(pool);
            let starts = self.starts.iter().filter(minute).count() as u32;
            let left = |limit: Option<u32>, taken| limit.map_or(u32::MAX, |limit: u32| limit - taken);
            left(limit.concurrency, used).min(left(limit.starts_per_minute, starts))
        };
        let waits = |who: &&(u32, u32)| !self.holds.contains(*who) && !self.done.contains(*who);
        let mut kept = vec![0; limits.len()];
        for who in self.order.iter().filter(waits).filter(|who| self.has_place(who.0)) {
            assert!(self.told.contains(who), "{who:?} was not told");
            if self.is_locked(who) {
                continue;
            }
            let needs = &self.asked[who];
            let lacks = needs.iter().any(|pool| free(pool) <= kept[usize::from(*pool)]);
            assert!(lacks, "{who:?} waits, and there is room");
            let full = needs.iter().position(|pool| free(pool) == 0).unwrap_or(needs.len());
            needs.iter().take(full + 1).for_each(|pool| kept[usize::from(*pool)] += 1);
        }
    }

    fn ask(&mut self, rooms: &mut Rooms, now: Duration, who: (u32, u32), needs: Needs) {
        self.asked.insert(who, needs.clone());
        self.order.push(who);
        if rooms.start(now, who.0, &key(who.1), &needs, Seen::keys(&who)) {
            self.granted(now, who);
        } else {
            rooms.ask(who.0, key(who.1), needs, Seen::keys(&who));
        }
    }

    fn granted(&mut self, now: Duration, who: (u32, u32)) {
        assert!(self.asked.contains_key(&who) && !self.done.contains(&who), "nobody asked");
        assert!(self.holds.insert(who), "granted twice");
        assert!(!self.is_locked(&who), "{who:?} starts without its tokens");
        self.starts.push((now, self.asked[&who].clone()));
    }

    fn end(&mut self, rooms: &mut Rooms, who: (u32, u32)) {
        rooms.end(who.0, &key(who.1));
        self.holds.remove(&who);
        self.done.insert(who);
        self.on_their_way.insert(who);
    }

    fn arrive(&mut self, rooms: &mut Rooms, who: (u32, u32)) {
        rooms.arrive(who.0);
        self.on_their_way.remove(&who);
    }

    fn leave(&mut self, rooms: &mut Rooms, shard: u32) {
        rooms.leave(shard, |_| false);
        self.holds.retain(|who| who.0 != shard);
        self.on_their_way.retain(|who| who.0 != shard);
        self.done.extend(self.asked.keys().filter(|who| who.0 == shard));
    }

    /// Everything that waits comes to its turn.
    fn drain(mut self, rooms: &mut Rooms, limits: &[Limit], mut now: Duration) {
        for shard in rooms.workers.keys().copied().collect::<Vec<_>>() {
            self.lock(rooms, shard, BTreeSet::new());
        }
        for _ in 0..10_000 {
            self.settle(rooms, limits, now);
            if let Some(who) = self.holds.first().copied() {
                self.end(rooms, who);
            } else if let Some(who) = self.on_their_way.first().copied() {
                self.arrive(rooms, who);
            } else if let Some(at) = rooms.opens_at() {
                assert!(at > now, "it is open and nobody was let in");
                now = at;
            } else {
                break;
            }
        }
        assert_eq!(self.done.len(), self.asked.len(), "somebody waits for ever");
        assert!(rooms.queues.is_empty() && rooms.workers.values().all(|worker| worker.held.is_empty()));
        let whole = |worker: &Worker| worker.places == self.places && worker.on_their_way == 0;
        assert!(rooms.workers.values().all(whole), "a place was lost");
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
        places in 1u32..4,
        backlog in 0u32..3,
        script in prop::collection::vec((0u8..11, 0u32..4, prop::collection::btree_set(0u16..3, 0..4)), 0..60),
    ) {
        let mut rooms = Rooms::new(limits.clone());
        (0..4).for_each(|shard| rooms.enter(shard, places, backlog));
        let mut seen = Seen { places, backlog, ..Seen::default() };
        let mut gone = BTreeSet::new();
        let mut now = Duration::ZERO;
        for (at, (what, shard, pools)) in script.into_iter().enumerate() {
            match what {
                0..=3 if gone.contains(&shard) => {}
                0..=3 => {
                    let needs: Needs = pools.into_iter().collect();
                    seen.ask(&mut rooms, now, (shard, at as u32), needs);
                }
                4 | 5 => {
                    if let Some(who) = seen.holds.iter().copied().nth(shard as usize) {
                        seen.end(&mut rooms, who);
                        rooms.end(who.0, &key(who.1));
                    }
                }
                6 => now += (7 * (shard + 1)) * SECOND,
                7 if gone.contains(&shard) => {}
                7 => seen.lock(&mut rooms, shard, pools),
                8 | 9 => {
                    if let Some(who) = seen.on_their_way.iter().copied().nth(shard as usize) {
                        seen.arrive(&mut rooms, who);
                    }
                }
                _ => {
                    gone.insert(shard);
                    seen.leave(&mut rooms, shard);
                }
            }
            seen.settle(&mut rooms, &limits, now);
        }
        seen.drain(&mut rooms, &limits, now);
    }

    /// While one waits, each other shard passes it at most as often as it asked before.
    #[test]
    fn no_shard_takes_more_than_its_turn(shards in 2u32..6, at_once in 1u32..4, limit in 1u32..4) {
        let mut rooms = open([at_a_time(limit)]);
        let mut next = vec![0; shards as usize];
        let mut asks = |rooms: &mut Rooms, shard: u32| {
            rooms.ask(shard, key(next[shard as usize]), needs(&[0]), 0);
            next[shard as usize] += 1;
        };
        (0..shards).for_each(|shard| (0..at_once).for_each(|_| asks(&mut rooms, shard)));
        let (mut holds, mut had) = (VecDeque::new(), vec![0u32; shards as usize]);
        for _ in 0..300 {
            for (shard, told) in rooms.settle(Duration::ZERO) {
                let Told::Granted(trial) = told else { continue };
                had[shard as usize] += 1;
                holds.push_back((shard, trial));
            }
            prop_assert_eq!(holds.len() as u32, limit.min(shards * at_once), "kept at the limit");
            let (shard, trial) = holds.pop_front().expect("somebody has room");
            rooms.end(shard, &trial);
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
    #[derive(Clone, Copy)]
    enum Step {
        Ask(u32, u32),
        End(u32, u32),
        Arrive(u32, u32),
        Leave(u32),
        HalfAMinute,
    }
    let few_starts = Limit { concurrency: Some(2), starts_per_minute: Some(2) };
    let of = |shard: u32| -> Needs { [needs(&[0]), needs(&[0, 1]), needs(&[1])][shard as usize].clone() };
    let pools = [[at_a_time(1), at_a_time(2)], [at_a_time(1), few_starts], [few_starts, at_a_time(1)]];
    let mut open = Vec::new();
    for (which, limits) in pools.into_iter().enumerate() {
        for (places, backlog) in [(1, 1), (2, 0)] {
            let mut rooms = Rooms::new(limits);
            (0..3).for_each(|shard| rooms.enter(shard, places, backlog));
            let seen = Seen { places, backlog, ..Seen::default() };
            open.push((which, rooms, seen, BTreeSet::new(), Duration::ZERO));
        }
    }
    let mut reached = BTreeSet::new();
    while let Some((which, rooms, seen, gone, now)) = open.pop() {
        let limits = pools[which];
        // What matters of a state: who waits in which order, who holds, who is gone, and how long ago
        // the starts were.
        let ages: Vec<Vec<Duration>> =
            rooms.pools.iter().map(|pool| pool.starts.iter().map(|start| now - *start).collect()).collect();
        let waiting = |(shard, worker): (&u32, &Worker)| {
            let one = |(at, one): (&u64, &Waiting)| (*at, (*shard, one.trial.index, one.told));
            worker.waiting.iter().map(one).collect::<Vec<_>>()
        };
        let waiting: BTreeMap<u64, (u32, u32, bool)> = rooms.workers.iter().flat_map(waiting).collect();
        let waiting: Vec<_> = waiting.into_values().collect();
        if !reached.insert((
            which,
            (seen.places, seen.backlog),
            waiting,
            seen.holds.clone(),
            (seen.done.clone(), seen.on_their_way.clone()),
            gone.clone(),
            ages,
        )) {
            continue;
        }
        seen.clone().drain(&mut rooms.clone(), &limits, now);
        let mut next = Vec::new();
        for shard in (0..3).filter(|shard| !gone.contains(shard)) {
            let asked = (0..2).find(|trial| !seen.asked.contains_key(&(shard, *trial)));
            next.extend(asked.map(|trial| Step::Ask(shard, trial)));
            next.push(Step::Leave(shard));
        }
        next.extend(seen.holds.iter().map(|(shard, trial)| Step::End(*shard, *trial)));
        next.extend(seen.on_their_way.iter().map(|(shard, trial)| Step::Arrive(*shard, *trial)));
        if rooms.workers.values().any(|worker| !worker.waiting.is_empty())
            && rooms.pools.iter().any(|pool| !pool.starts.is_empty())
        {
            next.push(Step::HalfAMinute);
        }
        for step in next {
            let (mut rooms, mut seen, mut gone, mut now) = (rooms.clone(), seen.clone(), gone.clone(), now);
            match step {
                Step::Ask(shard, trial) => seen.ask(&mut rooms, now, (shard, trial), of(shard)),
                Step::End(shard, trial) => seen.end(&mut rooms, (shard, trial)),
                Step::Arrive(shard, trial) => seen.arrive(&mut rooms, (shard, trial)),
                Step::Leave(shard) => {
                    gone.insert(shard);
                    seen.leave(&mut rooms, shard);
                }
                Step::HalfAMinute => now += MINUTE / 2,
            }
            seen.settle(&mut rooms, &limits, now);
            open.push((which, rooms, seen, gone, now));
        }
    }
    assert!(reached.len() > 1000, "{} states", reached.len());
}
