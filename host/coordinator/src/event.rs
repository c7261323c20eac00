//! What a run says of itself while it goes. The coordinator never talks to the outside: whoever
//! shows a run listens here.

use std::fmt;
use std::sync::Arc;

use mst_model::TrialKey;
use mst_model::outcome::Status;
use mst_model::run::ShardEnding;

use crate::plan::Choice;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// So many trials are to be done.
    Planned {
        /// Trials that have no transcript yet.
        trials: u64,
        /// In so many shards.
        shards: u32,
    },
    /// Why a trial is done, or not.
    Chosen {
        /// Which.
        trial: TrialKey,
        /// Why.
        choice: Choice,
    },
    /// A worker said `hello`.
    ShardStarted {
        /// Which shard.
        shard: u32,
    },
    /// A trial was let start.
    TrialStarted {
        /// Which.
        trial: TrialKey,
    },
    /// A trial's transcript is in the run.
    TrialStored {
        /// Which.
        trial: TrialKey,
        /// How it ended.
        status: Status,
    },
    /// A worker wrote a line that was no message, before its `hello`.
    Noise {
        /// Which shard.
        shard: u32,
        /// The line, escaped.
        line: String,
    },
    /// Something went wrong that does not change what was collected.
    Trouble {
        /// Which shard.
        shard: u32,
        /// What, for people.
        what: String,
    },
    /// Nothing new starts from here on.
    Stopping {
        /// Trials that are still under way.
        in_flight: u64,
    },
    /// A shard ended.
    ShardEnded {
        /// Which.
        shard: u32,
        /// How.
        ending: ShardEnding,
    },
}

/// Where events go, each at once and in its order.
#[derive(Clone)]
pub struct Events(Arc<dyn Fn(Event) + Send + Sync>);

impl Events {
    /// To somebody who does not hold up whoever says one.
    pub fn to(hear: impl Fn(Event) + Send + Sync + 'static) -> Events {
        Events(Arc::new(hear))
    }

    pub(crate) fn say(&self, event: Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
