//! Calling a judge in a `#[test]`, without a host.
//!
//! ```
//! use mst_sdk::judge::testing::Sample;
//! use mst_sdk::judge::{Case, Error, Finding, Judge, Trial, Verdict};
//!
//! struct Exact;
//!
//! impl Judge for Exact {
//!     type Options = serde_json::Value;
//!
//!     fn judge(trial: &Trial, _: serde_json::Value) -> Result<Verdict, Error> {
//!         match trial.report() == trial.case()?.expected.and_then(|it| Some(it.as_str()?.to_owned())) {
//!             true => Ok(Verdict::pass("the same")),
//!             false => Ok(Verdict::fail("another")),
//!         }
//!     }
//! }
//!
//! let sample = Sample::new(Case::new("1", "2 + 2?").with_expected("4")).report("4");
//! let verdict = sample.grade::<Exact>(serde_json::json!({})).expect("grades");
//! assert_eq!(verdict.finding, Finding::Pass);
//! ```
//!
//! `workspace` needs a host: keep what a judge makes of an
//! [`Output`](crate::Output) in a function of its own, and test that.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::judge::{Content, Entry, Judge, Trial, Verdict};
use crate::{Case, Error, options};

/// A trial that a test makes up.
#[derive(Debug, Clone)]
pub struct Sample {
    case: Case,
    variant: String,
    index: u32,
    outcome: Value,
    entries: BTreeMap<String, Vec<u8>>,
}

impl Sample {
    /// A completed first trial of a case, with neither report nor files.
    pub fn new(case: Case) -> Self {
        Self {
            case,
            variant: "default".to_owned(),
            index: 0,
            outcome: json!({"status": "completed", "exit": {"code": 0}}),
            entries: BTreeMap::new(),
        }
    }

    /// Gives it the entry `report`.
    pub fn report(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.entry("report", bytes)
    }

    /// Gives it a file of the workspace: the entry `files/PATH`.
    pub fn file(self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.entry(&format!("files/{path}"), bytes)
    }

    /// Gives it an entry.
    pub fn entry(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.entries.insert(name.to_owned(), bytes.into());
        self
    }

    /// Sets the variant and the index.
    pub fn of(mut self, variant: &str, index: u32) -> Self {
        self.variant = variant.to_owned();
        self.index = index;
        self
    }

    /// Sets the outcome, as `mst.outcome/v1`.
    pub fn ended(mut self, outcome: Value) -> Self {
        self.outcome = outcome;
        self
    }

    /// The verdict that a judge gives on it. Options are read as the host's would be.
    pub fn grade<J: Judge>(&self, options: Value) -> Result<Verdict, Error> {
        J::judge(&Trial::from_sample(self), options::parse_options(&options.to_string())?)
    }

    pub(crate) fn eval_case(&self) -> String {
        serde_json::to_string(&self.case).unwrap_or_default()
    }

    pub(crate) fn variant_id(&self) -> String {
        self.variant.clone()
    }

    pub(crate) fn trial_index(&self) -> u32 {
        self.index
    }

    pub(crate) fn outcome(&self) -> String {
        self.outcome.to_string()
    }

    pub(crate) fn report_entry(&self) -> Option<String> {
        self.entries.get("report").map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries
            .iter()
            .map(|(name, bytes)| Entry { name: name.clone(), size: bytes.len() as u64 })
            .collect()
    }

    pub(crate) fn read(&self, name: &str, offset: u64, limit: u32) -> Result<Content, Error> {
        let bytes =
            self.entries.get(name).ok_or_else(|| Error::not_found(format!("there is no entry `{name}`")))?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(limit as usize).min(bytes.len());
        Ok(Content { bytes: bytes[start..end].to_vec(), rest: (bytes.len() - end) as u64 })
    }
}
