//! A worker's tokens: where they lie, how long each is good, and what must not be kept of them.

mod place;
mod scrub;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mst_model::{TokenId, VariantId};
use mst_protocol::{Secret, Token};
use tokio::sync::watch;
use tokio::time::Instant;

pub use place::PlaceError;

pub(crate) use place::TokenDir;
pub(crate) use scrub::Scrubber;

/// A token is asked for again when a fifth of its time is left, but so long before its end at the
/// least, and at the most.
const AHEAD: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// How soon a token is asked for again at the least, however short its time is.
const SOONEST: Duration = Duration::from_secs(1);

/// What was given of one token.
#[derive(Debug, Clone, Copy)]
struct Given {
    /// When it is to be asked for again.
    ask_at: Option<Instant>,
    /// Until when it is good.
    good_until: Option<Instant>,
    /// It has ended and was removed.
    ended: bool,
}

/// The tokens of a shard's clients.
pub(crate) struct Tokens {
    /// Which each variant's client needs.
    needs: BTreeMap<VariantId, BTreeSet<TokenId>>,
    dir: Mutex<Option<TokenDir>>,
    path: PathBuf,
    given: watch::Sender<BTreeMap<TokenId, Given>>,
    /// All that were ever given: a client may keep an old one.
    values: Mutex<Vec<(TokenId, Secret)>>,
}

/// Who hears of it when tokens come or end.
pub(crate) struct Changes(watch::Receiver<BTreeMap<TokenId, Given>>);

impl Changes {
    /// Returns at the next change.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // There are no tokens any more, nor is there a worker.
            std::future::pending().await
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// By hand, since it holds values.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("needs", &self.needs).finish_non_exhaustive()
    }
}

impl Tokens {
    /// For clients that need these, in `dir`.
    pub(crate) fn new(needs: BTreeMap<VariantId, BTreeSet<TokenId>>, dir: TokenDir) -> Tokens {
        let path = dir.path().to_owned();
        let given = watch::Sender::new(BTreeMap::new());
        Tokens { needs, dir: Mutex::new(Some(dir)), path, given, values: Mutex::default() }
    }

    /// All that are needed.
    pub(crate) fn names(&self) -> BTreeSet<TokenId> {
        self.needs.values().flatten().cloned().collect()
    }

    /// The directory in which a variant's client finds its tokens; none where it needs none.
    pub(crate) fn dir_of(&self, variant: &VariantId) -> Option<PathBuf> {
        self.needs.get(variant).filter(|names| !names.is_empty()).map(|_| self.path.join(variant.as_str()))
    }

    /// Takes what was given, and puts each where the clients that need it find it.
    pub(crate) fn take(&self, tokens: Vec<Token>) -> Result<(), PlaceError> {
        let now = Instant::now();
        let mut given = BTreeMap::new();
        // Held to the end, so that nobody puts an older value back meanwhile.
        let place = locked(&self.dir);
        for Token { name, value, expires_in_ms } in tokens {
            if let Some(dir) = &*place {
                for (variant, names) in &self.needs {
                    if names.contains(&name) {
                        dir.write(variant, &name, &value)?;
                    }
                }
            }
            let life = expires_in_ms.map(Duration::from_millis);
            let ahead = |life: Duration| (life / 5).clamp(AHEAD.0, AHEAD.1);
            given.insert(
                name.clone(),
                Given {
                    ask_at: life.map(|life| now + life.saturating_sub(ahead(life)).max(SOONEST)),
                    good_until: life.map(|life| now + life),
                    ended: false,
                },
            );
            // The last of a name is the one that is good.
            let mut values = locked(&self.values);
            values.retain(|(known, old)| *known != name || *old != value);
            values.push((name, value));
        }
        drop(place);
        self.given.send_modify(|all| all.extend(given));
        Ok(())
    }

    /// When a token is to be asked for again, and which then are; none where none has an end.
    pub(crate) fn next(&self) -> Option<(Instant, BTreeSet<TokenId>)> {
        let given = self.given.borrow();
        let at = given.values().filter_map(|given| given.ask_at).min()?;
        let due = |given: &Given| given.ask_at.is_some_and(|ask_at| ask_at <= at + AHEAD.0);
        Some((at, given.iter().filter(|(_, given)| due(given)).map(|(name, _)| name.clone()).collect()))
    }

    /// When the next token ends that is still good.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.given.borrow().values().filter(|given| !given.ended).filter_map(|given| given.good_until).min()
    }

    /// Removes what has ended: a client that finds nothing knows more than one that is refused.
    pub(crate) fn forget_ended(&self) -> Result<(), PlaceError> {
        let now = Instant::now();
        let ended = |given: &Given| !given.ended && given.good_until.is_some_and(|until| until <= now);
        let names: Vec<TokenId> = self
            .given
            .borrow()
            .iter()
            .filter(|(_, given)| ended(given))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &names {
            if let Some(dir) = &*locked(&self.dir) {
                for (variant, needed) in &self.needs {
                    if needed.contains(name) {
                        dir.remove_one(variant, name)?;
                    }
                }
            }
        }
        // It is due, as soon as it may be: whatever else was asked for meanwhile, it comes next.
        self.given.send_modify(|given| {
            for name in &names {
                if let Some(given) = given.get_mut(name) {
                    (given.ended, given.ask_at) = (true, given.ask_at.max(Some(now)));
                }
            }
        });
        Ok(())
    }

    /// Returns once each token that a variant's client needs is good.
    pub(crate) async fn good(&self, variant: &VariantId) {
        let mut changes = self.changes();
        // It closes only with the worker.
        let _ = changes.0.wait_for(|given| self.are_good(variant, given)).await;
    }

    /// Whether each token that a variant's client needs is good.
    pub(crate) fn is_good(&self, variant: &VariantId) -> bool {
        self.are_good(variant, &self.given.borrow())
    }

    /// Hears of every change from here on.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.given.subscribe())
    }

    fn are_good(&self, variant: &VariantId, given: &BTreeMap<TokenId, Given>) -> bool {
        let now = Instant::now();
        let good = |given: &Given| !given.ended && given.good_until.is_none_or(|until| until > now);
        self.needs.get(variant).is_none_or(|names| names.iter().all(|name| given.get(name).is_some_and(good)))
    }

    /// Puts back what a client took away of a variant's tokens: one that tidies up is not to take
    /// them from the trials after it.
    pub(crate) fn put_back(&self, variant: &VariantId) -> Result<(), PlaceError> {
        let Some(names) = self.needs.get(variant) else { return Ok(()) };
        let dir = locked(&self.dir);
        let Some(dir) = &*dir else { return Ok(()) };
        let (values, given, now) = (locked(&self.values), self.given.borrow(), Instant::now());
        let good = |name: &&TokenId| {
            given
                .get(*name)
                .is_some_and(|given| !given.ended && given.good_until.is_none_or(|until| until > now))
        };
        for name in names.iter().filter(good) {
            let value = values.iter().rev().find(|(known, _)| known == name);
            if let Some((_, value)) = value
                && !dir.holds(variant, name, value)
            {
                dir.write(variant, name, value)?;
            }
        }
        Ok(())
    }

    /// What takes them out of what is kept.
    pub(crate) fn scrubber(&self) -> Scrubber {
        Scrubber::new(locked(&self.values).clone())
    }

    /// Removes all of them.
    pub(crate) fn remove(&self) -> Result<(), PlaceError> {
        locked(&self.dir).take().map_or(Ok(()), TokenDir::remove)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_ended_while_another_was_waited_for_is_asked_for_next() {
        let root = tempfile::tempdir().expect("made");
        let dir = TokenDir::make(&[root.path().join("tokens")], "run-0", true).expect("made");
        let variant: VariantId = "v".parse().expect("a name");
        let [a, b]: [TokenId; 2] = ["a", "b"].map(|name| name.parse().expect("a name"));
        let tokens =
            Tokens::new(BTreeMap::from([(variant.clone(), BTreeSet::from([a.clone(), b.clone()]))]), dir);
        let token = |name: &TokenId, secs: Option<u64>| Token {
            name: name.clone(),
            value: Secret::new("a-value-of-a-token".to_owned()),
            expires_in_ms: secs.map(|secs| secs * 1000),
        };
        tokens.take(vec![token(&a, Some(60)), token(&b, Some(300))]).expect("taken");
        tokio::time::timeout(Duration::from_secs(1), tokens.good(&variant)).await.expect("both are good");
        // `a` is asked for, and comes only when `b` has ended.
        tokio::time::sleep_until(tokens.ends_at().expect("an end")).await;
        tokens.forget_ended().expect("removed");
        tokio::time::sleep_until(tokens.ends_at().expect("another end")).await;
        tokens.forget_ended().expect("removed");
        assert_eq!(tokens.ends_at(), None, "nothing is left to end");
        tokens.take(vec![token(&a, None)]).expect("taken");
        let (at, due) = tokens.next().expect("one is due");
        assert_eq!((at <= Instant::now(), due), (true, BTreeSet::from([b.clone()])));
        let good = tokio::time::timeout(Duration::from_secs(60), tokens.good(&variant)).await;
        assert!(good.is_err(), "one is missing");
        // However short its time, it is not asked for at once.
        tokens.take(vec![token(&b, Some(4))]).expect("taken");
        assert!(tokens.next().expect("one is due").0 > Instant::now());
        tokens.good(&variant).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_took_away_is_put_back_as_long_as_it_is_good() {
        let root = tempfile::tempdir().expect("made");
        let dir = TokenDir::make(&[root.path().join("tokens")], "run-0", true).expect("made");
        let variant: VariantId = "v".parse().expect("a name");
        let [lasting, ending]: [TokenId; 2] = ["lasting", "ending"].map(|name| name.parse().expect("a name"));
        let needs = [(variant.clone(), [lasting.clone(), ending.clone()].into())].into();
        let tokens = Tokens::new(needs, dir);
        let give = |name: &TokenId, value: &str, expires_in_ms| {
            let value = Secret::new(value.to_owned());
            tokens.take(vec![Token { name: name.clone(), value, expires_in_ms }]).expect("taken");
        };
        for value in ["first", "second", "first"] {
            give(&lasting, value, None);
        }
        give(&ending, "short", Some(40));
        let own = tokens.dir_of(&variant).expect("needs some");
        std::fs::remove_dir_all(&own).expect("removed");
        tokens.put_back(&variant).expect("puts back");
        let read = |name: &TokenId| std::fs::read_to_string(own.join(name.as_str())).ok();
        assert_eq!((read(&lasting).as_deref(), read(&ending).as_deref()), (Some("first"), Some("short")));
        std::fs::remove_dir_all(&own).expect("removed");
        tokio::time::sleep(Duration::from_millis(60)).await;
        tokens.put_back(&variant).expect("puts back");
        assert_eq!((read(&lasting).as_deref(), read(&ending)), (Some("first"), None));
        // What a client has seen is taken out of what is kept, old values too.
        assert_eq!(locked(&tokens.values).len(), 3);
    }
}
