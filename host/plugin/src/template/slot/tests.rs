use proptest::prelude::*;

use super::*;

fn text(pattern: &str) -> SlotType {
    SlotType::Text(Pattern::new(pattern).expect(pattern))
}

#[track_caller]
fn holds(kind: &SlotType, good: &[&str], bad: &[&str]) {
    for value in good {
        assert!(kind.admits(value), "{kind} should admit {value:?}");
    }
    for value in bad {
        assert!(!kind.admits(value), "{kind} should refuse {value:?}");
    }
}

#[test]
fn idents() {
    // The last ones: a Cyrillic а, a fullwidth A, a dotless i, a zero-width joiner.
    holds(
        &SlotType::Ident,
        &["a", "a.b-c_d", "_x", "0", "europe-west1-b", "a..b"],
        &[
            "",
            "-a",
            ".a",
            "..",
            "a/b",
            "a b",
            "a:b",
            "a\n",
            "a\0",
            "\u{430}",
            "\u{ff21}",
            "\u{131}d",
            "a\u{200d}b",
            &"x".repeat(129),
        ],
    );
}

#[test]
fn numbers() {
    let kind = SlotType::Uint { min: 1, max: 65535 };
    holds(
        &kind,
        &["1", "80", "65535"],
        &[
            "",
            "0",
            "65536",
            "-1",
            "+1",
            "01",
            "1 ",
            "1.0",
            "0x1",
            "1e3",
            "\u{661}",
            "99999999999999999999999",
        ],
    );
    holds(
        &SlotType::Uint { min: 0, max: u64::MAX },
        &["0", "18446744073709551615"],
        &["00", "18446744073709551616"],
    );
}

#[test]
fn quantities() {
    holds(
        &SlotType::Quantity,
        &["512m", "2g", "4Gi", "1.5", "0.25", "1024", "1.5GiB"],
        &["", "g", "-1g", "1..5", "1.", ".5", "1 g", "1GiBs", "1,5", "1g1", "1\u{217f}"],
    );
}

#[test]
fn image_references() {
    let digest = format!("debian@sha256:{}", "a".repeat(64));
    let id = format!("sha256:{}", "a".repeat(64));
    holds(
        &SlotType::OciRef,
        &[
            "debian",
            "debian:12",
            "a/b/c:1.0_x-y",
            "localhost:5000/a",
            "Registry.example:443/a__b/c--d",
            &digest,
            &id,
            "127.0.0.1:5000/x",
        ],
        &[
            "",
            "-v",
            "--privileged",
            "Debian",
            "a//b",
            "/a",
            "a/",
            "a:",
            "a:-x",
            "a@",
            "a@sha256:zz",
            "a b",
            "a\n",
            "a/../b",
            "a/.",
            "a;b",
            "a___b",
            "a..b",
            "a-/b",
            "-a/b",
            "x:99999999/a",
            "a@sha256:abc",
            "a:b:c",
            "d\u{435}bian",
            "http://x/y",
        ],
    );
}

#[test]
fn machine_paths() {
    holds(
        &SlotType::MachinePath,
        &["/", "/a", "/run/mst/bundle/", "/a.b/..c", "/a@b+c=d,e%f"],
        &[
            "", "a", "./a", "/a/../b", "/..", "/a//b", "/.", "/a/./b", "/a b", "/a;b", "/$(x)", "/a:b", "/~",
            "/a\\b", "/a'b", "/é", "//", "-/a", "/a\n",
        ],
    );
}

#[test]
fn enums_and_texts() {
    holds(
        &SlotType::Enum(vec!["on".into(), "off".into()]),
        &["on", "off"],
        &["", "On", "on ", "on|off", "o"],
    );
    holds(&text("[a-z]+=.*"), &["a=", "a=b c"], &["a", "=b", "A=b", "a=b\nc", "a=\u{202e}x", "x a=b"]);
    // An alternation must not escape the anchors, nor a flag switch them off.
    holds(&text("a|b"), &["a", "b"], &["ax", "xb", ""]);
    holds(&text("(?m)^a$"), &["a"], &["a\nb", "b\na"]);
    holds(&text("(?s).*"), &["", "x"], &["a\nb", "a\0b"]);
    for broken in ["a)|(?:b", "(", "(?x) a #", "a{99999}", "[z-a]"] {
        assert!(Pattern::new(broken).is_err(), "{broken}");
    }
    let evil = text("(a|a)*b");
    assert!(!evil.admits(&"a".repeat(4000)), "linear in the value's length");
}

#[test]
fn a_plugin_fills_no_slot_of_the_hosts_or_the_users() {
    for kind in [
        SlotType::Option("x".into()),
        SlotType::Machine,
        SlotType::Run,
        SlotType::HostDir,
        SlotType::CommandArgs,
        SlotType::CommandShell,
    ] {
        assert!(!kind.admits("x") && !kind.admits("/x"), "{kind}");
    }
}

proptest! {
    #[test]
    fn closed_types_admit_only_their_alphabet_and_never_a_leading_dash(value in any::<String>()) {
        for kind in [SlotType::Ident, SlotType::Uint { min: 0, max: 99 }, SlotType::Quantity, SlotType::OciRef, SlotType::MachinePath] {
            if kind.admits(&value) {
                prop_assert!(!value.starts_with('-') && !value.is_empty() && value.is_ascii());
                prop_assert!(value.chars().all(|c| kind.may_hold(c)), "{} {:?}", kind, value);
            }
        }
    }

    #[test]
    fn what_nearly_is_an_image_reference_holds_no_separator(value in "[a-z0-9A-Z./:@_ -]{0,24}") {
        if SlotType::OciRef.admits(&value) {
            prop_assert!(!value.starts_with('-') && !value.contains(' ') && !value.contains("..") && !value.contains("//"));
        }
    }
}
