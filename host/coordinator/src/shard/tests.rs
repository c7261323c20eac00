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
        .map(|index| Planned { variant: key(index).variant, index, attempt: index, lane: 0, previous: None })
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
    assert_eq!((conversation.locked(90 * SECOND), conversation.locks_at(90 * SECOND)), ([0].into(), None));
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
