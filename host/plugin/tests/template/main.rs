//! Command templates against whatever a plugin may fill in.

mod any_fill;

use proptest::prelude::*;

/// Elements that a manifest might have, of every type of slot, alone and with text around.
const ELEMENTS: [&str; 26] = [
    "run",
    "--init",
    "--name={machine}",
    "{a:ident}",
    "--label={a:ident}",
    "{b:uint(1..65535)}",
    "[--cpus={c:quantity}]",
    "{d:enum(-x|on|off)}",
    "{e:oci-ref}",
    "{f:machine-path}",
    "{f:machine-path...}",
    "{machine}:{f:machine-path}",
    "{g:text(/.*/)}",
    "--text={g:text(/.*/)}",
    "{h:text(/[a-z ]+/)}",
    "{h:text(/(?s)[^q]*/)}",
    "{i:ident...}",
    "[{i:ident...}]",
    "{option(word)}",
    "{option(list)}",
    "{option(none)}",
    "{dir:host-dir}",
    "{dir:host-dir}/.",
    "{command...}",
    "{command:shell}",
    "{a:ident}:{b:uint(1..65535)}",
];

/// What somebody tries who wants more than the template says.
const WICKED: [&str; 40] = [
    "",
    " ",
    "-",
    "--",
    "-x",
    "--privileged",
    "--volume=/:/host",
    "a",
    "0",
    "1",
    "65535",
    "65536",
    "00",
    "+1",
    "-1",
    "1.5g",
    "1e9",
    "..",
    "/",
    "/..",
    "/a/../b",
    "/a/b",
    "//",
    "/a\n",
    "a\nb",
    "a\0b",
    "a\tb",
    "a b",
    "a;b",
    "$(id)",
    "`id`",
    "a'b",
    "a:b",
    "a=b",
    "\u{430}dmin",
    "a\u{202e}b",
    "a\u{200b}",
    "\u{ff0d}x",
    "busybox:latest",
    "on",
];

fn value() -> impl Strategy<Value = String> {
    let whole = prop::sample::select(WICKED.to_vec()).prop_map(str::to_owned);
    let joined = (prop::sample::select(WICKED.to_vec()), prop::sample::select(WICKED.to_vec()))
        .prop_map(|(one, other)| format!("{one}{other}"));
    prop_oneof![4 => whole, 2 => joined, 1 => any::<String>(), 1 => Just("a".repeat(4097))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_comes_out_that_the_template_does_not_admit(
        program in prop::sample::select(vec!["docker", "{engine:enum(docker|podman)}", "{option(word)}", "{option(none)}"]),
        elements in prop::collection::vec(prop::sample::select(ELEMENTS.to_vec()), 0..5),
        slots in prop::collection::vec(
            (prop::sample::select(vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "engine", "machine", "command", "word", "x"]),
             prop::collection::vec(value(), 0..3)),
            0..5,
        ),
    ) {
        let mut text = [&[program], elements.as_slice()].concat().join("\u{1f}");
        for (name, values) in slots {
            text += &format!("\u{1e}{name}");
            values.iter().for_each(|value| text += &format!("\u{1f}{value}"));
        }
        any_fill::hold(text.as_bytes());
    }

    #[test]
    fn any_bytes_hold(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        any_fill::hold(&bytes);
    }
}

/// One value for one slot, each against each: those that go through are few, and known.
#[test]
fn of_each_type_only_what_it_is_goes_through() {
    let through = |element: &str, name: &str| -> Vec<&str> {
        let fill = |value: &&str| {
            any_fill::hold(format!("docker\u{1f}{element}\u{1e}{name}\u{1f}{value}").as_bytes())
        };
        WICKED.into_iter().filter(fill).collect()
    };
    assert_eq!(through("{a:ident}", "a"), ["a", "0", "1", "65535", "65536", "00", "1.5g", "1e9", "on"]);
    assert_eq!(through("{b:uint(1..65535)}", "b"), ["1", "65535"]);
    assert_eq!(through("{c:quantity}", "c"), ["0", "1", "65535", "65536", "00", "1.5g"]);
    assert_eq!(through("{d:enum(-x|on|off)}", "d"), ["-x", "on"]);
    assert_eq!(through("{f:machine-path}", "f"), ["/", "/a/b"]);
    assert_eq!(
        through("{e:oci-ref}", "e"),
        ["a", "0", "1", "65535", "65536", "00", "1.5g", "1e9", "a:b", "busybox:latest", "on"]
    );
    // Whatever an expression says: nothing that begins an option, breaks a line or hides.
    let text = through("{g:text(/(?s).*/)}", "g");
    assert!(text.contains(&"$(id)") && text.contains(&"\u{430}dmin"));
    for never in ["-", "--privileged", "a\nb", "a\0b", "a\tb", "a\u{202e}b", "a\u{200b}"] {
        assert!(!text.contains(&never), "{never:?}");
    }
    // Behind text of the manifest's own a `-` begins nothing.
    assert!(through("--text={g:text(/.*/)}", "g").contains(&"--privileged"));
    assert_eq!(through("{machine}", "machine"), [""; 0], "the host's own is not the plugin's to fill");
    assert_eq!(through("{option(word)}", "word"), [""; 0], "nor the user's");
}

/// What a fuzzer starts from, and what one found.
#[test]
fn the_seeds_hold() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/seeds/template");
    let mut filled = 0;
    for seed in std::fs::read_dir(seeds).expect("lists") {
        let bytes = std::fs::read(seed.expect("an entry").path()).expect("reads");
        filled += usize::from(any_fill::hold(&bytes));
    }
    assert_eq!(filled, 2, "of the seeds that are there, those that a template admits");
}
