//! What a worker is given, as `mst.bundle/v1`: `bundle.json` and, in dispatch order, one line of
//! `work.jsonl` a case. It holds no secret.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::deadlines::Deadlines;
use crate::eval::Client;
use crate::machine::Image;
use crate::{Case, Digest, RunId, TokenId, VariantId};

/// `bundle.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// [`Bundle::SCHEMA`].
    pub schema: String,
    /// The run.
    pub run: RunId,
    /// The shard, from 0.
    pub shard: u32,
    /// How many trials the worker does at a time.
    pub concurrency: u32,
    /// How many lanes its trials are in.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub lanes: u32,
    /// Each variant's client, with the variant's environment merged in.
    pub clients: BTreeMap<VariantId, Client>,
    /// How long each part of a trial may take.
    pub deadlines: Deadlines,
    /// Whether tokens may lie on a disk where there is no memory file system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tokens_on_disk: bool,
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Bundle {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.bundle/v1";
    /// The name of its file.
    pub const FILE: &'static str = "bundle.json";
    /// The name of the file with the work.
    pub const WORK_FILE: &'static str = "work.jsonl";
    /// The directory with the files that clients are started from.
    pub const CLIENT_DIR: &'static str = "client";

    /// The tokens that its clients need.
    pub fn tokens(&self) -> BTreeSet<TokenId> {
        self.clients.values().flat_map(|client| client.tokens.iter().cloned()).collect()
    }
}

/// `machine.json`, in a bundle that lies on a machine: what the runner said of that machine. It is
/// written when the machine is there, so that the worker can say where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThisMachine {
    /// [`ThisMachine::SCHEMA`].
    pub schema: String,
    /// Its name.
    pub name: String,
    /// What it was made from, where its runner knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

impl ThisMachine {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.machine/v1";
    /// The name of its file.
    pub const FILE: &'static str = "machine.json";
}

/// A trial to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The arm.
    pub variant: VariantId,
    /// Which of the arm's trials of this case.
    pub index: u32,
    /// Which attempt at it, from 0.
    pub attempt: u32,
    /// Its lane, from 0: trials of the same one need the same room and the same tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lane: u32,
    /// Of the `transcript.json` of the attempt before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
}

/// A line of `work.jsonl`: a case, and what is to do with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseWork {
    /// The case's digest.
    pub sha256: Digest,
    /// Its trials, in dispatch order.
    pub trials: Vec<Planned>,
    /// The case without `expected` and `metadata`, which are the judges': a client could look
    /// for them where its worker lives. The digest is of the whole case.
    pub case: Case,
}
