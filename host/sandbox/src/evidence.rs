//! The `evidence` interface: one finished trial, read by a judge.

use std::io;
use std::sync::Arc;

use wasmtime::component::Resource;

use crate::bindings::{evidence, types};
use crate::broker::Call;
use crate::call::HostFault;
use crate::guest::Guest;

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
    fn evidence(&mut self) -> wasmtime::Result<Arc<dyn Evidence>> {
        self.broker.pass(Call::Evidence)?;
        match &self.judging {
            Some(judging) => Ok(judging.evidence.clone()),
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
        Ok(self.evidence()?.case_json())
    }

    async fn variant_id(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<String> {
        Ok(self.evidence()?.variant())
    }

    async fn trial_index(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<u32> {
        Ok(self.evidence()?.index())
    }

    async fn outcome(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<String> {
        Ok(self.evidence()?.outcome_json())
    }

    async fn report(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<Option<String>> {
        let evidence = self.evidence()?;
        let mut report = Vec::new();
        loop {
            match evidence.read("report", report.len() as u64, MAX_READ).map_err(unreadable)? {
                None => return Ok(None),
                Some(part) => {
                    report.extend(&part.bytes);
                    if part.rest == 0 || part.bytes.is_empty() {
                        break;
                    }
                }
            }
        }
        Ok(Some(
            String::from_utf8(report)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        ))
    }

    async fn entries(&mut self, _: Resource<TrialHandle>) -> wasmtime::Result<Vec<evidence::Entry>> {
        let entries = self.evidence()?.entries().into_iter();
        Ok(entries.map(|entry| evidence::Entry { name: entry.name, size: entry.size_bytes }).collect())
    }

    async fn read(
        &mut self,
        _: Resource<TrialHandle>,
        name: String,
        offset: u64,
        limit: u32,
    ) -> wasmtime::Result<Result<evidence::Content, types::Error>> {
        let part = self.evidence()?.read(&name, offset, limit.min(MAX_READ)).map_err(unreadable)?;
        Ok(match part {
            Some(part) => Ok(evidence::Content { bytes: part.bytes, rest: part.rest }),
            None => Err(types::Error::NotFound(format!(
                "the trial has no entry `{}`",
                crate::clean(&name, 256, false)
            ))),
        })
    }

    async fn drop(&mut self, trial: Resource<TrialHandle>) -> wasmtime::Result<()> {
        self.table.delete(trial)?;
        Ok(())
    }
}
