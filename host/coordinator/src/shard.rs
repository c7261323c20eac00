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
mod tests {
    use super::*;
    use crate::trials::{Arms, PlannedCase};
    use mst_model::Digest;
    use mst_model::bundle::Planned;
    use mst_model::outcome::Status;
    use mst_model::transcript::ClientInfo;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(index: u32) -> TrialKey {
        TrialKey { case: "case".parse().expect("id"), variant: "v".parse().expect("id"), index }
    }

    fn done(index: u32) -> TrialDone {
        TrialDone {
            trial: key(index),
            status: Status::Completed,
            path: format!("trials/case/v/{index}"),
            size_bytes: 1,
            sha256: Digest::of(b""),
        }
    }

    fn uses() -> Uses {
        Uses { providers: BTreeSet::from(["models".parse().expect("a name")]), servers: BTreeSet::new() }
    }

    fn hello_of(change: impl FnOnce(&mut String, &mut u32, &mut Option<String>, &mut String)) -> FromWorker {
        let (mut mst, mut shard, mut image, mut name) =
            ("0.1.0".to_owned(), 0, Some("sha256:0a".to_owned()), "echo".to_owned());
        change(&mut mst, &mut shard, &mut image, &mut name);
        let clients = BTreeMap::from([("v".parse().expect("id"), ClientInfo { name, version: None })]);
        FromWorker::Hello { protocol: PROTOCOL.into(), mst, shard, work: Work::Collect, image, clients }
    }

    fn hello() -> FromWorker {
        hello_of(|_, _, _, _| {})
    }

    fn acquire(index: u32) -> FromWorker {
        FromWorker::Acquire { trial: key(index), uses: uses() }
    }

    fn need(names: &[&str]) -> FromWorker {
        let names = names.iter().map(|name| name.parse().expect("a name")).collect();
        FromWorker::NeedTokens { names, why: Need::Start }
    }

    fn beat(index: u32, age_ms: u64, deadline_ms: u64) -> FromWorker {
        FromWorker::Heartbeat { trials: vec![InFlight { trial: key(index), age_ms, deadline_ms }] }
    }

    /// Three trials of a minute each, two at a time.
    fn conversation(tokens: &[&str]) -> Conversation {
        let client = PlannedClient {
            name: "echo".to_owned(),
            uses: uses(),
            needs: VariantNeeds::default(),
            tokens: tokens.iter().map(|name| name.parse().expect("a name")).collect(),
            keys: 0,
        };
        let terms = Terms {
            shard: 0,
            mst: "0.1.0".to_owned(),
            image: Some("sha256:0a".to_owned()),
            clients: BTreeMap::from([("v".parse().expect("id"), client)]),
            concurrency: 2,
            beyond: 10 * SECOND,
        };
        let case = PlannedCase { sha256: Digest::of(b"case"), deadline: 60 * SECOND, pools: Box::default() };
        let trials: Vec<_> = (0..3)
            .map(|index| Planned {
                variant: key(index).variant,
                index,
                attempt: index,
                lane: 0,
                previous: None,
            })
            .collect();
        let mut planned = Trials::new(Arms::new(vec![key(0).variant], 3));
        planned.add(key(0).case, case, &trials);
        Conversation::new(terms, planned)
    }

    impl Conversation {
        /// The next message.
        fn hear(&mut self, message: FromWorker) -> Result<Action, Breach> {
            self.hear_at(SECOND, message)
        }

        fn give_for_ever(&mut self, now: Duration) {
            let names = self.needed.iter().flat_map(|(names, _)| names.clone());
            let tokens: Vec<_> = names.map(|name| (name, None)).collect();
            self.give(now, tokens);
        }

        fn hear_at(&mut self, now: Duration, message: FromWorker) -> Result<Action, Breach> {
            self.on(now, Numbered { seq: self.seq + 1, message })
        }
    }

    /// All is granted at once and given at once.
    fn talk(tokens: &[&str], messages: Vec<FromWorker>) -> Result<Vec<Action>, Breach> {
        talk_of(tokens, messages, true)
    }

    fn talk_of(tokens: &[&str], messages: Vec<FromWorker>, grants: bool) -> Result<Vec<Action>, Breach> {
        let mut conversation = conversation(tokens);
        let hear = |message| {
            let action = conversation.hear(message)?;
            match &action {
                Action::Ask(trial, _) if grants => assert!(conversation.grant(SECOND, trial)),
                Action::Tokens(..) => conversation.give_for_ever(SECOND),
                _ => {}
            }
            Ok(action)
        };
        messages.into_iter().map(hear).collect()
    }

    #[test]
    fn the_usual_course() {
        let said = talk(
            &["gateway"],
            vec![
                hello(),
                need(&["gateway"]),
                acquire(1),
                beat(1, 900, 60_000),
                FromWorker::Trial(done(1)),
                FromWorker::Done { trials: 1, clean: false },
            ],
        );
        let names = BTreeSet::from(["gateway".parse().expect("a name")]);
        let expected = Expected {
            sha256: Digest::of(b""),
            case_sha256: Digest::of(b"case"),
            shard: 0,
            attempt: 1,
            previous: None,
        };
        assert_eq!(
            said,
            Ok(vec![
                Action::Begin,
                Action::Tokens(names, Need::Start),
                Action::Ask(key(1), Lane::default()),
                Action::Nothing,
                Action::Store(done(1), expected),
                Action::End { clean: false },
            ])
        );
    }

    #[test]
    fn every_breach_is_its_own_error() {
        let says = |messages| talk(&[], messages).expect_err("a breach").to_string();
        assert_eq!(says(vec![acquire(0)]), "`acquire` came before `hello`");
        assert_eq!(says(vec![hello(), hello()]), "`hello` came twice");
        assert_eq!(
            says(vec![hello(), acquire(9)]),
            "`acquire` names a trial that is not of this shard: case v #9"
        );
        assert_eq!(says(vec![hello(), acquire(0), acquire(0)]), "`acquire` came twice for case v #0");
        assert_eq!(
            talk_of(&[], vec![hello(), acquire(0), acquire(1), acquire(2)], false)
                .expect_err("a breach")
                .to_string(),
            "`acquire` for case v #2 is one more than the 2 of its lane that may wait at a time"
        );
        assert_eq!(
            says(vec![hello(), FromWorker::Acquire { trial: key(0), uses: Uses::default() }]),
            "`acquire` for case v #0 names other services than the plan"
        );
        assert_eq!(
            says(vec![hello(), FromWorker::Trial(done(0))]),
            "`trial` came without `granted` for case v #0"
        );
        assert_eq!(
            says(vec![hello(), acquire(0), FromWorker::Trial(done(0)), FromWorker::Trial(done(0))]),
            "`trial` came twice for case v #0"
        );
        assert_eq!(
            says(vec![hello(), beat(0, 1, 60_000)]),
            "`heartbeat` names case v #0, which is not under way"
        );
        assert_eq!(
            says(vec![hello(), acquire(0), beat(0, 1, 61_000)]),
            "`heartbeat` gives case v #0 61000 ms, where the plan gives 60000 ms"
        );
        assert_eq!(
            says(vec![hello(), acquire(0), beat(0, 71_000, 60_000)]),
            "case v #0 is under way for 71 s, where at most 70 s are possible"
        );
        assert_eq!(
            says(vec![hello(), need(&["other"])]),
            "`need-tokens` names `other`, which no client of this shard needs"
        );
        assert_eq!(says(vec![hello(), need(&[])]), "`need-tokens` names nothing");
        assert_eq!(
            says(vec![hello(), FromWorker::Done { trials: 7, clean: true }]),
            "`done` counts 7 trials, 0 were seen"
        );
        let finished = FromWorker::Done { trials: 0, clean: true };
        assert_eq!(says(vec![hello(), finished.clone(), finished]), "`done` came after `done`");
        assert_eq!(
            says(vec![hello_of(|mst, _, _, _| *mst = "9.9.9".to_owned())]),
            "the worker is mst 9.9.9, the coordinator is mst 0.1.0: both must be the same"
        );
        assert_eq!(
            says(vec![hello_of(|_, shard, _, _| *shard = 7)]),
            "the worker took shard 7, it was given shard 0"
        );
        assert_eq!(
            says(vec![hello_of(|_, _, image, _| *image = None)]),
            "the worker says that its image is not known, the runner says `sha256:0a`"
        );
        assert_eq!(
            says(vec![hello_of(|_, _, _, name| *name = "command".to_owned())]),
            "the worker would ask `command` for `v`, the plan has `echo` for `v`"
        );
    }

    #[test]
    fn nothing_starts_without_its_tokens() {
        let mut waiting = conversation(&["a", "b"]);
        waiting.hear(hello()).expect("greets");
        waiting.hear(need(&["a"])).expect("asks");
        assert_eq!(waiting.hear(need(&["b"])), Err(Breach::NeedTwice));
        let mut half = conversation(&["a", "b"]);
        half.hear(hello()).expect("greets");
        half.hear(need(&["a"])).expect("asks");
        half.give_for_ever(SECOND);
        let breach = half.hear(acquire(0)).expect_err("not yet");
        assert_eq!(breach.to_string(), "`acquire` came for case v #0 before its tokens were given");
    }

    #[test]
    fn what_needs_a_token_that_has_ended_is_locked_until_there_is_another() {
        let mut conversation = conversation(&["a", "b"]);
        conversation.hear(hello()).expect("greets");
        assert_eq!(conversation.locked(SECOND), [0].into());
        let name = |name: &str| name.parse().expect("a name");
        for (now, then) in [(1, 60), (50, 90)] {
            conversation.hear(need(&["a", "b"])).expect("asks");
            let tokens = [(name("a"), Some((then - now) * SECOND)), (name("b"), None)];
            conversation.give(now * SECOND, tokens);
            assert_eq!(conversation.locked(now * SECOND), [].into());
            assert_eq!(conversation.locks_at(now * SECOND), Some(then * SECOND));
        }
        assert_eq!(conversation.locked(89 * SECOND), [].into());
        assert_eq!(
            (conversation.locked(90 * SECOND), conversation.locks_at(90 * SECOND)),
            ([0].into(), None)
        );
    }

    #[test]
    fn a_trial_that_is_long_over_its_deadline_is_seen_by_this_clock_too() {
        let mut conversation = conversation(&["a"]);
        for message in [hello(), need(&["a"])] {
            conversation.hear(message).expect("may be said");
        }
        conversation.give_for_ever(SECOND);
        conversation.hear(acquire(0)).expect("asks");
        assert_eq!(conversation.overdue_at(), None, "what waits for room is not late");
        assert!(conversation.grant(100 * SECOND, &key(0)));
        assert_eq!(conversation.overdue_at(), Some(170 * SECOND));
        assert_eq!(conversation.overdue(169 * SECOND), None);
        let late = conversation.overdue(170 * SECOND).expect("overdue").to_string();
        assert_eq!(late, "case v #0 is under way for 70 s, where at most 70 s are possible");
        // It may wait for a token that ran out, and has so much longer.
        conversation.hear_at(150 * SECOND, need(&["a"])).expect("asks");
        assert_eq!((conversation.overdue_at(), conversation.overdue(999 * SECOND)), (None, None));
        conversation.give_for_ever(200 * SECOND);
        assert_eq!(conversation.overdue_at(), Some(220 * SECOND));
        conversation.hear(FromWorker::Trial(done(0))).expect("ends");
        assert_eq!((conversation.overdue_at(), conversation.in_flight()), (None, 0));
    }

    #[test]
    fn who_asks_for_tokens_again_and_again_is_overdue_all_the_same() {
        let mut conversation = conversation(&["a"]);
        for message in [hello(), need(&["a"])] {
            conversation.hear(message).expect("may be said");
        }
        conversation.give_for_ever(SECOND);
        conversation.hear(acquire(0)).expect("asks");
        assert!(conversation.grant(10 * SECOND, &key(0)));
        for at in 2..8 {
            conversation.hear_at(at * 10 * SECOND, need(&["a"])).expect("asks");
            conversation.give_for_ever(at * 10 * SECOND + SECOND);
        }
        assert_eq!(conversation.overdue_at(), Some(86 * SECOND), "six seconds later than without");
        // One that was let start meanwhile waits from then on.
        conversation.hear(acquire(1)).expect("asks");
        conversation.hear_at(80 * SECOND, need(&["a"])).expect("asks");
        assert!(conversation.grant(85 * SECOND, &key(1)));
        conversation.give_for_ever(90 * SECOND);
        conversation.hear(FromWorker::Trial(done(0))).expect("ends");
        assert_eq!(conversation.overdue_at(), Some(160 * SECOND));
    }

    #[test]
    fn a_message_that_was_lost_or_doubled_shows_in_its_number() {
        let mut conversation = conversation(&[]);
        conversation.on(SECOND, Numbered { seq: 1, message: hello() }).expect("first");
        let late = Numbered { seq: 3, message: FromWorker::Heartbeat { trials: vec![] } };
        assert_eq!(conversation.on(SECOND, late), Err(Breach::Gap { expected: 2, got: 3 }));
    }

    proptest! {
        /// Whatever a worker says and whenever it is answered: a trial is granted at most once,
        /// after its tokens, never after a stop and never as one too many; it is stored at most once
        /// and only after its grant. How many are under way at a time is whoever grants to see to.
        #[test]
        fn no_order_of_messages_invents_or_doubles_a_trial(
            script in prop::collection::vec((0u8..9, 0u32..4), 0..80),
            stop_at in 0usize..80,
        ) {
            let mut conversation = conversation(&["a"]);
            let (mut asked, mut granted, mut stored) = (Vec::new(), Vec::new(), Vec::new());
            let (mut open, mut given) = (false, false);
            for (at, (what, index)) in script.into_iter().enumerate() {
                if at == stop_at {
                    conversation.stop();
                }
                let message = match what {
                    0 => hello(),
                    1 => acquire(index),
                    2 => FromWorker::Trial(done(index)),
                    3 => beat(index, 1000, 60_000),
                    4 => FromWorker::Done { trials: u64::from(index), clean: true },
                    5 => need(&["a"]),
                    6 if !asked.is_empty() => {
                        let trial: TrialKey = asked.remove(index as usize % asked.len());
                        prop_assert_eq!(conversation.grant(SECOND, &trial), at < stop_at && conversation.phase != Phase::Over);
                        prop_assert!(!conversation.grant(SECOND, &trial), "it is granted once");
                        if at < stop_at && conversation.phase != Phase::Over {
                            prop_assert!(given && !granted.contains(&trial));
                            granted.push(trial);
                        }
                        continue;
                    }
                    6 => {
                        prop_assert!(!conversation.grant(SECOND, &key(index)) , "nobody asked");
                        continue;
                    }
                    _ => {
                        conversation.give_for_ever(SECOND);
                        given |= open;
                        open = false;
                        continue;
                    }
                };
                match conversation.hear(message) {
                    Ok(Action::Ask(trial, _)) => asked.push(trial),
                    Ok(Action::Tokens(..)) => {
                        prop_assert!(!open);
                        open = true;
                    }
                    Ok(Action::Store(done, _)) => {
                        prop_assert!(granted.contains(&done.trial) && !stored.contains(&done.trial));
                        stored.push(done.trial);
                    }
                    _ => {}
                }
                let in_flight = granted.len() - stored.len();
                prop_assert_eq!(conversation.in_flight() as usize, in_flight);
                prop_assert!(asked.len() <= 2);
            }
        }
    }
}
