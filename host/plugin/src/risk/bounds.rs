//! What bounds the memory and the processors of a container that a command makes.

use super::engine::{Told, Verbs};
use super::flags::{Flag, Value, flags};
use super::named::literals;
use crate::legible::listed;
use crate::request::CommandTemplate;
use crate::template::Filler;

/// Flags that bound memory, each with the letter that means the same.
const MEMORY: [&[&str]; 1] = [&["--memory", "-m"]];
const PROCESSORS: [&[&str]; 3] = [&["--cpus"], &["--cpu-quota"], &["--cpuset-cpus"]];

/// What bounds one of them.
#[derive(PartialEq)]
enum Bound {
    /// A flag of the command's own.
    Fixed,
    /// Flags that somebody else fills, or may leave out.
    Said(Filler),
    None,
    NotKnown,
}

/// What does not certainly bound a container's memory and processors, as it goes on in a sentence.
pub(super) fn said(command: &CommandTemplate, told: &Told, verbs: &Verbs<'_>) -> String {
    let flags = flags(command, told, verbs);
    let (memory, memory_by) = bound(flags.as_deref(), &MEMORY, told, verbs);
    let (processors, processors_by) = bound(flags.as_deref(), &PROCESSORS, told, verbs);
    if memory == processors {
        return match memory {
            Bound::None => "; bounds no memory and no processors".to_owned(),
            _ => sentence("memory and processors", &memory, &[memory_by, processors_by].concat()),
        };
    }
    sentence("memory", &memory, &memory_by) + &sentence("processors", &processors, &processors_by)
}

fn sentence(what: &str, bound: &Bound, by: &[&str]) -> String {
    let by = listed(by.iter().copied());
    match bound {
        Bound::Fixed => String::new(),
        Bound::Said(Filler::User) => format!("; bounds {what} only as your options say: {by}"),
        Bound::Said(_) => format!("; bounds {what} only as the plugin says: {by}"),
        Bound::None => format!("; bounds no {what}"),
        Bound::NotKnown => format!("; whether it bounds {what} is not certain"),
    }
}

/// What these flags come to, and which of them somebody says.
fn bound<'a>(
    flags: Option<&[Flag<'a>]>,
    names: &[&[&str]],
    told: &Told,
    verbs: &Verbs<'_>,
) -> (Bound, Vec<&'a str>) {
    let Some(flags) = flags else {
        let texts = || told.own(verbs).iter().flat_map(literals).map(|literal| literal.text);
        let may_be = texts().any(|text| names.iter().copied().flatten().any(|name| is_like(text, name)));
        return (if may_be { Bound::NotKnown } else { Bound::None }, Vec::new());
    };
    let of = |names: &[&str]| flags.iter().filter(|flag| names.contains(&flag.name)).collect::<Vec<_>>();
    // Of several of one name the last counts.
    let holds = |all: &[&Flag<'_>]| !all.is_empty() && all.iter().all(|flag| is_bound(flag));
    if names.iter().any(|names| holds(&of(names))) {
        return (Bound::Fixed, Vec::new());
    }
    let all: Vec<&Flag<'_>> = names.iter().flat_map(|names| of(names)).collect();
    for filler in [Filler::Plugin, Filler::User] {
        let by: Vec<&str> = all.iter().filter(|flag| flag.filler() == filler).map(|flag| flag.name).collect();
        if !by.is_empty() {
            return (Bound::Said(filler), by);
        }
    }
    (Bound::None, Vec::new())
}

/// Whether a text may be a flag of this name, among other letters too.
fn is_like(text: &str, name: &str) -> bool {
    match name.strip_prefix("--") {
        Some(_) => text.split('=').next() == Some(name),
        None => text.starts_with('-') && !text.starts_with("--") && text.contains(&name[1..]),
    }
}

/// Whether a flag always bounds something, and not by nothing: engines take `0` for no bound.
fn is_bound(flag: &Flag<'_>) -> bool {
    let Value::Fixed(value) = flag.value else { return false };
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_number = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let amount = number.parse::<f64>().ok().filter(|_| is_number).unwrap_or_default();
    let unit = value[number.len()..].chars().next().map(|unit| unit.to_ascii_lowercase());
    let least = match (flag.name, unit) {
        // A list of processors, of which `0` is the first.
        ("--cpuset-cpus", _) => return flag.is_fixed && value.starts_with(|c: char| c.is_ascii_digit()),
        ("--cpus", None) => 0.01,
        ("--cpu-quota", None) | ("--memory" | "-m", None | Some('b')) => 1.0,
        // Less than a byte is none.
        ("--memory" | "-m", Some('k' | 'm' | 'g' | 't' | 'p')) => 0.001,
        _ => return false,
    };
    flag.is_fixed && amount >= least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_engines_take_for_a_bound_is_one() {
        let is = |name, value| is_bound(&Flag { name, value: Value::Fixed(value), is_fixed: true });
        for (name, value) in [
            ("--memory", "1g"),
            ("--memory", "0.5GiB"),
            ("-m", "512"),
            ("--cpus", "0.5"),
            ("--cpu-quota", "50000"),
            ("--cpuset-cpus", "0"),
            ("--cpuset-cpus", "0-3,5"),
        ] {
            assert!(is(name, value), "{name} {value}");
        }
        for (name, value) in [
            ("--memory", "0"),
            ("--memory", "0g"),
            ("--memory", "0.0000000001g"),
            ("--memory", "0.1b"),
            ("--memory", "-1"),
            ("--memory", ""),
            ("--memory", "inf"),
            ("--memory", "+0"),
            ("-m", "00"),
            ("--cpus", "0"),
            ("--cpus", "0.0"),
            ("--cpus", "0.0000001"),
            ("--cpu-quota", "-1"),
            ("--cpu-quota", "0"),
            ("--cpuset-cpus", ""),
        ] {
            assert!(!is(name, value), "{name} {value}");
        }
        assert!(!is_bound(&Flag { name: "--cpus", value: Value::Fixed("1"), is_fixed: false }));
    }
}
