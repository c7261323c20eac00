//! The page that a reviewer reads before a plugin runs: all that it is and may do, made from its
//! bytes alone, and beside each request what was said of it here.

mod legend;
mod markdown;
mod options;
mod shared;
mod summary;
mod text;

use std::collections::BTreeMap;

use mst_model::{Digest, Kind, PluginId, Span};
use serde::Serialize;
use serde_json::Value;

use crate::component::{Extern, PluginFile};
use crate::grant::{Bindings, Granted};
use crate::legible::code;
use crate::policy::Policy;
use crate::request::{CommandTemplate, Key, Request, Stdin};
use crate::risk::{self, Mark};
use crate::template::SlotType;
use crate::world::World;
use summary::longest_call;
pub use summary::{Gravest, Summary};

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
    /// All of it in a few sentences.
    pub summary: Summary,
    /// Everything that it asks for.
    pub requests: Vec<Line>,
    /// Whether it is one of mst's own, which are granted all that they ask for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Whether the lock has it, so that what is granted is said of each request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// What the lock has other than this file: another digest of the same plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Digest>,
    /// How its commands are known to reach the network.
    pub network: Vec<String>,
    /// The policies that it was held to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// The rule of a policy that refuses the plugin as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What an option may not choose as a program, with the rules of policies that refuse it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_choices: Vec<String>,
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
    /// What holds for it, grave or not.
    pub facts: Vec<String>,
    /// What to know about it, most important first.
    pub risks: Vec<Mark>,
    /// Whether it is granted; none where no lock has the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<bool>,
    /// What the lock binds it to: a directory's path, or where a secret's value comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
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
            facts: facts(manifest.world, &request),
            risks: risk::of(manifest, &request),
            request,
            granted: None,
            bound: None,
            refused: None,
        };
        let mut page = Page {
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
            network: Vec::new(),
            summary: Summary::default(),
            requests: manifest.requests().into_iter().map(line).collect(),
            own: false,
            locked: false,
            pinned: None,
            policies: Vec::new(),
            refused: None,
            refused_choices: Vec::new(),
            options: manifest.options.clone(),
            imports: file.imports().to_vec(),
            exports: file.exports().to_vec(),
        };
        page.network = risk::reached(manifest);
        page.summary = Summary::of(&page);
        page
    }

    /// As one of mst's own. Whoever says so has compared the bytes with those that are built in.
    pub fn of_own(mut self) -> Page {
        self.own = true;
        self.summary = Summary::of(&self);
        self
    }

    /// With what was granted, and what it was bound to.
    pub fn with_grants(mut self, granted: &Granted) -> Page {
        self.locked = true;
        for line in &mut self.requests {
            line.granted = Some(granted.has(&line.key));
            line.bind(granted.bindings());
        }
        self.summary = Summary::of(&self);
        self
    }

    /// With the digest of the file that the lock pins in this one's place.
    pub fn with_pinned(mut self, pinned: Digest) -> Page {
        self.pinned = Some(pinned).filter(|pinned| *pinned != self.digest);
        self
    }

    /// With what policies refuse: the plugin as a whole, requests, programs that an option may choose, and
    /// sources of secrets, by their keys. One that refuses nothing is told too.
    pub fn held_to(mut self, policy: &Policy, sources: &BTreeMap<Key, String>) -> Page {
        self.policies = policy.files().map(str::to_owned).collect();
        self.refused = policy.refuses_plugin(&self.id);
        for line in &mut self.requests {
            line.refused = policy.refuses(&line.request).or_else(|| sources.get(&line.key).cloned());
            let Some(option) = line.command().and_then(CommandTemplate::program_option) else { continue };
            for (program, rule) in policy.refuses_some(&line.request) {
                let text = format!("{} as your option {}: {rule}", code(program, 120), code(option, 64));
                if !self.refused_choices.contains(&text) {
                    self.refused_choices.push(text);
                }
            }
        }
        self
    }

    /// How many of its requests a policy refuses, or all of it.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || self.requests.iter().any(|line| line.refused.is_some())
    }
}

impl Line {
    fn bind(&mut self, bindings: &Bindings) {
        let name = self.key.name();
        match &self.request {
            Request::Dir(dir) if dir.option.is_none() => {
                let path = bindings.dirs.get(name);
                self.bound = path.map(|path| path.to_string_lossy().into_owned());
            }
            Request::Secret(_) => {
                let source = bindings.secrets.get(name);
                self.bound = source.map(ToString::to_string);
                self.risks.extend(source.and_then(risk::of_source));
            }
            _ => {}
        }
    }

    fn is_command(&self) -> bool {
        matches!(self.request, Request::Exec(_) | Request::Workspace(_))
    }

    /// Granted or not, in a word; none where no lock says.
    fn standing(&self) -> Option<&'static str> {
        match (self.granted, self.request.is_granted_by_use()) {
            (None, _) => None,
            (Some(_), true) => Some("granted by naming it"),
            (Some(true), false) => Some("granted"),
            (Some(false), false) => Some("not granted"),
        }
    }

    /// What holds for it, with what the lock says.
    fn all_facts(&self) -> Vec<String> {
        let bound = self.bound.as_ref().map(|bound| {
            let word = if matches!(self.request, Request::Dir(_)) { "is" } else { "comes from" };
            format!("{word} {}, says the lock", code(bound, 4096))
        });
        self.facts.iter().cloned().chain(bound).collect()
    }
}

/// What holds for a request, whatever a reviewer thinks of it.
fn facts(world: World, request: &Request) -> Vec<String> {
    match request {
        Request::Exec(command) => bounds(command, longest_call(world, is_worker(command))),
        Request::Workspace(command) => bounds(command, None),
        Request::Dir(dir) => vec![dir.access.to_string()],
        Request::Http(http) => {
            let methods: Vec<&str> = http.methods.iter().map(|method| method.as_str()).collect();
            vec![format!("by {}", methods.join(", "))]
        }
        Request::Secret(_) => vec![
            "the plugin never sees its value: mst puts it in on the way out, and covers it in what comes back"
                .to_owned(),
        ],
        Request::Env(_) => Vec::new(),
    }
}

/// How long a command may take, what of it the plugin reads, and whether it writes its stdin. Its output
/// is bounded only where the plugin reads it: what is started speaks to mst for as long as it likes.
fn bounds(command: &CommandTemplate, longest_call: Option<Span>) -> Vec<String> {
    let has = |wanted: &[SlotType]| command.template.slots().any(|slot| wanted.contains(&slot.kind));
    let reads = if is_worker(command) {
        "the plugin reads nothing of it, and mst all".to_owned()
    } else if has(&[SlotType::HostDir]) {
        let most = bytes(command.max_output_bytes.min(2048));
        format!("the plugin reads its exit and {most} of stderr")
    } else {
        format!("the plugin reads {} of stdout and of stderr", bytes(command.max_output_bytes))
    };
    let said = |time: Span| time.to_string().replace("day", " day");
    let time = match longest_call.filter(|longest| *longest < command.timeout) {
        Some(longest) => format!("at most {}, as no call is longer", said(longest)),
        None => format!("at most {}", said(command.timeout)),
    };
    let writes = (command.stdin == Stdin::Plugin).then(|| "the plugin writes its stdin".to_owned());
    [time, reads].into_iter().chain(writes).collect()
}

/// Whether it takes a command of mst's, and so may be handed over.
fn is_worker(command: &CommandTemplate) -> bool {
    command.template.slots().any(|slot| matches!(slot.kind, SlotType::CommandArgs | SlotType::CommandShell))
}

fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 && count % (1 << 20) == 0 => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count % (1 << 10) == 0 => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests;
