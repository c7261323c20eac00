//! The page for a terminal.

use std::fmt;

use serde_json::Value;

use super::{Line, Page};
use crate::component::Extern;
use crate::legible::{code, quotation, shown, wrapped};
use crate::request::{CommandTemplate, Key, Request};
use crate::risk::Mark;

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.id, self.version)?;
        // All of it mst's own words: a digest is not broken.
        for (name, fact) in self.head() {
            writeln!(f, "  {name:<8}  {fact}")?;
        }
        if let Some(rule) = &self.refused {
            f.write_str(&wrapped("  x ", "    ", &shown(rule, 1000)))?;
        }
        writeln!(f, "\nIt says of itself")?;
        for (name, said) in self.says() {
            f.write_str(&wrapped(&format!("  {name:<8}  "), "            ", &said))?;
        }
        self.in_short(f)?;
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
        let own = "mst's own: granted all that it asks for, and only a policy takes that away";
        facts.extend(self.own.then(|| ("standing", own.to_owned())));
        facts.extend(self.pinned.map(|pinned| ("lock", format!("pins another file: {pinned}"))));
        if !self.policies.is_empty() {
            let refused = self.requests.iter().filter(|line| line.refused.is_some()).count();
            let what = match (&self.refused, refused) {
                (Some(_), _) => "the plugin".to_owned(),
                (None, 0) => "nothing of it".to_owned(),
                (None, count) => format!("{count} of {}", self.requests.len()),
            };
            let files = self.policies.iter().map(|file| shown(file, 300)).collect::<Vec<_>>();
            facts.push(("policy", format!("{} refuses {what}", files.join(", "))));
        }
        let shards = self.max_shards.map(|most| format!("at most {most} at a time, each on a machine"));
        facts.extend(shards.map(|shards| ("shards", shards)));
        facts
    }

    /// What the plugin says of itself, which nobody has checked.
    pub(super) fn says(&self) -> Vec<(&'static str, String)> {
        let mut says = vec![("about", quotation(&self.description, 500))];
        says.extend(self.license.as_ref().map(|license| ("license", quotation(license, 100))));
        says.extend(self.homepage.as_ref().map(|homepage| ("homepage", quotation(homepage, 300))));
        says
    }

    fn in_short(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nIn short")?;
        f.write_str(&wrapped("  ", "  ", &self.summary.asks))?;
        for gravest in &self.summary.gravest {
            f.write_str(&wrapped("  ! ", "    ", &gravest.line()))?;
        }
        for said in &self.summary.world {
            f.write_str(&wrapped("  ! ", "    ", said))?;
        }
        match self.summary.unmarked {
            Some(said) => f.write_str(&wrapped("  ", "  ", said)),
            None => Ok(()),
        }
    }

    fn asks_for(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requests.is_empty() {
            return Ok(());
        }
        let shared = self.shared_risks();
        let holds = self.for_commands();
        if !holds.is_empty() {
            writeln!(f, "\nCommands")?;
            holds.iter().try_for_each(|said| f.write_str(&wrapped("  ", "  ", said)))?;
            if !shared.is_empty() {
                writeln!(f, "  Of each of them:")?;
                shared.iter().try_for_each(|mark| f.write_str(&marked(mark)))?;
            }
            let legend = self.legend();
            if !legend.is_empty() {
                writeln!(f, "  In their lines:")?;
                let width = legend.iter().map(|(sign, _)| sign.len()).max().unwrap_or_default();
                for (sign, said) in legend {
                    let then = " ".repeat(width + 8);
                    f.write_str(&wrapped(&format!("      {sign:width$}  "), &then, said))?;
                }
            }
        }
        writeln!(f, "\nAsks for")?;
        self.requests.iter().try_for_each(|line| f.write_str(&line.to_text(&shared)))
    }

    /// What the page has of one request, for who is asked about it; nothing where it asks for none.
    pub fn request_text(&self, key: &Key) -> String {
        let line = self.requests.iter().find(|line| line.key == *key);
        line.map(|line| line.to_text(&[])).unwrap_or_default()
    }

    fn own_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nOptions")?;
        let rows = self.option_rows();
        if rows.is_empty() {
            return writeln!(f, "  none");
        }
        for OptionRow { name, rule, about } in rows {
            f.write_str(&wrapped("  ", "      ", &format!("{name}: {rule}")))?;
            if let Some(about) = about {
                f.write_str(&wrapped("      ", "      ", &about))?;
            }
        }
        Ok(())
    }

    /// Each option, with what it may be and what the plugin says of it.
    pub(super) fn option_rows(&self) -> Vec<OptionRow> {
        let properties = self.options.get("properties").and_then(Value::as_object);
        let required = self.options.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        let row = |(name, schema): (&String, &Value)| OptionRow {
            name: shown(name, 64),
            rule: option_rule(schema, required.contains(&name.as_str())),
            about: schema.get("description").and_then(Value::as_str).map(|about| quotation(about, 2000)),
        };
        properties.into_iter().flatten().map(row).collect()
    }

    fn externs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wasi, own): (Vec<&Extern>, Vec<&Extern>) =
            self.imports.iter().partition(|import| import.name.starts_with("wasi:"));
        writeln!(f, "\nImports: what it can call; each call is held to what is granted above")?;
        own.into_iter().try_for_each(|import| f.write_str(&extern_line(import)))?;
        if !wasi.is_empty() {
            let names: Vec<String> = wasi.iter().map(|import| shown(&import.name, 120)).collect();
            let said = "for its language's own library, which finds no file, no variable and no network \
                that is not granted above:";
            f.write_str(&wrapped("  ", "      ", &format!("{said} {}", names.join(", "))))?;
        }
        writeln!(f, "\nExports: what mst calls")?;
        self.exports.iter().try_for_each(|export| f.write_str(&extern_line(export)))
    }
}

/// An option on the page.
pub(super) struct OptionRow {
    pub(super) name: String,
    /// What it may be.
    pub(super) rule: String,
    /// What the plugin says of it, as a quotation.
    pub(super) about: Option<String>,
}

/// What an option may be, and what it is where nobody sets it.
fn option_rule(schema: &Value, is_required: bool) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => code(text, crate::manifest::MAX_BYTES),
        other => code(&other.to_string(), crate::manifest::MAX_BYTES),
    };
    let mut rules = vec![match schema.get("type") {
        Some(Value::String(kind)) => shown(kind, 64),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }];
    if let Some(format) = schema.get("format").and_then(Value::as_str) {
        rules.push(shown(format, 64));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        rules.push(format!("one of {}", words.iter().map(text).collect::<Vec<_>>().join(", ")));
    }
    if let Some(pattern) = schema.get("pattern") {
        rules.push(format!("matching {}", text(pattern)));
    }
    if is_required {
        rules.push("required".to_owned());
    }
    if let Some(default) = schema.get("default") {
        rules.push(format!("{} where you set none", text(default)));
    }
    rules.join(", ")
}

impl Line {
    /// Its lines, without the marks that stand elsewhere. What mst says of it is before all that is
    /// the plugin's own.
    fn to_text(&self, elsewhere: &[&Mark]) -> String {
        let standing = self.standing().map(|standing| format!("[{standing}] ")).unwrap_or_default();
        let mut out = format!("  {standing}{}\n", self.key);
        if let Some(command) = self.command() {
            out += &wrapped("      ", "          ", &argv(command));
        }
        for fact in self.all_facts() {
            out += &wrapped("      ", "        ", &fact);
        }
        if let Request::Secret(secret) = &self.request {
            let about = format!("it says what for: {}", quotation(&secret.about, 300));
            out += &wrapped("      ", "        ", &about);
        }
        if let Some(rule) = &self.refused {
            out += &wrapped("      x ", "        ", &shown(rule, 1000));
        }
        for mark in self.own_marks(elsewhere) {
            out += &marked(mark);
        }
        out
    }

    /// Its marks, without those of every command that stand elsewhere.
    pub(super) fn own_marks<'a>(&'a self, elsewhere: &'a [&Mark]) -> impl Iterator<Item = &'a Mark> {
        self.risks.iter().filter(move |mark| !self.is_command() || !elsewhere.contains(mark))
    }
}

fn marked(mark: &Mark) -> String {
    wrapped("      ! ", "        ", &mark.text)
}

/// A command on one line, so that a reader sees where each element begins and ends.
pub(super) fn argv(command: &CommandTemplate) -> String {
    command.template.argv().into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// An interface and its functions.
pub(super) fn extern_row(item: &Extern) -> [String; 2] {
    // `trial.read` is what WIT's tools spell `[method]trial.read`.
    let plain = |function: &String| function.rsplit(']').next().unwrap_or_default().to_owned();
    let functions: Vec<String> = item.functions.iter().map(plain).collect();
    [shown(&item.name, 120), shown(&functions.join(", "), 2000)]
}

fn extern_line(item: &Extern) -> String {
    let [name, functions] = extern_row(item);
    let text = if functions.is_empty() { name } else { format!("{name}: {functions}") };
    wrapped("  ", "      ", &text)
}

/// An element of an argv so that a reader sees where it begins and ends, as a POSIX shell would read
/// it.
fn word(element: &str) -> String {
    let plain = !element.is_empty()
        && !element.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '`'));
    let text = shown(element, crate::template::Template::MAX_BYTES);
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
