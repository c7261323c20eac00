//! Tokens that end while a run goes on, and sources that fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mst_coordinator::vault::{Fetched, Secret, Source, TokenSource, Vault};
use mst_model::tokens::OnFailure;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::bench::{Bench, paused};
use crate::crew::Shard;
use crate::pipe::Gag;
use crate::run::{How, Seen};
use crate::worker::{Lie, Script};

/// Gives values that say when they end, in milliseconds since the beginning.
struct Clockwork {
    began: Instant,
    lives: Duration,
    /// How long each answer takes.
    takes: Duration,
    /// It fails from its so manieth answer on.
    breaks: u64,
    asked: Arc<AtomicU64>,
}

#[async_trait]
impl TokenSource for Clockwork {
    async fn fetch(&self) -> Result<Fetched, String> {
        sleep(self.takes).await;
        if self.asked.fetch_add(1, Ordering::Relaxed) >= self.breaks {
            return Err("the bank is closed".to_owned());
        }
        let ends = (self.began.elapsed() + self.lives).as_millis();
        Ok(Fetched { value: Secret::new(format!("gateway-until-{ends}")), expires_in: Some(self.lives) })
    }
}

fn source(breaks: u64, on_failure: OnFailure) -> (Source, Arc<AtomicU64>) {
    source_that_takes(Duration::from_secs(7), breaks, on_failure)
}

fn source_that_takes(takes: Duration, breaks: u64, on_failure: OnFailure) -> (Source, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let clockwork = Clockwork {
        began: Instant::now(),
        lives: Duration::from_secs(300),
        takes,
        breaks,
        asked: asked.clone(),
    };
    (Source { source: Box::new(clockwork), timeout: Duration::from_secs(30), on_failure }, asked)
}

fn how(source: Source) -> How {
    let vault = Vault::new(BTreeMap::from([("gateway".parse().expect("a name"), source)]));
    How { vault, ..How::here() }
}

/// One trial a minute, each of which needs the token.
fn bench(cases: usize, shards: u32) -> Bench {
    let more = json!({
        "client": {"kind": "echo", "tokens": ["gateway"], "providers": ["models"]},
        "tokens": {"gateway": {"env": "NOBODY_READS_THIS"}},
        "limits": {"providers": {"models": {"starts_per_minute": 1}}},
    });
    Bench::of(cases, 1, shards, &more)
}

/// Every token that lies anywhere below a directory.
fn tokens_below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { tokens_below(&path) } else { vec![path] };
    let found = entries.flat_map(|entry| below(entry.path()));
    found.filter(|path| path.ends_with("gateway")).collect()
}

#[test]
fn in_an_hour_of_tokens_that_live_five_minutes_nobody_holds_one_that_has_ended() {
    if !Path::new("/dev/shm").is_dir() {
        eprintln!("skipped: there is no memory file system at /dev/shm");
        return;
    }
    paused(async {
        let bench = bench(70, 2);
        let (source, asked) = source(u64::MAX, OnFailure::End);
        let (root, began) = (bench.root().to_owned(), Instant::now());
        let seen_live = Arc::new(AtomicU64::new(0));
        let counting = seen_live.clone();
        let watching = tokio::spawn(async move {
            loop {
                for path in tokens_below(&root) {
                    let value = std::fs::read_to_string(&path).expect("a token");
                    let ends =
                        value.strip_prefix("gateway-until-").expect("whole").parse().expect("a number");
                    let now = began.elapsed().as_millis();
                    assert!(now < ends, "at {now} ms somebody holds {value}");
                    counting.fetch_add(1, Ordering::Relaxed);
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
        let seen = bench.collect(vec![Shard::real(); 2], how(source)).await;
        assert!(!watching.is_finished(), "{:?}", watching.await);
        watching.abort();
        assert_eq!(seen.stored, 70);
        assert!(seen.took > Duration::from_secs(3600), "{:?}", seen.took);
        assert!(seen_live.load(Ordering::Relaxed) > 5000, "it was looked at while they were there");
        let asked = asked.load(Ordering::Relaxed);
        assert!((12..80).contains(&asked), "for two shards they were got {asked} times");
        assert_eq!(tokens_below(bench.root()), [""; 0].map(PathBuf::from), "and at the end they are gone");
    });
}

#[test]
fn a_source_that_fails_ends_the_shard_before_anything_starts() {
    paused(async {
        let bench = bench(3, 1);
        let (source, asked) = source(0, OnFailure::End);
        let seen = bench.collect(vec![Shard::real()], How { poor: true, ..how(source) }).await;
        assert_eq!(seen.why(), "the token `gateway` can't be had: the bank is closed");
        assert_eq!((seen.stored, asked.load(Ordering::Relaxed)), (0, 3));
        assert!(
            seen.events.iter().all(|event| !matches!(event, mst_coordinator::Event::TrialStarted { .. }))
        );
    });
}

#[test]
fn a_shard_whose_token_has_ended_starts_nothing_more() {
    paused(async {
        let bench = bench(20, 1);
        let (source, _) = source(1, OnFailure::Wait);
        // The one that there is lives five minutes; then the shard waits until somebody stops it.
        let waits = How { finish: Some(Duration::from_secs(1200)), ..how(source) };
        let seen = bench.collect(vec![Shard::real()], waits).await;
        assert!((4..=6).contains(&seen.stored), "{} were done in five minutes", seen.stored);
        assert!(
            seen.troubles().iter().any(|what| what.contains("the bank is closed; its source is asked again"))
        );
        assert_eq!(tokens_below(bench.root()), [""; 0].map(PathBuf::from));
    });
}

#[test]
fn what_waits_for_a_token_that_has_ended_holds_no_room() {
    paused(async {
        let more = json!({
            "variants": [
                {"id": "a", "client": {"kind": "echo", "tokens": ["gateway"], "providers": ["models"]}},
                {"id": "b", "client": {"kind": "echo", "providers": ["models"]}},
            ],
            "tokens": {"gateway": {"env": "NOBODY_READS_THIS"}},
            "limits": {"providers": {"models": {"concurrency": 1, "starts_per_minute": 1}}},
        });
        let bench = Bench::of(20, 1, 1, &more);
        let (source, _) = source(1, OnFailure::Wait);
        let waits = How { finish: Some(Duration::from_secs(3600)), ..how(source) };
        let seen = bench.collect(vec![Shard::real()], waits).await;
        let of = |variant: &str| {
            let stored = bench.stored();
            stored.keys().filter(|trial| trial.variant.as_str() == variant).count()
        };
        assert!((1..=5).contains(&of("a")), "{} were done while there was a token", of("a"));
        assert_eq!(of("b"), 20, "{:?}", seen.took);
    });
}

/// A worker that says of each token at once that it was refused; how often the source was asked.
async fn refuses(gag: Option<Gag>) -> (Seen, u64) {
    let bench = bench(3, 1);
    let (source, asked) = source_that_takes(Duration::from_secs(1), u64::MAX, OnFailure::End);
    let shard = Shard { gag, ..Shard::script(Script::lies(Lie::Refuses, 0)) };
    let how = How { cancel: Some(Duration::from_secs(200)), ..how(source) };
    let seen = bench.collect(vec![shard], how).await;
    (seen, asked.load(Ordering::Relaxed))
}

#[test]
fn a_worker_that_refuses_every_token_gets_one_now_and_then() {
    paused(async {
        let (_, asked) = refuses(None).await;
        assert!((5..=20).contains(&asked), "in 200 s its source was asked {asked} times");
    });
}

#[test]
fn a_worker_that_asks_for_tokens_and_does_not_read_them_gets_one() {
    paused(async {
        let (seen, asked) = refuses(Some(Gag::Block(0))).await;
        assert_eq!(asked, 1, "{:?}", seen.ending());
        assert_eq!(seen.why(), "`need-tokens` came while one was open");
    });
}
