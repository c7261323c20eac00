//! Why a text is no manifest, and what to do about it.

use crate::legible::listed;
use crate::template::TemplateError;

use super::{MAX_BYTES, SCHEMA};

/// Why a text is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Too much of it.
    #[error("the manifest has {size_bytes} bytes; at most {MAX_BYTES} are admitted")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
    },
    /// No TOML. The source says line and column.
    #[error("the manifest is no TOML")]
    Toml(#[source] Box<toml::de::Error>),
    /// No JSON. The source says line and column.
    #[error("the manifest is no JSON")]
    Json(#[source] serde_json::Error),
    /// A TOML value that JSON does not have.
    #[error("`{at}`: {found} has no place in a manifest")]
    NoJson {
        /// Where.
        at: String,
        /// What it is.
        found: &'static str,
    },
    /// Another format than this version of mst reads.
    #[error("the manifest's format is `{found}`, and this mst reads `{SCHEMA}`")]
    Format {
        /// What it says.
        found: String,
        /// Whether it is a later version of ours.
        newer: bool,
    },
    /// A key that must be there.
    #[error("`{at}` is missing")]
    Missing {
        /// Which.
        at: String,
    },
    /// A value of another type.
    #[error("`{at}` must be {wanted}, and is {found}")]
    Type {
        /// Which.
        at: String,
        /// What is wanted.
        wanted: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A value that its type does not admit.
    #[error("`{at}` can't be `{value}`")]
    Value {
        /// Which.
        at: String,
        /// What is there, bounded.
        value: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A key that nobody knows.
    #[error("unknown key `{key}`{}", if at.is_empty() { String::new() } else { format!(" in `{at}`") })]
    Unknown {
        /// The table; empty for the manifest itself.
        at: String,
        /// The key, bounded.
        key: String,
        /// What was probably meant.
        near: Option<String>,
        /// What is known there.
        known: Vec<&'static str>,
    },
    /// A value that breaks a rule.
    #[error("`{at}`: {why}")]
    Rule {
        /// Which.
        at: String,
        /// The rule, with the alternatives.
        why: String,
    },
    /// A command template that is none.
    #[error("`{at}` is no command template")]
    Template {
        /// Which.
        at: String,
        /// What is wrong.
        #[source]
        source: TemplateError,
    },
    /// Options that are no JSON Schema.
    #[error("`options` is {0}")]
    Options(mst_model::schema::SchemaError),
}

impl ManifestError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ManifestError::Unknown { near: Some(near), .. } => Some(format!("did you mean `{near}`?")),
            ManifestError::Unknown { known, at, .. } => {
                let newer = if at.is_empty() { "; a newer mst may know more" } else { "" };
                Some(format!("known keys: {}{newer}", listed(known.iter().copied())))
            }
            ManifestError::Format { newer: true, .. } => Some("upgrade mst".to_owned()),
            ManifestError::Format { newer: false, .. } => {
                Some("build the plugin with `mst plugin build`".to_owned())
            }
            ManifestError::Template { source, .. } => source.hint(),
            _ => None,
        }
    }
}
