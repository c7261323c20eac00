//! What each type of slot admits. Every rule about a plugin's value is here and in `admits`.

use std::fmt;

use super::Template;
use crate::legible::is_deceptive;

/// What a slot admits, and who fills it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotType {
    /// A name: 1 to 128 of ASCII letters, digits, `_`, `.` and `-`, first a letter, digit or `_`.
    Ident,
    /// A whole number in decimal, without sign or leading zeros, both bounds included.
    Uint {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// An amount: digits, at most one decimal point, and a unit of at most three letters.
    Quantity,
    /// One of these words.
    Enum(Vec<String>),
    /// An image reference, as `registry.example:5000/a/b:tag@sha256:…`, or an image's id.
    OciRef,
    /// An absolute path on a machine, without empty, `.` and `..` parts, of ASCII letters, digits
    /// and `_ . - + = , @ %`: nothing that a shell on the way could read as its own, and no `:`,
    /// which divides a machine from a path in many tools.
    MachinePath,
    /// Text that the expression matches as a whole. Never a control character.
    Text(Pattern),
    /// The user's own option.
    Option(String),
    /// The machine's name.
    Machine,
    /// The run's name.
    Run,
    /// A directory of the host's.
    HostDir,
    /// The host's command, as arguments.
    CommandArgs,
    /// The host's command, quoted into one argument for a POSIX shell.
    CommandShell,
}

/// Who says what stands in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filler {
    /// The plugin, within the slot's type.
    Plugin,
    /// The user, through an option.
    User,
    /// The host.
    Host,
}

/// A regular expression that has to match a whole value. Its matching time is linear, and its
/// classes are ASCII, so that `\w` admits no look-alikes.
#[derive(Clone)]
pub struct Pattern {
    source: String,
    regex: regex_lite::Regex,
}

impl Pattern {
    /// Compiles `source`; what is wrong with it otherwise.
    pub(super) fn new(source: &str) -> Result<Pattern, String> {
        let compile = |text: &str| {
            regex_lite::RegexBuilder::new(text)
                .size_limit(256 * 1024)
                .nest_limit(32)
                .build()
                .map_err(|error| error.to_string())
        };
        // By itself first: `a)|(?:b` would step out of the group below.
        compile(source)?;
        let regex = compile(&format!(r"\A(?:{source})\z"))?;
        Ok(Pattern { source: source.to_owned(), regex })
    }

    /// As it stands in the manifest, without the slashes.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    fn matches(&self, text: &str) -> bool {
        self.regex.find(text).is_some_and(|found| found.start() == 0 && found.end() == text.len())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.source)
    }
}

impl SlotType {
    /// Who fills it.
    pub fn filler(&self) -> Filler {
        match self {
            SlotType::Ident
            | SlotType::Uint { .. }
            | SlotType::Quantity
            | SlotType::Enum(_)
            | SlotType::OciRef
            | SlotType::MachinePath
            | SlotType::Text(_) => Filler::Plugin,
            SlotType::Option(_) => Filler::User,
            SlotType::Machine
            | SlotType::Run
            | SlotType::HostDir
            | SlotType::CommandArgs
            | SlotType::CommandShell => Filler::Host,
        }
    }

    /// Whether `value` is one that a plugin may put here. Always false for what others fill.
    pub fn admits(&self, value: &str) -> bool {
        if value.len() > Template::MAX_BYTES || value.chars().any(char::is_control) {
            return false;
        }
        match self {
            SlotType::Ident => {
                value.len() <= 128
                    && value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                    && value.chars().all(|c| self.may_hold(c))
            }
            SlotType::Uint { min, max } => {
                let plain =
                    value.bytes().all(|c| c.is_ascii_digit()) && (value == "0" || !value.starts_with('0'));
                plain && value.parse::<u64>().is_ok_and(|number| (*min..=*max).contains(&number))
            }
            SlotType::Quantity => is_quantity(value),
            SlotType::Enum(words) => words.iter().any(|word| word == value),
            SlotType::OciRef => is_oci_ref(value),
            SlotType::MachinePath => {
                value.chars().all(|c| self.may_hold(c))
                    && value.strip_prefix('/').is_some_and(|rest| {
                        let rest = rest.strip_suffix('/').unwrap_or(rest);
                        value == "/"
                            || rest
                                .split('/')
                                .all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255)
                    })
            }
            SlotType::Text(pattern) => !value.chars().any(is_deceptive) && pattern.matches(value),
            SlotType::Option(_)
            | SlotType::Machine
            | SlotType::Run
            | SlotType::HostDir
            | SlotType::CommandArgs
            | SlotType::CommandShell => false,
        }
    }

    /// Whether an admitted value may hold `c`. Where two slots share an element, what stands
    /// between them must begin with a character that the first can't hold.
    pub(super) fn may_hold(&self, c: char) -> bool {
        match self {
            SlotType::Ident => c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'),
            SlotType::Uint { .. } => c.is_ascii_digit(),
            SlotType::Quantity => c.is_ascii_alphanumeric() || c == '.',
            SlotType::Enum(words) => words.iter().any(|word| word.contains(c)),
            SlotType::OciRef => {
                c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ':' | '@' | '+')
            }
            SlotType::MachinePath => {
                c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.' | '-' | '+' | '=' | ',' | '@' | '%')
            }
            SlotType::Machine | SlotType::Run => c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-',
            SlotType::Text(_)
            | SlotType::Option(_)
            | SlotType::HostDir
            | SlotType::CommandArgs
            | SlotType::CommandShell => true,
        }
    }

    /// The character that every value begins with, where there is one.
    pub(super) fn first(&self) -> Option<char> {
        match self {
            SlotType::MachinePath => Some('/'),
            _ => None,
        }
    }

    /// What it admits, in words, for the one who wrote the plugin.
    pub fn rule(&self) -> String {
        match self {
            SlotType::Ident => {
                "1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`".to_owned()
            }
            SlotType::Uint { min, max } => {
                format!("a whole number from {min} to {max}, in plain decimal digits")
            }
            SlotType::Quantity => {
                "digits, at most one decimal point, and a unit of at most 3 letters, as `512m`".to_owned()
            }
            SlotType::Enum(words) => {
                format!("one of {}", crate::legible::listed(words.iter().map(String::as_str)))
            }
            SlotType::OciRef => "an image reference, as `registry.example/name:tag@sha256:…`".to_owned(),
            SlotType::MachinePath => {
                "an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`"
                    .to_owned()
            }
            SlotType::Text(pattern) => format!(
                "text without control or invisible characters that `{}` matches as a whole",
                crate::legible::shown(pattern.as_str(), 200)
            ),
            SlotType::Option(name) => format!("the user's option `{}`", crate::legible::shown(name, 64)),
            SlotType::Machine => "the machine's name".to_owned(),
            SlotType::Run => "the run's name".to_owned(),
            SlotType::HostDir => "a directory of the host's".to_owned(),
            SlotType::CommandArgs | SlotType::CommandShell => "a command of the host's".to_owned(),
        }
    }
}

impl fmt::Display for SlotType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotType::Ident => f.write_str("ident"),
            SlotType::Uint { min, max } => write!(f, "uint({min}..{max})"),
            SlotType::Quantity => f.write_str("quantity"),
            SlotType::Enum(words) => write!(f, "enum({})", words.join("|")),
            SlotType::OciRef => f.write_str("oci-ref"),
            SlotType::MachinePath => f.write_str("machine-path"),
            SlotType::Text(pattern) => write!(f, "text(/{}/)", pattern.as_str()),
            SlotType::Option(name) => write!(f, "option({name})"),
            SlotType::Machine => f.write_str("machine"),
            SlotType::Run => f.write_str("run"),
            SlotType::HostDir => f.write_str("host-dir"),
            SlotType::CommandArgs => f.write_str("command..."),
            SlotType::CommandShell => f.write_str("command:shell"),
        }
    }
}

fn is_quantity(value: &str) -> bool {
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = value.len() - number.len();
    let (whole, fraction) =
        number.split_once('.').map_or((number, None), |(whole, part)| (whole, Some(part)));
    let digits =
        |text: &str, max: usize| (1..=max).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    unit <= 3 && digits(whole, 15) && fraction.is_none_or(|part| digits(part, 6))
}

/// `[domain[:port]/]path[:tag][@digest]`, after the grammar of distribution/reference.
fn is_oci_ref(value: &str) -> bool {
    if value.len() > 512 {
        return false;
    }
    let (name, digest) = value.split_once('@').map_or((value, None), |(name, digest)| (name, Some(digest)));
    if !digest.is_none_or(is_oci_digest) {
        return false;
    }
    // A colon after the last slash begins a tag; before it, a port.
    let after = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name[after..].find(':') {
        Some(at) => (&name[..after + at], Some(&name[after + at + 1..])),
        None => (name, None),
    };
    let is_tag = |tag: &str| {
        (1..=128).contains(&tag.len())
            && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && tag.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-'))
    };
    if !tag.is_none_or(is_tag) {
        return false;
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.len() > 1 && is_domain(parts[0]) {
        parts.remove(0);
    }
    parts.into_iter().all(is_path_component)
}

fn is_oci_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        algorithm.starts_with(|c: char| c.is_ascii_lowercase())
            && algorithm.bytes().all(|c| {
                c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'+' | b'.' | b'_' | b'-')
            })
            && (32..=128).contains(&hex.len())
            && hex.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
    })
}

fn is_domain(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    host.split('.').all(label)
        && port.is_none_or(|port| (1..=5).contains(&port.len()) && port.bytes().all(|c| c.is_ascii_digit()))
}

/// Runs of lowercase letters and digits, with one `.`, one or two `_`, or any number of `-` between.
fn is_path_component(part: &str) -> bool {
    let alnum = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(alnum)
        && part.ends_with(alnum)
        && part
            .split(alnum)
            .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|c| c == b'-'))
}

#[cfg(test)]
mod tests {
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
                "", "a", "./a", "/a/../b", "/..", "/a//b", "/.", "/a/./b", "/a b", "/a;b", "/$(x)", "/a:b",
                "/~", "/a\\b", "/a'b", "/é", "//", "-/a", "/a\n",
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
}
