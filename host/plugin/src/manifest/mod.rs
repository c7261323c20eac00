//! The manifest: all that a plugin may ever do, as data.
//!
//! A plugin's author writes it as TOML (`plugin.toml`); `mst plugin build` embeds it as JSON in
//! the component's custom section `mst:manifest`. One reader serves both, so that what the author
//! was told is what the user is told. Whatever it does not know it refuses: a capability that
//! nobody shows is a capability that nobody granted.

mod error;
mod fields;
pub(crate) mod read;
pub(crate) mod requests;

use mst_model::{Kind, PluginId};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

pub use error::ManifestError;
pub(crate) use fields::Fields;

use crate::contract::contract_version;
use crate::legible::shown;
use crate::request::{CommandTemplate, Dir, Http, Request, Secret};
use crate::world::World;

/// The component's custom section that holds it.
pub const SECTION: &str = "mst:manifest";
/// The name and version of its JSON.
pub const SCHEMA: &str = "mst.manifest/v1";
/// The largest, in bytes, as TOML and as JSON.
pub const MAX_BYTES: usize = 64 * 1024;

/// All that a plugin says about itself and asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Who it is.
    pub id: PluginId,
    /// Its own version.
    pub version: semver::Version,
    /// What it implements.
    pub world: World,
    /// The contract it was built for: the version of the WIT package `mst:plugin`.
    pub contract: semver::Version,
    /// One line for people.
    pub description: String,
    /// An SPDX expression, unchecked.
    pub license: Option<String>,
    /// An `https` address.
    pub homepage: Option<String>,
    /// The JSON Schema of its options: an object's.
    pub options: Value,
    /// The most shards, and so machines, that a run may ask it for at a time; of a runner.
    pub max_shards: u32,
    /// Whether it leads local ports to a machine's; of a `machine-runner`.
    pub forward_port: bool,
    /// Directories it asks for.
    pub dirs: Vec<Dir>,
    /// Hosts it asks to send requests to.
    pub http: Vec<Http>,
    /// The user's environment variables that it asks to read itself, by their exact names.
    pub env: Vec<String>,
    /// Secrets it asks the host to put in for it.
    pub secrets: Vec<Secret>,
    /// Programs it asks the host to run; only in the runners' worlds.
    pub exec: Vec<CommandTemplate>,
    /// Programs it asks to run in a trial's workspace; only in the judges' world.
    pub workspace: Vec<CommandTemplate>,
}

impl Manifest {
    /// Reads `plugin.toml`. It names no `schema` and no `contract`: these are of the mst that
    /// builds the plugin.
    pub fn from_toml(text: &str) -> Result<Manifest, ManifestError> {
        read::bounded(text.len())?;
        let table: toml::Table =
            toml::from_str(text).map_err(|error| ManifestError::Toml(Box::new(error)))?;
        let value = read::json_of("", toml::Value::Table(table))?;
        read::read(Fields::new("", value)?, contract_version())
    }

    /// Reads the JSON of a component's custom section.
    pub fn from_json(text: &[u8]) -> Result<Manifest, ManifestError> {
        read::bounded(text.len())?;
        let value = mst_model::strict_json::from_slice(text).map_err(ManifestError::Json)?;
        let mut fields = Fields::new("", value)?;
        // First of all: in another format any other complaint would be beside the point.
        match fields.text("schema")? {
            Some(found) if found == SCHEMA => {}
            Some(found) => {
                let newer = found
                    .strip_prefix("mst.manifest/v")
                    .and_then(|version| version.parse::<u32>().ok())
                    .is_some_and(|version| version > 1);
                return Err(ManifestError::Format { found: shown(&found, 64), newer });
            }
            None => return Err(fields.missing("schema")),
        }
        let contract = fields.text("contract")?.ok_or_else(|| fields.missing("contract"))?;
        let contract = contract
            .strip_prefix("mst:plugin@")
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| ManifestError::Rule {
                at: "contract".to_owned(),
                why: format!(
                    "`{}` is none: it must be as `mst:plugin@{}`",
                    shown(&contract, 64),
                    contract_version()
                ),
            })?;
        read::read(fields, contract)
    }

    /// Its JSON. Equal manifests have equal JSON, and it reads back as itself.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("schema".to_owned(), SCHEMA.into());
        out.insert("contract".to_owned(), format!("mst:plugin@{}", self.contract).into());
        out.insert("id".to_owned(), self.id.as_str().into());
        out.insert("version".to_owned(), self.version.to_string().into());
        out.insert("world".to_owned(), self.world.as_str().into());
        out.insert("description".to_owned(), self.description.as_str().into());
        for (key, value) in [("license", &self.license), ("homepage", &self.homepage)] {
            if let Some(value) = value {
                out.insert(key.to_owned(), value.as_str().into());
            }
        }
        out.insert("options".to_owned(), self.options.clone());
        if self.world.kind() == Kind::Runner {
            out.insert("max_shards".to_owned(), self.max_shards.into());
        }
        if self.world == World::MachineRunner {
            out.insert("forward_port".to_owned(), self.forward_port.into());
        }
        for (key, list) in [
            ("dir", json!(self.dirs)),
            ("http", json!(self.http)),
            ("env", json!(self.env)),
            ("secret", json!(self.secrets)),
            ("exec", json!(self.exec)),
            ("workspace", json!(self.workspace)),
        ] {
            if list.as_array().is_some_and(|list| !list.is_empty()) {
                out.insert(key.to_owned(), list);
            }
        }
        Value::Object(out)
    }

    /// The template of this id, for `process.run` and `process.start`.
    pub fn exec(&self, id: &str) -> Option<&CommandTemplate> {
        self.exec.iter().find(|template| template.id == id)
    }

    /// The template of this id, for `workspace.run`.
    pub fn workspace(&self, id: &str) -> Option<&CommandTemplate> {
        self.workspace.iter().find(|template| template.id == id)
    }

    /// Everything that it asks for, each by a key of its own, in the order of a page: what runs
    /// programs first.
    pub fn requests(&self) -> Vec<Request> {
        let exec = self.exec.iter().cloned().map(Request::Exec);
        let workspace = self.workspace.iter().cloned().map(Request::Workspace);
        let dirs = self.dirs.iter().cloned().map(Request::Dir);
        let http = self.http.iter().cloned().map(Request::Http);
        let secrets = self.secrets.iter().cloned().map(Request::Secret);
        let env = self.env.iter().cloned().map(Request::Env);
        exec.chain(workspace).chain(dirs).chain(http).chain(secrets).chain(env).collect()
    }

    /// The schema of one option.
    pub fn option(&self, name: &str) -> Option<&Value> {
        self.options.get("properties")?.get(name)
    }
}

impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

#[cfg(test)]
mod tests;
