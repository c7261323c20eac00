//! Where tokens come from: slowly, and not always. A value says until when it is good.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use mst_coordinator::vault::{Fetched, Secret, Source, TokenSource, Vault};
use mst_model::tokens::OnFailure;
use tokio::time::{Instant, sleep};

use crate::chance::Chance;

/// How a source of tokens is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bank {
    pub(crate) lives: Duration,
    /// How many seconds an answer takes at the most.
    pub(crate) takes: usize,
    /// One answer in so many is none.
    pub(crate) fails: Option<usize>,
    pub(crate) on_failure: OnFailure,
}

struct Teller {
    name: &'static str,
    bank: Bank,
    began: Instant,
    chance: Mutex<Chance>,
}

#[async_trait]
impl TokenSource for Teller {
    async fn fetch(&self) -> Result<Fetched, String> {
        let (takes, fails) = {
            let mut chance = self.chance.lock().expect("locks");
            (chance.time(self.bank.takes.max(1)), self.bank.fails.is_some_and(|often| chance.one_in(often)))
        };
        sleep(takes).await;
        if fails {
            return Err("the bank is closed".to_owned());
        }
        let ends = (self.began.elapsed() + self.bank.lives).as_millis();
        let value = Secret::new(format!("{}-until-{ends}", self.name));
        Ok(Fetched { value, expires_in: Some(self.bank.lives) })
    }
}

/// The vault of a run with these tokens.
pub(crate) fn vault(names: &[&'static str], bank: Bank, seed: u64) -> Vault {
    let source = |name: &'static str| {
        let chance = Mutex::new(Chance(seed ^ name.len() as u64));
        let teller = Teller { name, bank, began: Instant::now(), chance };
        Source { source: Box::new(teller), timeout: Duration::from_secs(20), on_failure: bank.on_failure }
    };
    let sources: BTreeMap<_, _> =
        names.iter().map(|name| (name.parse().expect("a name"), source(name))).collect();
    Vault::new(sources)
}

/// Until when a value is good that is called so, since the beginning.
pub(crate) fn good_until(name: &str, value: &str) -> Option<Duration> {
    let ends = value.strip_prefix(name)?.strip_prefix("-until-")?;
    ends.parse().ok().map(Duration::from_millis)
}
