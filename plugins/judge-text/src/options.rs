//! What the eval may set; `plugin.toml` says it as a JSON Schema.

use mst_sdk::judge::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The options, with their defaults.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub(crate) mode: Mode,
    /// `Some(Null)` is a literal null, `None` is not given.
    #[serde(default, deserialize_with = "given")]
    pub(crate) value: Option<Value>,
    #[serde(default)]
    pub(crate) expected_pointer: String,
    #[serde(default = "report")]
    pub(crate) against: String,
    #[serde(default = "yes")]
    pub(crate) trim: bool,
    #[serde(default)]
    pub(crate) ignore_case: bool,
    pub(crate) pattern: Option<String>,
    #[serde(default)]
    tolerance: f64,
    #[serde(default)]
    relative_tolerance: f64,
    #[serde(default)]
    pub(crate) extract: Extract,
}

/// How the two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    Exact,
    Contains,
    Regex,
    JsonEqual,
    Number,
}

/// Which number of a text counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Extract {
    #[default]
    Whole,
    Last,
}

/// How far two numbers may lie apart and still be the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    absolute: f64,
    relative: f64,
}

impl Tolerance {
    /// Whether a number is the expected one. Never where either is not finite.
    pub(crate) fn admits(self, found: f64, expected: f64) -> bool {
        let allowed = self.absolute.max(self.relative * expected.abs());
        found.is_finite()
            && expected.is_finite()
            && (found == expected || (found - expected).abs() <= allowed)
    }

    /// Whether nothing but the same number is admitted.
    pub(crate) fn is_zero(self) -> bool {
        self.absolute == 0.0 && self.relative == 0.0
    }
}

impl Options {
    /// Refuses what can't work for any trial.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let number = |name, value: f64| {
            if value.is_finite() && value >= 0.0 {
                Ok(())
            } else {
                Err(Error::invalid(format!("the option `{name}` is {value}, and must be 0 or more")))
            }
        };
        number("tolerance", self.tolerance)?;
        number("relative_tolerance", self.relative_tolerance)?;
        if self.pattern.is_some() && self.mode != Mode::Regex {
            return Err(Error::invalid("the option `pattern` goes with the mode `regex` only"));
        }
        if self.against != "report" && self.against.strip_prefix("files/").is_none_or(str::is_empty) {
            return Err(Error::invalid(format!(
                "the option `against` is `{}`, and must be `report` or `files/PATH`",
                self.against
            )));
        }
        Ok(())
    }

    pub(crate) fn tolerance(&self) -> Tolerance {
        Tolerance { absolute: self.tolerance, relative: self.relative_tolerance }
    }

    /// A text without the blanks at its ends, where the user wants that.
    pub(crate) fn trimmed<'t>(&self, text: &'t str) -> &'t str {
        if self.trim { text.trim() } else { text }
    }
}

fn report() -> String {
    "report".to_owned()
}

fn yes() -> bool {
    true
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
