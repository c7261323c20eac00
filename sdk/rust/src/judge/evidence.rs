//! What a judge may look at.

use crate::judge::{Outcome, bindings::mst::plugin::evidence};
use crate::{Case, Error};

/// Bytes that one `read` asks for: the contract's most.
const PIECE: u32 = 4 << 20;

/// Something that can be read and cited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name that a citation uses: `report`, `stderr`, or `files/` and a path in the
    /// workspace as the client left it, as in `files/src/main.rs`.
    pub name: String,
    /// Bytes that can be read. What the capture's bound cut off is not counted.
    pub size: u64,
}

/// A part of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The bytes from the offset that was asked for.
    pub bytes: Vec<u8>,
    /// Bytes of the entry that come after these.
    pub rest: u64,
}

/// One finished trial. Everything in it was written by the client under evaluation, and is
/// bounded and redacted by the host.
pub struct Trial<'a> {
    source: Source<'a>,
}

enum Source<'a> {
    Host(&'a evidence::Trial),
    #[cfg(feature = "testing")]
    Sample(&'a super::testing::Sample),
}

/// The same question to whichever source the trial has: both answer to the same names.
macro_rules! ask {
    ($trial:expr, $source:ident => $question:expr) => {
        match &$trial.source {
            Source::Host($source) => $question,
            #[cfg(feature = "testing")]
            Source::Sample($source) => $question,
        }
    };
}

impl<'a> Trial<'a> {
    pub(crate) fn from_host(trial: &'a evidence::Trial) -> Self {
        Self { source: Source::Host(trial) }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn from_sample(sample: &'a super::testing::Sample) -> Self {
        Self { source: Source::Sample(sample) }
    }

    /// The case, with `expected` and `metadata`. Fails where the host's JSON is not
    /// `mst.case/v1`, which is a fault of the host.
    pub fn case(&self) -> Result<Case, Error> {
        let json = ask!(self, source => source.eval_case());
        serde_json::from_str(&json)
            .map_err(|error| Error::failed(format!("the host gave no mst.case/v1: {error}")))
    }

    /// Which arm of the eval this is.
    pub fn variant(&self) -> String {
        ask!(self, source => source.variant_id())
    }

    /// Which of the variant's trials of this case, from 0.
    pub fn index(&self) -> u32 {
        ask!(self, source => source.trial_index())
    }

    /// How the client ended. Fails where the host's JSON is not `mst.outcome/v1`, which is a
    /// fault of the host.
    pub fn outcome(&self) -> Result<Outcome, Error> {
        let json = ask!(self, source => source.outcome());
        serde_json::from_str(&json)
            .map_err(|error| Error::failed(format!("the host gave no mst.outcome/v1: {error}")))
    }

    /// The client's last answer as text; bytes that are no UTF-8 are replaced. `None` where
    /// the client gave none.
    pub fn report(&self) -> Option<String> {
        match &self.source {
            Source::Host(trial) => trial.report(),
            #[cfg(feature = "testing")]
            Source::Sample(sample) => sample.report_entry(),
        }
    }

    /// All that can be read, in the order of their names.
    pub fn entries(&self) -> Vec<Entry> {
        ask!(self, source => source.entries())
    }

    /// The entry of this name, where there is one.
    pub fn entry(&self, name: &str) -> Option<Entry> {
        self.entries().into_iter().find(|entry| entry.name == name)
    }

    /// At most `limit` bytes (and at most 4 MiB) of an entry from `offset`.
    pub fn read(&self, name: &str, offset: u64, limit: u32) -> Result<Content, Error> {
        ask!(self, source => source.read(name, offset, limit))
    }

    /// All bytes of an entry. The sandbox's memory bounds what can be held: ask
    /// [`Trial::entry`] for the size where it may be large.
    pub fn read_all(&self, name: &str) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        loop {
            let part = self.read(name, all.len() as u64, PIECE)?;
            if part.rest > 0 && part.bytes.is_empty() {
                return Err(Error::failed(format!(
                    "the host gave nothing of `{name}` where {} bytes are left",
                    part.rest
                )));
            }
            all.extend_from_slice(&part.bytes);
            if part.rest == 0 {
                return Ok(all);
            }
        }
    }
}
