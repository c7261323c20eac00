//! A client that costs nothing, and looks around.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use mst_model::TrialKey;
use mst_model::outcome::Outcome;
use mst_process::Stream;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{Answer, Asks, Question};

/// What is known of a conversation, by whoever looks at the worker from outside.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) began: Instant,
    pub(super) concurrency: usize,
    /// What each trial takes.
    pub(super) takes: BTreeMap<TrialKey, Duration>,
    /// Trials that were told that they may start.
    pub(super) granted: BTreeSet<TrialKey>,
    /// When they were told that nothing new starts.
    pub(super) stopped: Option<Instant>,
    /// When their clients were asked.
    pub(super) started: BTreeMap<TrialKey, Instant>,
    pub(super) running: BTreeSet<TrialKey>,
    /// How often a token was looked at that was there.
    pub(super) looked: u64,
}

/// Shared by both ends.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<Book>>);

impl Shared {
    pub(super) fn new(concurrency: usize, takes: BTreeMap<TrialKey, Duration>) -> Shared {
        Shared(Arc::new(Mutex::new(Book {
            began: Instant::now(),
            concurrency,
            takes,
            granted: BTreeSet::new(),
            stopped: None,
            started: BTreeMap::new(),
            running: BTreeSet::new(),
            looked: 0,
        })))
    }

    /// The book, also after a check in another task failed.
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A token's value, which says until when it is good.
pub(super) fn value(name: &str, ends: Option<Duration>) -> String {
    match ends {
        Some(ends) => format!("{name}-until-{}", ends.as_millis()),
        None => format!("{name}-for-ever"),
    }
}

/// The tokens that lie in a directory are good, and those that must be there are.
fn look(book: &mut Book, dir: &Path, must: &[&str]) {
    for name in must {
        assert!(dir.join(name).is_file(), "a client is asked without its `{name}`");
    }
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let value = std::fs::read_to_string(entry.path()).expect("a token");
        if let Some((_, ends)) = value.split_once("-until-") {
            let ends = Duration::from_millis(ends.parse().expect("a number"));
            // A timer is a millisecond late at the most.
            let now = book.began.elapsed();
            assert!(now <= ends + Duration::from_millis(2), "at {now:?} a client holds {value}");
        }
        book.looked += 1;
    }
}

/// Takes its time, and holds the worker to what it may do.
#[derive(Debug)]
pub(super) struct Watchful(pub(super) Shared);

#[async_trait]
impl Asks for Watchful {
    async fn ask(&self, question: Question<'_>) -> Answer {
        let tokens: Vec<&str> = question.client.tokens.iter().map(|name| name.as_str()).collect();
        let dir = question.tokens.clone().unwrap_or_default();
        let until = {
            let mut book = self.0.book();
            let now = Instant::now();
            assert!(book.granted.contains(question.key), "{} starts without leave", question.key);
            assert!(
                book.stopped.is_none_or(|stopped| now <= stopped),
                "{} starts after a stop",
                question.key
            );
            assert_eq!(book.started.insert(question.key.clone(), now), None, "{} starts twice", question.key);
            book.running.insert(question.key.clone());
            assert!(book.running.len() <= book.concurrency, "too many at a time: {:?}", book.running);
            look(&mut book, &dir, &tokens);
            now + book.takes[question.key]
        };
        let _running = Running(self.0.clone(), question.key.clone());
        while Instant::now() < until {
            tokio::select! {
                () = sleep_until(until) => {}
                () = sleep(Duration::from_millis(700)) => {}
            }
            if !tokens.is_empty() {
                look(&mut self.0.book(), &dir, &[]);
            }
        }
        let report = Some(Stream { bytes: question.prompt.into_bytes(), cut: 0 });
        Answer { outcome: Outcome::answered(), report, stderr: Stream::default() }
    }
}

struct Running(Shared, TrialKey);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.book().running.remove(&self.1);
    }
}
