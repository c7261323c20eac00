//! What a command's text names: programs by their names, on this machine and on another, and places.

use serde_json::Value;

use super::programs::{
    CHANGERS, CLUSTERS, ENGINES, FETCHERS, INTERPRETERS, NETWORK, RAISERS, REMOTES, SHELLS, STARTERS, base,
};
use super::{archive, plain};
use crate::request::CommandTemplate;
use crate::template::{Element, Part, Slot, SlotType};

/// Places that everybody may name.
const COMMON: [&str; 7] =
    ["/dev/null", "/dev/random", "/dev/stderr", "/dev/stdin", "/dev/stdout", "/dev/urandom", "/dev/zero"];

/// What a command's text names. What stands behind an engine or a login is done elsewhere, so among
/// the programs of that are only the shells.
#[derive(Default)]
pub(super) struct Named {
    /// Programs, each with the element that it stands in.
    pub(super) programs: Vec<(String, usize)>,
    /// Programs that a shell on another machine is told.
    there: Vec<String>,
    /// Whether it is told a script, or a command of mst's, and no other command alone.
    pub(super) script_there: bool,
    /// Absolute paths that are arguments.
    pub(super) paths: Vec<String>,
    /// Whether nothing but its arguments tells a `tar` what to do.
    may_read: bool,
}

impl Named {
    /// In a command: of each program that it may start, what its arguments are to that.
    pub(super) fn of(command: &CommandTemplate) -> Named {
        let first = First::of(command);
        let programs = first.programs.iter().map(|program| Some(program.as_str()));
        let none = first.programs.is_empty().then_some(None);
        let mut named = Named::default();
        for program in programs.chain(none) {
            named.add(Named::with(command, program, &first.arguments));
        }
        named
    }

    /// What another names too.
    fn add(&mut self, other: Named) {
        fn add<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
            for one in more {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        add(&mut self.programs, other.programs);
        add(&mut self.there, other.there);
        add(&mut self.paths, other.paths);
        self.script_there |= other.script_there;
    }

    /// Where the first word is this program.
    fn with(command: &CommandTemplate, program: Option<&str>, arguments: &[String]) -> Named {
        let template = &command.template;
        let mut named = Named { may_read: archive::has_plain_environment(command), ..Named::default() };
        let (mut shell, mut elsewhere, mut login) = (false, false, None);
        if let Some(program) = program {
            let name = base(program);
            shell = SHELLS.contains(&name);
            elsewhere = is_elsewhere(name);
            login = REMOTES.contains(&name).then_some(0);
            let further = template.elements().get(1..).unwrap_or_default();
            let reads = archive::is_tar(program)
                && named.may_read
                && archive::only_reads(&archive::behind(command, "", &[], further));
            if !reads {
                named.programs.push((name.to_owned(), 0));
            }
        }
        let whole_word = |text| Literal { text, whole: true, begins: true, ends: true, behind: &[] };
        let defaults = arguments.iter().map(|word| (0, false, vec![whole_word(word.as_str())]));
        let elements = template.elements().iter().enumerate().skip(1);
        let elements = elements.map(|(at, element)| (at, element.optional, literals(element).collect()));
        for (at, optional, literals) in defaults.chain(elements) {
            let further = template.elements().get(at + 1..).unwrap_or_default();
            // Of a choice each word is read as if it were the one.
            let before = (shell, elsewhere, login);
            let mut leads_on = !literals.is_empty() && !optional;
            for literal in &literals {
                let Literal { text, whole, begins, .. } = *literal;
                let name = base(text);
                leads_on &= whole && is_elsewhere(name);
                if whole && before.2.is_none() && REMOTES.contains(&name) && (before.0 || !before.1) {
                    login = Some(at);
                }
                if let (Some(login), false) = (before.2, text.starts_with('-')) {
                    let is_first =
                        host_of_login(template.elements(), login).is_some_and(|host| at == host + 1);
                    named.there(command, literal, further, is_first);
                }
                // An argument that a shell on this machine is given is none of its text.
                if before.0 && !before.1 {
                    named.script(command, at, literal);
                } else if whole && (SHELLS.contains(&name) || (!before.1 && is_known(name))) {
                    named.programs.push((name.to_owned(), at));
                    shell |= SHELLS.contains(&name);
                } else if !before.1 && (begins || text.contains('=')) {
                    named.path(text.rsplit('=').next().unwrap_or(text));
                }
            }
            elsewhere |= leads_on;
        }
        // mst's own command is run by that shell as much as a plugin's script.
        let msts = |slot: &Slot| matches!(slot.kind, SlotType::CommandArgs | SlotType::CommandShell);
        let told = login.and_then(|login| template.elements().get(login + 1..)).unwrap_or_default();
        named.script_there |= told.iter().flat_map(Element::slots).any(msts);
        // Behind arguments from elsewhere no element is certainly the script.
        if arguments.is_empty() {
            named.leave_out_told(template.elements());
        }
        named
    }

    /// Leaves out what a script names as words to an engine alone, where that is certain: it is done elsewhere,
    /// or is a verb.
    fn leave_out_told(&mut self, elements: &[Element]) {
        if !self.on(SHELLS).into_iter().all(plain::is_read_by) {
            return;
        }
        let Some((at, script)) = self.shell_at().and_then(|shell| script_at(elements, shell)) else { return };
        let told = plain::told(script);
        let is_told = |word: &str| told.iter().any(|told| std::ptr::eq(*told, word));
        self.programs
            .retain(|(name, of)| *of != at || !words(script).filter(|word| base(word) == name).all(is_told));
    }

    /// What a shell on another machine is told.
    fn there(
        &mut self,
        command: &CommandTemplate,
        literal: &Literal<'_>,
        further: &[Element],
        is_first: bool,
    ) {
        let text = literal.text;
        let may_read = self.may_read && is_first;
        let reads = |word: &str| may_read && literal.only_reads(command, word, further);
        let names = words(text).filter(|word| !reads(word)).map(base);
        let names = names.filter(|name| is_known(name) && !STARTERS.contains(name));
        self.there.extend(names.map(str::to_owned));
        let signs = |c: char| matches!(c, ';' | '|' | '&' | '<' | '>' | '$' | '`' | '(' | '\n');
        let several = text.trim().contains(' ') || (!literal.whole && text.contains(' '));
        self.script_there |= text.contains(signs) || several;
    }

    /// Every word of a shell's program. What goes on behind a slot, or behind an argument of the program's,
    /// is no place of its own.
    fn script(&mut self, command: &CommandTemplate, at: usize, literal: &Literal<'_>) {
        let Literal { text, begins, .. } = *literal;
        for word in words(text) {
            let name = base(word);
            if self.may_read && literal.only_reads(command, word, &[]) {
                continue;
            }
            if is_known(name) && !STARTERS.contains(&name) {
                self.programs.push((name.to_owned(), at));
                continue;
            }
            let before = &text[..word.as_ptr() as usize - text.as_ptr() as usize];
            let token = before.rsplit(char::is_whitespace).next().unwrap_or_default();
            let argument = token
                .match_indices('$')
                .any(|(at, _)| token[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
            let goes_on =
                argument || token.ends_with(['%', '#', '*']) || (!begins && token.len() == before.len());
            if !goes_on {
                self.path(word);
            }
        }
    }

    fn path(&mut self, word: &str) {
        let absolute = (word.starts_with('/') || word.starts_with("~/")) && word.len() > 1 || word == "/";
        if absolute && !COMMON.contains(&word) && !SHELLS.contains(&base(word)) {
            self.paths.push(word.to_owned());
        }
    }

    /// Those that are on a list, each once.
    pub(super) fn on(&self, list: &[&str]) -> Vec<&str> {
        once(self.programs.iter().map(|(name, _)| name.as_str()), list)
    }

    /// The same of those that a shell on another machine is told.
    pub(super) fn on_there(&self, list: &[&str]) -> Vec<&str> {
        once(self.there.iter().map(String::as_str), list)
    }

    /// The element of the first that is on a list.
    pub(super) fn first_at(&self, list: &[&str]) -> Option<usize> {
        self.programs.iter().find(|(name, _)| list.contains(&name.as_str())).map(|(_, at)| *at)
    }

    /// The elements of all that are on a list, each once.
    pub(super) fn all_at(&self, list: &[&str]) -> Vec<usize> {
        let on = self.programs.iter().filter(|(name, _)| list.contains(&name.as_str()));
        let mut all: Vec<usize> = on.map(|(_, at)| *at).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The element of the first shell.
    pub(super) fn shell_at(&self) -> Option<usize> {
        self.first_at(SHELLS)
    }
}

fn once<'a>(names: impl Iterator<Item = &'a str>, list: &[&str]) -> Vec<&'a str> {
    let mut out: Vec<&str> = Vec::new();
    for name in names.filter(|name| list.contains(name)) {
        if !out.contains(&name) {
            out.push(name);
        }
    }
    out
}

/// The text that is certainly the script of a shell's, where nothing in it is filled in, and where it stands.
fn script_at(elements: &[Element], shell: usize) -> Option<(usize, &str)> {
    let text = |at: usize| match elements.get(at)?.parts.as_slice() {
        [Part::Literal(text)] => Some(text.as_str()),
        _ => None,
    };
    let is_c = |text: &&str| text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
    text(shell + 1).filter(is_c)?;
    Some((shell + 2, text(shell + 2)?))
}

/// What a shell would take for words, and signs between them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | ':')))
        .filter(|word| !word.is_empty())
}

fn is_elsewhere(name: &str) -> bool {
    [ENGINES, REMOTES, CLUSTERS].iter().any(|list| list.contains(&name))
}

fn is_known(name: &str) -> bool {
    let lists = [SHELLS, INTERPRETERS, STARTERS, RAISERS, NETWORK, FETCHERS, CHANGERS];
    is_elsewhere(name) || lists.iter().any(|list| list.contains(&name))
}

/// A literal text of an element.
pub(super) struct Literal<'a> {
    pub(super) text: &'a str,
    /// Whether it is all of it.
    pub(super) whole: bool,
    /// Whether the element begins with it.
    pub(super) begins: bool,
    /// Whether the element ends with it.
    pub(super) ends: bool,
    /// What stands behind it in the element.
    behind: &'a [Part],
}

impl Literal<'_> {
    /// Whether a word of it is a `tar` that only reads: the first of a simple command.
    fn only_reads(&self, command: &CommandTemplate, word: &str, further: &[Element]) -> bool {
        let start = word.as_ptr() as usize - self.text.as_ptr() as usize;
        let rest = &self.text[start + word.len()..];
        archive::is_tar(word)
            && self.begins
            && archive::begins_command(&self.text[..start])
            && archive::only_reads(&archive::behind(command, rest, self.behind, further))
    }
}

/// Where the host of a login stands, which is certain behind a `--` alone.
fn host_of_login(elements: &[Element], login: usize) -> Option<usize> {
    let is_dashes =
        |element: &Element| matches!(element.parts.as_slice(), [Part::Literal(text)] if text == "--");
    let dashes = elements.iter().skip(login).position(is_dashes)?;
    Some(login + dashes + 1)
}

/// The literal texts of an element; of a choice, all of it.
pub(super) fn literals(element: &Element) -> impl Iterator<Item = Literal<'_>> {
    let whole = element.parts.len() == 1;
    element.parts.iter().enumerate().flat_map(move |(at, part)| {
        let texts: Vec<&str> = match part {
            Part::Literal(text) => vec![text],
            Part::Slot(Slot { kind: SlotType::Enum(words), .. }) => {
                words.iter().map(String::as_str).collect()
            }
            Part::Slot(_) => Vec::new(),
        };
        let behind = &element.parts[at + 1..];
        texts.into_iter().map(move |text| Literal {
            text,
            whole,
            begins: at == 0,
            ends: behind.is_empty(),
            behind,
        })
    })
}

/// What the first element can be: a program, the plugin's or the user's choice of several, or what the
/// plugin's schema says where the user says nothing, which may have arguments of its own.
#[derive(Default)]
struct First {
    programs: Vec<String>,
    arguments: Vec<String>,
}

impl First {
    fn of(command: &CommandTemplate) -> First {
        let programs = command.programs();
        if !programs.is_empty() {
            let programs = programs.into_iter().map(str::to_owned).collect();
            return First { programs, ..First::default() };
        }
        let own = command.template.elements().first().and_then(|element| element.slots().next());
        let Some(SlotType::Option(name)) = own.map(|slot| &slot.kind) else { return First::default() };
        let mut words: Vec<String> = match command.defaults.get(name) {
            Some(Value::String(text)) => vec![text.clone()],
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => return First::default(),
        };
        let arguments = if words.is_empty() { Vec::new() } else { words.split_off(1) };
        First { programs: words, arguments }
    }
}
