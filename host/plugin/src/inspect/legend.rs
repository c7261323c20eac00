//! What the words and signs on a page mean, as far as the page has them.

use std::borrow::Cow;

use mst_model::Kind;

use super::shared::{SIGN, Shared};
use super::{Line, Page, is_worker, text};
use crate::request::{CommandTemplate, Request};
use crate::template::{Element, Filler, Slot, SlotType};
use crate::world::World;

/// A sign, and what it stands for.
pub(super) type Entry = (String, String);

/// What holds for every command on this machine.
const EXEC: &str = "Each runs as you, on this machine: it may do what you may. It begins in an empty directory, \
    with your PATH, your HOME and what its marks name, and an empty stdin where nothing else is said. The plugin \
    can have these lines run and no others, when it likes, 10,000 times a call of its own at most. One is killed \
    when its own time or the call that runs it is over, with what it started here, as far as mst finds that; what \
    it began in a container or on a host may go on. A machine stays until the plugin's line that removes it has \
    run: mst asks for that when done with it, and in `mst machines reap`.";
/// Behind the keys of those that take a command of mst's.
const WORKER: &str = "can be handed over to mst as the worker, which asks the clients, and then goes on: mst writes to its \
    stdin, the values of the eval's tokens (credentials that it names) too, and alone reads its stdout and \
    stderr. mst puts no token, secret, prompt or answer into an argument.";
/// Of a group whose slot is the plugin's.
const LEAVES: &str = ", and the plugin may leave its own empty";
/// What holds for every command in a workspace.
const WORKSPACE: [&str; 2] = [
    "Each runs as you, on this machine, in a copy of the files that the client left of a trial (one try at \
     one case): a copy keeps the trial as it was, and confines nothing. Of your variables it gets PATH \
     alone, no secret, and a HOME of its own; your files it finds all the same.",
    "The plugin can have these lines run and no others, when it likes, 10,000 times a trial at most. One is \
     killed, with what it started, as far as mst finds that, when its own time is over, or sooner the eval's for the \
     trial. Its stdin is empty where nothing else is \
     said. It finds the case, the expected answer and the report in files that its variables name; what \
     the plugin fills into an argument may be text of the trial too.",
];

impl Page {
    /// What holds for every command.
    pub(super) fn for_commands(&self) -> Vec<Cow<'static, str>> {
        let has = |is: fn(&Line) -> bool| self.requests.iter().any(is);
        let mut out = Vec::new();
        if has(|line| matches!(line.request, Request::Exec(_))) {
            out.push(EXEC.into());
            let workers = self.workers();
            if !workers.is_empty() {
                out.push(format!("Only {} {WORKER}", workers.join(", ")).into());
            }
        }
        if has(|line| matches!(line.request, Request::Workspace(_))) {
            out.extend(WORKSPACE.map(Cow::from));
        }
        out
    }

    /// The commands that take one of mst's, by their keys.
    pub(super) fn workers(&self) -> Vec<String> {
        let takes = |line: &&Line| matches!(&line.request, Request::Exec(command) if is_worker(command));
        self.requests.iter().filter(takes).map(|line| line.key.to_string()).collect()
    }

    /// What stands in the commands.
    pub(super) fn legend(&self, shared: &Shared<'_>) -> Vec<Entry> {
        let commands: Vec<&CommandTemplate> = self.requests.iter().filter_map(Line::command).collect();
        let elements = || commands.iter().flat_map(|command| command.template.elements());
        let any = |is: &dyn Fn(&Slot) -> bool| elements().flat_map(Element::slots).any(is);
        let kind = |kind: SlotType| any(&|slot| slot.kind == kind);
        let written = |text: &str| elements().any(|element| element.source.contains(text));
        let plugins = |slot: &Slot| slot.kind.filler() == Filler::Plugin;
        let you = match self.world.kind() {
            Kind::Runner => "you fill it (`--runner-option`)",
            _ => "the eval fills it (you, or who wrote it)",
        };
        let [directory, whose] = match self.world {
            World::ShardRunner => ["one of mst's directories", ", of the plugin's choice"],
            _ => ["mst's directory in a call that copies", ", by no path of the plugin's"],
        };
        let leaves = elements().any(|element| element.optional && element.slots().any(plugins));
        let lines = || commands.iter().map(|command| text::argv(command, shared));
        let all = [
            (!shared.words.is_empty(), (SIGN, format!("stands for `{}`", text::words(&shared.words)))),
            (any(&plugins), ("{x:type}", "the plugin fills it, within its type".to_owned())),
            (kind(SlotType::Ident), ("ident", format!("a name: {}", SlotType::Ident.rule()))),
            (
                any(&|slot| matches!(slot.kind, SlotType::Uint { .. })),
                ("uint(a..b)", "a whole number, from a to b".to_owned()),
            ),
            (kind(SlotType::Quantity), ("quantity", SlotType::Quantity.rule())),
            (any(&|slot| matches!(slot.kind, SlotType::Enum(_))), ("enum(a|b)", "one of these".to_owned())),
            (kind(SlotType::OciRef), ("oci-ref", SlotType::OciRef.rule())),
            (
                kind(SlotType::MachinePath),
                (
                    "machine-path",
                    "an absolute path (`/` too), no `..`, of letters, digits and `_.-+=,@%`. It confines nothing: \
                     links lead anywhere"
                        .to_owned(),
                ),
            ),
            (
                any(&|slot| matches!(slot.kind, SlotType::Text(_))),
                ("text(/x/)", "text that the expression x matches as a whole".to_owned()),
            ),
            (any(&|slot| slot.many), ("{x:type...}", "any number of these, each an argument".to_owned())),
            (written("{option("), ("{option(x)}", format!("{you}, by the option x"))),
            (
                written(":option("),
                ("{y:option(x)}", format!("{you}, by the option x; y is the plugin's name for it")),
            ),
            (
                kind(SlotType::Machine),
                (
                    "{machine}",
                    "mst fills it, for removal too: its own random name (a-z, 0-9, `-`) of the call's machine, \
                     one of this run's"
                        .to_owned(),
                ),
            ),
            (kind(SlotType::Run), ("{run}", "mst fills it: the run's name, of the same letters".to_owned())),
            (
                kind(SlotType::CommandArgs),
                (
                    "{command...}",
                    "mst fills it: what mst runs on the machine".to_owned(),
                ),
            ),
            (
                kind(SlotType::CommandShell),
                (
                    "{command:shell}",
                    "mst fills it, for a shell: what mst runs on the machine"
                        .to_owned(),
                ),
            ),
            (
                kind(SlotType::HostDir),
                (
                    "{x:host-dir}",
                    format!(
                        "{directory}{whose}: what goes to a machine, or an empty one for what comes. That, of any size, \
                         is unpacked here before mst checks it, links too: only what unpacks it (`tar`, `cp`, an \
                         engine) keeps it in there. Stdout goes nowhere"
                    ),
                ),
            ),
            (
                elements().any(|element| element.optional),
                ("[...]", format!("left out where its slot is empty{}", if leaves { LEAVES } else { "" })),
            ),
            (
                lines().any(|line| line.contains('\'')),
                ("'...'", "one argument, quoted as for a POSIX shell".to_owned()),
            ),
            (
                lines().any(|line| line.contains("$'")),
                (
                    "$'...'",
                    "the same with escapes: \\n is a new line, \\t a tab, \\x20 a blank, \\u.... another than \
                     ASCII's"
                        .to_owned(),
                ),
            ),
            (written("{{") || written("}}"), ("{{ }}", "one brace each".to_owned())),
            (
                elements().any(|element| element.source.starts_with("[[")),
                ("[[", "one bracket, at the beginning of an argument".to_owned()),
            ),
        ];
        let used = all.into_iter().filter(|(used, _)| *used);
        used.map(|(_, (sign, said))| (sign.to_owned(), said)).collect()
    }
}

impl Line {
    /// The command that it is, where it is one.
    pub(super) fn command(&self) -> Option<&CommandTemplate> {
        match &self.request {
            Request::Exec(command) | Request::Workspace(command) => Some(command),
            _ => None,
        }
    }
}
