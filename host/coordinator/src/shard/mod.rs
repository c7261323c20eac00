//! The coordinator's side of one shard's conversation: what may be said when. It has no I/O and
//! no clock (whoever drives it says what time it is), so that every order of messages can be tried.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mst_model::{TokenId, TrialKey, VariantId};
use mst_protocol::{FromWorker, InFlight, Need, Numbered, PROTOCOL, TrialDone, Uses, Work};
use mst_store::Expected;

use crate::pools::VariantNeeds;
use crate::room::Needs;
use crate::trials::{TrialState, Trials};

/// What the coordinator does about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// The worker is of our version and may begin.
    Begin,
    /// Get these tokens for it.
    Tokens(BTreeSet<TokenId>, Need),
    /// It asks leave for a trial of this lane: [`grant`](Conversation::grant) it once there is room.
    Ask(TrialKey, Lane),
    /// Bring the trial's directory here, hold it to this, keep it.
    Store(TrialDone, Expected),
    /// Nothing.
    Nothing,
    /// The worker has no more to say.
    End {
        /// Whether it could clean up.
        clean: bool,
    },
}

/// A message that may not be said now. It ends the shard as broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Breach {
    #[error("`{name}` came before `hello`")]
    NotYet { name: &'static str },
    #[error("`hello` came twice")]
    HelloTwice,
    #[error("`{name}` came after `done`")]
    AfterDone { name: &'static str },
    #[error("message {got} came where {expected} was due")]
    Gap { expected: u64, got: u64 },
    #[error("the worker speaks `{worker}`, this mst speaks `{PROTOCOL}`")]
    Protocol { worker: String },
    #[error("the worker is mst {worker}, the coordinator is mst {coordinator}: both must be the same")]
    Version { worker: String, coordinator: String },
    #[error("the worker took shard {worker}, it was given shard {given}")]
    WrongShard { worker: u32, given: u32 },
    #[error("the worker would `{worker}`, it was asked to `collect`")]
    WrongWork { worker: &'static str },
    #[error("the worker says that its image is {worker}, the runner says {runner}")]
    WrongImage { worker: String, runner: String },
    #[error("the worker would ask {worker}, the plan has {plan}")]
    WrongClients { worker: String, plan: String },
    #[error("`need-tokens` names `{name}`, which no client of this shard needs")]
    UnknownToken { name: TokenId },
    #[error("`need-tokens` names nothing")]
    NoToken,
    #[error("`need-tokens` came while one was open")]
    NeedTwice,
    #[error("`acquire` came for {trial} before its tokens were given")]
    NoTokensYet { trial: TrialKey },
    #[error("`acquire` for {trial} names other services than the plan")]
    WrongUses { trial: TrialKey },
    #[error("`acquire` for {trial} is one more than the {concurrency} of its lane that may wait at a time")]
    TooMany { trial: TrialKey, concurrency: u32 },
    #[error("`heartbeat` names {trial}, which is not under way")]
    NotUnderWay { trial: TrialKey },
    #[error("`heartbeat` gives {trial} {said} ms, where the plan gives {planned} ms")]
    WrongDeadline { trial: TrialKey, said: u64, planned: u64 },
    #[error("{trial} is under way for {} s, where at most {} s are possible", .age.as_secs(), .limit.as_secs())]
    Overdue { trial: TrialKey, age: Duration, limit: Duration },
    #[error("`{name}` names a trial that is not of this shard: {trial}")]
    NotPlanned { name: &'static str, trial: TrialKey },
    #[error("`acquire` came twice for {trial}")]
    AcquiredTwice { trial: TrialKey },
    #[error("`trial` came without `granted` for {trial}")]
    NotGranted { trial: TrialKey },
    #[error("`trial` came twice for {trial}")]
    TrialTwice { trial: TrialKey },
    #[error("`done` counts {said} trials, {seen} were seen")]
    WrongCount { said: u64, seen: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    Working,
    Over,
}

/// A variant's client, as the plan has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlannedClient {
    /// Its kind.
    pub(crate) name: String,
    /// What its trials talk to.
    pub(crate) uses: Uses,
    /// Which pools they need.
    pub(crate) needs: VariantNeeds,
    /// The tokens that it needs.
    pub(crate) tokens: BTreeSet<TokenId>,
    /// A number that it shares with those that need the same tokens.
    pub(crate) keys: u16,
}

/// What trials wait for together: the same room, and the same tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) needs: Needs,
    pub(crate) keys: u16,
}

impl PlannedClient {
    /// Where the trials of a case that uses these pools wait.
    pub(crate) fn lane(&self, of_case: &[u16]) -> Lane {
        Lane { needs: self.needs.with(of_case), keys: self.keys }
    }
}

/// What is known of a shard before its worker says anything.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) shard: u32,
    /// The coordinator's version.
    pub(crate) mst: String,
    /// The digest of its machine's image, where its runner said one.
    pub(crate) image: Option<String>,
    pub(crate) clients: BTreeMap<VariantId, PlannedClient>,
    /// How many trials may be open at a time.
    pub(crate) concurrency: u32,
    /// By how much a trial may be longer than its client's deadline. One that is longer still is a
    /// dead worker's, whatever that says.
    pub(crate) beyond: Duration,
}

/// One shard's conversation.
pub(crate) struct Conversation {
    terms: Terms,
    phase: Phase,
    seq: u64,
    trials: Trials,
    /// Trials that were let start, and when.
    under_way: BTreeMap<TrialKey, Duration>,
    /// How many trials wait for leave, by their lanes.
    asked: BTreeMap<Lane, u32>,
    /// Tokens that the worker was given at least once, and until when each is good.
    given: BTreeMap<TokenId, Option<Duration>>,
    /// What an open `need-tokens` asks for, and since when.
    needed: Option<(BTreeSet<TokenId>, Duration)>,
    ended: u64,
    stopping: bool,
}

impl Conversation {
    pub(crate) fn new(terms: Terms, trials: Trials) -> Conversation {
        Conversation {
            terms,
            phase: Phase::Greeting,
            seq: 0,
            trials,
            under_way: BTreeMap::new(),
            asked: BTreeMap::new(),
            given: BTreeMap::new(),
            needed: None,
            ended: 0,
            stopping: false,
        }
    }

    /// Whether `hello` is still to come, so that a line which is no message may be noise.
    pub(crate) fn greeting(&self) -> bool {
        self.phase == Phase::Greeting
    }

    /// Nothing is granted from here on.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Trials that were let start and have not ended.
    pub(crate) fn in_flight(&self) -> u64 {
        self.under_way.len() as u64
    }

    /// Whether a trial was let start and has not ended.
    pub(crate) fn is_under_way(&self, trial: &TrialKey) -> bool {
        self.under_way.contains_key(trial)
    }

    /// Whether every trial of the shard has ended.
    pub(crate) fn complete(&self) -> bool {
        self.ended == self.trials.len()
    }

    /// Takes a message at `now`, a time since any fixed moment.
    pub(crate) fn on(
        &mut self,
        now: Duration,
        Numbered { seq, message }: Numbered,
    ) -> Result<Action, Breach> {
        let expected = self.seq + 1;
        if seq != expected {
            return Err(Breach::Gap { expected, got: seq });
        }
        self.seq = seq;
        let name = message.name();
        match (self.phase, message) {
            (Phase::Over, _) => Err(Breach::AfterDone { name }),
            (Phase::Greeting, hello @ FromWorker::Hello { .. }) => {
                self.greet(hello)?;
                self.phase = Phase::Working;
                Ok(Action::Begin)
            }
            (Phase::Greeting, _) => Err(Breach::NotYet { name }),
            (Phase::Working, FromWorker::Hello { .. }) => Err(Breach::HelloTwice),
            (Phase::Working, FromWorker::NeedTokens { names, why }) => self.need(now, names, why),
            (Phase::Working, FromWorker::Acquire { trial, uses }) => self.acquire(trial, &uses),
            (Phase::Working, FromWorker::Trial(done)) => self.trial(done),
            (Phase::Working, FromWorker::Heartbeat { trials }) => {
                trials.into_iter().try_for_each(|trial| self.beat(trial)).map(|()| Action::Nothing)
            }
            (Phase::Working, FromWorker::Done { trials, clean }) => {
                if trials != self.ended {
                    return Err(Breach::WrongCount { said: trials, seen: self.ended });
                }
                self.phase = Phase::Over;
                Ok(Action::End { clean })
            }
        }
    }

    /// Lets a trial that asked start at `now`; false where it may not any more.
    #[must_use]
    pub(crate) fn grant(&mut self, now: Duration, trial: &TrialKey) -> bool {
        if self.stopping || self.phase != Phase::Working {
            return false;
        }
        match self.trials.state(trial) {
            Some(state) if *state == TrialState::Asked => {
                *state = TrialState::Granted;
                let lane = self.lane(trial);
                if let Some(asked) = self.asked.get_mut(&lane) {
                    *asked -= 1;
                }
                self.under_way.insert(trial.clone(), now);
                true
            }
            _ => false,
        }
    }

    /// Whether the worker is to hear that a trial waits for room; not where nothing starts any more.
    #[must_use]
    pub(crate) fn waits(&mut self, trial: &TrialKey) -> bool {
        let asked = self.trials.state(trial).is_some_and(|state| *state == TrialState::Asked);
        asked && !self.stopping && self.phase == Phase::Working
    }

    /// Where a trial waits.
    fn lane(&self, trial: &TrialKey) -> Lane {
        let of_case = self.trials.case(trial).map_or(&[][..], |case| &case.pools);
        let client = self.terms.clients.get(&trial.variant);
        client.map_or(Lane::default(), |client| client.lane(of_case))
    }

    /// What was needed is given, and good for so long. What is under way may have waited for it, and for no longer than it was
    /// needed: who asks again and again puts off nothing else.
    pub(crate) fn give(
        &mut self,
        now: Duration,
        good_for: impl IntoIterator<Item = (TokenId, Option<Duration>)>,
    ) {
        let Some((_, asked)) = self.needed.take() else { return };
        let until = |time: Duration| now.saturating_add(time);
        self.given.extend(good_for.into_iter().map(|(name, time)| (name, time.map(until))));
        for since in self.under_way.values_mut() {
            *since += now.saturating_sub(asked.max(*since));
        }
    }

    /// The sets of tokens of which the worker has not got all, or not any more: what needs one would only
    /// wait there for it, and hold its room.
    pub(crate) fn locked(&self, now: Duration) -> BTreeSet<u16> {
        let good =
            |name: &TokenId| self.given.get(name).is_some_and(|until| until.is_none_or(|until| until > now));
        let lacks = |client: &&PlannedClient| !client.tokens.iter().all(good);
        self.terms.clients.values().filter(lacks).map(|client| client.keys).collect()
    }

    /// When the next token ends that is still good at `now`.
    pub(crate) fn locks_at(&self, now: Duration) -> Option<Duration> {
        self.given.values().flatten().copied().filter(|until| *until > now).min()
    }

    /// When the next trial is overdue, if its worker does not end it.
    pub(crate) fn overdue_at(&self) -> Option<Duration> {
        if self.needed.is_some() {
            return None;
        }
        self.under_way.iter().map(|(trial, since)| *since + self.limit(trial)).min()
    }

    /// The trial that is overdue at `now`.
    pub(crate) fn overdue(&self, now: Duration) -> Option<Breach> {
        self.overdue_at().filter(|at| *at <= now)?;
        let (trial, since) =
            self.under_way.iter().find(|(trial, since)| **since + self.limit(trial) <= now)?;
        let age = now.saturating_sub(*since);
        Some(Breach::Overdue { trial: trial.clone(), age, limit: self.limit(trial) })
    }

    /// The longest that a trial can take.
    fn limit(&self, trial: &TrialKey) -> Duration {
        let client = self.trials.case(trial).map_or(Duration::ZERO, |case| case.deadline);
        client.saturating_add(self.terms.beyond)
    }

    fn greet(&self, hello: FromWorker) -> Result<(), Breach> {
        let FromWorker::Hello { protocol, mst, shard, work, image, clients } = hello else { return Ok(()) };
        let terms = &self.terms;
        if protocol != PROTOCOL {
            return Err(Breach::Protocol { worker: bounded(&protocol) });
        }
        if mst != terms.mst {
            return Err(Breach::Version { worker: bounded(&mst), coordinator: terms.mst.clone() });
        }
        if shard != terms.shard {
            return Err(Breach::WrongShard { worker: shard, given: terms.shard });
        }
        if work != Work::Collect {
            return Err(Breach::WrongWork { worker: "grade" });
        }
        if let Some(runner) = &terms.image
            && image.as_ref() != Some(runner)
        {
            let worker = image.map_or("not known".to_owned(), |image| format!("`{}`", bounded(&image)));
            return Err(Breach::WrongImage { worker, runner: format!("`{}`", bounded(runner)) });
        }
        let said: Vec<_> = clients.iter().map(|(variant, client)| (variant, &client.name)).collect();
        let plan: Vec<_> = terms.clients.iter().map(|(variant, client)| (variant, &client.name)).collect();
        if said != plan {
            return Err(Breach::WrongClients { worker: listed(&said), plan: listed(&plan) });
        }
        Ok(())
    }

    fn need(&mut self, now: Duration, names: BTreeSet<TokenId>, why: Need) -> Result<Action, Breach> {
        if self.needed.is_some() {
            return Err(Breach::NeedTwice);
        }
        let known =
            |name: &&TokenId| !self.terms.clients.values().any(|client| client.tokens.contains(*name));
        if let Some(name) = names.iter().find(known) {
            return Err(Breach::UnknownToken { name: name.clone() });
        }
        if names.is_empty() {
            return Err(Breach::NoToken);
        }
        self.needed = Some((names.clone(), now));
        Ok(Action::Tokens(names, why))
    }

    fn acquire(&mut self, trial: TrialKey, uses: &Uses) -> Result<Action, Breach> {
        let Some(state) = self.trials.state(&trial) else {
            return Err(Breach::NotPlanned { name: "acquire", trial });
        };
        if *state != TrialState::Planned {
            return Err(Breach::AcquiredTwice { trial });
        }
        let client = self.terms.clients.get(&trial.variant);
        if client.is_some_and(|client| client.uses != *uses) {
            return Err(Breach::WrongUses { trial });
        }
        if client.is_some_and(|client| !client.tokens.iter().all(|name| self.given.contains_key(name))) {
            return Err(Breach::NoTokensYet { trial });
        }
        let (lane, concurrency) = (self.lane(&trial), self.terms.concurrency);
        // How many are under way is this side's to see to: the worker may not know yet of a grant.
        let asked = self.asked.entry(lane.clone()).or_default();
        if *asked >= concurrency {
            return Err(Breach::TooMany { trial, concurrency });
        }
        *asked += 1;
        if let Some(state) = self.trials.state(&trial) {
            *state = TrialState::Asked;
        }
        // The worker learns of a stop by `cancel`, which crosses its `acquire`.
        Ok(if self.stopping { Action::Nothing } else { Action::Ask(trial, lane) })
    }

    fn beat(&self, InFlight { trial, age_ms, deadline_ms }: InFlight) -> Result<(), Breach> {
        if !self.under_way.contains_key(&trial) {
            return Err(Breach::NotUnderWay { trial });
        }
        let planned = self.trials.case(&trial).map_or(0, |case| millis(case.deadline));
        if deadline_ms != planned {
            return Err(Breach::WrongDeadline { trial, said: deadline_ms, planned });
        }
        // By the worker's own clock; by this one's, `overdue` says so.
        let (age, limit) = (Duration::from_millis(age_ms), self.limit(&trial));
        if age > limit { Err(Breach::Overdue { trial, age, limit }) } else { Ok(()) }
    }

    fn trial(&mut self, done: TrialDone) -> Result<Action, Breach> {
        let Some(state) = self.trials.state(&done.trial) else {
            return Err(Breach::NotPlanned { name: "trial", trial: done.trial });
        };
        match *state {
            TrialState::Unplanned | TrialState::Planned | TrialState::Asked => {
                Err(Breach::NotGranted { trial: done.trial })
            }
            TrialState::Ended => Err(Breach::TrialTwice { trial: done.trial }),
            TrialState::Granted => {
                *state = TrialState::Ended;
                self.under_way.remove(&done.trial);
                self.ended += 1;
                let (attempt, previous) = self.trials.attempt(&done.trial);
                let Some(case_sha256) = self.trials.case(&done.trial).map(|case| case.sha256) else {
                    return Err(Breach::NotPlanned { name: "trial", trial: done.trial });
                };
                let shard = self.terms.shard;
                let expected = Expected { sha256: done.sha256, case_sha256, shard, attempt, previous };
                Ok(Action::Store(done, expected))
            }
        }
    }
}

/// A length of time as the wire has it.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What a worker said, as an error may quote it.
fn bounded(text: &str) -> String {
    text.chars().take(96).flat_map(char::escape_debug).collect()
}

fn listed(clients: &[(&VariantId, &String)]) -> String {
    let shown = clients.iter().take(8).map(|(variant, name)| format!("`{}` for `{variant}`", bounded(name)));
    match shown.collect::<Vec<_>>() {
        clients if clients.is_empty() => "no client".to_owned(),
        clients => clients.join(", "),
    }
}

#[cfg(test)]
mod tests;
