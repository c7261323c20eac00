//! The page in a few sentences: how much of what, the gravest of it by name, and what its world
//! brings whatever it asks for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mst_model::{Kind, Span};
use serde::Serialize;

use super::{Line, Page, is_worker};
use crate::request::{Access, Capability, Request};
use crate::risk::Gist;
use crate::template::SlotType;
use crate::world::World;

/// All that a plugin is, in a few sentences.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    /// Who says that it may do what it asks for.
    pub standing: String,
    /// What bounds the calls into it.
    pub calls: String,
    /// How many requests of which kind.
    pub asks: String,
    /// What it does not ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_not: Option<String>,
    /// Whether it reaches the network, and how.
    pub network: String,
    /// What is grave, the gravest first.
    pub gravest: Vec<Gravest>,
    /// Options that stand in no command and name no directory: the plugin reads them, and does with
    /// them what it likes.
    pub free_options: Vec<String>,
    /// The commands that may be handed over to mst, and then be given the values of tokens, by their keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// What holds for every plugin of its world.
    pub world: Vec<Cow<'static, str>>,
    /// What to think of what has no mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmarked: Option<&'static str>,
}

/// Something grave, and which requests bring it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gravest {
    /// In a few words.
    pub what: &'static str,
    /// By their keys.
    pub requests: Vec<String>,
    /// Whether these are all commands, where there are several.
    #[serde(skip)]
    all: bool,
}

/// More are counted.
const MAX_KEYS: usize = 6;

const GIVEN: &str = "the cases' prompts and files, the clients' command lines and environment, and the values of the \
    eval's tokens";
const CONTAINS: &str = "and on to the container made for each part of a run (a shard): who runs that can keep and \
    spend the tokens";
const CHOOSES: &str = "and on to where the machine for each part of a run (a shard) is: who runs that can keep and \
    spend the tokens";
const CARRIES: &str = "which it starts for each part of a run (a shard), and on to wherever that leads: who runs \
    that can keep and spend the tokens";
/// Where no line shows a container for each.
const SHARE: &str = ". Shards that share an account on a host can read each other's tokens and files";
const SHARE_HERE: &str = ". Shards share your account here, and can read each other's tokens and files";
const BLIND: &str = "mst hands the plugin itself no prompt, answer, token or file of a run: it reads your options, and \
    whatever its commands print. The plugin picks the directory that mst works in on a machine; by itself mst bounds no \
    memory, processor or disk there. What comes back mst holds to the form that it must have; whether it is true \
    nobody can tell.";
const LEADS_PORTS: &str = "It can lead ports of this machine to others, though mst asks for none: programs here may take \
    one for a service of yours.";
const NO_WORKER: &str = "None of its commands takes what mst runs on a machine: mst speaks with none of them, and no run \
    can be done with it.";
const CASES: &str = "It decides what is asked, and which answers are expected.";
const UNMARKED: &str = "Marks (!) know some programs and flags by name: what has none may do harm too.";

impl Summary {
    pub(super) fn of(page: &Page) -> Summary {
        let commands = page.requests.iter().filter(|line| line.is_command()).count();
        let mut by_gist: BTreeMap<Gist, Vec<&Line>> = BTreeMap::new();
        for line in &page.requests {
            for gist in line.risks.iter().filter_map(|mark| mark.gist) {
                let lines = by_gist.entry(gist).or_default();
                if !lines.iter().any(|known| known.key == line.key) {
                    lines.push(line);
                }
            }
        }
        let mut world = match page.world {
            World::MachineRunner | World::ShardRunner => decides(page),
            World::Dataset => vec![CASES.into()],
            World::Judge => vec![scores(page, commands).into()],
        };
        let is_marked = by_gist.contains_key(&Gist::Ports);
        world.extend(page.forward_port.filter(|can| *can && !is_marked).map(|_| LEADS_PORTS.into()));
        let gravest = by_gist.into_iter().map(|(gist, lines)| Gravest {
            what: gist.as_str(),
            all: commands > 1 && lines.len() == commands && lines.iter().all(|line| line.is_command()),
            requests: lines.iter().map(|line| line.key.to_string()).collect(),
        });
        Summary {
            standing: standing(page),
            calls: calls(page.world),
            free_options: page.free_options(),
            workers: page.workers(),
            asks: asks(&page.requests, page.world.kind()),
            asks_not: asks_not(&page.requests, commands),
            network: network(page, commands),
            gravest: gravest.collect(),
            world,
            unmarked: (commands > 0).then_some(UNMARKED),
        }
    }
}

impl Summary {
    /// What holds, as sentences, before what is grave.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        [Some(&self.asks), self.asks_not.as_ref(), Some(&self.network)]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

impl Gravest {
    /// On one line.
    pub(super) fn line(&self) -> String {
        match self.all {
            true => format!("{}: every command", self.what),
            false => format!("{}: {}", self.what, some(&self.requests)),
        }
    }
}

/// The first of these, and how many more there are.
fn some<S: AsRef<str>>(names: &[S]) -> String {
    let first: Vec<&str> = names.iter().take(MAX_KEYS).map(AsRef::as_ref).collect();
    let more = match names.len().saturating_sub(MAX_KEYS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", first.join(", "))
}

/// How much of what it asks for.
fn asks(requests: &[Line], kind: Kind) -> String {
    let count = |capability| requests.iter().filter(|line| line.key.capability() == capability).count();
    let several = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let of = |capability, before: &str, one: &str, many: &str, after: &str| match count(capability) {
        0 => None,
        count => Some(format!("{before} {}{after}", several(count, one, many))),
    };
    let writes = |line: &&Line| matches!(&line.request, Request::Dir(dir) if dir.access == Access::ReadWrite);
    let written = match requests.iter().filter(writes).count() {
        0 => String::new(),
        count => format!(", and writes to {count}"),
    };
    let parts = [
        of(Capability::Exec, "has", "command", "commands", " run on this machine, as you"),
        of(Capability::Workspace, "has", "command", "commands", " run in trials' workspaces, as you"),
        of(Capability::Dir, "sees", "directory", "directories", &written),
        of(Capability::Http, "sends requests to", "destination", "destinations", ""),
        of(Capability::Secret, "has mst put in", "secret", "secrets", ", which it never sees"),
        of(Capability::Env, "reads", "variable", "variables", " of your environment"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts[..] {
        [] => "Asks for nothing: no command, no directory, no network, no secret, no variable.".to_owned(),
        _ => format!("This {kind} {}.", parts.join("; ")),
    }
}

/// What of what a plugin may ask for it does not; nothing where it asks for nothing at all.
fn asks_not(requests: &[Line], commands: usize) -> Option<String> {
    let asked = |capability| requests.iter().any(|line| line.key.capability() == capability);
    if requests.is_empty() {
        return None;
    }
    let all = [
        (commands > 0, "no command".to_owned()),
        (asked(Capability::Dir), "no directory".to_owned()),
        (asked(Capability::Http), "no request over the network".to_owned()),
        (asked(Capability::Secret), "no secret".to_owned()),
        (asked(Capability::Env), "no variable".to_owned()),
    ];
    let not: Vec<String> = all.into_iter().filter(|(asked, _)| !asked).map(|(_, word)| word).collect();
    let (itself, tail) = match commands {
        0 => ("It", ""),
        _ => ("For itself it", "; its commands have more without asking"),
    };
    match not.as_slice() {
        [] => None,
        [one] => Some(format!("{itself} asks for {one}{tail}.")),
        [most @ .., last] => Some(format!("{itself} asks for {} and {last}{tail}.", most.join(", "))),
    }
}

/// Where a runner's commands take what it never sees; of one that has none there is nothing to say.
fn decides(page: &Page) -> Vec<Cow<'static, str>> {
    let workers = page.workers();
    let to = match (page.world, shared(page)) {
        (World::MachineRunner, "") => CONTAINS.to_owned(),
        (World::MachineRunner, shared) => format!("{CHOOSES}{shared}"),
        (_, shared) => format!("{CARRIES}{shared}"),
    };
    match (workers.is_empty(), page.requests.iter().any(Line::is_command)) {
        (false, _) => vec![
            format!("A run goes where its lines lead: {GIVEN} go to {}, {to}.", some(&workers)).into(),
            BLIND.into(),
        ],
        (true, true) => vec![NO_WORKER.into()],
        (true, false) => Vec::new(),
    }
}

/// Whether shards can come at each other's tokens and files. A machine's name in the line of a container is
/// mst's own, and another for each.
fn shared(page: &Page) -> &'static str {
    let has = |line: &Line, gist| line.risks.iter().any(|mark| mark.gist == Some(gist));
    let workers = || page.requests.iter().filter(|line| line.command().is_some_and(is_worker));
    let is_apart = |line: &Line| {
        let slots = line.command().into_iter().flat_map(|command| command.template.slots());
        has(line, Gist::InContainer) && slots.into_iter().any(|slot| slot.kind == SlotType::Machine)
    };
    if workers().any(|line| has(line, Gist::Here)) {
        SHARE_HERE
    } else if workers().all(is_apart) {
        ""
    } else {
        SHARE
    }
}

/// What a judge reads of a trial by itself, as far as it uses the functions that give it.
fn scores(page: &Page, commands: usize) -> String {
    let uses = |function: &str| {
        let evidence = page.imports.iter().filter(|import| import.name.starts_with("mst:plugin/evidence@"));
        evidence.flat_map(|import| &import.functions).any(|used| used.ends_with(function))
    };
    let all = [
        (uses("trial.eval-case"), "the prompt, the expected answer"),
        (uses("trial.outcome"), "how the client ended"),
        (uses("trial.read"), "the client's report and files"),
        (uses("trial.report") && !uses("trial.read"), "the client's report"),
        (uses("trial.entries") && !uses("trial.read"), "the names of its files"),
        (uses("trial.variant-id"), "which variant it is of"),
        (uses("trial.trial-index"), "which of a case's trials it is"),
    ];
    let read: Vec<&str> = all.into_iter().filter(|(used, _)| *used).map(|(_, what)| what).collect();
    match (read.as_slice(), commands) {
        ([], 0) => "It reads nothing of the trials that it grades, and decides their scores.".to_owned(),
        ([], _) => {
            "It reads nothing of a trial itself, only what its commands print of it, and decides its score."
                .to_owned()
        }
        (read, _) => {
            format!("It reads of each trial that it grades: {}; and decides its score.", read.join(", "))
        }
    }
}

/// Whether it reaches the network, in one line.
fn network(page: &Page, commands: usize) -> String {
    let own = page.requests.iter().filter(|line| line.key.capability() == Capability::Http);
    let own: Vec<&str> = own.map(|line| line.key.name()).collect();
    let own = match own.as_slice() {
        [] if commands == 0 => return "Network: none.".to_owned(),
        // That it asks for none is said before.
        [] => None,
        to => Some(format!("requests of its own to {}", some(to))),
    };
    let gists = || page.requests.iter().flat_map(|line| &line.risks).filter_map(|mark| mark.gist);
    let clients = [
        (&[Gist::Here, Gist::Somewhere][..], "the clients have this machine's network"),
        (&[Gist::Elsewhere], "the clients have the network of the machine that they run on"),
    ];
    let clients = clients.into_iter().filter(|(of, _)| gists().any(|gist| of.contains(&gist)));
    let none = page.network.is_empty() && commands > 0;
    let none = none.then(|| "no command names a program that is known for it".to_owned());
    let known: Vec<String> = own
        .into_iter()
        .chain(none)
        .chain(page.network.iter().cloned())
        .chain(clients.map(|(_, said)| said.to_owned()))
        .collect();
    let known = known.join("; ");
    match commands {
        0 => format!("Network: {known}, and to nothing else."),
        _ => format!("Network: {known}. mst keeps no command from the network."),
    }
}

/// Who says that it may do what it asks for.
fn standing(page: &Page) -> String {
    let granted = page.requests.iter().filter(|line| line.granted == Some(true)).count();
    if page.own {
        "mst's own, built into it: granted all that it asks for, and only a policy takes that away".to_owned()
    } else if page.locked {
        match page.requests.len() {
            0 => "a stranger's, in your lock: it asks for nothing".to_owned(),
            count => format!("a stranger's, in your lock: granted {granted} of {count} requests"),
        }
    } else {
        "a stranger's: it may do none of this until you add it and grant it, each request for itself and for \
             this file alone"
            .to_owned()
    }
}

/// How long the longest call takes that a command may be run in; none where a worker outlives the call that
/// starts it, and where it is the eval's to say. `mst` holds this against what it does.
pub(super) fn longest_call(world: World, is_worker: bool) -> Option<Span> {
    match world {
        World::MachineRunner => (!is_worker).then_some(Span::secs(600)),
        World::ShardRunner => Some(Span::secs(7 * 24 * 3600)),
        World::Dataset | World::Judge => None,
    }
}

/// How long a call into it may take, and what it may use. `mst` holds these against what it does.
fn calls(world: World) -> String {
    let time = match world {
        World::MachineRunner => "30s each, making and copying 10m, removing 2m".to_owned(),
        World::ShardRunner => "30s each, a shard 7 days, removing 2m".to_owned(),
        World::Dataset => "30s each".to_owned(),
        World::Judge => {
            let scoring = mst_model::deadlines::Deadlines::default().scoring;
            format!("one a trial, in the eval's time for it (or else {scoring})")
        }
    };
    format!("{time}; 256 MiB of memory, 10,000 calls to mst and 1,000 lines on your terminal each")
}
