//! What the user may set; `plugin.toml` says it as a JSON Schema.

use serde::Deserialize;
use serde_json::Value;

/// The options. Those that the plugin does nothing with are put into the templates by the host,
/// and are here so that they are known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub(crate) image: String,
    pub(crate) user: Option<String>,
    #[serde(rename = "engine")]
    _engine: Option<Value>,
    #[serde(rename = "memory")]
    _memory: Option<Value>,
    #[serde(rename = "cpus")]
    _cpus: Option<Value>,
    #[serde(rename = "network")]
    _network: Option<Value>,
    #[serde(rename = "platform")]
    _platform: Option<Value>,
}
