//! The page for a pull request.

use std::fmt::Write as _;

use super::options::{FREE, OptionRow};
use super::shared::{Shared, USUAL};
use super::text::{argv, extern_row};
use super::{Line, Page};
use crate::legible::{quotation, shown};
use crate::request::Request;

impl Page {
    /// The page as Markdown, as forges show it. A stranger's text is words or code in it, and never
    /// markup.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        // A string takes all that is written.
        let _ = self.write_markdown(&mut out);
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "## {} {}\n", words(self.id.as_str()), words(&self.version.to_string()))?;
        for (name, fact) in self.head() {
            writeln!(out, "- {name}: {}", words(&fact))?;
        }
        if let Some(rule) = &self.refused {
            writeln!(out, "\n**Refused**: {}", sentence(&shown(rule, 1000)))?;
        }
        for choice in &self.refused_choices {
            writeln!(out, "\n**Refused**: {}", sentence(&shown(choice, 1000)))?;
        }
        writeln!(out, "\nIt says of itself:\n")?;
        for (name, said) in self.says() {
            writeln!(out, "- {name}: {}", words(&said))?;
        }
        self.summary_in_markdown(out)?;
        if !self.requests.is_empty() {
            self.requests_in_markdown(out)?;
        }
        let rows = self.option_rows();
        if !rows.is_empty() {
            writeln!(out, "\n### Options\n")?;
            for OptionRow { name, rule, about, free } in rows {
                let about = about.map(|about| format!(" — {}", words(&about))).unwrap_or_default();
                let free = if free { format!("; ⚠ {FREE}") } else { String::new() };
                writeln!(out, "- {}: {}{free}{about}", code(&name), sentence(&rule))?;
            }
        }
        for (title, list) in [("Imports", &self.imports), ("Exports", &self.exports)] {
            writeln!(out, "\n<details><summary>{title}</summary>\n")?;
            for [name, functions] in list.iter().map(extern_row) {
                writeln!(out, "- {} {}", code(&name), words(&functions))?;
            }
            writeln!(out, "\n</details>")?;
        }
        Ok(())
    }

    fn summary_in_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n### In short\n")?;
        self.summary.lines().try_for_each(|said| writeln!(out, "{}\n", sentence(said)))?;
        for gravest in &self.summary.gravest {
            writeln!(out, "- ⚠ {}", words(&gravest.line()))?;
        }
        self.summary.world.iter().try_for_each(|said| writeln!(out, "- ⚠ {}", words(said)))?;
        match self.summary.unmarked {
            Some(said) => writeln!(out, "\n{}", words(said)),
            None => Ok(()),
        }
    }

    fn requests_in_markdown(&self, out: &mut String) -> std::fmt::Result {
        let shared = self.shared();
        let holds = self.for_commands();
        if !holds.is_empty() {
            writeln!(out, "\n### Commands\n")?;
            holds.iter().try_for_each(|said| writeln!(out, "{}\n", sentence(said)))?;
            shared
                .marks
                .iter()
                .try_for_each(|mark| writeln!(out, "- ⚠ {} \\(every command\\)", sentence(&mark.text)))?;
            for (mark, keys) in &shared.several {
                writeln!(out, "- ⚠ {} \\({}\\)", sentence(&mark.text), words(&keys.join(", ")))?;
            }
            if shared.fact.is_some() {
                writeln!(out, "- where nothing else is said, {USUAL}")?;
            }
            for (sign, said) in self.legend(&shared) {
                writeln!(out, "- {}: {}", code(&sign), sentence(&said))?;
            }
        }
        writeln!(out, "\n### Asks for, each by the plugin's name for it")?;
        self.requests.iter().try_for_each(|line| line.write_markdown(out, &shared))
    }
}

impl Line {
    fn write_markdown(&self, out: &mut String, shared: &Shared<'_>) -> std::fmt::Result {
        let standing = self.standing().map(|standing| format!("**{standing}** ")).unwrap_or_default();
        writeln!(out, "\n#### {standing}{}\n", code(&self.key.to_string()))?;
        if let Some(command) = self.command() {
            // Four blanks make code of whatever follows, on this one line.
            writeln!(out, "    {}\n", argv(command, shared))?;
        }
        for fact in shared.facts(self) {
            writeln!(out, "- {}", sentence(&fact))?;
        }
        if let Request::Secret(secret) = &self.request {
            writeln!(out, "- it says what for: {}", words(&quotation(&secret.about, 300)))?;
        }
        if let Some(rule) = &self.refused {
            writeln!(out, "- ✗ {}", sentence(&shown(rule, 1000)))?;
        }
        shared.marks(self).try_for_each(|mark| writeln!(out, "- ⚠ {}", sentence(&mark.text)))
    }
}

/// A sentence of the host's: what is in backticks is code, and the rest words. Neither is markup, so
/// that a stranger's backtick changes no more than which of the two it is.
fn sentence(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    let mut out = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        match at % 2 {
            0 => out += &words(piece),
            // One that nothing closes.
            _ if at + 1 == pieces.len() => out += &words(&format!("`{piece}")),
            _ if piece.is_empty() => {}
            _ => out += &code(piece),
        }
    }
    out
}

/// Text that stands for itself: whatever Markdown or HTML could take for its own is escaped.
fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A mention or a reference to an issue, and an address, are links on a forge.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '(' | ')' | '!' | '|' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.replace("://", ":&#47;/")
}

/// Text as code: between more backticks than it holds.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_backticks_is_code() {
        assert_eq!(sentence("your option `a_b` is `[x](y)`"), "your option `a_b` is `[x](y)`");
        assert_eq!(sentence("a `b` *c* `d_e"), r"a `b` \*c\* \`d\_e");
        assert_eq!(sentence("``"), "");
    }

    #[test]
    fn a_strangers_text_is_no_markup() {
        let text = words("[x](http://evil) <img src=x> **b** `c` @all #1 | ~~d~~ ![y](z) & \\");
        for markup in ["[x]", "](", "<img", "**", " `", "@all", "#1", "~~", "![", "://"] {
            assert!(!text.contains(markup), "{markup}: {text}");
        }
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("`a"), "`` `a ``");
    }
}
