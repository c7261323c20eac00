//! The page that a reviewer reads before a plugin runs: all that it is and may do, made from its
//! bytes alone, and beside each request what was said of it here.

mod markdown;
mod text;

use std::collections::BTreeMap;

use mst_model::{Digest, Kind, PluginId};
use serde::Serialize;
use serde_json::Value;

use crate::component::{Extern, PluginFile};
use crate::grant::Granted;
use crate::request::{Access, Capability, Key, Request};
use crate::risk;
use crate::world::World;

/// A plugin on a page. As JSON it is what `mst plugin inspect --json` writes, `Display` is what a
/// person reads, and `markdown` what a pull request shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page {
    /// Who it is.
    pub id: PluginId,
    /// Its version.
    pub version: semver::Version,
    /// What it implements.
    pub world: World,
    /// The version of `mst:plugin` that it was built for.
    pub contract: semver::Version,
    /// What it says of itself.
    pub description: String,
    /// Its license, where it names one.
    pub license: Option<String>,
    /// Its address, where it names one.
    pub homepage: Option<String>,
    /// What a grant is bound to.
    pub digest: Digest,
    /// The component's size.
    pub size_bytes: u64,
    /// The most shards that a run may ask it for; of a runner.
    pub max_shards: Option<u32>,
    /// Whether it leads local ports to a machine's; of a `machine-runner`.
    pub forward_port: Option<bool>,
    /// Everything that it asks for.
    pub requests: Vec<Line>,
    /// What the lock has other than this file: another digest of the same plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Digest>,
    /// The rule of a policy that refuses the plugin as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The JSON Schema of its options.
    pub options: Value,
    /// Every interface that it imports, with the functions used.
    pub imports: Vec<Extern>,
    /// Every interface that it exports.
    pub exports: Vec<Extern>,
}

/// A request on the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// What it is called when it is granted.
    #[serde(serialize_with = "as_text")]
    pub key: Key,
    /// The whole of it.
    pub request: Request,
    /// What to know about it, most important first.
    pub risks: Vec<String>,
    /// Whether it is granted; none where no lock has the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<bool>,
    /// The rule of a policy that refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

fn as_text<S: serde::Serializer>(key: &Key, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl Page {
    /// The page of a component.
    pub fn of(file: &PluginFile) -> Page {
        let manifest = file.manifest();
        let line = |request: Request| Line {
            key: request.key(),
            risks: risk::of(manifest, &request),
            request,
            granted: None,
            refused: None,
        };
        Page {
            id: manifest.id.clone(),
            version: manifest.version.clone(),
            world: manifest.world,
            contract: manifest.contract.clone(),
            description: manifest.description.clone(),
            license: manifest.license.clone(),
            homepage: manifest.homepage.clone(),
            digest: file.digest(),
            size_bytes: file.bytes().len() as u64,
            max_shards: (manifest.world.kind() == Kind::Runner).then_some(manifest.max_shards),
            forward_port: (manifest.world == World::MachineRunner).then_some(manifest.forward_port),
            requests: manifest.requests().into_iter().map(line).collect(),
            pinned: None,
            refused: None,
            options: manifest.options.clone(),
            imports: file.imports().to_vec(),
            exports: file.exports().to_vec(),
        }
    }

    /// With what was granted.
    pub fn with_grants(mut self, granted: &Granted) -> Page {
        for line in &mut self.requests {
            line.granted = Some(granted.has(&line.key));
        }
        self
    }

    /// With the digest of the file that the lock pins in this one's place.
    pub fn with_pinned(mut self, pinned: Digest) -> Page {
        self.pinned = Some(pinned).filter(|pinned| *pinned != self.digest);
        self
    }

    /// With what policies refuse: the plugin as a whole, and requests by their keys.
    pub fn with_policy(mut self, whole: Option<String>, refused: &BTreeMap<Key, String>) -> Page {
        self.refused = whole;
        for line in &mut self.requests {
            line.refused = refused.get(&line.key).cloned();
        }
        self
    }

    /// How many of its requests a policy refuses, or all of it.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || self.requests.iter().any(|line| line.refused.is_some())
    }

    /// All that it asks for in one sentence.
    fn in_short(&self) -> String {
        let count =
            |capability| self.requests.iter().filter(|line| line.key.capability() == capability).count();
        let writes =
            |line: &&Line| matches!(&line.request, Request::Dir(dir) if dir.access == Access::ReadWrite);
        let several = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        };
        let of = |capability, before: &str, one: &str, many: &str, after: &str| match count(capability) {
            0 => None,
            count => Some(format!("{before} {}{after}", several(count, one, many))),
        };
        let written = match self.requests.iter().filter(writes).count() {
            0 => String::new(),
            count => format!(", and writes to {count}"),
        };
        let parts = [
            of(Capability::Exec, "has", "command", "commands", " run on this machine, as you"),
            of(Capability::Workspace, "has", "command", "commands", " run in trials' workspaces, as you"),
            of(Capability::Dir, "sees", "directory", "directories", &written),
            of(Capability::Http, "sends requests to", "destination", "destinations", ""),
            of(Capability::Secret, "has", "secret", "secrets", " put in"),
            of(Capability::Env, "reads", "variable", "variables", " of your environment"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{}; by itself nothing else", parts.join("; "))
    }

    /// What is to be known of every command, where there are several: a reviewer who reads it at each
    /// sees nothing else.
    fn shared_risks(&self) -> Vec<&str> {
        let commands: Vec<&Line> = self.requests.iter().filter(|line| line.is_command()).collect();
        let [first, rest @ ..] = commands.as_slice() else { return Vec::new() };
        if rest.is_empty() {
            return Vec::new();
        }
        let everywhere = |risk: &&String| rest.iter().all(|line| line.risks.contains(risk));
        first.risks.iter().filter(everywhere).map(String::as_str).collect()
    }
}

impl Line {
    fn is_command(&self) -> bool {
        matches!(self.request, Request::Exec(_) | Request::Workspace(_))
    }

    /// Granted or not, in a word; empty where no lock says.
    fn standing(&self) -> &'static str {
        match (self.granted, self.request.is_granted_by_use()) {
            (None, _) => "",
            (Some(_), true) => "granted by naming it",
            (Some(true), false) => "granted",
            (Some(false), false) => "not granted",
        }
    }
}

#[cfg(test)]
mod tests;
