//! What in a command a reviewer should stop at.

use serde_json::Value;

use super::programs::{
    CHANGERS, CLUSTERS, ENGINES, FETCHERS, INTERPRETERS, NETWORK, RAISERS, REMOTES, SHELLS, STARTERS, base,
    loads_code, sounds_secret, way_out,
};
use super::{Gist, Mark, default_of, whereabouts};
use crate::legible::{code, listed, shown};
use crate::manifest::Manifest;
use crate::request::{CommandTemplate, Stdin};
use crate::template::{Element, Filler, Part, Place, Slot, SlotType, Template};

/// Places that everybody may name.
const COMMON: [&str; 7] =
    ["/dev/null", "/dev/random", "/dev/stderr", "/dev/stdin", "/dev/stdout", "/dev/urandom", "/dev/zero"];

/// What a command's text names. What stands behind an engine or a login is done elsewhere, so among
/// the programs of that are only the shells.
#[derive(Default)]
pub(super) struct Named {
    /// Programs, each with the element that it stands in.
    programs: Vec<(String, usize)>,
    /// Programs that a shell on another machine is told.
    there: Vec<String>,
    /// Whether it is told a script, and no command alone.
    script_there: bool,
    /// Absolute paths that are arguments.
    paths: Vec<String>,
}

impl Named {
    /// In a command.
    pub(super) fn of(command: &CommandTemplate) -> Named {
        let (template, first) = (&command.template, First::of(command));
        let mut named = Named::default();
        let (mut shell, mut elsewhere, mut login) = (false, false, false);
        for program in &first.programs {
            let name = base(program);
            shell |= SHELLS.contains(&name);
            elsewhere |= is_elsewhere(name);
            login |= REMOTES.contains(&name);
            named.programs.push((name.to_owned(), 0));
        }
        let whole_word = |text| Literal { text, whole: true, begins: true };
        let defaults = first.arguments.iter().map(|word| (0, whole_word(word.as_str())));
        let elements = template.elements().iter().enumerate().skip(1);
        let texts = elements.flat_map(|(at, element)| literals(element).map(move |literal| (at, literal)));
        for (at, Literal { text, whole, begins }) in defaults.chain(texts) {
            if shell && !elsewhere {
                named.script(at, text, begins);
                elsewhere = whole && is_elsewhere(base(text));
                login |= whole && REMOTES.contains(&base(text));
                continue;
            }
            if login && !text.starts_with('-') {
                named.there(text, whole);
            }
            let name = base(text);
            if whole && (SHELLS.contains(&name) || (!elsewhere && is_known(name))) {
                named.programs.push((name.to_owned(), at));
                shell |= SHELLS.contains(&name);
                elsewhere |= is_elsewhere(name);
                login |= REMOTES.contains(&name);
            } else if !elsewhere && (begins || text.contains('=')) {
                named.path(text.rsplit('=').next().unwrap_or(text));
            }
        }
        named
    }

    /// What a shell on another machine is told.
    fn there(&mut self, text: &str, whole: bool) {
        let names = words(text).map(base).filter(|name| is_known(name) && !STARTERS.contains(name));
        self.there.extend(names.map(str::to_owned));
        let signs = |c: char| matches!(c, ';' | '|' | '&' | '<' | '>' | '$' | '`' | '(' | '\n');
        self.script_there |= text.contains(signs) || (whole && text.trim().contains(' '));
    }

    /// Every word of a shell's program. What goes on behind a slot, or behind an argument of the program's,
    /// is no place of its own.
    fn script(&mut self, at: usize, text: &str, begins: bool) {
        for word in words(text) {
            let name = base(word);
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
    fn on_there(&self, list: &[&str]) -> Vec<&str> {
        once(self.there.iter().map(String::as_str), list)
    }

    /// The element of the first shell.
    fn shell_at(&self) -> Option<usize> {
        let shell = self.programs.iter().find(|(name, _)| SHELLS.contains(&name.as_str()));
        shell.map(|(_, at)| *at)
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

/// What a shell would take for words, and signs between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
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
    begins: bool,
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
        texts.into_iter().map(move |text| Literal { text, whole, begins: at == 0 })
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

/// What a shell is told to run.
enum Script {
    /// Nothing that stands here, or not only.
    Open,
    /// A text that is whole on the page.
    Fixed,
    /// One that runs its own arguments.
    RunsArguments,
}

fn script(template: &Template, shell_at: usize) -> Script {
    let behind = &template.elements()[(shell_at + 1).min(template.elements().len())..];
    let mut behind = behind.iter().skip_while(|element| {
        let is_c = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
        !matches!(element.parts.as_slice(), [Part::Literal(text)] if is_c(text))
    });
    let text = match behind.nth(1).map(|element| element.parts.as_slice()) {
        Some([Part::Literal(text)]) => text,
        _ => return Script::Open,
    };
    let runs = ["$@", "$*", "eval", "exec $", "${@", "${*"];
    if runs.iter().any(|words| text.contains(words)) { Script::RunsArguments } else { Script::Fixed }
}

/// What to know about a command.
pub(super) fn marks(manifest: &Manifest, place: Place, command: &CommandTemplate) -> Vec<Mark> {
    let mut out = Vec::new();
    let template = &command.template;
    let named = Named::of(command);
    let is_users = command.programs().is_empty();
    let chooses = command.program_option().filter(|_| !is_users);
    let slots = || template.slots();
    let free = |slot: &&Slot| {
        slot.kind.filler() == Filler::Plugin
            && !matches!(slot.kind, SlotType::Enum(_) | SlotType::Uint { .. })
    };
    let texts: Vec<&str> = slots()
        .filter(|slot| matches!(slot.kind, SlotType::Text(_)))
        .map(|slot| slot.name.as_str())
        .collect();
    let (engines, remotes) = (named.on(ENGINES), named.on(REMOTES));

    if place == Place::Workspace {
        out.push(Mark::grave(
            Gist::Workspace,
            "what it runs or reads there (tests, build files, configuration) may be the evaluated client's own work, run as you",
        ));
    }
    let leads_on = [ENGINES, REMOTES, CLUSTERS].iter().any(|list| !named.on(list).is_empty());
    out.extend(whereabouts::mark(command, leads_on).filter(|_| place == Place::Exec));
    if is_users {
        out.push(users_command(manifest, slots().next().map(|slot| &slot.kind)));
    }
    if let Some(option) = chooses {
        let programs = listed(command.programs());
        let default = default_of(manifest, option).map(|default| format!(", {default} where you set none"));
        out.push(Mark::note(format!(
            "your option `{}` says which program: one of {programs}{}",
            shown(option, 64),
            default.unwrap_or_default()
        )));
    }
    for program in command.programs() {
        if place == Place::Workspace && program.contains('/') && !program.starts_with('/') {
            out.push(Mark::note(format!("a file beside your eval, run as a program: {}", code(program, 80))));
        }
    }
    if let Some(at) = named.shell_at() {
        out.push(shell(template, at, &named));
    }
    list(&mut out, named.on(INTERPRETERS), |names| {
        Mark::grave(Gist::Script, format!("an interpreter: {names} can run programs from its arguments"))
    });
    list(&mut out, named.on(RAISERS), |names| {
        Mark::grave(Gist::Raised, format!("more rights than yours: {names}"))
    });
    let starters = named.on(STARTERS);
    if !starters.is_empty() && slots().any(|slot| free(&slot)) {
        let text = format!("starts other programs, which the plugin may name: {}", listed(starters));
        out.push(Mark::grave(Gist::AnyProgram, text));
    } else {
        list(&mut out, starters, |names| Mark::note(format!("starts other programs: {names}")));
    }
    list(&mut out, named.on(FETCHERS), |names| {
        Mark::grave(Gist::FetchedCode, format!("fetches code and runs it: {names}"))
    });
    list(&mut out, named.on(CLUSTERS), |names| {
        Mark::grave(Gist::Login, format!("acts on other machines, with your credentials: {names}"))
    });
    if !remotes.is_empty() {
        remote(&mut out, template, &remotes);
    }
    if !engines.is_empty() {
        let text = "speaks to a container engine: who may do that is as good as root on its host";
        out.push(Mark::grave(Gist::Root, text));
        ways_out(&mut out, template);
        removals(&mut out, template);
    }
    let sees = slots().any(|slot| slot.kind == SlotType::HostDir);
    list(&mut out, named.on(NETWORK), |names| {
        let what = if sees { ", the directory of mst's too" } else { "" };
        Mark::grave(Gist::Network, format!("can send and fetch over the network{what}: {names}"))
    });
    list(&mut out, named.on(CHANGERS), |names| {
        Mark::grave(Gist::Changes, format!("changes or removes files where its arguments say: {names}"))
    });
    list(&mut out, named.on_there(CHANGERS), |names| {
        let text = format!("changes or removes files on the other machine: {names}");
        Mark::grave(Gist::ChangesThere, text)
    });
    list(&mut out, named.on_there(RAISERS), |names| {
        Mark::grave(Gist::Raised, format!("more rights than the login's, on the other machine: {names}"))
    });
    if named.script_there {
        let text = "a shell on the other machine runs the script that stands here";
        out.push(Mark::grave(Gist::ScriptThere, text));
    }
    let mut paths: Vec<&str> = named.paths.iter().map(String::as_str).collect();
    paths.dedup();
    list(&mut out, paths, |names| {
        Mark::grave(Gist::Places, format!("goes to places of this machine that are not its own: {names}"))
    });
    let runs_stdin = named.shell_at().is_some() || !named.on(INTERPRETERS).is_empty();
    if command.stdin == Stdin::Plugin {
        out.push(if runs_stdin {
            Mark::grave(
                Gist::AnyProgram,
                "free stdin from the plugin into a program that may run what it reads: as good as any command at all",
            )
        } else {
            Mark::note("free stdin from the plugin into a program")
        });
    }
    if !texts.is_empty() {
        let into = if named.shell_at().is_some() || !remotes.is_empty() {
            ", in the arguments of a shell"
        } else {
            ""
        };
        out.push(Mark::note(format!("text from the plugin, within its pattern{into}: {}", listed(texts))));
    }
    let images = slots().filter(|slot| slot.kind == SlotType::OciRef).map(|slot| slot.name.as_str());
    list(&mut out, images.collect(), |names| Mark::note(format!("an image of the plugin's choice: {names}")));
    if sees {
        let text = "sees a directory that goes to a machine, or comes from it";
        out.push(Mark::note(text));
        let tells =
            |literal: Literal<'_>| literal.text.contains(">&2") || literal.text.contains("/dev/stderr");
        if template.elements().iter().flat_map(literals).any(tells) {
            let text = "writes to stderr, which the plugin reads, where it sees such a directory";
            out.push(Mark::grave(Gist::Tells, text));
        }
    }
    environment(&mut out, command);
    options(&mut out, manifest, command);
    if named.shell_at().is_some() || !remotes.is_empty() {
        spliced(&mut out, manifest, template);
    }
    out.sort_by_key(|mark| mark.gist.is_none());
    out
}

fn list(out: &mut Vec<Mark>, names: Vec<&str>, mark: impl FnOnce(String) -> Mark) {
    if !names.is_empty() {
        out.push(mark(listed(names)));
    }
}

/// How much of what a shell runs stands on the page.
fn shell(template: &Template, at: usize, named: &Named) -> Mark {
    let behind = || template.elements().iter().skip(at + 1).flat_map(Element::slots);
    let plugins = behind().any(|slot| slot.kind.filler() == Filler::Plugin);
    if !named.on(NETWORK).is_empty()
        && named
            .programs
            .iter()
            .filter(|(name, _)| SHELLS.contains(&name.as_str()) || INTERPRETERS.contains(&name.as_str()))
            .count()
            > 1
    {
        return Mark::grave(Gist::FetchedCode, "a shell that may run what it fetches");
    }
    match script(template, at) {
        Script::Fixed => {
            Mark::grave(Gist::Script, "a fixed script for a shell: slots are only its arguments")
        }
        Script::RunsArguments if plugins => {
            Mark::grave(Gist::Script, "a fixed script that runs its arguments, some of them the plugin's")
        }
        Script::RunsArguments => Mark::grave(Gist::Script, "a fixed script that runs its arguments"),
        Script::Open if plugins => Mark::grave(
            Gist::AnyProgram,
            "a shell: its arguments are a program, and the plugin fills some of them",
        ),
        Script::Open => Mark::grave(Gist::Script, "a shell: its arguments are a program"),
    }
}

/// What logs in elsewhere, and which of its arguments open something here.
fn remote(out: &mut Vec<Mark>, template: &Template, names: &[&str]) {
    let names = listed(names.iter().copied());
    out.push(Mark::grave(Gist::Login, format!("logs in on another machine, with your keys: {names}")));
    out.push(Mark::note(format!("a shell on the other machine reads the arguments: {names}")));
    out.push(Mark::note(format!(
        "goes by your own configuration of {names}, which may name further programs and hosts"
    )));
    let firsts = || {
        template.elements().iter().filter_map(|element| literals(element).next()).map(|literal| literal.text)
    };
    let flag = |element: &&Element| {
        let Literal { text, .. } = literals(element).next()?;
        ["-L", "-R", "-D", "-w"].into_iter().find(|flag| text.starts_with(flag))
    };
    let leading = || template.elements().iter().filter(|element| flag(element).is_some());
    let chosen = leading().flat_map(Element::slots).any(|slot| slot.kind.filler() == Filler::Plugin);
    let whose = if chosen { " of the plugin's choice" } else { "" };
    list(out, leading().filter_map(|element| flag(&element)).collect(), |flags| {
        Mark::grave(Gist::Ports, format!("leads ports{whose} between here and there: {flags}"))
    });
    let lower = |text: &str| text.to_ascii_lowercase();
    let starts = firsts()
        .filter(|text| ["proxycommand", "localcommand"].iter().any(|word| lower(text).contains(word)));
    list(out, starts.collect(), |flags| {
        Mark::grave(Gist::Script, format!("has the login run a program on this machine: {flags}"))
    });
    if firsts().any(|text| text == "-A" || lower(text).contains("forwardagent=yes")) {
        out.push(Mark::note("lends the other machine your SSH agent"));
    }
}

/// The elements that an engine reads. Behind the machine of an `exec` stands what runs in it.
fn engines_own(template: &Template) -> &[Element] {
    let elements = template.elements();
    let is_exec = matches!(
        elements.get(1).map(|element| element.parts.as_slice()),
        Some([Part::Literal(text)]) if text == "exec"
    );
    let machine = |element: &Element| element.whole().is_some_and(|slot| slot.kind == SlotType::Machine);
    match elements.iter().position(machine) {
        Some(at) if is_exec => &elements[..at],
        _ => elements,
    }
}

/// What opens a container, by the plugin's text or by an option of the user's.
fn ways_out(out: &mut Vec<Mark>, template: &Template) {
    let (mut plugins, mut users) = (Vec::new(), Vec::new());
    for element in engines_own(template) {
        let is_users = element.slots().next().is_some()
            && element.slots().all(|slot| slot.kind.filler() == Filler::User);
        let first = element.parts.first();
        let texts = literals(element).take(match first {
            Some(Part::Slot(_)) => usize::MAX,
            _ => 1,
        });
        let ways = texts.filter_map(|literal| way_out(literal.text));
        if is_users { users.extend(ways) } else { plugins.extend(ways) }
    }
    let names = |flags: &[String]| listed(flags.iter().map(String::as_str));
    if !plugins.is_empty() {
        let text = format!("opens the container to the engine's machine: {}", names(&plugins));
        out.push(Mark::grave(Gist::OpensContainer, text));
    }
    if !users.is_empty() {
        let text =
            format!("may open the container to the engine's machine, as your options say: {}", names(&users));
        out.push(Mark::note(text));
    }
}

/// What an engine is told to remove or to stop.
fn removals(out: &mut Vec<Mark>, template: &Template) {
    const REMOVE: [&str; 8] = ["kill", "prune", "remove", "rm", "rmi", "stop", "system", "volume"];
    let words = template.elements().iter().skip(1).take(2).flat_map(literals);
    let removes: Vec<&str> =
        words.filter(|word| word.whole && REMOVE.contains(&word.text)).map(|word| word.text).collect();
    if removes.is_empty() {
        return;
    }
    let msts =
        template.slots().all(|slot| slot.kind.filler() == Filler::Host || slot.kind.filler() == Filler::User);
    let whose = if msts { "" } else { ", of the plugin's choice" };
    out.push(Mark::grave(
        Gist::Removes,
        format!("has the engine remove or stop what it has{whose}: {}", listed(removes)),
    ));
}

/// What of the user's environment it is given.
fn environment(out: &mut Vec<Mark>, command: &CommandTemplate) {
    for var in &command.secrets {
        out.push(Mark::note(format!("gets the secret `{}`, in its variable `{}`", var.secret, var.name)));
    }
    let names = || command.env.iter().map(String::as_str);
    if names().any(|name| name == "SSH_AUTH_SOCK") {
        out.push(Mark::grave(Gist::Login, "gets your SSH agent: may log in wherever your keys do"));
    }
    list(out, names().filter(|name| sounds_secret(name)).collect(), |names| {
        Mark::grave(
            Gist::Secret,
            format!("gets what sounds like a secret, and may do with it what it likes: your {names}"),
        )
    });
    list(out, names().filter(|name| loads_code(name)).collect(), |names| {
        Mark::grave(Gist::Script, format!("gets variables that lead a program to code to run: your {names}"))
    });
    list(out, names().collect(), |names| Mark::note(format!("gets of your environment: {names}")));
}

/// The user's options in it: files that they name, and what they are where they are not set.
fn options(out: &mut Vec<Mark>, manifest: &Manifest, command: &CommandTemplate) {
    let mut names: Vec<&str> = Vec::new();
    for slot in command.template.slots() {
        if let SlotType::Option(name) = &slot.kind
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    let is_path = |name: &&str| {
        let format = manifest.option(name).and_then(|schema| schema.get("format")).and_then(Value::as_str);
        format == Some("path")
    };
    list(out, names.iter().copied().filter(|name| is_path(name)).collect(), |names| {
        Mark::grave(
            Gist::Files,
            format!("is told of files of yours, and may read and change them: your options {names}"),
        )
    });
    // What the one that says the program is stands there.
    let program = command.program_option();
    for name in names.into_iter().filter(|name| Some(*name) != program) {
        if let Some(default) = default_of(manifest, name) {
            out.push(Mark::note(format!(
                "your option `{}` is {default} where you set none",
                shown(name, 64)
            )));
        }
    }
}

/// The user's options in the text that a shell runs, where no quotes hold them together.
fn spliced(out: &mut Vec<Mark>, manifest: &Manifest, template: &Template) {
    let in_text =
        |element: &&Element| literals(element).any(|literal| literal.text.contains(char::is_whitespace));
    let (mut guarded, mut open): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for slot in template.elements().iter().filter(in_text).flat_map(Element::slots) {
        let SlotType::Option(name) = &slot.kind else { continue };
        let schema = manifest.option(name);
        let has = |key: &str| schema.is_some_and(|schema| schema.get(key).is_some());
        let number = schema.and_then(|schema| schema.get("type")).and_then(Value::as_str);
        let number = matches!(number, Some("boolean" | "integer" | "number"));
        let list =
            if has("pattern") || has("enum") || has("const") || number { &mut guarded } else { &mut open };
        if !list.contains(&name.as_str()) {
            list.push(name);
        }
    }
    list(out, open, |names| {
        let text = format!("what you set is run by a shell, as a part of its text: your options {names}");
        Mark::grave(Gist::Script, text)
    });
    list(out, guarded, |names| {
        Mark::note(format!(
            "a part of a shell's text, as far as their schemas admit it: your options {names}"
        ))
    });
}

fn users_command(manifest: &Manifest, slot: Option<&SlotType>) -> Mark {
    let Some(SlotType::Option(name)) = slot else { return Mark::note("the user's own command, run as you") };
    let text = format!("the user's own command, run as you: your option `{}`", shown(name, 64));
    match default_of(manifest, name) {
        // Then it is the plugin's word until the user says another.
        Some(default) => Mark::note(format!("{text}, which is {default} where you set none")),
        None => Mark::note(text),
    }
}
