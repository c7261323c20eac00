//! Tokens: what clients need to be let in somewhere, by name. A value never stands here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;

/// Where the coordinator gets a token from: exactly one of `env`, `file` and `command`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenUse {
    /// A variable of the coordinator's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// A file on the coordinator's machine; relative to the eval's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A program on the coordinator's machine, and its arguments. It prints JSON: an object with
    /// `value` and, where the token has an end, `expires_at` (RFC 3339) or `expires_in` (seconds); or
    /// what kubectl's credential plugins print (`ExecCredential`), or Docker's (`Secret`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// How long the source may take.
    #[serde(default = "half_a_minute")]
    pub timeout: Span,
    /// What becomes of the shards that need it, where the source fails.
    #[serde(default)]
    pub on_failure: OnFailure,
}

fn half_a_minute() -> Span {
    Span::secs(30)
}

/// What becomes of a shard whose token can't be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnFailure {
    /// It ends, after the source has failed three times in a row.
    #[default]
    End,
    /// It waits, and the source is asked again for as long as the run lives.
    Wait,
}

impl TokenUse {
    /// How many sources it names; one is right.
    pub(crate) fn sources(&self) -> usize {
        usize::from(self.env.is_some())
            + usize::from(self.file.is_some())
            + usize::from(!self.command.is_empty())
    }
}
