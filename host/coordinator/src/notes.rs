//! The ledger, as the coordinator keeps it: a line is on the disk before what it tells of happens.

use std::time::Duration;

use jiff::Timestamp;
use mst_model::ledger::{LedgerEntry, LedgerEvent};
use mst_model::run::ShardEnding;
use mst_store::Ledger;
use tokio::time::timeout;

use crate::guard::guarded;
use crate::machines::Keep;
use crate::runner::{RunnerError, ShardSpec};

/// How long a runner may take to remove a machine.
const DESTROY: Duration = Duration::from_secs(180);

/// A run's ledger.
#[derive(Debug, Clone)]
pub struct Notes(pub Ledger);

impl Notes {
    /// Writes a line.
    pub(crate) async fn note(
        &self,
        shard: u32,
        machine: &str,
        event: LedgerEvent,
    ) -> Result<(), RunnerError> {
        let entry = LedgerEntry { at: Timestamp::now(), machine: machine.to_owned(), shard, event };
        let ledger = self.0.clone();
        match tokio::task::spawn_blocking(move || ledger.append(&entry)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                // The system's own word, as "no space left", stands in the cause.
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                Err(RunnerError::new(format!("the ledger can't be written: {error}{cause}")))
            }
            Err(error) => Err(RunnerError::new(format!("mst failed: {error}"))),
        }
    }

    /// Removes a machine by `destroy`, or keeps it as the user asked, with its line.
    pub(crate) async fn remove(
        &self,
        spec: &ShardSpec,
        name: &str,
        keep: Keep,
        ending: &ShardEnding,
        destroy: impl Future<Output = Result<(), RunnerError>>,
    ) -> Result<(), RunnerError> {
        // One that somebody stopped did not fail.
        let failed = matches!(ending, ShardEnding::Broken { .. });
        if keep == Keep::Always || (keep == Keep::Failed && failed) {
            let why = if failed { "its shard failed" } else { "it was asked for" };
            return self.note(spec.shard, name, LedgerEvent::Kept { why: why.to_owned() }).await;
        }
        let why = match timeout(DESTROY, guarded(destroy)).await {
            Ok(Ok(Ok(()))) => return self.note(spec.shard, name, LedgerEvent::Destroyed).await,
            Ok(Ok(Err(error))) => error,
            Ok(Err(panic)) => RunnerError::new(panic),
            Err(_) => RunnerError::new(format!("its runner did not answer within {} s", DESTROY.as_secs())),
        };
        let noted =
            self.note(spec.shard, name, LedgerEvent::DestroyFailed { why: why.message.clone() }).await;
        let unnoted = noted.err().map(|error| format!(" ({error})")).unwrap_or_default();
        Err(why.in_words(|why| {
            format!(
                "machine `{name}` could not be removed: {why}{unnoted}; `mst machines reap {}` tries again",
                spec.run
            )
        }))
    }
}
