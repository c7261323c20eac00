//! The page for a terminal.

use std::fmt;

use serde_json::Value;

use super::{Line, Page};
use crate::component::Extern;
use crate::legible::{listed, shown};
use crate::request::{CommandTemplate, Request};

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.id, self.version)?;
        writeln!(f, "{}\n", shown(&self.description, 500))?;
        writeln!(f, "world     {}, of mst:plugin@{}", self.world, self.contract)?;
        writeln!(f, "file      {}, {} bytes", self.digest, self.size_bytes)?;
        if let Some(pinned) = &self.pinned {
            writeln!(f, "lock      pins another file: {pinned}")?;
        }
        if let Some(license) = &self.license {
            writeln!(f, "license   {}", shown(license, 100))?;
        }
        if let Some(homepage) = &self.homepage {
            writeln!(f, "homepage  {}", shown(homepage, 300))?;
        }
        if let Some(most) = self.max_shards {
            writeln!(f, "shards    at most {most}")?;
        }
        if let Some(can) = self.forward_port {
            writeln!(f, "ports     {}", if can { "leads local ports to a machine's" } else { "none" })?;
        }
        if let Some(rule) = &self.refused {
            writeln!(f, "\n  x {}", shown(rule, 1000))?;
        }
        self.asks_for(f)?;
        self.own_options(f)?;
        externs(f, "Imports", &self.imports)?;
        externs(f, "Exports", &self.exports)
    }
}

impl Page {
    fn asks_for(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requests.is_empty() {
            return writeln!(f, "\nAsks for nothing: no command, no directory, no network.");
        }
        writeln!(f, "\nAsks for")?;
        writeln!(f, "  in short: it {}", self.in_short())?;
        let shared = self.shared_risks();
        if !shared.is_empty() {
            writeln!(f, "  for every command below")?;
            shared.iter().try_for_each(|risk| writeln!(f, "      ! {risk}"))?;
        }
        for line in &self.requests {
            let standing = match line.standing() {
                "" => String::new(),
                standing => format!("  [{standing}]"),
            };
            writeln!(f, "  {}, {}{standing}", line.key, line.where_to())?;
            for detail in line.details() {
                writeln!(f, "      {detail}")?;
            }
            if let Some(rule) = &line.refused {
                writeln!(f, "      x {}", shown(rule, 1000))?;
            }
            let own = line.risks.iter().filter(|risk| !line.is_command() || !shared.contains(&risk.as_str()));
            own.into_iter().try_for_each(|risk| writeln!(f, "      ! {risk}"))?;
        }
        Ok(())
    }

    fn own_options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.option_rows();
        writeln!(f, "\nOptions")?;
        if rows.is_empty() { writeln!(f, "  none") } else { aligned(f, rows) }
    }

    /// Name, type and description of each option.
    pub(super) fn option_rows(&self) -> Vec<[String; 3]> {
        let properties = self.options.get("properties").and_then(Value::as_object);
        let required = self.options.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        let row = |(name, schema): (&String, &Value)| {
            let mut kind = match schema.get("type") {
                Some(Value::String(kind)) => kind.clone(),
                Some(Value::Array(kinds)) => {
                    kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
                }
                Some(other) => other.to_string(),
                None => "any".to_owned(),
            };
            if let Some(format) = schema.get("format").and_then(Value::as_str) {
                kind = format!("{kind}, {format}");
            }
            if required.contains(&name.as_str()) {
                kind += ", required";
            }
            let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            [shown(name, 64), shown(&kind, 64), shown(&about, 200)]
        };
        properties.into_iter().flatten().map(row).collect()
    }
}

impl Line {
    /// Where it happens, in a few words.
    pub(super) fn where_to(&self) -> String {
        match &self.request {
            Request::Exec(_) => "on this machine, as you".to_owned(),
            Request::Workspace(_) => {
                "in a copy of the trial's workspace, on the machine that grades".to_owned()
            }
            Request::Dir(dir) => dir.access.to_string(),
            Request::Http(http) => {
                format!("by {}", listed(http.methods.iter().map(|method| method.as_str())).replace('`', ""))
            }
            Request::Secret(secret) => format!("for: {}", shown(&secret.about, 300)),
            Request::Env(_) => "of your environment".to_owned(),
        }
    }

    /// A command as it can be run, and its bounds; nothing for the rest.
    pub(super) fn details(&self) -> Vec<String> {
        match &self.request {
            Request::Exec(command) | Request::Workspace(command) => vec![argv(command), bounds(command)],
            _ => Vec::new(),
        }
    }
}

/// A command on one line, so that a reader sees where each element begins and ends.
pub(super) fn argv(command: &CommandTemplate) -> String {
    command.template.argv().into_iter().map(word).collect::<Vec<_>>().join(" ")
}

pub(super) fn bounds(command: &CommandTemplate) -> String {
    format!("at most {}, and {} of each output", command.timeout, bytes(command.max_output_bytes))
}

fn externs(f: &mut fmt::Formatter<'_>, title: &str, list: &[Extern]) -> fmt::Result {
    writeln!(f, "\n{title}")?;
    aligned(f, list.iter().map(extern_row).collect())
}

/// An interface and its functions.
pub(super) fn extern_row(item: &Extern) -> [String; 2] {
    // `trial.read` is what WIT's tools spell `[method]trial.read`.
    let plain = |function: &String| function.rsplit(']').next().unwrap_or_default().to_owned();
    let functions: Vec<String> = item.functions.iter().map(plain).collect();
    [shown(&item.name, 120), shown(&functions.join(", "), 2000)]
}

fn aligned<const N: usize>(f: &mut fmt::Formatter<'_>, rows: Vec<[String; N]>) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// An element of an argv so that a reader sees where it begins and ends.
fn word(element: &str) -> String {
    let plain = !element.is_empty()
        && !element.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '`'));
    let text = shown(element, crate::template::Template::MAX_BYTES);
    if plain { text } else { format!("'{}'", text.replace('\'', r"\'")) }
}

fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 && count % (1 << 20) == 0 => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count % (1 << 10) == 0 => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}
