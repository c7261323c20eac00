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
mod tests;
