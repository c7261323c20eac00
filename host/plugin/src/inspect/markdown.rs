//! The page for a pull request.

use std::fmt::Write as _;

use super::text::{argv, bounds, extern_row};
use super::{Line, Page};
use crate::legible::shown;
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
        writeln!(out, "{}\n", words(&shown(&self.description, 500)))?;
        let mut facts = vec![
            ("world", format!("{}, of mst:plugin@{}", self.world, self.contract)),
            ("file", format!("{}, {} bytes", self.digest, self.size_bytes)),
        ];
        let shards = self.max_shards.map(|most| ("shards", format!("at most {most}")));
        let ports = self.forward_port.filter(|can| *can);
        facts.extend(self.pinned.map(|pinned| ("lock", format!("pins another file: {pinned}"))));
        facts.extend(self.license.as_ref().map(|license| ("license", shown(license, 100))));
        facts.extend(self.homepage.as_ref().map(|homepage| ("homepage", shown(homepage, 300))));
        facts.extend(shards);
        facts.extend(ports.map(|_| ("ports", "leads local ports to a machine's".to_owned())));
        for (name, fact) in facts {
            writeln!(out, "- {name}: {}", words(&fact))?;
        }
        if let Some(rule) = &self.refused {
            writeln!(out, "\n**Refused**: {}", words(&shown(rule, 1000)))?;
        }
        if self.requests.is_empty() {
            writeln!(out, "\nAsks for nothing: no command, no directory, no network.")?;
        } else {
            self.requests_in_markdown(out)?;
        }
        let rows = self.option_rows();
        if !rows.is_empty() {
            writeln!(out, "\n### Options\n")?;
            for [name, kind, about] in rows {
                writeln!(out, "- {} ({}) {}", code(&name), words(&kind), words(&about))?;
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

    fn requests_in_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n### Asks for\n")?;
        writeln!(out, "In short: it {}.", words(&self.in_short()))?;
        let shared = self.shared_risks();
        if !shared.is_empty() {
            writeln!(out, "\nEvery command:\n")?;
            shared.iter().try_for_each(|risk| writeln!(out, "- ⚠ {}", words(risk)))?;
        }
        for line in &self.requests {
            line.write_markdown(out, &shared)?;
        }
        Ok(())
    }
}

impl Line {
    fn write_markdown(&self, out: &mut String, shared: &[&str]) -> std::fmt::Result {
        let standing = match self.standing() {
            "" => String::new(),
            standing => format!(" — **{standing}**"),
        };
        writeln!(out, "\n#### {}, {}{standing}\n", code(&self.key.to_string()), words(&self.where_to()))?;
        if let Request::Exec(command) | Request::Workspace(command) = &self.request {
            // Four blanks make code of whatever follows, on this one line.
            writeln!(out, "    {}\n", argv(command))?;
            writeln!(out, "- {}", bounds(command))?;
        }
        if let Some(rule) = &self.refused {
            writeln!(out, "- ✗ {}", words(&shown(rule, 1000)))?;
        }
        let own = self.risks.iter().filter(|risk| !self.is_command() || !shared.contains(&risk.as_str()));
        own.into_iter().try_for_each(|risk| writeln!(out, "- ⚠ {}", words(risk)))
    }
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
