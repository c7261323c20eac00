//! The tokens of a run: got from their sources when a worker needs them, and kept for the next.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mst_model::TokenId;
use mst_model::tokens::OnFailure;
pub use mst_protocol::Secret;
use mst_protocol::{Need, Token};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

/// By how much the clocks of this machine and of whoever issues tokens may differ.
const SKEW: Duration = Duration::from_secs(10);

/// How often a source may fail in a row before the shard ends.
const ATTEMPTS: u32 = 3;

/// How long a source that failed is let be, at first and at the most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// For how long a failure holds for others who ask the same.
const STALE: Duration = Duration::from_secs(30);

/// An older token is handed on where its source fails, as long as so much of its time is left.
const LEAST: Duration = Duration::from_secs(5);

/// A token that was refused is got again at most so often: who refuses may be a machine.
const REFUSED: Duration = Duration::from_secs(5);

/// How often the tokens of one answer are gone over, so that none grew old while another was got.
const PASSES: u32 = 3;

/// A shorter one can't be told from other text, and would be taken out of everything.
const MIN_BYTES: usize = 8;

/// Far more than any token, far less than a line.
const MAX_BYTES: usize = 16 << 10;

/// What a source gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The value.
    pub value: Secret,
    /// For how long it is good from now on; none where it has no end.
    pub expires_in: Option<Duration>,
}

/// Where a token comes from. What it says when it fails is shown and recorded, and must hold no part
/// of a value.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// Gets the token.
    async fn fetch(&self) -> Result<Fetched, String>;
}

/// A token's source, and how it is asked.
pub struct Source {
    /// The source.
    pub source: Box<dyn TokenSource>,
    /// How long it may take.
    pub timeout: Duration,
    /// What becomes of a shard, where it fails.
    pub on_failure: OnFailure,
}

/// The tokens of a run.
#[derive(Clone, Default)]
pub struct Vault {
    tokens: Arc<BTreeMap<TokenId, Kept>>,
}

struct Kept {
    source: Source,
    /// One asks the source, the others wait and get the same.
    last: Mutex<Last>,
}

/// What came of asking: a failure does not spoil what was got before it.
#[derive(Default)]
struct Last {
    good: Option<Good>,
    failed: Option<(String, Instant)>,
}

struct Good {
    value: Secret,
    got: Instant,
    good_for: Option<Duration>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tokens.keys()).finish()
    }
}

impl Vault {
    /// The tokens of these sources.
    pub fn new(sources: BTreeMap<TokenId, Source>) -> Vault {
        let kept = |(name, source)| (name, Kept { source, last: Mutex::default() });
        Vault { tokens: Arc::new(sources.into_iter().map(kept).collect()) }
    }

    /// Asks each source once, those apart whose shards would wait: what can be had of tokens is known
    /// before anything is made.
    ///
    /// # Errors
    /// The first that fails, in words.
    pub async fn try_all(&self) -> Result<(), String> {
        for (name, kept) in self.tokens.iter().filter(|(_, kept)| kept.source.on_failure == OnFailure::End) {
            let mut last = kept.last.lock().await;
            let good = kept.ask().await.map_err(|why| format!("the token `{name}` can't be had: {why}"))?;
            *last = Last { good: Some(good), failed: None };
        }
        Ok(())
    }

    /// The tokens of these names, as good as new. `trouble` hears of a source that fails and is
    /// asked again.
    pub(crate) async fn get(
        &self,
        names: &BTreeSet<TokenId>,
        why: Need,
        trouble: impl Fn(String),
    ) -> Result<Vec<Token>, String> {
        let kept = |name| self.tokens.get(name).ok_or_else(|| format!("the token `{name}` has no source"));
        let (mut why, mut pass) = (why, 0);
        loop {
            pass += 1;
            for name in names {
                kept(name)?.renew(name, why, &trouble).await?;
            }
            // Once it is known that all are there, how long each is good is told as of now.
            let mut tokens = Vec::new();
            for name in names {
                let last = kept(name)?.last.lock().await;
                // An older one is there where its source fails.
                let old_will_do = last.failed.is_some() || pass >= PASSES;
                let good = |good: &&Good| good.is_fresh() || (old_will_do && good.has_left(Duration::ZERO));
                tokens.extend(last.good.as_ref().filter(good).map(|good| good.token(name)));
            }
            if tokens.len() == names.len() {
                return Ok(tokens);
            }
            why = Need::Expiring;
        }
    }
}

impl Kept {
    /// Sees to it that there is one that is good, and as good as new where that can be had.
    async fn renew(&self, name: &TokenId, why: Need, trouble: &impl Fn(String)) -> Result<(), String> {
        let mut last = self.last.lock().await;
        let refused = why == Need::Connector;
        if let Some(good) = &last.good {
            // Somebody refused it: whatever its source said of its end, it is no good.
            let fresh = if refused { good.got.elapsed() < REFUSED } else { good.is_fresh() };
            if fresh {
                return Ok(());
            }
        }
        let usable = !refused && last.good.as_ref().is_some_and(|good| good.has_left(LEAST));
        if let Some((why, _)) = last.failed.as_ref().filter(|(_, at)| !refused && at.elapsed() < STALE) {
            match (usable, self.source.on_failure) {
                (true, _) => return Ok(()),
                (false, OnFailure::End) => return Err(why.clone()),
                (false, OnFailure::Wait) => {}
            }
        }
        let (mut pause, mut failed) = (PAUSE.0, 0);
        loop {
            let why = match self.ask().await {
                Ok(good) => {
                    *last = Last { good: Some(good), failed: None };
                    return Ok(());
                }
                Err(why) => format!("the token `{name}` can't be had: {why}"),
            };
            failed += 1;
            if usable {
                trouble(format!("{why}; the one from before is used as long as it is good"));
                last.failed = Some((why, Instant::now()));
                return Ok(());
            }
            if self.source.on_failure == OnFailure::End && failed == ATTEMPTS {
                last.failed = Some((why.clone(), Instant::now()));
                return Err(why);
            }
            trouble(format!("{why}; its source is asked again in {} s", pause.as_secs()));
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn ask(&self) -> Result<Good, String> {
        let limit = self.source.timeout;
        let fetched = timeout(limit, self.source.source.fetch()).await;
        let Fetched { value, expires_in } =
            fetched.map_err(|_| format!("its source did not answer within {} s", limit.as_secs_f64()))??;
        let size = value.reveal().len();
        if !(MIN_BYTES..=MAX_BYTES).contains(&size) {
            return Err(format!("its source gave {size} bytes; a token has {MIN_BYTES} to {MAX_BYTES}"));
        }
        if value.reveal().chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            return Err("its source gave control characters".to_owned());
        }
        let good_for = expires_in.map(|time| time.saturating_sub(SKEW));
        match good_for {
            Some(Duration::ZERO) => Err(format!("its source gave one that ends within {} s", SKEW.as_secs())),
            good_for => Ok(Good { value, got: Instant::now(), good_for }),
        }
    }
}

impl Good {
    /// Whether more than half of its time is left: nobody has to ask again soon.
    fn is_fresh(&self) -> bool {
        self.good_for.is_none_or(|time| self.got.elapsed() < time / 2)
    }

    /// Whether more than this is left of its time.
    fn has_left(&self, least: Duration) -> bool {
        self.good_for.is_none_or(|time| time.saturating_sub(self.got.elapsed()) > least)
    }

    fn token(&self, name: &TokenId) -> Token {
        let expires_in = self.good_for.map(|time| time.saturating_sub(self.got.elapsed()));
        let expires_in_ms = expires_in.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Token { name: name.clone(), value: self.value.clone(), expires_in_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Gives what the script says, and then `gateway-N` for five minutes.
    struct Scripted {
        asked: Arc<AtomicU32>,
        first: Vec<Result<Fetched, String>>,
        takes: Duration,
    }

    fn fetched(value: &str, secs: Option<u64>) -> Fetched {
        Fetched { value: Secret::new(value.to_owned()), expires_in: secs.map(Duration::from_secs) }
    }

    #[async_trait]
    impl TokenSource for Scripted {
        async fn fetch(&self) -> Result<Fetched, String> {
            sleep(self.takes).await;
            let at = self.asked.fetch_add(1, Ordering::Relaxed);
            let usual = || Ok(fetched(&format!("gateway-{at}"), Some(300)));
            self.first.get(at as usize).cloned().unwrap_or_else(usual)
        }
    }

    fn vault(
        first: Vec<Result<Fetched, String>>,
        on_failure: OnFailure,
        takes: u64,
    ) -> (Vault, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let source = Scripted { asked: asked.clone(), first, takes: Duration::from_secs(takes) };
        let source = Source { source: Box::new(source), timeout: Duration::from_secs(20), on_failure };
        (Vault::new(BTreeMap::from([(name(), source)])), asked)
    }

    fn name() -> TokenId {
        "gateway".parse().expect("a name")
    }

    async fn get(vault: &Vault, why: Need) -> Result<(String, Option<u64>), String> {
        let tokens = vault.get(&BTreeSet::from([name()]), why, |_| {}).await?;
        Ok((tokens[0].value.reveal().to_owned(), tokens[0].expires_in_ms))
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_got_for_everybody_and_renewed_when_half_of_its_time_is_gone() {
        let (vault, asked) = vault(Vec::new(), OnFailure::End, 2);
        let all = (0..50).map(|_| {
            let vault = vault.clone();
            tokio::spawn(async move { get(&vault, Need::Start).await })
        });
        for one in all.collect::<Vec<_>>() {
            // The clocks may differ by ten seconds.
            assert_eq!(one.await.expect("runs"), Ok(("gateway-0".to_owned(), Some(290_000))));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        sleep(Duration::from_secs(100)).await;
        assert_eq!(get(&vault, Need::Expiring).await, Ok(("gateway-0".to_owned(), Some(190_000))));
        assert_eq!(get(&vault, Need::Connector).await.expect("another").0, "gateway-1");
        sleep(Duration::from_secs(200)).await;
        assert_eq!(get(&vault, Need::Expiring).await, Ok(("gateway-2".to_owned(), Some(290_000))));
    }

    #[tokio::test(start_paused = true)]
    async fn nonsense_is_no_token_and_is_not_shown() {
        for (nonsense, words) in [
            (fetched("short", None), "gave 5 bytes; a token has 8 to 16384"),
            (fetched(&"x".repeat(20_000), None), "gave 20000 bytes"),
            (fetched("secret-\u{1b}[2J", None), "control characters"),
            (fetched("secret-value", Some(9)), "gave one that ends within 10 s"),
        ] {
            let (vault, asked) = vault(vec![Ok(nonsense); 3], OnFailure::End, 0);
            let why = get(&vault, Need::Start).await.expect_err("none");
            assert!(why.contains(words) && !why.contains("secret"), "{why}");
            assert_eq!(asked.load(Ordering::Relaxed), 3);
            // Others who ask at once get the same, and the source its rest.
            assert_eq!(get(&vault, Need::Start).await, Err(why));
            assert_eq!(asked.load(Ordering::Relaxed), 3);
            sleep(STALE).await;
            assert_eq!(get(&vault, Need::Start).await.expect("there is one").0, "gateway-3");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_and_gets_it_in_the_end() {
        let (vault, asked) = vault(vec![Err("out".to_owned()); 9], OnFailure::Wait, 0);
        let said = std::sync::Mutex::new(Vec::new());
        let names = BTreeSet::from([name()]);
        let tokens = vault.get(&names, Need::Start, |what| said.lock().expect("locks").push(what));
        assert_eq!(tokens.await.expect("in the end")[0].value.reveal(), "gateway-9");
        let said = said.into_inner().expect("locks");
        assert_eq!((said.len(), asked.load(Ordering::Relaxed)), (9, 10));
        assert_eq!(said[8], "the token `gateway` can't be had: out; its source is asked again in 60 s");
        vault.try_all().await.expect("who waits is not asked before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_fails_does_not_spoil_what_is_still_good() {
        for on_failure in [OnFailure::End, OnFailure::Wait] {
            let mut script = vec![Ok(fetched("gateway-0", Some(310)))];
            script.extend(vec![Err("out".to_owned()); 4]);
            let (vault, asked) = vault(script, on_failure, 0);
            get(&vault, Need::Start).await.expect("there is one");
            sleep(Duration::from_secs(200)).await;
            let old = Ok(("gateway-0".to_owned(), Some(100_000)));
            assert_eq!(get(&vault, Need::Expiring).await, old);
            // A source that just failed is not asked by each shard in turn.
            assert_eq!(get(&vault, Need::Expiring).await, old);
            assert_eq!(asked.load(Ordering::Relaxed), 2);
            sleep(STALE).await;
            assert_eq!(get(&vault, Need::Expiring).await, Ok(("gateway-0".to_owned(), Some(70_000))));
            sleep(Duration::from_secs(67)).await;
            // So little is left that the next one is waited for.
            assert_eq!(get(&vault, Need::Expiring).await.expect("in the end").0, "gateway-5");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn none_ends_while_another_is_got() {
        let source = |first, on_failure| {
            let source = Scripted { asked: Arc::default(), first, takes: Duration::ZERO };
            Source { source: Box::new(source), timeout: Duration::from_secs(20), on_failure }
        };
        let slow = vec![Err("out".to_owned()); 10];
        let names: BTreeSet<TokenId> = ["a", "b"].map(|name| name.parse().expect("a name")).into();
        let mut names_of = names.iter().cloned();
        let (a, b) = (names_of.next().expect("a"), names_of.next().expect("b"));
        let vault = Vault::new(BTreeMap::from([
            (a, source(Vec::new(), OnFailure::End)),
            (b, source(slow, OnFailure::Wait)),
        ]));
        let began = Instant::now();
        let tokens = vault.get(&names, Need::Start, |_| {}).await.expect("both");
        assert!(began.elapsed() > Duration::from_secs(290), "the first one has ended meanwhile");
        let told: Vec<_> = tokens.iter().map(|token| (token.value.reveal(), token.expires_in_ms)).collect();
        assert_eq!(told, [("gateway-1", Some(290_000)), ("gateway-10", Some(290_000))]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_refuses_at_every_turn_does_not_wear_the_source_out() {
        let (vault, asked) = vault(Vec::new(), OnFailure::End, 0);
        for _ in 0..100 {
            get(&vault, Need::Connector).await.expect("there is one");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        sleep(REFUSED).await;
        assert_eq!(get(&vault, Need::Connector).await.expect("another").0, "gateway-1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_is_slow_is_one_that_fails() {
        let (vault, _) = vault(Vec::new(), OnFailure::End, 21);
        let why = get(&vault, Need::Start).await.expect_err("too slow");
        assert_eq!(why, "the token `gateway` can't be had: its source did not answer within 20 s");
        assert_eq!(vault.try_all().await.expect_err("too slow"), why);
    }
}
