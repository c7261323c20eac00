//! From a `Template` and values to an argv.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Element, Filler, Part, Slot, SlotType, Template};
use crate::legible::{listed, shown};

/// The most arguments of one filled template.
const MAX_ARGUMENTS: usize = 1024;
/// The longest filled template, in bytes: half of what Linux takes.
const MAX_TOTAL_BYTES: usize = 1024 * 1024;
/// The longest user's option in a template, all its items together, in bytes.
const MAX_OPTION_BYTES: usize = 64 * 1024;

/// What the host fills in. A template that asks for what is not here can't be filled in this call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostValues {
    /// For `{machine}`.
    pub machine: Option<String>,
    /// For `{run}`.
    pub run: Option<String>,
    /// For `{name:host-dir}`, by the slot's name: absolute paths.
    pub directories: BTreeMap<String, String>,
    /// For `{command...}` and `{command:shell}`: the program and its arguments.
    pub command: Option<Vec<String>>,
}

/// Why a template could not be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The plugin filled a slot that the template does not have.
    #[error("the template has no slot `{slot}`")]
    NoSuchSlot {
        /// What was named.
        slot: String,
        /// What the plugin could have filled.
        known: Vec<String>,
    },
    /// The plugin filled what is not its to fill.
    #[error("slot `{slot}` is `{kind}`, which {} fills in, never the plugin", filler(*.by))]
    NotThePlugins {
        /// Which.
        slot: String,
        /// Its type, as in the manifest.
        kind: String,
        /// Whose it is.
        by: Filler,
    },
    /// The plugin filled a slot twice.
    #[error("slot `{0}` is filled twice")]
    Twice(String),
    /// Several values for a slot that takes one.
    #[error("slot `{slot}` takes one value, and was given {count}")]
    OneValue {
        /// Which.
        slot: String,
        /// How many were given.
        count: usize,
    },
    /// No value for a slot outside of a group.
    #[error("slot `{slot}` is not filled, and is not in a `[...]` group")]
    NotFilled {
        /// Which.
        slot: String,
        /// Who should have.
        by: Filler,
    },
    /// Some of a group's slots filled, and some not.
    #[error("slot `{empty}` is not filled, and its `[...]` group has another that is")]
    HalfFilled {
        /// The one that is not.
        empty: String,
    },
    /// A value that its slot does not admit.
    #[error("value `{value}` for slot `{slot}` is not admitted by `{kind}`: {why}")]
    Value {
        /// Which slot.
        slot: String,
        /// Its type, as in the manifest.
        kind: String,
        /// The value, bounded and escaped.
        value: String,
        /// The rule that it breaks.
        why: String,
    },
    /// A user's option that can't stand in a command.
    #[error("option `{option}` can't stand in a command: {why}")]
    Option {
        /// Which.
        option: String,
        /// Why not.
        why: String,
    },
    /// A value of the host's that can't stand in a command.
    #[error("the host's value for slot `{slot}` can't stand in a command: {why}")]
    Host {
        /// Which.
        slot: String,
        /// Why not.
        why: &'static str,
    },
    /// A program that is none.
    #[error("`{0}` is no program")]
    Program(String),
    /// More than a system takes.
    #[error(
        "the command has {arguments} arguments and {bytes} bytes; at most {MAX_ARGUMENTS} and {MAX_TOTAL_BYTES} are admitted"
    )]
    TooLarge {
        /// How many arguments.
        arguments: usize,
        /// How many bytes in all.
        bytes: usize,
    },
}

fn filler(by: Filler) -> &'static str {
    match by {
        Filler::Plugin => "the plugin",
        Filler::User => "the user",
        Filler::Host => "the host",
    }
}

impl FillError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            FillError::NoSuchSlot { slot, known } => {
                Some(match mst_model::schema::near(slot, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "it has none that the plugin fills".to_owned(),
                    None => format!("it has {}", listed(known.iter().map(String::as_str))),
                })
            }
            FillError::NotFilled { slot, by: Filler::User } => {
                Some(format!("the user sets it with the option `{slot}`"))
            }
            FillError::NotFilled { by: Filler::Host, .. } => {
                Some("the host has no value for it in this call; use another template here".to_owned())
            }
            _ => None,
        }
    }
}

/// The values of one slot, ready to stand in an argument.
type Values = BTreeMap<String, Vec<String>>;

pub(super) fn fill(
    template: &Template,
    given: &[(String, Vec<String>)],
    options: &Value,
    host: &HostValues,
) -> Result<Vec<String>, FillError> {
    let mut values = plugin_values(template, given)?;
    for slot in template.slots() {
        match slot.kind.filler() {
            Filler::Plugin => {}
            Filler::User => {
                if let Some(items) = option_values(slot, options)? {
                    values.insert(slot.name.clone(), items);
                }
            }
            Filler::Host => {
                values.insert(slot.name.clone(), host_values(slot, host)?);
            }
        }
    }
    let mut argv = Vec::new();
    let mut bytes = 0;
    for element in template.elements() {
        let from = argv.len();
        push(element, &values, &mut argv)?;
        if argv.is_empty() {
            // The user's empty list where the program stands: the next element, which the plugin
            // may fill, must not take its place.
            return Err(FillError::Program(String::new()));
        }
        // Before the next one, so that a thousand slots can't name one long value first.
        bytes += argv[from..].iter().map(|argument| argument.len() + 1).sum::<usize>();
        if argv.len() > MAX_ARGUMENTS || bytes > MAX_TOTAL_BYTES {
            return Err(FillError::TooLarge { arguments: argv.len(), bytes });
        }
    }
    match argv.first() {
        Some(program) if !program.is_empty() && !program.starts_with('-') && !program.contains('\n') => {
            Ok(argv)
        }
        program => Err(FillError::Program(shown(program.map_or("", String::as_str), 80))),
    }
}

/// The plugin's values, each held to its slot's type.
fn plugin_values(template: &Template, given: &[(String, Vec<String>)]) -> Result<Values, FillError> {
    let mut values = Values::new();
    let mut seen = BTreeSet::new();
    for (name, items) in given {
        let Some(slot) = template.slots().find(|slot| slot.name == *name) else {
            let mine = template.slots().filter(|slot| slot.kind.filler() == Filler::Plugin);
            let known: BTreeSet<String> = mine.map(|slot| slot.name.clone()).collect();
            return Err(FillError::NoSuchSlot { slot: shown(name, 64), known: known.into_iter().collect() });
        };
        let by = slot.kind.filler();
        if by != Filler::Plugin {
            return Err(FillError::NotThePlugins { slot: name.clone(), kind: slot.kind.to_string(), by });
        }
        if !seen.insert(name) {
            return Err(FillError::Twice(name.clone()));
        }
        if !slot.many && items.len() > 1 {
            return Err(FillError::OneValue { slot: name.clone(), count: items.len() });
        }
        if items.len() > MAX_ARGUMENTS {
            return Err(FillError::TooLarge {
                arguments: items.len(),
                bytes: items.iter().map(String::len).sum(),
            });
        }
        for item in items {
            admit(template, slot, item)?;
        }
        values.insert(name.clone(), items.clone());
    }
    Ok(values)
}

fn admit(template: &Template, slot: &Slot, value: &str) -> Result<(), FillError> {
    let refused = |why: String| FillError::Value {
        slot: slot.name.clone(),
        kind: slot.kind.to_string(),
        value: shown(value, 80),
        why,
    };
    if value.len() > Template::MAX_BYTES {
        return Err(refused(format!(
            "it has {} bytes; at most {} are admitted",
            value.len(),
            Template::MAX_BYTES
        )));
    }
    if value.chars().any(char::is_control) {
        return Err(refused("it holds a control character".to_owned()));
    }
    if !slot.kind.admits(value) {
        return Err(refused(format!("it must be {}", slot.kind.rule())));
    }
    // Only words that stand in the manifest may look like a program's option. An expression does
    // not count: `.*` is written sooner than what it admits is thought through.
    let begins = template
        .elements()
        .iter()
        .any(|element| matches!(element.parts.first(), Some(Part::Slot(first)) if first.name == slot.name));
    if begins && value.starts_with('-') && !matches!(slot.kind, SlotType::Enum(_)) {
        return Err(refused("it starts with `-`, which the program would take for an option".to_owned()));
    }
    Ok(())
}

/// The user's own words: anything but NUL. None where the option is not set.
fn option_values(slot: &Slot, options: &Value) -> Result<Option<Vec<String>>, FillError> {
    let SlotType::Option(name) = &slot.kind else { return Ok(None) };
    let refused = |why: String| FillError::Option { option: name.clone(), why };
    let values = match options.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Number(number)) => vec![number.to_string()],
        Some(Value::Bool(flag)) => vec![flag.to_string()],
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| refused("it is a list of something else than strings".to_owned()))?,
        Some(Value::Object(_)) => return Err(refused("it is an object".to_owned())),
    };
    if values.iter().any(|value| value.contains('\0')) {
        return Err(refused("it holds a NUL".to_owned()));
    }
    let bytes: usize = values.iter().map(String::len).sum();
    if bytes > MAX_OPTION_BYTES {
        return Err(refused(format!("it has {bytes} bytes; at most {MAX_OPTION_BYTES} are admitted")));
    }
    Ok(Some(values))
}

/// The host's values. They are checked too: a fault of the host's must not become a command.
fn host_values(slot: &Slot, host: &HostValues) -> Result<Vec<String>, FillError> {
    let refused = |why| FillError::Host { slot: slot.name.clone(), why };
    let name = |value: &Option<String>| match value {
        None => Ok(Vec::new()),
        Some(name)
            if (1..=128).contains(&name.len())
                && !name.starts_with('-')
                && name.chars().all(|c| slot.kind.may_hold(c)) =>
        {
            Ok(vec![name.clone()])
        }
        Some(_) => Err(refused("a name is 1 to 128 of `a-z`, `0-9` and `-`, and does not start with `-`")),
    };
    let command = |command: &Option<Vec<String>>| match command {
        None => Ok(Vec::new()),
        Some(words) => match words.first() {
            Some(program) if program.is_empty() || program.starts_with('-') => {
                Err(refused("its program is none"))
            }
            None => Err(refused("it is empty")),
            Some(_) if words.iter().any(|word| word.contains('\0')) => Err(refused("it holds a NUL")),
            Some(_) => Ok(words.clone()),
        },
    };
    match &slot.kind {
        SlotType::Machine => name(&host.machine),
        SlotType::Run => name(&host.run),
        SlotType::CommandArgs => command(&host.command),
        SlotType::CommandShell => Ok(match command(&host.command)? {
            words if words.is_empty() => Vec::new(),
            words => vec![words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")],
        }),
        SlotType::HostDir => match host.directories.get(&slot.name) {
            None => Ok(Vec::new()),
            Some(path) if !path.starts_with('/') => Err(refused("it is no absolute path")),
            Some(path) if path.chars().any(char::is_control) => {
                Err(refused("the path holds a control character"))
            }
            Some(path) => Ok(vec![path.clone()]),
        },
        _ => Ok(Vec::new()),
    }
}

/// `word` as a POSIX shell reads it back, whatever it holds. An `=` is quoted too: a command's
/// first word would be an assignment with it.
fn quoted(word: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | ',' | '@' | '%' | '+')
    };
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Adds an element's arguments: none where its group is left out.
fn push(element: &Element, values: &Values, argv: &mut Vec<String>) -> Result<(), FillError> {
    let of = |slot: &Slot| values.get(&slot.name).map_or(&[][..], Vec::as_slice);
    // The user's empty text leaves a group out as no text does; a plugin's is a value like others.
    let is_empty = |slot: &Slot| match of(slot) {
        [] => true,
        [text] => element.optional && slot.kind.filler() == Filler::User && text.is_empty(),
        _ => false,
    };
    if let Some(empty) = element.slots().find(|slot| is_empty(slot)) {
        let by = empty.kind.filler();
        if !element.optional {
            // A list that the user left empty is no arguments; one that was never set is an error.
            if by == Filler::User && element.whole().is_some() && values.contains_key(&empty.name) {
                return Ok(());
            }
            return Err(FillError::NotFilled { slot: empty.name.clone(), by });
        }
        let filled = |slot: &Slot| slot.kind.filler() == Filler::Plugin && !is_empty(slot);
        return if element.slots().any(filled) {
            Err(FillError::HalfFilled { empty: empty.name.clone() })
        } else {
            Ok(())
        };
    }
    if let Some(slot) = element.whole() {
        argv.extend_from_slice(of(slot));
        return Ok(());
    }
    let mut argument = String::new();
    for part in &element.parts {
        match part {
            Part::Literal(text) => argument.push_str(text),
            Part::Slot(slot) => match of(slot) {
                [value] => argument.push_str(value),
                values => return Err(several(slot, values.len())),
            },
        }
    }
    argv.push(argument);
    Ok(())
}

fn several(slot: &Slot, count: usize) -> FillError {
    match &slot.kind {
        SlotType::Option(name) => FillError::Option {
            option: name.clone(),
            why: format!("it is a list of {count}, where one word is wanted"),
        },
        _ => FillError::OneValue { slot: slot.name.clone(), count },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::Place;
    use super::*;

    fn template(argv: &[&str]) -> Template {
        Template::parse(argv, Place::Exec).expect("a template")
    }

    fn slots(given: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        given
            .iter()
            .map(|(name, items)| ((*name).to_owned(), items.iter().map(|item| (*item).to_owned()).collect()))
            .collect()
    }

    fn host() -> HostValues {
        HostValues {
            machine: Some("mst-r1-0".into()),
            run: Some("r1".into()),
            directories: [("src".to_owned(), "/tmp/b c".to_owned())].into(),
            command: Some(
                ["mst", "collect", "--bundle", "/b", "it's $HOME", "", "A=b"].map(str::to_owned).into(),
            ),
        }
    }

    fn fill(argv: &[&str], given: &[(&str, &[&str])], options: Value) -> Result<Vec<String>, FillError> {
        template(argv).fill(&slots(given), &options, &host())
    }

    #[test]
    fn the_design_example() {
        let argv = [
            "docker",
            "run",
            "--name",
            "{machine}",
            "--label",
            "mst.run={run}",
            "[--memory={memory:quantity}]",
            "{image:oci-ref}",
            "sleep",
            "infinity",
        ];
        assert_eq!(
            fill(&argv, &[("image", &["debian:12"])], json!({})).expect("filled"),
            [
                "docker",
                "run",
                "--name",
                "mst-r1-0",
                "--label",
                "mst.run=r1",
                "debian:12",
                "sleep",
                "infinity"
            ]
        );
        assert_eq!(
            fill(&argv, &[("image", &["debian:12"]), ("memory", &["2g"])], json!({})).expect("filled")[6],
            "--memory=2g"
        );
        // None is as good as not named.
        assert!(fill(&argv, &[("image", &["debian:12"]), ("memory", &[])], json!({})).is_ok());
        assert_eq!(
            fill(&argv, &[], json!({})),
            Err(FillError::NotFilled { slot: "image".into(), by: Filler::Plugin })
        );
    }

    #[test]
    fn the_hosts_values() {
        let argv = ["docker", "exec", "{machine}", "{command...}"];
        assert_eq!(
            fill(&argv, &[], json!({})).expect("filled"),
            ["docker", "exec", "mst-r1-0", "mst", "collect", "--bundle", "/b", "it's $HOME", "", "A=b"]
        );
        let argv = ["ssh", "h", "cd {dir:machine-path} && exec {command:shell}"];
        assert_eq!(
            fill(&argv, &[("dir", &["/w"])], json!({})).expect("filled")[2],
            r"cd /w && exec mst collect --bundle /b 'it'\''s $HOME' '' 'A=b'"
        );
        let argv = ["docker", "cp", "{src:host-dir}/.", "{machine}:{to:machine-path}"];
        assert_eq!(
            fill(&argv, &[("to", &["/run/mst"])], json!({})).expect("filled"),
            ["docker", "cp", "/tmp/b c/.", "mst-r1-0:/run/mst"]
        );
    }

    #[test]
    fn the_host_is_held_to_its_rules_too() {
        let of = |host: HostValues, argv: &[&str]| template(argv).fill(&[], &json!({}), &host);
        for machine in ["", "-x", "A", "a b", "a\n"] {
            let host = HostValues { machine: Some(machine.into()), ..HostValues::default() };
            assert!(matches!(of(host, &["x", "{machine}"]), Err(FillError::Host { .. })), "{machine:?}");
        }
        for command in [vec![], vec![""], vec!["-x"], vec!["a", "b\0"]] {
            let command = Some(command.into_iter().map(str::to_owned).collect());
            let host = HostValues { command, ..HostValues::default() };
            assert!(matches!(of(host, &["x", "{command...}"]), Err(FillError::Host { .. })));
        }
        for path in ["", "a", "-a", "/a\nb"] {
            let host = HostValues {
                directories: [("d".to_owned(), path.to_owned())].into(),
                ..HostValues::default()
            };
            assert!(matches!(of(host, &["x", "{d:host-dir}"]), Err(FillError::Host { .. })), "{path:?}");
        }
        assert_eq!(
            of(HostValues::default(), &["x", "{machine}"]),
            Err(FillError::NotFilled { slot: "machine".into(), by: Filler::Host })
        );
        assert_eq!(of(HostValues::default(), &["x", "[--name={machine}]"]), Ok(vec!["x".into()]));
    }

    #[test]
    fn a_plugin_reaches_only_its_own_slots() {
        let argv =
            ["x", "{machine}", "{option(command)}", "{c:option(command)}", "[{src:host-dir}]", "[{a:ident}]"];
        let options = json!({"command": "true"});
        for name in ["machine", "command", "c", "src"] {
            let error = fill(&argv, &[(name, &["evil"])], options.clone()).expect_err(name);
            assert!(matches!(error, FillError::NotThePlugins { .. }), "{error}");
        }
        let error = fill(&argv, &[("b", &["evil"])], options.clone()).expect_err("no such slot");
        assert_eq!(error.hint().as_deref(), Some("did you mean `a`?"));
        assert_eq!(
            fill(&argv, &[("a", &["x"]), ("a", &["y"])], options.clone()),
            Err(FillError::Twice("a".into()))
        );
        assert_eq!(
            fill(&argv, &[("a", &["x", "y"])], options),
            Err(FillError::OneValue { slot: "a".into(), count: 2 })
        );
    }

    #[test]
    fn options_are_the_users_own_words() {
        let one = |value: Value| fill(&["x", "{option(o)}"], &[], json!({ "o": value }));
        assert_eq!(one(json!("-rf\n$(x)")), Ok(vec!["x".into(), "-rf\n$(x)".into()]));
        assert_eq!(one(json!(1.5)), Ok(vec!["x".into(), "1.5".into()]));
        assert_eq!(one(json!(true)), Ok(vec!["x".into(), "true".into()]));
        assert_eq!(
            one(json!(["-a", "", "c d"])),
            Ok(vec!["x".into(), "-a".into(), String::new(), "c d".into()])
        );
        assert_eq!(one(json!([])), Ok(vec!["x".into()]));
        assert_eq!(one(json!("")), Ok(vec!["x".into(), String::new()]));
        for bad in
            [json!({}), json!([1]), json!(["a", null]), json!("a\0"), json!(["\0"]), json!("x".repeat(65537))]
        {
            assert!(matches!(one(bad.clone()), Err(FillError::Option { .. })), "{bad}");
        }
        assert_eq!(one(Value::Null), Err(FillError::NotFilled { slot: "o".into(), by: Filler::User }));
        for empty in [json!({}), json!({"o": null}), json!({"o": ""})] {
            assert_eq!(fill(&["x", "[-o{option(o)}]"], &[], empty), Ok(vec!["x".into()]));
        }
        assert!(matches!(
            fill(&["x", "-o{option(o)}"], &[], json!({"o": ["a", "b"]})),
            Err(FillError::Option { .. })
        ));
    }

    #[test]
    fn the_program_stays_the_users() {
        let argv = ["{option(command)}", "{a:ident}"];
        let with = |command: Value| fill(&argv, &[("a", &["evil"])], json!({ "command": command }));
        assert_eq!(
            with(json!(["sh", "-c", "true"])),
            Ok(["sh", "-c", "true", "evil"].map(str::to_owned).to_vec())
        );
        for empty in [json!([]), json!(""), json!([""]), json!(["", "x"]), json!("-x"), json!("a\nb")] {
            assert!(matches!(with(empty.clone()), Err(FillError::Program(_))), "{empty}");
        }
        assert!(matches!(with(Value::Null), Err(FillError::NotFilled { .. })));
    }

    #[test]
    fn a_program_of_several_is_one_of_them() {
        let argv = ["{engine:enum(docker|podman)}", "ps"];
        let with = |engine: &[&str]| fill(&argv, &[("engine", engine)], json!({}));
        assert_eq!(with(&["podman"]), Ok(["podman", "ps"].map(str::to_owned).to_vec()));
        assert!(matches!(with(&["sh"]), Err(FillError::Value { .. })));
        assert!(matches!(with(&[]), Err(FillError::NotFilled { .. })));
        assert!(matches!(with(&["docker", "podman"]), Err(FillError::OneValue { .. })));
        assert!(matches!(fill(&argv, &[], json!({})), Err(FillError::NotFilled { .. })));
    }

    #[test]
    fn values_that_are_not_the_plugins_share_an_argument() {
        let argv = ["rm", "-rf", "--", "{base:option(base)}/{machine}"];
        assert_eq!(fill(&argv, &[], json!({"base": "/b"})).expect("filled")[3], "/b/mst-r1-0");
        let argv = ["cp", "{option(base)}/{machine}{at:machine-path}"];
        let with = |at: &str| fill(&argv, &[("at", &[at])], json!({"base": "/b"}));
        assert_eq!(with("/x").expect("filled")[1], "/b/mst-r1-0/x");
        for out in ["/../x", "x", "/x/..", "", "/.", "//x"] {
            assert!(matches!(with(out), Err(FillError::Value { .. })), "{out}");
        }
    }

    #[test]
    fn groups_are_whole_or_not_there() {
        let argv = ["x", "[--v={a:ident}:{b:ident}]"];
        assert_eq!(fill(&argv, &[], json!({})), Ok(vec!["x".into()]));
        assert_eq!(
            fill(&argv, &[("a", &["1"]), ("b", &["2"])], json!({})),
            Ok(vec!["x".into(), "--v=1:2".into()])
        );
        assert_eq!(
            fill(&argv, &[("a", &["1"])], json!({})),
            Err(FillError::HalfFilled { empty: "b".into() })
        );
    }

    #[test]
    fn a_leading_dash_only_behind_text_or_from_the_manifest() {
        let free = "text(/.*/)";
        let fits = |element: &str, value: &str| fill(&["x", element], &[("a", &[value])], json!({})).is_ok();
        assert!(!fits(&format!("{{a:{free}}}"), "-x"));
        assert!(!fits(&format!("[{{a:{free}}}]"), "-x"));
        assert!(!fits(&format!("{{a:{free}...}}"), "-x"));
        assert!(fits(&format!("--a={{a:{free}}}"), "-x"));
        assert!(fits("{a:enum(-x|-y)}", "-x"));
        assert!(!fits(&format!("--a={{a:{free}}}"), &"x".repeat(4097)));
    }

    #[test]
    fn bounds_on_the_whole() {
        let items = vec!["x"; 1025];
        assert!(matches!(
            fill(&["x", "{a:ident...}"], &[("a", &items)], json!({})),
            Err(FillError::TooLarge { .. })
        ));
        let long = "x".repeat(4096);
        let items = vec![long.as_str(); 300];
        assert!(matches!(
            fill(&["x", "{a:text(/x*/)...}"], &[("a", &items)], json!({})),
            Err(FillError::TooLarge { .. })
        ));
    }

    /// Elements over every plugin type, as whole elements, behind text, in groups and with `...`.
    fn any_element() -> impl Strategy<Value = String> {
        let kind = prop::sample::select(vec![
            "ident",
            "uint(0..99)",
            "quantity",
            "enum(a|-b)",
            "oci-ref",
            "machine-path",
            "text(/.*/)",
            "text(/[^x]+/)",
            r"text(/(?s).*/)",
            r"text(/\W+/)",
        ]);
        (kind, 0..7u8, "[a-c]").prop_map(|(kind, form, name)| {
            // The name says the type, so that two elements do not clash.
            let name = format!("{name}{}", kind.bytes().map(u32::from).sum::<u32>());
            match form {
                0 => format!("{{{name}:{kind}}}"),
                1 => format!("--o={{{name}:{kind}}}"),
                2 => format!("[{{{name}:{kind}}}]"),
                3 => format!("{{{name}x:{kind}...}}"),
                // Those that a template may hold there; the others are refused, and not filled.
                4 if ["ident", "quantity", "uint(0..99)"].contains(&kind) => {
                    format!("{{option(base)}}/{{machine}}/{{{name}:{kind}}}")
                }
                5 if kind == "machine-path" => format!("{{option(base)}}/{{machine}}{{{name}:{kind}}}"),
                _ => format!("{{machine}}:{{{name}:{kind}}}"),
            }
        })
    }

    fn any_value() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[-a-z0-9./:@=]{0,8}",
            prop::sample::select(vec![
                "-b",
                "--rm",
                "a\nb",
                "a\0",
                "\u{430}dmin",
                "/a/../b",
                "/a",
                "debian:12",
                "7",
                "\u{ff0d}x",
                "",
                "a",
                "\u{2028}",
                "\u{85}",
                "\r"
            ])
            .prop_map(str::to_owned),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Read back without the filler's help: each argument is the element's own text around
        /// values that the plugin gave and that its type admits.
        #[test]
        fn no_argument_that_the_template_does_not_admit(
            elements in prop::collection::vec(any_element(), 1..4),
            pool in prop::collection::vec(prop::collection::vec(any_value(), 0..3), 8),
            pick in any::<u64>(),
        ) {
            let argv: Vec<&str> = std::iter::once("prog").chain(elements.iter().map(String::as_str)).collect();
            let template = template(&argv);
            let mut given: Vec<(String, Vec<String>)> = Vec::new();
            for (at, slot) in template.slots().filter(|slot| slot.kind.filler() == Filler::Plugin).enumerate() {
                if given.iter().all(|(name, _)| *name != slot.name) {
                    given.push((slot.name.clone(), pool[(at + pick as usize % 8) % 8].clone()));
                }
            }
            let options = json!({"base": "-/b/{x}: y"});
            let Ok(filled) = template.fill(&given, &options, &host()) else { return Ok(()) };
            let mut rest = &filled[1..];
            for element in &template.elements()[1..] {
                let slot = element.slots().last().expect("each has one");
                let values = &given.iter().find(|(name, _)| *name == slot.name).expect("given").1;
                prop_assert!(element.optional || slot.many || values.len() == 1 || values.is_empty());
                for value in values {
                    let argument = rest.first().expect("an argument for the value");
                    let prefix = element.source.trim_start_matches('[').split_once(&format!("{{{}", slot.name)).expect("prefix").0;
                    let prefix = prefix.replace("{option(base)}", "-/b/{x}: y").replace("{machine}", "mst-r1-0");
                    prop_assert_eq!(argument, &format!("{prefix}{value}"));
                    prop_assert!(!value.contains(['\0', '\n', '\r']) && !value.chars().any(char::is_control));
                    prop_assert!(value.len() <= 4096 && slot.kind.admits(value));
                    if prefix.is_empty() && !slot.kind.to_string().starts_with("enum") {
                        prop_assert!(!argument.starts_with('-'), "{:?}", argument);
                    }
                    if slot.kind.to_string() == "ident" {
                        prop_assert!(value.is_ascii() && !value.contains(['/', ':', ' ', '=', ',']));
                    }
                    rest = &rest[1..];
                }
            }
            prop_assert!(rest.is_empty(), "arguments that nothing asked for: {:?}", rest);
        }

        #[test]
        fn a_quoted_word_is_one_word(word in "[ -~\n\u{e9}]{0,24}") {
            let text = quoted(&word);
            // A reader of the two forms that `quoted` writes.
            let back = if text.starts_with('\'') || text.contains(r"\'") {
                let mut out = String::new();
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    if let Some(after) = rest.strip_prefix(r"\'") {
                        out.push('\'');
                        rest = after;
                    } else {
                        let (inner, after) = rest.strip_prefix('\'').expect("opens").split_once('\'').expect("closes");
                        out.push_str(inner);
                        rest = after;
                    }
                }
                out
            } else {
                prop_assert!(!text.contains([' ', '$', '`', '"', '\\', ';', '&', '|', '<', '>', '*', '?', '~', '#', '(', '=', '\n']));
                text.clone()
            };
            prop_assert_eq!(back, word);
        }
    }
}
