//! What a judge says of a trial, as `mst.grade/v1`.

use serde::{Deserialize, Serialize};

use crate::outcome::InstrumentError;
use crate::{Digest, JudgeId, PluginId, TrialKey};

/// What a judge found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It passed.
    Pass,
    /// It failed.
    Fail,
    /// 0.0 to 1.0.
    Score(f64),
    /// The judge can't say, and why.
    Abstain(String),
}

/// Where a reason stands in the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    /// An entry of the evidence.
    pub entry: String,
    /// Words that stand there.
    pub quote: String,
}

/// A number measured on the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Its name.
    pub name: String,
    /// Finite.
    pub value: f64,
    /// Its unit; empty for a bare number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

/// What the judge itself used. Absent is unknown, and is never read as zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The model that it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens that it sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens that it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// A judge's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What it found.
    pub finding: Finding,
    /// For people.
    pub reason: String,
    /// Where that stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
    /// What it measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<Measure>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A verdict, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Graded {
    /// The judge answered.
    Verdict(Verdict),
    /// The judge, or what it needs, broke.
    Error(InstrumentError),
}

/// What a judge says of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// [`Grade::SCHEMA`].
    pub schema: String,
    /// The judge in the eval.
    pub judge: JudgeId,
    /// Its plugin.
    pub plugin: PluginId,
    /// Its component.
    pub plugin_sha256: Digest,
    /// The trial.
    pub trial: TrialKey,
    /// Of the `transcript.json` that was judged.
    pub transcript_sha256: Digest,
    /// What it said.
    pub result: Graded,
    /// What that took, in milliseconds.
    pub spent_ms: u64,
}

impl Grade {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.grade/v1";
}
