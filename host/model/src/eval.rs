//! The eval: what a user writes in `eval.yaml`, `.json` or `.toml`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::deadlines::Deadlines;
use crate::limits::{Capacity, Limits};
use crate::schema::{self, Problem};
use crate::tokens::TokenUse;
use crate::{Digest, JudgeId, PluginId, ServiceId, TokenId, VariantId};

mod check;

/// An eval: a dataset's cases, asked of a client in several variants, graded by judges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Eval {
    /// What the eval is called in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the cases come from.
    pub dataset: DatasetUse,
    /// What grades the trials; at least one.
    #[schemars(length(min = 1))]
    pub judges: Vec<JudgeUse>,
    /// The client that every variant without one of its own asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The arms; at least one.
    #[schemars(length(min = 1))]
    pub variants: Vec<Variant>,
    /// How often each case is asked in each variant.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub trials: u32,
    /// How long each part of a trial may take.
    #[serde(default)]
    pub deadlines: Deadlines,
    /// The tokens that clients name, and where they come from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<TokenId, TokenUse>,
    /// What the trials of all shards together may not exceed, by provider and by server.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Pools that trials share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub capacity: Vec<Capacity>,
}

fn one() -> u32 {
    1
}

/// The dataset of an eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetUse {
    /// The plugin, as `mst/dataset/jsonl`.
    pub plugin: PluginId,
    /// Its options; `mst plugin inspect` shows their schema. Paths are relative to the eval's file.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The most cases that it may give. A dataset with more is refused, so that one without end ends.
    #[serde(default = "a_million", skip_serializing_if = "is_a_million")]
    #[schemars(range(min = 1))]
    pub max_cases: u64,
}

fn a_million() -> u64 {
    1_000_000
}

fn is_a_million(count: &u64) -> bool {
    *count == a_million()
}

/// A judge of an eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeUse {
    /// Its name in reports; the last part of the plugin's id where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JudgeId>,
    /// The plugin, as `mst/judge/text`.
    pub plugin: PluginId,
    /// Its options; `mst plugin inspect` shows their schema.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The score from which on a trial passes, for a judge that scores.
    #[serde(default = "full")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub pass_score: f64,
    /// The pass rate that every variant must reach, or `mst run` exits with 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_pass_rate: Option<f64>,
}

fn full() -> f64 {
    1.0
}

impl JudgeUse {
    /// Its name, given or derived.
    pub fn name(&self) -> JudgeId {
        match &self.id {
            Some(id) => id.clone(),
            // A plugin's last part obeys the same alphabet as a judge's name.
            None => self.plugin.name().parse().unwrap_or_else(|_| unreachable!("a plugin's name is a name")),
        }
    }
}

/// An arm of an eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in reports.
    pub id: VariantId,
    /// Its client, where it is not the eval's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// Environment variables on top of the client's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// How a client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ClientKind {
    /// A program, started afresh for each trial in a workspace of its own. It gets the prompt on
    /// stdin and in the file that `MST_PROMPT_FILE` names; what it writes to stdout is its report.
    Command,
    /// Answers with the prompt itself, without a process.
    Echo,
}

impl ClientKind {
    /// The word for it, in evals, in transcripts and in `hello`.
    pub fn as_str(self) -> &'static str {
        match self {
            ClientKind::Command => "command",
            ClientKind::Echo => "echo",
        }
    }
}

/// What is being evaluated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// How it is asked.
    pub kind: ClientKind,
    /// For `command`: the program and its arguments. A program with a `/` is looked for beside
    /// the eval's file, another on the PATH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// For `command`: a program and its arguments that say which version of the client this is, as
    /// `[my-agent, --version]`. Each worker asks it once, before its first trial, without tokens and
    /// variables of `pass_env`; the first line that it prints stands in transcripts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version_argv: Vec<String>,
    /// For `command`: environment variables. They are recorded; put no secret here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// For `command`: names of variables of your own environment that the client gets, for
    /// secrets. Their values are recorded nowhere.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pass_env: BTreeSet<String>,
    /// Tokens that it needs, of the eval's `tokens`. It finds the value of each in a file of the
    /// token's name, in the directory that `MST_TOKENS` names; a file is replaced when its token is
    /// renewed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tokens: BTreeSet<TokenId>,
    /// Providers of models that it talks to. The eval's `limits` hold for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub providers: BTreeSet<ServiceId>,
    /// Servers that it talks to. The eval's `limits` hold for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub servers: BTreeSet<ServiceId>,
    /// Bytes of stdout, and of stderr, that are kept; what comes after is counted and dropped.
    #[serde(default = "sixteen_mib")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub max_output_bytes: u64,
}

fn sixteen_mib() -> u64 {
    16 << 20
}

impl Eval {
    /// The JSON Schema of an eval's file.
    pub fn json_schema() -> Value {
        schemars::schema_for!(Eval).to_value()
    }

    /// Reads an eval: its schema first, then the rules between its parts.
    pub fn read(value: &Value) -> Result<Eval, Vec<Problem>> {
        let eval: Eval = schema::read(value)?;
        let problems = eval.problems();
        if problems.is_empty() { Ok(eval) } else { Err(problems) }
    }

    /// The digest of what it asks: of all of it but how it is paced, and where tokens come from.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        let asked =
            Eval { limits: Limits::default(), capacity: Vec::new(), tokens: BTreeMap::new(), ..self.clone() };
        Digest::of_json(&asked)
    }

    /// The client that `variant` asks, with the variant's environment merged in.
    pub fn client_of(&self, variant: &Variant) -> Option<Client> {
        let mut client = variant.client.clone().or_else(|| self.client.clone())?;
        client.env.extend(variant.env.clone());
        Some(client)
    }
}

#[cfg(test)]
mod tests;
