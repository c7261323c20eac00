//! The messages.

use std::collections::{BTreeMap, BTreeSet};

use mst_model::outcome::Status;
use mst_model::transcript::ClientInfo;
use mst_model::{Digest, ServiceId, TokenId, TrialKey, VariantId};
use serde::{Deserialize, Serialize};

use crate::secret::{self, Secret};

/// What `hello` must say.
pub const PROTOCOL: &str = "mst.shard/v1";

/// What a shard does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Asks the client.
    Collect,
    /// Runs judges over stored trials.
    Grade,
}

/// A trial that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// Which.
    pub trial: TrialKey,
    /// How long it has run, in milliseconds.
    pub age_ms: u64,
    /// What its client may take in all, in milliseconds.
    pub deadline_ms: u64,
}

/// A trial whose transcript is on the worker's disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialDone {
    /// Which.
    pub trial: TrialKey,
    /// How it ended.
    pub status: Status,
    /// The trial's directory, relative to the results directory.
    pub path: String,
    /// The size of its `transcript.json`.
    pub size_bytes: u64,
    /// Of its `transcript.json`, which holds the digest of everything beside it.
    pub sha256: Digest,
}

/// Why a worker needs tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// It has none yet.
    Start,
    /// Those that it has end soon.
    Expiring,
    /// A connector was refused with those that it has.
    Connector,
}

/// A token for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Which.
    pub name: TokenId,
    /// Its value.
    #[serde(serialize_with = "secret::serialize", deserialize_with = "secret::deserialize")]
    pub value: Secret,
    /// For how long it is good from here on, in milliseconds, so that no two clocks need agree;
    /// absent where it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// What a trial talks to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Uses {
    /// Providers of models.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub providers: BTreeSet<ServiceId>,
    /// Servers.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub servers: BTreeSet<ServiceId>,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromWorker {
    /// The first message. The coordinator refuses another protocol and another version of mst
    /// before any prompt is sent.
    Hello {
        /// [`PROTOCOL`].
        protocol: String,
        /// The worker's version of mst.
        mst: String,
        /// The shard that it was given.
        shard: u32,
        /// What it will do.
        work: Work,
        /// The digest of the image that its machine was made from, as far as its bundle says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
        /// The client of each variant.
        clients: BTreeMap<VariantId, ClientInfo>,
    },
    /// It needs tokens, and starts nothing until they come.
    NeedTokens {
        /// Which.
        names: BTreeSet<TokenId>,
        /// Why.
        why: Need,
    },
    /// May this trial start?
    Acquire {
        /// Which.
        trial: TrialKey,
        /// What it will talk to.
        #[serde(flatten)]
        uses: Uses,
    },
    /// This trial has ended, and its room is free.
    Trial(TrialDone),
    /// Still there.
    Heartbeat {
        /// What is under way.
        trials: Vec<InFlight>,
    },
    /// The last message.
    Done {
        /// Trials that ended.
        trials: u64,
        /// Whether cleaning up worked.
        clean: bool,
    },
}

impl FromWorker {
    /// The message's `type`.
    pub fn name(&self) -> &'static str {
        match self {
            FromWorker::Hello { .. } => "hello",
            FromWorker::NeedTokens { .. } => "need-tokens",
            FromWorker::Acquire { .. } => "acquire",
            FromWorker::Trial(_) => "trial",
            FromWorker::Heartbeat { .. } => "heartbeat",
            FromWorker::Done { .. } => "done",
        }
    }
}

/// A worker's message with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbered {
    /// From 1, without a gap.
    pub seq: u64,
    /// The message.
    #[serde(flatten)]
    pub message: FromWorker,
}

/// What the coordinator says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromCoordinator {
    /// The tokens that were asked for, all of them.
    Tokens {
        /// Each.
        tokens: Vec<Token>,
    },
    /// This trial may start.
    Granted {
        /// Which.
        trial: TrialKey,
    },
    /// This trial waits for room that others hold, or for tokens. It takes none of the worker's places
    /// meanwhile, which may ask for others.
    Waits {
        /// Which.
        trial: TrialKey,
    },
    /// Start nothing new. What runs may go on for `grace_ms`, or to its own deadline where that
    /// is absent; after it, it is killed and its trial is missing.
    Cancel {
        /// Why, for people.
        why: String,
        /// Milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
    },
}
