//! A run: the plan, its identity, where it ran and how it ended, as `mst.run/v1`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::deadlines::Part;
use crate::eval::Eval;
use crate::limits::Limits;
use crate::machine::Image;
use crate::{Denial, Digest, PluginId, RunId, Span};

/// A plugin that a run uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginUse {
    /// Its id.
    pub id: PluginId,
    /// Its version.
    pub version: Version,
    /// Its component.
    pub sha256: Digest,
}

/// The cases, as they were resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseSet {
    /// How many.
    pub count: u64,
    /// Of `cases.jsonl`.
    pub sha256: Digest,
}

/// What must be the same for two runs to ask the same. Kept in parts, so that a difference can
/// be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Over all of the below.
    pub sha256: Digest,
    /// Of the eval, all but how it is paced: clients, variants, judges with their options, deadlines.
    pub eval: Digest,
    /// Of the cases.
    pub cases: Digest,
    /// Of each plugin.
    pub plugins: BTreeMap<PluginId, Digest>,
}

impl Identity {
    /// The identity of these parts.
    pub fn new(eval: &Eval, cases: &CaseSet, plugins: &[PluginUse]) -> Result<Identity, serde_json::Error> {
        let eval = eval.digest()?;
        let plugins: BTreeMap<_, _> = plugins.iter().map(|used| (used.id.clone(), used.sha256)).collect();
        let sha256 = Digest::of_json(&(eval, cases.sha256, &plugins))?;
        Ok(Identity { sha256, eval, cases: cases.sha256, plugins })
    }
}

/// The runner of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunnerUse {
    /// `local`, or a plugin's id.
    pub id: String,
    /// The user's `--runner-option`s.
    pub options: BTreeMap<String, Value>,
    /// How many shards.
    pub shards: u32,
}

/// How a run is gone about, as its command line said; a run that is taken up again keeps it. Deadlines
/// apart, none of it changes what is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Orders the cases; 0 leaves them as the dataset has them.
    #[serde(default)]
    pub seed: u64,
    /// The user's limits, which stand in for the eval's.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// The user's deadlines, which stand in for the eval's; the record's eval has them in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deadlines: BTreeMap<Part, Span>,
    /// Whether tokens may lie on a disk where there is no memory file system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tokens_on_disk: bool,
}

/// How a shard ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum ShardEnding {
    /// Each of its trials has an outcome.
    Complete,
    /// It was told to stop.
    Cancelled,
    /// Its worker or the way to it broke.
    Broken {
        /// What broke, for people.
        why: String,
    },
}

/// A shard of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Which, from 0.
    pub index: u32,
    /// The name of its machine, where it was not the coordinator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// What that was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// The worker's mst, from its `hello`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_mst: Option<Version>,
    /// Whether its worker could clean up after its trials, as it said itself; absent where it did
    /// not get to say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<bool>,
    /// What its runner was denied: each call once, however often it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// How it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<ShardEnding>,
}

/// How far collecting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collect {
    /// Under way, or cut off without a word.
    Running,
    /// Every planned trial has a transcript.
    Complete,
    /// Some have none.
    Partial,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RunRecord::SCHEMA`].
    pub schema: String,
    /// Its name.
    pub id: RunId,
    /// When it began.
    pub created_at: Timestamp,
    /// The coordinator's mst.
    pub mst: Version,
    /// Where the eval was read, on the coordinator's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval_file: Option<String>,
    /// The eval as it was read, with defaults filled in.
    pub eval: Eval,
    /// The plugins that it uses.
    pub plugins: Vec<PluginUse>,
    /// The cases.
    pub cases: CaseSet,
    /// What it asks.
    pub identity: Identity,
    /// Where it runs.
    pub runner: RunnerUse,
    /// How it is gone about.
    #[serde(default)]
    pub policy: Policy,
    /// How each shard ended.
    pub shards: Vec<ShardRecord>,
    /// How many trials are planned.
    pub trials: u64,
    /// How far collecting is.
    pub collect: Collect,
}

impl RunRecord {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.run/v1";
}
