//! The `evidence` interface: one finished trial, read by a judge.

use std::io;
use std::sync::Arc;

use wasmtime::component::Resource;

use crate::audit::Pass;
use crate::bindings::{evidence, types};
use crate::broker::{Ambient, Call};
use crate::call::HostFault;
use crate::guest::Guest;
use crate::text::clean;

/// The most that one `read` gives.
const MAX_READ: u32 = 4 << 20;

/// Something that a judge can read and cite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `report`, `stderr`, or `files/` and a path.
    pub name: String,
    /// Bytes that can be read.
    pub size_bytes: u64,
}

/// A part of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The bytes from the offset that was asked for.
    pub bytes: Vec<u8>,
    /// Bytes of the entry that come after these.
    pub rest: u64,
}

/// One finished trial. Reads are local and short, and block.
pub trait Evidence: Send + Sync {
    /// Which trial it is, for the audit.
    fn trial(&self) -> String;
    /// The case, as `mst.case/v1`.
    fn case_json(&self) -> String;
    /// The variant's name.
    fn variant(&self) -> String;
    /// The trial's index.
    fn index(&self) -> u32;
    /// The outcome, as `mst.outcome/v1`.
    fn outcome_json(&self) -> String;
    /// All entries, in the order of their names.
    fn entries(&self) -> Vec<Entry>;
    /// At most `limit` bytes from `offset`; none where there is no such entry.
    fn read(&self, name: &str, offset: u64, limit: u32) -> io::Result<Option<Part>>;
}

/// What a guest holds as `trial`.
#[expect(unreachable_pub, reason = "the bindings name it in a public place")]
pub struct TrialHandle;

impl Guest {
    fn evidence(&mut self, function: &'static str) -> wasmtime::Result<(Pass, Arc<dyn Evidence>)> {
        let pass = self.broker.pass(Call::Evidence(function))?;
        match &self.judging {
            Some(judging) => Ok((pass, judging.evidence.clone())),
            None => Err(HostFault("evidence outside of a judge's call".to_owned()).into()),
        }
    }
}

/// What the host stored and can't read back is no fault of the judge's.
fn unreadable(error: io::Error) -> HostFault {
    HostFault(format!("the trial's evidence can't be read: {error}"))
}

impl types::Host for Guest {}

impl evidence::Host for Guest {}

impl evidence::HostTrial for Guest {
    async fn eval_case(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<String> {
        let (pass, evidence) = self.evidence("trial.eval-case")?;
        let case = evidence.case_json();
        pass.gave(case.len());
        Ok(case)
    }

    async fn variant_id(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<String> {
        let (pass, evidence) = self.evidence("trial.variant-id")?;
        pass.ok();
        Ok(evidence.variant())
    }

    async fn trial_index(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<u32> {
        let (pass, evidence) = self.evidence("trial.trial-index")?;
        pass.ok();
        Ok(evidence.index())
    }

    async fn outcome(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<String> {
        let (pass, evidence) = self.evidence("trial.outcome")?;
        let outcome = evidence.outcome_json();
        pass.gave(outcome.len());
        Ok(outcome)
    }

    async fn report(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<Option<String>> {
        let (pass, evidence) = self.evidence("trial.report")?;
        let mut report = Vec::new();
        loop {
            match evidence.read("report", report.len() as u64, MAX_READ).map_err(unreadable)? {
                None => {
                    pass.end("none", 0, 0);
                    return Ok(None);
                }
                Some(part) => {
                    report.extend(&part.bytes);
                    if part.rest == 0 || part.bytes.is_empty() {
                        break;
                    }
                }
            }
        }
        pass.gave(report.len());
        Ok(Some(
            String::from_utf8(report)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        ))
    }

    async fn entries(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<Vec<evidence::Entry>> {
        let (pass, evidence) = self.evidence("trial.entries")?;
        let entries = evidence.entries().into_iter();
        let entries: Vec<_> =
            entries.map(|entry| evidence::Entry { name: entry.name, size: entry.size_bytes }).collect();
        pass.gave(entries.iter().map(|entry| entry.name.len()).sum());
        Ok(entries)
    }

    async fn read(
        &mut self,
        _: Resource<TrialHandle>,
        name: String,
        offset: u64,
        limit: u32,
    ) -> wasmtime::Result<Result<evidence::Content, types::Error>> {
        let (mut pass, evidence) = self.evidence("trial.read")?;
        pass.args(|| format!("`{}` from {offset}, {limit} bytes", clean(&name, 256, false)));
        let part = evidence.read(&name, offset, limit.min(MAX_READ)).map_err(unreadable)?;
        Ok(match part {
            Some(part) => {
                pass.gave(part.bytes.len());
                Ok(evidence::Content { bytes: part.bytes, rest: part.rest })
            }
            None => {
                pass.end("not-found", 0, 0);
                Err(types::Error::NotFound(format!("the trial has no entry `{}`", clean(&name, 256, false))))
            }
        })
    }

    async fn drop(&mut self, trial: Resource<TrialHandle>) -> wasmtime::Result<()> {
        self.counted(Ambient::Drop).table.delete(trial)?;
        Ok(())
    }
}
