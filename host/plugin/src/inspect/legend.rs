//! What the words and signs on a page mean, as far as the page has them.

use super::{Line, Page};
use crate::request::{CommandTemplate, Request};
use crate::template::{Filler, SlotType};

/// A sign, and what it stands for.
pub(super) type Entry = (&'static str, &'static str);

/// What holds for every command on this machine.
const EXEC: &str = "Each runs as you, on this machine: it may do what you may. It begins in an empty \
    directory, with your PATH, your HOME and what its marks name. The plugin calls it when it likes, \
    10,000 times a call of its own at most. Where it only starts one, mst has its output, without a bound.";
/// What holds for every command in a workspace.
const WORKSPACE: &str = "Each runs as you, on the machine that grades, in a copy of the files that the \
    client left of a trial (one try at one case): a copy keeps the trial as it was, and confines nothing. \
    It has no variable and no secret of yours, and a HOME of its own.";

impl Page {
    /// What holds for every command.
    pub(super) fn for_commands(&self) -> Vec<&'static str> {
        let has = |is: fn(&Line) -> bool| self.requests.iter().any(is);
        let mut out = Vec::new();
        if has(|line| matches!(line.request, Request::Exec(_))) {
            out.push(EXEC);
        }
        if has(|line| matches!(line.request, Request::Workspace(_))) {
            out.push(WORKSPACE);
        }
        out
    }

    /// What stands in the commands.
    pub(super) fn legend(&self) -> Vec<Entry> {
        let commands: Vec<&CommandTemplate> = self.requests.iter().filter_map(Line::command).collect();
        let any = |is: &dyn Fn(&SlotType) -> bool| {
            commands.iter().any(|command| command.template.slots().any(|slot| is(&slot.kind)))
        };
        let elements = || commands.iter().flat_map(|command| command.template.elements());
        let all: [(bool, Entry); 9] = [
            (
                any(&|kind| kind.filler() == Filler::Plugin),
                ("{name:type}", "the plugin fills it, within its type"),
            ),
            (
                any(&|kind| *kind == SlotType::MachinePath),
                (
                    "{x:machine-path}",
                    "the plugin fills it: an absolute path without `..`, of letters, digits and `_.-+=,@%`, \
                     which leads on from what stands before it",
                ),
            ),
            (any(&|kind| kind.filler() == Filler::User), ("{option(x)}", "you fill it, by the option x")),
            (
                any(&|kind| *kind == SlotType::Machine),
                ("{machine}", "mst fills it: the name that it gave a machine of this run, and no other"),
            ),
            (any(&|kind| *kind == SlotType::Run), ("{run}", "mst fills it: the run's name")),
            (
                any(&|kind| matches!(kind, SlotType::CommandArgs | SlotType::CommandShell)),
                (
                    "{command...}",
                    "mst fills it (or {command:shell}): what mst runs on the machine, unseen by the plugin",
                ),
            ),
            (
                any(&|kind| *kind == SlotType::HostDir),
                ("{x:host-dir}", "mst fills it: a directory of what goes to a machine, or comes back"),
            ),
            (elements().any(|element| element.optional), ("[...]", "left out where its slot is empty")),
            (
                elements().any(|element| element.source.contains("{{") || element.source.contains("}}")),
                ("{{ }}", "one brace each"),
            ),
        ];
        all.into_iter().filter(|(used, _)| *used).map(|(_, entry)| entry).collect()
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
