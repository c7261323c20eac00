//! What holds for every command of a page and is said once: a reviewer who reads it at each sees nothing
//! else.

use super::{Line, Page};
use crate::request::{CommandTemplate, Request};
use crate::risk::Mark;

/// What stands for the words that all commands share. A manifest's own are quoted where they hold a `<`.
pub(super) const SIGN: &str = "<shared>";
/// Fewer words are no trouble to read.
const LEAST: usize = 4;

/// What stands at fewer commands stands there.
const SEVERAL: usize = 3;

/// What is said once.
#[derive(Default)]
pub(super) struct Shared<'a> {
    /// Marks of every command.
    pub(super) marks: Vec<&'a Mark>,
    /// Marks of several, each with the keys of these.
    pub(super) several: Vec<(&'a Mark, Vec<String>)>,
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
        let marks: Vec<&Mark> = match rest {
            [] => Vec::new(),
            rest => {
                first.risks.iter().filter(|mark| rest.iter().all(|line| line.risks.contains(mark))).collect()
            }
        };
        let mut several: Vec<(&Mark, Vec<String>)> = Vec::new();
        for mark in commands.iter().flat_map(|line| &line.risks) {
            if marks.contains(&mark) || several.iter().any(|(known, _)| *known == mark) {
                continue;
            }
            let with = commands.iter().filter(|line| line.risks.contains(mark));
            several.push((mark, with.map(|line| line.key.to_string()).collect()));
        }
        several.retain(|(_, keys)| keys.len() >= SEVERAL);
        several.sort_by_key(|(mark, _)| (mark.gist.is_none(), mark.gist));
        let usual = |line: &&&Line| line.facts.iter().any(|fact| fact == USUAL);
        Shared {
            marks,
            several,
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
        let said =
            |mark: &&Mark| self.marks.contains(mark) || self.several.iter().any(|(known, _)| known == mark);
        line.risks.iter().filter(move |mark| !line.is_command() || !said(mark))
    }
}

/// An element of a command on a page.
pub(super) enum Word<'a> {
    /// As it stands in the manifest.
    Own(&'a str),
    /// What all commands share.
    Shared,
}

#[cfg(test)]
mod tests {
    use crate::inspect::tests::page;
    use crate::manifest::Manifest;

    fn runner(argvs: &[&str]) -> String {
        let mut text = "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'".to_owned();
        for (at, argv) in argvs.iter().enumerate() {
            text += &format!("\n[[exec]]\nid='c{at}'\nargv={argv}\ntimeout='1s'");
        }
        page("machine-runner", &Manifest::from_toml(&text).expect("valid")).to_string()
    }

    /// The lines of the commands, each whole.
    fn lines(page: &str) -> Vec<String> {
        let asks = page.split_once("\nAsks for, each by the plugin's name for it\n").expect("it asks").1;
        let asks = asks.split_once("\nOptions").expect("more follows").0;
        let lines = asks.lines().filter(|line| line.starts_with("      ") && !line.starts_with("      !"));
        lines.map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn words_that_all_commands_share_stand_once_and_nothing_of_them_is_lost() {
        let page = runner(&[
            "['x', '-a', '-b', '-c', '-d e', 'one']",
            "['y', '1', '-a', '-b', '-c', '-d e']",
            "['x', '-a', '-b', '-c', '-d e', '<shared>', '-a']",
        ]);
        assert!(page.contains("  <shared>  stands for `-a -b -c '-d e'`\n"), "{page}");
        // A manifest's own is quoted, and so is another thing.
        assert_eq!(lines(&page), ["x <shared> one", "y 1 <shared>", "x <shared> '<shared>' -a"]);
    }

    #[test]
    fn the_program_is_no_shared_word_and_few_words_are_none() {
        let same = "['x', '-a', '-b', '-c']";
        let page = runner(&[same, same, same]);
        assert_eq!(lines(&page), ["x -a -b -c"; 3]);
        let same = "['x', '-a', '-b', '-c', '-d']";
        assert_eq!(lines(&runner(&[same, same, same])), ["x <shared>"; 3]);
        assert_eq!(lines(&runner(&[same, same])), ["x -a -b -c -d"; 2]);
        assert_eq!(lines(&runner(&[same, same, "['x', '-a', '-b', '-c']"]))[0], "x -a -b -c -d");
    }

    #[test]
    fn a_mark_of_several_commands_names_them_all() {
        let page = runner(&["['rm', 'a']", "['rm', 'b']", "['rm', 'c']", "['mv', 'd']"]);
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let mark = "! changes or removes files where its arguments say: `rm` (exec:c0, exec:c1, exec:c2)";
        assert!(words.contains(mark), "{page}");
        assert_eq!(words.matches("where its arguments say: `rm`").count(), 1, "{page}");
        assert_eq!(words.matches("where its arguments say: `mv`").count(), 1, "{page}");
    }
}
