//! A machine: where a shard runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The image that a machine was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What the user asked for, as `debian:12`.
    pub reference: String,
    /// What it resolved to, as `sha256:…`.
    pub digest: String,
}

/// A machine that is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Minted by the host, unique, a DNS label.
    pub name: String,
    /// The runner's own.
    pub handle: Value,
    /// The directory there that is the host's to use.
    pub root: String,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}
