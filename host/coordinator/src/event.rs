//! What a run says of itself while it goes. The coordinator never talks to the outside: whoever
//! shows a run listens here.

use mst_model::TrialKey;
use mst_model::outcome::Status;
use mst_model::run::ShardEnding;
use tokio::sync::mpsc::UnboundedSender;

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

/// Where events go. Nobody listening is no error.
#[derive(Debug, Clone)]
pub struct Events(pub UnboundedSender<Event>);

impl Events {
    pub(crate) fn say(&self, event: Event) {
        let _ = self.0.send(event);
    }
}
