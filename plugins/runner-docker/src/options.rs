//! What the user may set; `plugin.toml` says it as a JSON Schema.

use serde::Deserialize;
use serde_json::Value;

/// The options. Those that the plugin does nothing with are put into the templates by the host,
/// and are here so that they are known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub(crate) image: String,
    #[serde(default)]
    pub(crate) engine: Engine,
    pub(crate) user: Option<String>,
    #[serde(rename = "memory")]
    _memory: Option<Value>,
    #[serde(rename = "cpus")]
    _cpus: Option<Value>,
    #[serde(rename = "network")]
    _network: Option<Value>,
    #[serde(rename = "platform")]
    _platform: Option<Value>,
}

/// The program that makes containers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    #[default]
    Docker,
    Podman,
}

impl Engine {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}
