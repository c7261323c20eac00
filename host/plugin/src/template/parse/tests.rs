use super::*;

fn exec(argv: &[&str]) -> Result<Template, TemplateError> {
    Template::parse(argv, Place::Exec)
}

#[track_caller]
fn refused(argv: &[&str], why: &str) {
    let error = exec(argv).expect_err("refused").to_string();
    assert!(error.contains(why), "{argv:?}: {error}");
}

#[test]
fn the_design_example_parses_and_keeps_its_words() {
    let argv = [
        "docker",
        "run",
        "--detach",
        "--init",
        "--name",
        "{machine}",
        "--label",
        "mst.run={run}",
        "[--memory={memory:quantity}]",
        "{image:oci-ref}",
        "sleep",
        "infinity",
    ];
    let template = exec(&argv).expect("parses");
    assert_eq!(template.argv(), argv);
    assert_eq!(template.programs(), ["docker"]);
    let slots: Vec<String> = template.slots().map(|slot| format!("{}: {}", slot.name, slot.kind)).collect();
    assert_eq!(slots, ["machine: machine", "run: run", "memory: quantity", "image: oci-ref"]);
    assert!(template.elements()[8].optional);
}

#[test]
fn every_type_is_read_as_it_is_written() {
    let argv = [
        "x",
        "{a:ident}",
        "{b:uint(1..9)}",
        "{c:quantity}",
        "{d:enum(on|off)}",
        "{e:oci-ref}",
        "{f:machine-path...}",
        "{g:text(/[a-z]{2}(/)?x{1,3}/)}",
        "{h:option(list)}",
        "{option(Zone_1)}",
        "{i:host-dir}",
        "{command...}",
    ];
    let template = exec(&argv).expect("parses");
    let kinds: Vec<String> = template.slots().map(|slot| slot.kind.to_string()).collect();
    assert_eq!(
        kinds,
        [
            "ident",
            "uint(1..9)",
            "quantity",
            "enum(on|off)",
            "oci-ref",
            "machine-path",
            "text(/[a-z]{2}(/)?x{1,3}/)",
            "option(list)",
            "option(Zone_1)",
            "host-dir",
            "command..."
        ]
    );
    assert!(template.elements()[6].whole().is_some_and(|slot| slot.many));
}

#[test]
fn braces_and_brackets_of_the_text_s_own() {
    let template = exec(&["x", "{{{{.Id}}}}", "[[a]", "{{{a:ident}}}", "a[0]", ""]).expect("parses");
    let parts: Vec<&[Part]> = template.elements().iter().map(|element| element.parts.as_slice()).collect();
    assert_eq!(parts[1], [Part::Literal("{{.Id}}".into())]);
    assert_eq!(parts[2], [Part::Literal("[a]".into())]);
    assert!(matches!(parts[3], [Part::Literal(a), Part::Slot(_), Part::Literal(b)] if a == "{" && b == "}"));
    assert_eq!(parts[4], [Part::Literal("a[0]".into())]);
    assert!(parts[5].is_empty());
}

#[test]
fn what_is_no_template() {
    assert_eq!(exec(&[]), Err(TemplateError::Empty));
    assert_eq!(exec(&["x"; 129]), Err(TemplateError::TooMany { count: 129 }));
    refused(&["x", "{a"], "has no end");
    refused(&["x", "a}"], "closes nothing");
    refused(&["x", "{a}"], "slot `a` has no type");
    refused(&["x", "{}"], "has no type");
    refused(&["x", "{a:word}"], "`word` is no slot type");
    refused(&["x", "{A:ident}"], "`A` is no slot name");
    refused(&["x", "{machine:ident}"], "of the host's own");
    refused(&["x", "{a:machine}"], "`machine` is no slot type");
    refused(&["x", "{a:uint(9..1)}"], "no range");
    refused(&["x", "{a:uint(01..2)}"], "no range");
    refused(&["x", "{a:uint(+1..2)}"], "no range");
    refused(&["x", "{a:enum(|b)}"], "1 to 64 words");
    refused(&["x", "{a:text(/(/)}"], "no expression");
    refused(&["x", "{a:text(/a)|(?:b/)}"], "no expression");
    refused(&["x", "{a:text(/a}"], "no `/)`");
    refused(&["x", "{option(a b)}"], "no option name");
    refused(&["x", "{a:host-dir...}"], "takes no `...`");
    refused(&["x", "[--a={a:ident}"], "has to end in `]`");
    refused(&["x", "[--a]"], "never left out");
    refused(&["x", "--a={a:ident...}"], "several arguments");
    refused(&["x", "x {command...}"], "several arguments");
    refused(&["x", "{a:ident}", "{a:quantity}"], "stood before as `ident`");
    refused(&["x", "a\u{202e}b"], "would not see");
    refused(&["x", "a\0b"], "would not see");
    refused(&["x", &"a".repeat(4097)], "4097 bytes");
}

#[test]
fn a_users_option_may_bear_any_name() {
    exec(&["{command:option(command)}", "{option(run)}"]).expect("parses");
    refused(&["x", "{option(command)}", "{command...}"], "stood before as `option(command)`");
}

#[test]
fn slots_that_run_into_each_other() {
    refused(&["x", "{a:ident}{b:ident}"], "can't be told");
    refused(&["x", "{a:ident}.{b:ident}"], "can't be told");
    refused(&["x", "{a:text(/x/)},{b:ident}"], "can't be told");
    refused(&["x", "{command:shell} {b:ident}"], "can't be told");
    refused(&["x", "{a:oci-ref}:{b:ident}"], "can't be told");
    // The plugin's value behind one that it does not choose.
    refused(&["x", "{option(a)}:{b:text(/.*/)}"], "can't be told");
    refused(&["x", "{option(a)}{b:ident}"], "can't be told");
    refused(&["x", "{option(a)}{b:machine-path}"], "can't be told");
    refused(&["x", "{machine}{b:ident}"], "can't be told");
    refused(&["x", "{option(a)}/{b:machine-path}"], "can't be told");
    // And before it.
    refused(&["x", "{b:ident}{machine}"], "can't be told");
    refused(&["x", "{b:ident}-{machine}"], "can't be told");
    refused(&["x", "{b:machine-path}/{option(a)}"], "can't be told");
    for good in [
        "{base:option(base)}/{machine}",
        "{option(base)}{machine}{run}",
        "{option(user)}@{option(host)}",
        "{option(base)}/{machine}{path:machine-path}",
        "d={option(base)}/{machine}{path:machine-path}; cd $d && exec {command:shell}",
        "{option(a)}:{b:ident}",
        "{option(host)}:{path:machine-path}",
        "{machine}:{path:machine-path}",
        "{a:ident}:{b:text(/.*/)}",
        "{a:uint(0..9)}.{b:ident}",
        "cd {a:machine-path} && {command:shell}",
    ] {
        exec(&["x", good]).expect(good);
    }
}

#[test]
fn the_program_is_literal_or_the_users() {
    for good in [
        "docker",
        "/usr/bin/env",
        "{option(command)}",
        "{engine:option(engine)}",
        "{engine:enum(docker|podman)}",
    ] {
        exec(&[good]).expect(good);
    }
    for bad in [
        "",
        "-x",
        "[{option(a)}]",
        "{a:ident}",
        "{command...}",
        "{a:enum(docker|-x)}",
        "{a:enum(docker|bin/x)}",
        "{a:enum(docker|podman)...}",
        "[{a:enum(docker|podman)}]",
        "/bin/{a:enum(docker|podman)}",
        "/bin/{a:ident}",
        "{option(a)}x",
        "bin/x",
        "./x",
        "d\u{43e}cker",
        "/usr/../x",
        "/a/",
    ] {
        assert!(exec(&[bad]).is_err(), "`{bad}`");
    }
    assert!(Template::parse(&["./test.sh"], Place::Workspace).is_ok());
    assert!(Template::parse(&["../test.sh"], Place::Workspace).is_err());
    for bad in ["{machine}", "{run}", "{d:host-dir}", "{command...}", "{command:shell}"] {
        assert!(Template::parse(&["x", bad], Place::Workspace).is_err(), "`{bad}`");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(argv in proptest::collection::vec("[\\[\\]{}:.()/a-z|=0-9-]{0,24}", 0..4)) {
        if let Ok(template) = Template::parse(&argv, Place::Exec) {
            proptest::prop_assert_eq!(template.argv(), argv);
        }
    }
}
