//! A coordinator that does as a schedule says, and checks every word of the worker's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use mst_model::{Digest, TokenId, TrialKey};
use mst_protocol::{
    FromCoordinator, FromWorker, Lines, Numbered, PROTOCOL, Secret, Token, TrialDone, encode,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::{Instant, sleep_until};

use super::client::{Shared, value};

/// Something that is said to a worker, or that becomes of the way to it. Where there is nothing to
/// grant or to answer, what would do that does nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// One of those that asked may start.
    Grant(usize),
    /// One that may start already is told again.
    GrantAgain(usize),
    /// One may start that did not ask.
    GrantUnasked(usize),
    /// One may start for which the worker has no place.
    GrantTooMany,
    /// One of those that asked waits for others.
    Wait(usize),
    /// One waits that is told so already, or that may start.
    WaitAgain(usize),
    /// The tokens that were asked for, good for so many milliseconds.
    Tokens(Option<u64>),
    /// One more than was asked for.
    TokensToo,
    /// All but one of those that were asked for, or one that nobody knows.
    OtherTokens,
    /// Nobody asked for them.
    TokensUnasked,
    Cancel(Option<u64>),
    /// A line that is no message.
    Garbage,
    /// The way to the worker ends.
    Cut,
    /// It ends within a message, after so many of its bytes.
    CutInFrame(usize),
    /// Nobody hears the worker any more.
    Deaf,
}

/// How it went, as far as the worker is to blame for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It was told what may not be said.
    Illegal,
    /// The way to it or from it broke.
    Broken,
}

pub(super) struct Coordinator {
    pub(super) to: Option<DuplexStream>,
    pub(super) from: Option<DuplexStream>,
    pub(super) shared: Shared,
    pub(super) planned: Vec<TrialKey>,
    /// What each variant's trials need.
    pub(super) needs: BTreeMap<String, BTreeSet<TokenId>>,
    pub(super) concurrency: usize,
    /// Each trial's.
    pub(super) lanes: BTreeMap<TrialKey, u32>,
    pub(super) results: PathBuf,
    pub(super) tokens: PathBuf,
    pub(super) heard: Heard,
}

/// What a worker said.
#[derive(Debug, Default)]
pub(super) struct Heard {
    seq: u64,
    at: Option<Instant>,
    pub(super) asked: Vec<TrialKey>,
    /// Those of them that were told that they wait.
    waiting: BTreeSet<TrialKey>,
    every: BTreeSet<TrialKey>,
    pub(super) open: Option<BTreeSet<TokenId>>,
    given: BTreeSet<TokenId>,
    pub(super) ended: BTreeMap<TrialKey, Digest>,
    pub(super) done: bool,
    pub(super) over: bool,
    pub(super) fault: Option<Fault>,
    /// When it was told to stop at last, and when what runs is ended.
    pub(super) cancelled: Option<(Instant, Option<Instant>)>,
}

impl Coordinator {
    /// Hears what there is to hear for so long.
    pub(super) async fn listen(&mut self, time: Duration, lines: &mut Lines) {
        let until = Instant::now() + time;
        let mut buffer = [0; 4096];
        loop {
            let Some(from) = &mut self.from else { return sleep_until(until).await };
            tokio::select! {
                read = from.read(&mut buffer) => match read.expect("a pipe of memory") {
                    0 => {
                        self.heard.over = true;
                        self.from = None;
                    }
                    read => {
                        lines.push(&buffer[..read]).expect("lines");
                        while let Some(message) = lines.next::<Numbered>().expect("messages") {
                            self.hear(message);
                        }
                    }
                },
                () = sleep_until(until) => return,
            }
        }
    }

    fn hear(&mut self, Numbered { seq, message }: Numbered) {
        let now = Instant::now();
        let heard = &mut self.heard;
        assert!(!heard.done, "{message:?} after `done`");
        assert_eq!(seq, heard.seq + 1);
        assert_eq!(seq == 1, matches!(message, FromWorker::Hello { .. }), "{message:?} is its message {seq}");
        let silent = now - heard.at.unwrap_or(now);
        assert!(silent <= Duration::from_secs(11), "it said nothing for {silent:?}");
        (heard.seq, heard.at) = (seq, Some(now));
        let stopped = heard.cancelled.is_some_and(|(at, _)| now > at);
        match message {
            FromWorker::Hello { protocol, .. } => assert_eq!(protocol, PROTOCOL),
            FromWorker::NeedTokens { names, .. } => {
                assert!(self.needs.values().any(|all| names.is_subset(all)) && !names.is_empty());
                assert_eq!(heard.open.replace(names), None, "two needs are open");
            }
            FromWorker::Acquire { trial, .. } => {
                assert!(!stopped, "{trial} asks after a stop");
                assert!(self.planned.contains(&trial), "{trial} is not planned");
                assert!(heard.every.insert(trial.clone()), "{trial} asks twice");
                assert!(self.needs[trial.variant.as_str()].is_subset(&heard.given), "{trial} asks too early");
                heard.asked.push(trial);
                let book = self.shared.book();
                let places = heard.asked.len() - heard.waiting.len() + book.granted.len() - heard.ended.len();
                // Those that are answered too late are not done.
                assert!(stopped || places <= self.concurrency, "{places} places are taken");
                let lane = |of: &TrialKey| self.lanes[of];
                let mine = heard
                    .asked
                    .iter()
                    .filter(|asked| lane(asked) == lane(heard.asked.last().unwrap_or(asked)));
                assert!(mine.count() <= self.concurrency, "too many of a lane ask");
            }
            FromWorker::Trial(TrialDone { trial, path, size_bytes, sha256, .. }) => {
                assert!(self.shared.book().granted.contains(&trial), "{trial} ended without leave");
                let dir = self.results.join(path);
                let transcript = std::fs::read(dir.join("transcript.json")).expect("it is in its place");
                assert_eq!((transcript.len() as u64, Digest::of(&transcript)), (size_bytes, sha256));
                assert!(dir.join("report").is_file(), "with what it left");
                assert_eq!(heard.ended.insert(trial.clone(), sha256), None, "{trial} ended twice");
            }
            FromWorker::Heartbeat { trials } => {
                for beating in trials {
                    assert!(
                        self.shared.book().granted.contains(&beating.trial),
                        "{beating:?} was not let start"
                    );
                    assert!(!heard.ended.contains_key(&beating.trial), "{beating:?} has ended");
                }
            }
            FromWorker::Done { trials, clean } => {
                assert_eq!((trials, clean), (heard.ended.len() as u64, true));
                assert_eq!(left(&self.tokens), 0, "tokens are there at `done`");
                heard.done = true;
            }
        }
    }

    pub(super) async fn step(&mut self, step: Step) {
        match step {
            Step::Grant(which) => self.grant(which).await,
            Step::GrantAgain(which) => {
                let granted: Vec<_> = self.shared.book().granted.iter().cloned().collect();
                if !granted.is_empty() {
                    self.wrong(FromCoordinator::Granted { trial: granted[which % granted.len()].clone() })
                        .await;
                }
            }
            Step::GrantUnasked(which) => {
                let mut trial = self.planned[which % self.planned.len()].clone();
                trial.index += u32::from(self.heard.every.contains(&trial)) * 1000;
                self.wrong(FromCoordinator::Granted { trial }).await;
            }
            Step::GrantTooMany => {
                if self.places() == 0 && self.heard.cancelled.is_none() && !self.heard.asked.is_empty() {
                    let trial = self.heard.asked[0].clone();
                    self.wrong(FromCoordinator::Granted { trial }).await;
                }
            }
            Step::Wait(which) => {
                let asked: Vec<_> =
                    self.heard.asked.iter().filter(|asked| !self.heard.waiting.contains(*asked)).collect();
                if !asked.is_empty() {
                    let trial = asked[which % asked.len()].clone();
                    self.heard.waiting.insert(trial.clone());
                    self.say(&FromCoordinator::Waits { trial }).await;
                }
            }
            Step::WaitAgain(which) => {
                let told: Vec<_> =
                    self.shared.book().granted.iter().chain(&self.heard.waiting).cloned().collect();
                if !told.is_empty() {
                    self.wrong(FromCoordinator::Waits { trial: told[which % told.len()].clone() }).await;
                }
            }
            Step::Tokens(lives_ms) => self.give(lives_ms).await,
            Step::TokensToo | Step::OtherTokens => {
                if let Some(names) = self.heard.open.clone() {
                    let mut tokens: Vec<Token> = names.iter().map(|name| self.token(name, None)).collect();
                    if matches!(step, Step::OtherTokens) {
                        tokens.pop();
                    }
                    tokens.push(self.token(&"other".parse().expect("a name"), None));
                    self.wrong(FromCoordinator::Tokens { tokens }).await;
                }
            }
            Step::TokensUnasked => {
                if self.heard.open.is_none() {
                    let tokens = vec![self.token(&"gateway".parse().expect("a name"), None)];
                    self.wrong(FromCoordinator::Tokens { tokens }).await;
                }
            }
            Step::Cancel(grace_ms) => {
                let now = Instant::now();
                self.say(&FromCoordinator::Cancel { why: "stop".to_owned(), grace_ms }).await;
                let over = grace_ms.map(|grace| now + Duration::from_millis(grace));
                let (first, before) = self.heard.cancelled.unwrap_or((now, None));
                let over = before.into_iter().chain(over).min();
                self.heard.cancelled = Some((first, over));
                self.shared.book().stopped.get_or_insert(now);
            }
            Step::Garbage => {
                self.raw(b"motd\n").await;
                self.heard.fault = Some(Fault::Illegal);
            }
            Step::Cut => self.cut().await,
            Step::CutInFrame(at) => {
                let trial = self.heard.asked.first().unwrap_or(&self.planned[0]).clone();
                let line = encode(&FromCoordinator::Granted { trial }).expect("fits");
                self.raw(&line[..at % (line.len() - 1) + 1]).await;
                self.cut().await;
            }
            Step::Deaf => {
                self.from = None;
                self.heard.fault = Some(Fault::Broken);
            }
        }
    }

    /// One of those that asked may start; where all is stopped that may be said too late, and changes
    /// nothing.
    pub(super) async fn grant(&mut self, which: usize) {
        // After a stop it comes too late for any place.
        let may = self.heard.cancelled.is_some() || self.places() > 0;
        if self.heard.asked.is_empty() || !may {
            return;
        }
        let trial = self.heard.asked.remove(which % self.heard.asked.len());
        self.heard.waiting.remove(&trial);
        self.shared.book().granted.insert(trial.clone());
        self.say(&FromCoordinator::Granted { trial }).await;
    }

    /// How many more trials the worker has places for.
    fn places(&self) -> usize {
        self.concurrency.saturating_sub(self.shared.book().granted.len() - self.heard.ended.len())
    }

    pub(super) async fn give(&mut self, lives_ms: Option<u64>) {
        let Some(names) = self.heard.open.take() else { return };
        let tokens = names.iter().map(|name| self.token(name, lives_ms)).collect();
        self.heard.given.extend(names);
        self.say(&FromCoordinator::Tokens { tokens }).await;
    }

    fn token(&self, name: &TokenId, expires_in_ms: Option<u64>) -> Token {
        let now = self.shared.book().began.elapsed();
        let ends = expires_in_ms.map(|lives| now + Duration::from_millis(lives));
        Token { name: name.clone(), value: Secret::new(value(name.as_str(), ends)), expires_in_ms }
    }

    async fn wrong(&mut self, message: FromCoordinator) {
        self.say(&message).await;
        self.heard.fault = Some(Fault::Illegal);
    }

    async fn say(&mut self, message: &FromCoordinator) {
        self.raw(&encode(message).expect("fits")).await;
    }

    async fn raw(&mut self, bytes: &[u8]) {
        if let Some(to) = &mut self.to {
            to.write_all(bytes).await.expect("the worker is there");
        }
    }

    async fn cut(&mut self) {
        self.to = None;
        self.heard.fault = Some(Fault::Broken);
    }
}

/// How many directories of tokens there are.
pub(super) fn left(tokens: &std::path::Path) -> usize {
    std::fs::read_dir(tokens).map_or(0, Iterator::count)
}
