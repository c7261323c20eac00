//! The page for a terminal.

use std::fmt;

use super::options::{FREE, OptionRow};
use super::shared::{SIGN, Shared, USUAL, Word};
use super::{Line, Page};
use crate::component::Extern;
use crate::legible::{broken, quotation, shown, wrapped};
use crate::request::{CommandTemplate, Key, Request};
use crate::risk::Mark;

/// What ends a line of a command that the page breaks.
const BREAK: &str = "\\\n";
const OWN_BREAK: &str = "a break of the page's own, with the blanks that follow";
/// Behind the functions of `log`.
const LOG: &str = " (to your terminal, as lines of the run)";

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.id, self.version)?;
        for (name, fact) in self.head() {
            match name {
                // A digest is not broken.
                "file" | "lock" => writeln!(f, "  {name:<8}  {fact}")?,
                _ => f.write_str(&wrapped(&format!("  {name:<8}  "), "            ", &fact))?,
            }
        }
        if let Some(rule) = &self.refused {
            f.write_str(&wrapped("  x ", "    ", &shown(rule, 1000)))?;
        }
        for choice in &self.refused_choices {
            f.write_str(&wrapped("  x ", "    ", &shown(choice, 1000)))?;
        }
        writeln!(f, "\nIt says of itself")?;
        for (name, said) in self.says() {
            f.write_str(&wrapped(&format!("  {name:<8}  "), "            ", &said))?;
        }
        f.write_str(&self.in_short())?;
        self.asks_for(f)?;
        self.own_options(f)?;
        self.externs(f)
    }
}

impl Page {
    /// What mst knows of the file, by name.
    pub(super) fn head(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("world", format!("{}, of mst:plugin@{}", self.world, self.contract)),
            ("file", format!("{}, {} bytes", self.digest, self.size_bytes)),
        ];
        facts.push(("standing", self.summary.standing.clone()));
        facts.extend(self.pinned.map(|pinned| ("lock", format!("pins another file: {pinned}"))));
        let shards = self.max_shards.map(|most| format!("at most {most} at a time, each on a machine"));
        facts.extend(shards.map(|shards| ("shards", shards)));
        facts.push(("calls", self.summary.calls.clone()));
        if !self.policies.is_empty() {
            let refused = self.requests.iter().filter(|line| line.refused.is_some()).count();
            let what = match (&self.refused, refused) {
                (Some(_), _) => "the plugin".to_owned(),
                (None, 0) if self.refused_choices.is_empty() => "nothing of it".to_owned(),
                (None, 0) => "nothing of it but what follows".to_owned(),
                (None, count) => format!("{count} of {}", self.requests.len()),
            };
            let files = self.policies.iter().map(|file| shown(file, 300)).collect::<Vec<_>>();
            facts.push(("policy", format!("{} refuses {what}", files.join(", "))));
        }
        facts
    }

    /// What the plugin says of itself, which nobody has checked.
    pub(super) fn says(&self) -> Vec<(&'static str, String)> {
        let mut says = vec![("about", quotation(&self.description, 500))];
        says.extend(self.license.as_ref().map(|license| ("license", quotation(license, 100))));
        says.extend(self.homepage.as_ref().map(|homepage| ("homepage", quotation(homepage, 300))));
        says
    }

    fn in_short(&self) -> String {
        let mut out = "\nIn short\n".to_owned();
        for said in self.summary.lines() {
            out += &wrapped("  ", "  ", said);
        }
        for gravest in &self.summary.gravest {
            out += &wrapped("  ! ", "    ", &gravest.line());
        }
        for said in &self.summary.world {
            out += &wrapped("  ! ", "    ", said);
        }
        out + &self.summary.unmarked.map(|said| wrapped("  ", "  ", said)).unwrap_or_default()
    }

    fn asks_for(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requests.is_empty() {
            return Ok(());
        }
        let shared = self.shared();
        let holds = self.for_commands();
        if !holds.is_empty() {
            writeln!(f, "\nCommands")?;
            holds.iter().try_for_each(|said| f.write_str(&wrapped("  ", "  ", said)))?;
            if !shared.marks.is_empty() {
                writeln!(f, "  Of each of them:")?;
                shared.marks.iter().try_for_each(|mark| f.write_str(&marked(mark)))?;
            }
            if !shared.several.is_empty() {
                writeln!(f, "  Of several:")?;
                shared.several.iter().try_for_each(|(mark, keys)| {
                    f.write_str(&wrapped(
                        "      ! ",
                        "        ",
                        &format!("{} ({})", mark.text, keys.join(", ")),
                    ))
                })?;
            }
            if shared.fact.is_some() {
                f.write_str(&wrapped("  ", "  ", &format!("Where nothing else is said, {USUAL}.")))?;
            }
        }
        let lines: String = self.requests.iter().map(|line| line.to_text(&shared)).collect();
        let mut legend = self.legend(&shared);
        if lines.contains(BREAK) || !shared.words.is_empty() {
            legend.push(("\\".to_owned(), OWN_BREAK.to_owned()));
        }
        if !legend.is_empty() {
            writeln!(f, "  In their lines:")?;
            let width = legend.iter().map(|(sign, _)| sign.len()).max().unwrap_or_default();
            for (sign, said) in legend {
                let (first, then) = (format!("      {sign:width$}  "), " ".repeat(width + 8));
                f.write_str(&match sign == SIGN {
                    true => broken(&first, &then, &said),
                    false => wrapped(&first, &then, &said),
                })?;
            }
        }
        writeln!(f, "\nAsks for, each by the plugin's name for it")?;
        f.write_str(&lines)
    }

    /// What somebody who looks no further should have seen: how it stands, and the gravest of it.
    pub fn short(&self) -> String {
        let mut out = format!("{} {}\n", self.id, self.version);
        out += &wrapped("  standing  ", "            ", &self.summary.standing);
        out + &self.in_short()
    }

    /// What the page has of one request, for who is asked about it; nothing where it asks for none.
    pub fn request_text(&self, key: &Key) -> String {
        let line = self.requests.iter().find(|line| line.key == *key);
        line.map(|line| line.to_text(&Shared::default())).unwrap_or_default()
    }

    fn own_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nOptions")?;
        let rows = self.option_rows();
        if rows.is_empty() {
            return writeln!(f, "  none");
        }
        let all = rows.iter().all(|row| row.free);
        if all {
            f.write_str(&wrapped("  Each: ", "  ", FREE))?;
        }
        for OptionRow { name, rule, about, free } in rows {
            f.write_str(&wrapped("  ", "      ", &format!("{name}: {rule}")))?;
            if free && !all {
                f.write_str(&wrapped("      ! ", "        ", FREE))?;
            }
            if let Some(about) = about {
                f.write_str(&wrapped("      ", "      ", &about))?;
            }
        }
        Ok(())
    }

    fn externs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wasi, own): (Vec<&Extern>, Vec<&Extern>) =
            self.imports.iter().partition(|import| import.name.starts_with("wasi:"));
        writeln!(f, "\nImports: what it can call; each call is held to what is granted above")?;
        let (types, own): (Vec<&Extern>, Vec<&Extern>) =
            own.into_iter().partition(|import| import.functions.is_empty());
        own.into_iter().try_for_each(|import| f.write_str(&extern_line(import)))?;
        if !types.is_empty() {
            f.write_str(&wrapped("  ", "      ", &format!("for their types alone: {}", packages(&types))))?;
        }
        if !wasi.is_empty() {
            let said = "for its language's own library, which finds no file, no variable and no network \
                that is not granted above:";
            f.write_str(&wrapped("  ", "      ", &format!("{said} {}", packages(&wasi))))?;
        }
        writeln!(f, "\nExports: what mst calls")?;
        self.exports.iter().try_for_each(|export| f.write_str(&extern_line(export)))
    }
}

impl Line {
    /// Its lines, without what is said elsewhere. What mst says of it is before all that is the plugin's
    /// own.
    fn to_text(&self, shared: &Shared<'_>) -> String {
        let standing = self.standing().map(|standing| format!("[{standing}] ")).unwrap_or_default();
        let mut out = format!("  {standing}{}", self.key);
        match self.command() {
            Some(command) => {
                let facts = shared.facts(self);
                out = wrapped("  ", "    ", &format!("{} ({})", &out[2..], facts.join("; ")));
                out += &broken("      ", "          ", &argv(command, shared));
            }
            None => {
                out.push('\n');
                for fact in shared.facts(self) {
                    out += &wrapped("      ", "        ", &fact);
                }
            }
        }
        if let Request::Secret(secret) = &self.request {
            let about = format!("it says what for: {}", quotation(&secret.about, 300));
            out += &wrapped("      ", "        ", &about);
        }
        if let Some(rule) = &self.refused {
            out += &wrapped("      x ", "        ", &shown(rule, 1000));
        }
        for mark in shared.marks(self) {
            out += &marked(mark);
        }
        out
    }
}

fn marked(mark: &Mark) -> String {
    wrapped("      ! ", "        ", &mark.text)
}

/// A command on one line, so that a reader sees where each element begins and ends.
pub(super) fn argv(command: &CommandTemplate, shared: &Shared<'_>) -> String {
    let words = shared.argv(command).into_iter().map(|each| match each {
        Word::Own(element) => word(element),
        Word::Shared => SIGN.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Elements of commands on one line.
pub(super) fn words(elements: &[&str]) -> String {
    elements.iter().map(|element| word(element)).collect::<Vec<_>>().join(" ")
}

/// An interface and its functions.
pub(super) fn extern_row(item: &Extern) -> [String; 2] {
    // `trial.read` is what WIT's tools spell `[method]trial.read`.
    let plain = |function: &String| match function.rsplit(']').next().unwrap_or_default() {
        "forward-port" => "forward-port (mst never calls it)".to_owned(),
        name => name.to_owned(),
    };
    let functions: Vec<String> = item.functions.iter().map(plain).collect();
    let functions = match functions.as_slice() {
        [] if !item.name.starts_with("wasi:") => "its types alone".to_owned(),
        functions => shown(&functions.join(", "), 2000),
    };
    let note = if item.name.starts_with("mst:plugin/log@") { LOG } else { "" };
    [shown(&item.name, 120), functions + note]
}

/// Interfaces by their packages, as `wasi:io@0.2.6 error, streams`.
fn packages(items: &[&Extern]) -> String {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for item in items {
        let (path, version) = item.name.rsplit_once('@').unwrap_or((&item.name, ""));
        let (package, interface) = path.split_once('/').unwrap_or((path, ""));
        let package = format!("{}@{}", shown(package, 80), shown(version, 40));
        match out.iter_mut().find(|(known, _)| *known == package) {
            Some((_, interfaces)) => interfaces.push(shown(interface, 80)),
            None => out.push((package, vec![shown(interface, 80)])),
        }
    }
    let each = out.into_iter().map(|(package, interfaces)| format!("{package} {}", interfaces.join(", ")));
    each.collect::<Vec<_>>().join("; ")
}

fn extern_line(item: &Extern) -> String {
    let [name, functions] = extern_row(item);
    let text = if functions.is_empty() { name } else { format!("{name}: {functions}") };
    wrapped("  ", "      ", &text)
}

/// An element of an argv so that a reader sees where it begins and ends, as a POSIX shell would read it:
/// bare, in quotes, or in quotes with escapes for whatever a reader could take for something else.
fn word(element: &str) -> String {
    let plain = !element.is_empty()
        && !element.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '`' | '<' | '>'));
    let odd = |c: char| !c.is_ascii() || c.is_ascii_control();
    if element.contains(odd) || element.contains("  ") {
        format!("$'{}'", escaped(element))
    } else if plain {
        element.to_owned()
    } else {
        format!("'{}'", element.replace('\'', r"'\''"))
    }
}

/// In printable ASCII, with no two blanks one after the other.
fn escaped(element: &str) -> String {
    let mut out = String::new();
    for c in element.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\\' | '\'' => out.extend(['\\', c]),
            ' ' if out.ends_with(' ') => out.push_str("\\x20"),
            c if c.is_ascii() && !c.is_ascii_control() => out.push(c),
            c if c.is_ascii() => out += &format!("\\x{:02x}", u32::from(c)),
            c if u32::from(c) <= 0xffff => out += &format!("\\u{:04x}", u32::from(c)),
            c => out += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn an_element_is_read_as_a_shell_would_read_it() {
        for element in [
            "a",
            "",
            "it's",
            "a b",
            "a  b   c",
            "a\\nb",
            "# no\nrm -rf /",
            "a\tb",
            "p\u{430}ypal \u{1f600}0",
            "'\\\n\\x20  \\\\",
            " ",
            "\\",
        ] {
            let word = word(element);
            assert!(word.chars().all(|c| c == ' ' || c.is_ascii_graphic()) && !word.contains("  "), "{word}");
            let output = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {word}")])
                .env("LC_ALL", "C.UTF-8")
                .output();
            let Ok(output) = output else {
                eprintln!("skipped: there is no bash");
                return;
            };
            assert_eq!(String::from_utf8_lossy(&output.stdout), element, "{word}");
        }
    }

    #[test]
    fn a_new_line_is_told_from_a_backslash() {
        assert_eq!(word("# no\nrm"), r"$'# no\nrm'");
        assert_eq!(word(r"printf a\nb"), r"'printf a\nb'");
    }
}
