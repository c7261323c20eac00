//! How long each part of a run's work may take.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Span, schema};

/// How long each part of a trial may take. All of it is part of the run's identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Deadlines {
    /// Making a shard's machine and starting its worker there.
    pub machine: Span,
    /// Making a trial's workspace.
    pub provision: Span,
    /// The client. At its deadline it is killed and graded on what it left.
    pub client: Span,
    /// One judge on one trial. At its deadline that is an instrument's error.
    pub scoring: Span,
    /// Keeping what the client left.
    pub export: Span,
    /// Ending processes and removing the workspace.
    pub cleanup: Span,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines {
            machine: Span::secs(600),
            provision: Span::secs(120),
            client: Span::secs(600),
            scoring: Span::secs(180),
            export: Span::secs(60),
            cleanup: Span::secs(30),
        }
    }
}

impl Deadlines {
    /// The deadline of one part.
    pub fn of(&self, part: Part) -> Span {
        match part {
            Part::Machine => self.machine,
            Part::Provision => self.provision,
            Part::Client => self.client,
            Part::Scoring => self.scoring,
            Part::Export => self.export,
            Part::Cleanup => self.cleanup,
        }
    }

    /// Puts another in its place.
    pub fn set(&mut self, part: Part, span: Span) {
        let place = match part {
            Part::Machine => &mut self.machine,
            Part::Provision => &mut self.provision,
            Part::Client => &mut self.client,
            Part::Scoring => &mut self.scoring,
            Part::Export => &mut self.export,
            Part::Cleanup => &mut self.cleanup,
        };
        *place = span;
    }
}

/// A part that has a deadline, called as in [`Deadlines`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A shard's machine.
    Machine,
    /// A trial's workspace.
    Provision,
    /// The client.
    Client,
    /// A judge.
    Scoring,
    /// Keeping what the client left.
    Export,
    /// Cleaning up.
    Cleanup,
}

impl Part {
    /// All of them, in the order in which a run comes to them.
    pub const ALL: [Part; 6] =
        [Part::Machine, Part::Provision, Part::Client, Part::Scoring, Part::Export, Part::Cleanup];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Machine => "machine",
            Part::Provision => "provision",
            Part::Client => "client",
            Part::Scoring => "scoring",
            Part::Export => "export",
            Part::Cleanup => "cleanup",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word for no part that has a deadline. The message names those that there are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` has no deadline; what has one: {}{}", listed(), .near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct PartError {
    word: String,
    near: Option<&'static str>,
}

fn listed() -> String {
    Part::ALL.map(|part| format!("`{part}`")).join(", ")
}

impl FromStr for Part {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Part, PartError> {
        Part::ALL.into_iter().find(|part| part.as_str() == text).ok_or_else(|| PartError {
            word: text.chars().take(64).collect(),
            near: schema::near(text, Part::ALL.into_iter().map(Part::as_str)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn parts_are_called_as_the_eval_calls_them() {
        let defaults = serde_json::to_value(Deadlines::default()).expect("writes");
        assert_eq!(
            defaults,
            json!({"machine": "10m", "provision": "2m", "client": "10m", "scoring": "3m", "export": "1m", "cleanup": "30s"})
        );
        assert_eq!(defaults.as_object().expect("an object").len(), Part::ALL.len());
        for part in Part::ALL {
            assert_eq!(part.as_str().parse(), Ok(part));
            assert_eq!(serde_json::to_value(part).expect("writes"), Value::from(part.as_str()));
            let mut changed = Deadlines::default();
            changed.set(part, Span::secs(7));
            let written = serde_json::to_value(&changed).expect("writes");
            let differ =
                Part::ALL.into_iter().filter(|part| written[part.as_str()] != defaults[part.as_str()]);
            assert_eq!(differ.collect::<Vec<_>>(), [part]);
            assert_eq!(changed.of(part), Span::secs(7));
        }
        assert_eq!(
            "clent".parse::<Part>().expect_err("none").to_string(),
            "`clent` has no deadline; what has one: `machine`, `provision`, `client`, `scoring`, `export`, \
             `cleanup`; did you mean `client`?"
        );
    }
}
