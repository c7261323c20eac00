//! The coordinator's side of one shard's conversation: what may be said when. It has no I/O and
//! no clock, so that every order of messages can be tried.

use std::collections::HashMap;

use mst_model::TrialKey;
use mst_protocol::{FromWorker, Numbered, PROTOCOL, TrialDone, Work};

/// What the coordinator does about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// The worker is of our version and may begin.
    Begin,
    /// Let the trial start.
    Grant(TrialKey),
    /// Bring the trial's directory here, check it, keep it.
    Store(TrialDone),
    /// Nothing.
    Nothing,
    /// The worker has no more to say.
    End,
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
    #[error("`{name}` names a trial that is not of this shard: {trial}")]
    NotPlanned { name: &'static str, trial: TrialKey },
    #[error("`acquire` came twice for {trial}")]
    AcquiredTwice { trial: TrialKey },
    #[error("`trial` came without `acquire` for {trial}")]
    NotAcquired { trial: TrialKey },
    #[error("`trial` came twice for {trial}")]
    TrialTwice { trial: TrialKey },
    #[error("`done` counts {said} trials, {seen} were seen")]
    WrongCount { said: u64, seen: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialState {
    Planned,
    Granted,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    Working,
    Over,
}

/// One shard's conversation.
pub(crate) struct Conversation {
    shard: u32,
    mst: String,
    phase: Phase,
    seq: u64,
    trials: HashMap<TrialKey, TrialState>,
    in_flight: u64,
    ended: u64,
    stopping: bool,
}

impl Conversation {
    pub(crate) fn new(shard: u32, mst: &str, trials: impl Iterator<Item = TrialKey>) -> Conversation {
        Conversation {
            shard,
            mst: mst.to_owned(),
            phase: Phase::Greeting,
            seq: 0,
            trials: trials.map(|key| (key, TrialState::Planned)).collect(),
            in_flight: 0,
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
        self.in_flight
    }

    /// Whether every trial of the shard has ended.
    pub(crate) fn complete(&self) -> bool {
        self.ended == self.trials.len() as u64
    }

    /// Takes a message.
    pub(crate) fn on(&mut self, Numbered { seq, message }: Numbered) -> Result<Action, Breach> {
        let expected = self.seq + 1;
        if seq != expected {
            return Err(Breach::Gap { expected, got: seq });
        }
        self.seq = seq;
        let name = message.name();
        match (self.phase, message) {
            (Phase::Over, _) => Err(Breach::AfterDone { name }),
            (Phase::Greeting, FromWorker::Hello { protocol, mst, shard, work }) => {
                self.greet(protocol, mst, shard, work)?;
                self.phase = Phase::Working;
                Ok(Action::Begin)
            }
            (Phase::Greeting, _) => Err(Breach::NotYet { name }),
            (Phase::Working, FromWorker::Hello { .. }) => Err(Breach::HelloTwice),
            (Phase::Working, FromWorker::Acquire { trial }) => self.acquire(trial),
            (Phase::Working, FromWorker::Trial(done)) => self.trial(done),
            (Phase::Working, FromWorker::Heartbeat { .. }) => Ok(Action::Nothing),
            (Phase::Working, FromWorker::Done { trials, .. }) => {
                if trials != self.ended {
                    return Err(Breach::WrongCount { said: trials, seen: self.ended });
                }
                self.phase = Phase::Over;
                Ok(Action::End)
            }
        }
    }

    fn greet(&self, protocol: String, mst: String, shard: u32, work: Work) -> Result<(), Breach> {
        if protocol != PROTOCOL {
            return Err(Breach::Protocol { worker: protocol });
        }
        if mst != self.mst {
            return Err(Breach::Version { worker: mst, coordinator: self.mst.clone() });
        }
        if shard != self.shard {
            return Err(Breach::WrongShard { worker: shard, given: self.shard });
        }
        if work != Work::Collect {
            return Err(Breach::WrongWork { worker: "grade" });
        }
        Ok(())
    }

    fn acquire(&mut self, trial: TrialKey) -> Result<Action, Breach> {
        match self.trials.get_mut(&trial) {
            None => Err(Breach::NotPlanned { name: "acquire", trial }),
            // The worker learns of the stop by `cancel`, which crosses its `acquire`.
            Some(TrialState::Planned) if self.stopping => Ok(Action::Nothing),
            Some(state @ TrialState::Planned) => {
                *state = TrialState::Granted;
                self.in_flight += 1;
                Ok(Action::Grant(trial))
            }
            Some(_) => Err(Breach::AcquiredTwice { trial }),
        }
    }

    fn trial(&mut self, done: TrialDone) -> Result<Action, Breach> {
        match self.trials.get_mut(&done.trial) {
            None => Err(Breach::NotPlanned { name: "trial", trial: done.trial }),
            Some(TrialState::Planned) => Err(Breach::NotAcquired { trial: done.trial }),
            Some(TrialState::Ended) => Err(Breach::TrialTwice { trial: done.trial }),
            Some(state @ TrialState::Granted) => {
                *state = TrialState::Ended;
                self.in_flight -= 1;
                self.ended += 1;
                Ok(Action::Store(done))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mst_model::Digest;
    use mst_model::outcome::Status;
    use proptest::prelude::*;

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

    fn hello() -> FromWorker {
        FromWorker::Hello { protocol: PROTOCOL.into(), mst: "0.1.0".into(), shard: 0, work: Work::Collect }
    }

    fn talk(messages: Vec<FromWorker>) -> Result<Vec<Action>, Breach> {
        let mut conversation = Conversation::new(0, "0.1.0", (0..3).map(key));
        messages
            .into_iter()
            .zip(1..)
            .map(|(message, seq)| conversation.on(Numbered { seq, message }))
            .collect()
    }

    #[test]
    fn the_usual_course() {
        let acquire = FromWorker::Acquire { trial: key(0) };
        let said = talk(vec![
            hello(),
            acquire,
            FromWorker::Trial(done(0)),
            FromWorker::Done { trials: 1, clean: true },
        ]);
        assert_eq!(said, Ok(vec![Action::Begin, Action::Grant(key(0)), Action::Store(done(0)), Action::End]));
    }

    #[test]
    fn every_breach_is_its_own_error() {
        let acquire = |index| FromWorker::Acquire { trial: key(index) };
        let says = |messages| talk(messages).expect_err("a breach").to_string();
        assert_eq!(says(vec![acquire(0)]), "`acquire` came before `hello`");
        assert_eq!(says(vec![hello(), hello()]), "`hello` came twice");
        assert_eq!(
            says(vec![hello(), acquire(9)]),
            "`acquire` names a trial that is not of this shard: case v #9"
        );
        assert_eq!(says(vec![hello(), acquire(0), acquire(0)]), "`acquire` came twice for case v #0");
        assert_eq!(
            says(vec![hello(), FromWorker::Trial(done(0))]),
            "`trial` came without `acquire` for case v #0"
        );
        assert_eq!(
            says(vec![hello(), acquire(0), FromWorker::Trial(done(0)), FromWorker::Trial(done(0))]),
            "`trial` came twice for case v #0"
        );
        assert_eq!(
            says(vec![hello(), FromWorker::Done { trials: 7, clean: true }]),
            "`done` counts 7 trials, 0 were seen"
        );
        let finished = FromWorker::Done { trials: 0, clean: true };
        assert_eq!(says(vec![hello(), finished.clone(), finished]), "`done` came after `done`");
        let newer = FromWorker::Hello {
            protocol: PROTOCOL.into(),
            mst: "9.9.9".into(),
            shard: 0,
            work: Work::Collect,
        };
        assert_eq!(
            says(vec![newer]),
            "the worker is mst 9.9.9, the coordinator is mst 0.1.0: both must be the same"
        );
    }

    #[test]
    fn a_message_that_was_lost_or_doubled_shows_in_its_number() {
        let mut conversation = Conversation::new(0, "0.1.0", (0..3).map(key));
        conversation.on(Numbered { seq: 1, message: hello() }).expect("first");
        let late = Numbered { seq: 3, message: FromWorker::Heartbeat { trials: vec![] } };
        assert_eq!(conversation.on(late), Err(Breach::Gap { expected: 2, got: 3 }));
    }

    proptest! {
        /// Whatever a worker says: a trial is granted at most once, stored at most once and only
        /// after its grant, and nothing is granted after a stop.
        #[test]
        fn no_order_of_messages_invents_or_doubles_a_trial(
            script in prop::collection::vec((0u8..5, 0u32..4), 0..60),
            stop_at in 0usize..60,
        ) {
            let mut conversation = Conversation::new(0, "0.1.0", (0..3).map(key));
            let (mut granted, mut stored) = (Vec::new(), Vec::new());
            for (at, (what, index)) in script.into_iter().enumerate() {
                if at == stop_at {
                    conversation.stop();
                }
                let message = match what {
                    0 => hello(),
                    1 => FromWorker::Acquire { trial: key(index) },
                    2 => FromWorker::Trial(done(index)),
                    3 => FromWorker::Heartbeat { trials: vec![] },
                    _ => FromWorker::Done { trials: u64::from(index), clean: true },
                };
                match conversation.on(Numbered { seq: conversation.seq + 1, message }) {
                    Ok(Action::Grant(trial)) => {
                        prop_assert!(at < stop_at && !granted.contains(&trial));
                        granted.push(trial);
                    }
                    Ok(Action::Store(done)) => {
                        prop_assert!(granted.contains(&done.trial) && !stored.contains(&done.trial));
                        stored.push(done.trial);
                    }
                    _ => {}
                }
                prop_assert_eq!(conversation.in_flight() as usize, granted.len() - stored.len());
            }
        }
    }
}
