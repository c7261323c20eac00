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
        ["docker", "run", "--name", "mst-r1-0", "--label", "mst.run=r1", "debian:12", "sleep", "infinity"]
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
        let host =
            HostValues { directories: [("d".to_owned(), path.to_owned())].into(), ..HostValues::default() };
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
    assert_eq!(one(json!(["-a", "", "c d"])), Ok(vec!["x".into(), "-a".into(), String::new(), "c d".into()]));
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
    assert_eq!(fill(&argv, &[("a", &["1"])], json!({})), Err(FillError::HalfFilled { empty: "b".into() }));
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
