//! What in a manifest a reviewer should stop at, in words.
//!
//! It explains, and decides nothing: what is not named here is bounded by the template all the
//! same. A list of programs' names can't be complete, so each sentence says what is known and
//! none says that something is safe.

mod archive;
mod bounds;
mod command;
mod container;
mod engine;
mod flags;
mod guard;
mod login;
mod named;
mod network;
mod plain;
mod ports;
mod programs;
mod script;
mod whereabouts;
mod words;

use mst_model::Kind;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::grant::Source;
use crate::legible::{code, listed, shown};
use crate::manifest::Manifest;
use crate::request::{Access, Dir, Host, Http, Request, Secret};
use crate::template::{Place, SlotType, Template};
pub(crate) use network::reached;
use programs::sounds_secret;

/// Something to stop at. As JSON it is its sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// In a sentence.
    pub text: String,
    /// What it comes to, where it is grave: then the page's first lines have it too.
    pub(crate) gist: Option<Gist>,
}

/// What grave marks come to, the gravest first. Each is a fixed sentence, so that no plugin makes
/// the list longer than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gist {
    AnyProgram,
    FetchedCode,
    Raised,
    Here,
    Somewhere,
    Root,
    AnyVerb,
    OpensContainer,
    Login,
    Elsewhere,
    Source,
    Fells,
    Changes,
    ChangesThere,
    Removes,
    Places,
    Secret,
    Tells,
    Network,
    Workspace,
    Files,
    Ports,
    Reaches,
    Wildcard,
    Near,
    Writes,
    Script,
    ScriptThere,
    InContainer,
}

impl Gist {
    /// As it begins a line, with the keys behind.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Gist::AnyProgram => "as good as any program of the plugin's choice, run as you",
            Gist::FetchedCode => "runs code that it fetches",
            Gist::Raised => "takes more rights than yours",
            Gist::Here => "the clients that are evaluated run on this machine, as you, without isolation",
            Gist::Somewhere => {
                "where the clients that are evaluated run is not known: take it for this machine, as you"
            }
            Gist::Root => "as good as who runs a container engine, mostly root",
            Gist::AnyVerb => "has a container engine do what the plugin says",
            Gist::OpensContainer => "opens containers to the engine's host",
            Gist::Login => "can log in or act on other machines and accounts, as you",
            Gist::Elsewhere => {
                "the clients that are evaluated run on another machine, confined by nothing that mst knows of"
            }
            Gist::Source => "has mst run a program, as you, to get a secret",
            Gist::Fells => "removes whole directories",
            Gist::Changes => "changes or removes files",
            Gist::ChangesThere => "changes or removes files on other machines",
            Gist::Removes => "removes or stops containers",
            Gist::Places => "goes to fixed places of this machine",
            Gist::Secret => "gets variables of yours that sound like secrets",
            Gist::Tells => {
                "may see what goes to machines, and what it writes to stderr (2 KiB a time) reaches the plugin"
            }
            Gist::Network => "can send and fetch over the network",
            Gist::Workspace => "runs beside what the evaluated client wrote, as you",
            Gist::Files => "is told of files that your options name",
            Gist::Ports => {
                "leads ports between this machine and others, where programs may take them for services of yours"
            }
            Gist::Reaches => "may send what it sees to",
            Gist::Wildcard => "among these every host below a name",
            Gist::Near => "reaches addresses of this machine or its network",
            Gist::Writes => "changes and removes files in directories of yours",
            Gist::Script => "runs scripts, which are to be read",
            Gist::ScriptThere => "has scripts run on other machines, which are to be read",
            Gist::InContainer => "the clients that are evaluated run in a container",
        }
    }
}

impl Mark {
    fn note(text: impl Into<String>) -> Mark {
        Mark { text: text.into(), gist: None }
    }

    fn grave(gist: Gist, text: impl Into<String>) -> Mark {
        Mark { text: text.into(), gist: Some(gist) }
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// What to know about a request, most important first.
pub(crate) fn of(manifest: &Manifest, request: &Request) -> Vec<Mark> {
    match request {
        Request::Exec(command) => command::marks(manifest, Place::Exec, command),
        Request::Workspace(command) => command::marks(manifest, Place::Workspace, command),
        Request::Dir(dir) => of_dir(manifest.id.kind(), dir),
        Request::Http(http) => of_http(manifest, http),
        Request::Secret(secret) => of_secret(manifest, secret),
        Request::Env(name) => of_env(name),
    }
}

/// What to know about where a secret comes from.
pub(crate) fn of_source(source: &Source) -> Option<Mark> {
    let Source::Command(words) = source else { return None };
    let text = "mst runs this, as you, in the lock's directory, when the secret is needed";
    Some(Mark::grave(Gist::Source, format!("{text}: {}", code(&words.join(" "), Template::MAX_BYTES))))
}

/// What an option is where the user sets none, whole: what is cut off is where the harm would be.
pub(crate) fn default_of(manifest: &Manifest, option: &str) -> Option<String> {
    let default = manifest.option(option)?.get("default")?;
    Some(match default {
        Value::String(text) => code(text, crate::manifest::MAX_BYTES),
        other => code(&other.to_string(), crate::manifest::MAX_BYTES),
    })
}

/// What to know about a directory.
fn of_dir(kind: Kind, dir: &Dir) -> Vec<Mark> {
    let what = match &dir.option {
        Some(option) => format!("the path in your option `{}`", shown(option, 64)),
        None => "a directory that you name".to_owned(),
    };
    let does = match dir.access {
        Access::Read => Mark::note(format!("reads {what}")),
        Access::ReadWrite => Mark::grave(Gist::Writes, format!("reads, changes and removes files in {what}")),
    };
    let mut out = vec![does];
    if dir.access == Access::ReadWrite && kind != Kind::Runner {
        out.push(Mark::note(format!("a {kind} seldom has to write")));
    }
    out
}

/// What to know about a destination.
fn of_http(manifest: &Manifest, http: &Http) -> Vec<Mark> {
    let text = format!("what the plugin sees may go there: {}", sees(manifest).join("; "));
    let mut out = vec![Mark::grave(Gist::Reaches, text)];
    let name = match http.to.host() {
        Host::Below(parent) => {
            let text = format!("a wildcard: every host below `{parent}`, whoever runs it, now and later");
            out.push(Mark::grave(Gist::Wildcard, text));
            parent.as_str()
        }
        Host::Name(name) => name,
        Host::Address(_) => {
            out.push(Mark::note("an address and no name: who has it may change"));
            ""
        }
    };
    if name.split('.').any(|label| label.starts_with("xn--")) {
        out.push(Mark::note(format!("a name in other letters than it seems to be written in: `{name}`")));
    }
    if http.private {
        let text =
            "may be an address of this machine or its network: services there that trust who is inside";
        out.push(Mark::grave(Gist::Near, text));
    }
    out
}

/// All that comes before a plugin's eyes, and so may go wherever it sends requests.
fn sees(manifest: &Manifest) -> Vec<String> {
    let mut out = vec![match manifest.id.kind() {
        Kind::Runner => "your options, and what it knows of machines".to_owned(),
        Kind::Dataset => "your options, and the data that it makes cases of".to_owned(),
        Kind::Judge => {
            "your options, and all evidence of a trial: prompts, expected answers, reports, files".to_owned()
        }
    }];
    // Of a command of the host's it sees nothing; of one that saw a directory of the host's, a few
    // words of stderr.
    let reads = |template: &&Template| {
        let hosts = [SlotType::CommandArgs, SlotType::CommandShell];
        !template.slots().any(|slot| hosts.contains(&slot.kind))
    };
    let commands = manifest.exec.iter().chain(&manifest.workspace).map(|command| &command.template);
    match commands.filter(reads).count() {
        0 => {}
        1 => out.push("what its command prints, whatever that reads on the machine".to_owned()),
        count => out.push(format!("what its {count} commands print, whatever they read on the machine")),
    }
    if !manifest.dirs.is_empty() {
        let names = manifest.dirs.iter().map(|dir| dir.name.as_str());
        out.push(format!("the files of its directories {}", listed(names)));
    }
    if !manifest.env.is_empty() {
        out.push(format!("your variables {}", listed(manifest.env.iter().map(String::as_str))));
    }
    if manifest.http.len() > 1 {
        out.push("what other destinations answer".to_owned());
    }
    out
}

/// What to know about a secret.
fn of_secret(manifest: &Manifest, secret: &Secret) -> Vec<Mark> {
    let mut out = Vec::new();
    for to in &secret.to {
        let near = match to.host() {
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Address(address) => address.is_loopback(),
            Host::Below(_) => false,
        };
        out.push(Mark::note(match to.host() {
            Host::Below(parent) => format!("leaves this machine, to any host below `{parent}`: `{to}`"),
            _ if near => format!("goes to whatever listens on this machine at `{to}`"),
            _ => format!("leaves this machine, to `{to}`"),
        }));
    }
    for (kind, commands) in [("exec", &manifest.exec), ("workspace", &manifest.workspace)] {
        for command in
            commands.iter().filter(|command| command.secrets.iter().any(|var| var.secret == secret.name))
        {
            out.push(Mark::note(format!(
                "goes into the environment of `{kind}:{}`, whose program can do with it what it likes",
                command.id
            )));
        }
    }
    if out.is_empty() {
        out.push(Mark::note("goes nowhere: nothing in the manifest uses it"));
    }
    out
}

/// What to know about a variable that the plugin reads itself.
fn of_env(name: &str) -> Vec<Mark> {
    let mut out = vec![Mark::note("the plugin reads its value")];
    if sounds_secret(name) {
        let text = "sounds like a secret: as a `[[secret]]` its value would stay with mst";
        out.insert(0, Mark::grave(Gist::Secret, text));
    }
    out
}

#[cfg(test)]
mod tests;
