//! What holds for every command of a page and is said once: a reviewer who reads it at each sees nothing
//! else.

use super::{Line, Page};
use crate::request::{CommandTemplate, Request};
use crate::risk::Mark;

/// What stands for the words that all commands share. A manifest's own are quoted where they hold a `<`.
pub(super) const SIGN: &str = "<shared>";
/// Fewer words are no trouble to read.
const LEAST: usize = 4;

/// What is said once.
#[derive(Default)]
pub(super) struct Shared<'a> {
    /// Marks of every command.
    pub(super) marks: Vec<&'a Mark>,
    /// A fact of every command that has no other of its kind.
    pub(super) fact: Option<&'static str>,
    /// Words that stand in every command, one after the other.
    pub(super) words: Vec<&'a str>,
}

/// What the plugin reads of a command where its manifest says nothing else.
pub(super) const USUAL: &str = "the plugin reads 1 MiB of stdout and of stderr";

impl Page {
    pub(super) fn shared(&self) -> Shared<'_> {
        let commands: Vec<&Line> = self.requests.iter().filter(|line| line.is_command()).collect();
        let [first, rest @ ..] = commands.as_slice() else { return Shared::default() };
        let everywhere = |risk: &&Mark| rest.iter().all(|line| line.risks.contains(risk));
        let usual = |line: &&&Line| line.facts.iter().any(|fact| fact == USUAL);
        Shared {
            marks: if rest.is_empty() { Vec::new() } else { first.risks.iter().filter(everywhere).collect() },
            fact: (commands.iter().filter(usual).count() > 1).then_some(USUAL),
            words: if rest.len() > 1 { words(&commands) } else { Vec::new() },
        }
    }
}

/// The most text that stands in every command, in whole elements behind the program.
fn words<'a>(commands: &[&'a Line]) -> Vec<&'a str> {
    let argvs: Vec<Vec<&str>> =
        commands.iter().filter_map(|line| Some(line.command()?.template.argv())).collect();
    let [first, rest @ ..] = argvs.as_slice() else { return Vec::new() };
    let mut best: &[&str] = &[];
    let size = |words: &[&str]| words.iter().map(|word| word.len() + 1).sum::<usize>();
    for from in 1..first.len() {
        for to in from + LEAST..=first.len() {
            let words = &first[from..to];
            if !rest.iter().all(|argv| find(&argv[1..], words).is_some()) {
                break;
            }
            if size(words) > size(best) {
                best = words;
            }
        }
    }
    best.to_vec()
}

fn find(argv: &[&str], words: &[&str]) -> Option<usize> {
    argv.windows(words.len()).position(|window| window == words)
}

impl Shared<'_> {
    /// A command's elements, with what is shared in one sign.
    pub(super) fn argv<'a>(&self, command: &'a CommandTemplate) -> Vec<Word<'a>> {
        let argv = command.template.argv();
        let words = |words: &[&'a str]| words.iter().map(|word| Word::Own(word)).collect::<Vec<_>>();
        match self.words.as_slice() {
            [] => words(&argv),
            shared => match find(&argv[1..], shared) {
                Some(at) => {
                    let mut out = words(&argv[..=at]);
                    out.push(Word::Shared);
                    out.extend(words(&argv[at + 1 + shared.len()..]));
                    out
                }
                None => words(&argv),
            },
        }
    }

    /// A request's facts, without the one that is said once.
    pub(super) fn facts(&self, line: &Line) -> Vec<String> {
        let facts = line.all_facts().into_iter().filter(|fact| Some(fact.as_str()) != self.fact);
        match line.request {
            Request::Exec(_) | Request::Workspace(_) => vec![facts.collect::<Vec<_>>().join("; ")],
            _ => facts.collect(),
        }
    }

    /// A request's marks, without those that are said once.
    pub(super) fn marks<'a>(&'a self, line: &'a Line) -> impl Iterator<Item = &'a Mark> {
        line.risks.iter().filter(move |mark| !line.is_command() || !self.marks.contains(mark))
    }
}

/// An element of a command on a page.
pub(super) enum Word<'a> {
    /// As it stands in the manifest.
    Own(&'a str),
    /// What all commands share.
    Shared,
}
