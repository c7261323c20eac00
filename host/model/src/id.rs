//! Names: of plugins, cases, variants, judges, runs and trials.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A plugin id that is not `org/kind/name`.
    #[error("`{0}` is no plugin id: it must be `org/kind/name`, as `mst/judge/text`")]
    PluginShape(String),
    /// The middle of a plugin id is no kind.
    #[error("`{kind}` in `{id}` is no kind of plugin: it must be `runner`, `dataset` or `judge`")]
    PluginKind {
        /// The whole id.
        id: String,
        /// Its middle part.
        kind: String,
    },
    /// A name with a character outside its alphabet, or empty, or too long.
    #[error(
        "`{text}` is no {what} name: it must be 1 to 64 of `a-z`, `0-9` and `-`, and start with a letter or digit"
    )]
    Name {
        /// What was to be named.
        what: &'static str,
        /// What was given.
        text: String,
    },
    /// A case id that is empty, too long, or holds a control character.
    #[error("{0:?} is no case id: it must be 1 to {max} bytes without control characters", max = CaseId::MAX_BYTES)]
    Case(String),
}

fn is_name(text: &str) -> bool {
    let mut chars = text.bytes();
    text.len() <= 64
        && chars.next().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}

/// What a plugin is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Makes machines.
    Runner,
    /// A source of cases.
    Dataset,
    /// Grades trials.
    Judge,
}

impl Kind {
    /// The word that stands in a plugin id.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Runner => "runner",
            Kind::Dataset => "dataset",
            Kind::Judge => "judge",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! written_as_text {
    ($type:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

written_as_text!(PluginId);

/// `org/kind/name`, as `mst/judge/text`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct PluginId {
    /// Shared: every call of a plugin's bears it.
    text: Arc<str>,
    kind: Kind,
}

impl PluginId {
    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its middle part.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its last part.
    pub fn name(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or_default()
    }
}

impl FromStr for PluginId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [org, kind, name] = parts[..] else {
            return Err(IdError::PluginShape(text.to_owned()));
        };
        let kind = match kind {
            "runner" => Kind::Runner,
            "dataset" => Kind::Dataset,
            "judge" => Kind::Judge,
            _ => return Err(IdError::PluginKind { id: text.to_owned(), kind: kind.to_owned() }),
        };
        for (what, part) in [("organisation", org), ("plugin", name)] {
            if !is_name(part) {
                return Err(IdError::Name { what, text: part.to_owned() });
            }
        }
        Ok(PluginId { text: text.into(), kind })
    }
}

impl TryFrom<String> for PluginId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<PluginId> for String {
    fn from(id: PluginId) -> String {
        id.text.as_ref().to_owned()
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl schemars::JsonSchema for PluginId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PluginId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[a-z0-9][a-z0-9-]*/(runner|dataset|judge)/[a-z0-9][a-z0-9-]*$",
            "description": "A plugin's id: org/kind/name.",
        })
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $type(String);

        written_as_text!($type);

        impl $type {
            /// The name itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                if is_name(text) {
                    Ok($type(text.to_owned()))
                } else {
                    Err(IdError::Name { what: $what, text: text.to_owned() })
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "pattern": "^[a-z0-9][a-z0-9-]{0,63}$",
                })
            }
        }
    };
}

name!(
    /// One arm of an eval. It stands in paths, tables and environments, hence the alphabet.
    VariantId,
    "variant"
);
name!(
    /// A judge in an eval: the same plugin may stand there twice under two names.
    JudgeId,
    "judge"
);
name!(
    /// What a client needs to be let in somewhere, as `gateway`.
    TokenId,
    "token"
);
name!(
    /// What trials talk to and must not overrun: a provider of models, or a server.
    ServiceId,
    "service"
);
name!(
    /// One execution of an eval; also the run directory's name, and a DNS label.
    RunId,
    "run"
);

/// One question's name: the dataset's own words, so anything but control characters.
/// Where it becomes a path, `mst-store` escapes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct CaseId(String);

written_as_text!(CaseId);

impl CaseId {
    /// The longest id, in bytes.
    pub const MAX_BYTES: usize = 256;

    /// The id itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CaseId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.is_empty() || text.len() > Self::MAX_BYTES || text.chars().any(char::is_control) {
            return Err(IdError::Case(text.chars().take(64).collect()));
        }
        Ok(CaseId(text.to_owned()))
    }
}

impl TryFrom<String> for CaseId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<CaseId> for String {
    fn from(id: CaseId) -> String {
        id.0
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which trial: case × variant × index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialKey {
    /// The question.
    pub case: CaseId,
    /// The arm.
    pub variant: VariantId,
    /// Which of the arm's trials of this case, from 0.
    pub index: u32,
}

impl fmt::Display for TrialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} #{}", self.case, self.variant, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_ids() {
        let id: PluginId = "acme/runner/cloud-vm".parse().expect("valid");
        assert_eq!((id.kind(), id.name()), (Kind::Runner, "cloud-vm"));
        for bad in [
            "",
            "mst",
            "mst/judge",
            "mst/judge/text/x",
            "Mst/judge/text",
            "mst/grader/text",
            "mst/judge/",
            "/judge/x",
            "mst/judge/a_b",
            "-a/judge/x",
        ] {
            assert!(bad.parse::<PluginId>().is_err(), "`{bad}`");
        }
    }

    #[test]
    fn case_ids_admit_what_datasets_write_and_no_control_characters() {
        for good in ["HumanEval/0", "../../x", "CON", "é ü", "a b"] {
            assert!(good.parse::<CaseId>().is_ok(), "`{good}`");
        }
        for bad in ["", "a\nb", "a\0b", "\u{1b}[31m", &"x".repeat(257)] {
            assert!(bad.parse::<CaseId>().is_err(), "{bad:?}");
        }
    }
}
