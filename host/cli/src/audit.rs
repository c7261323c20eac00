//! Where a run's plugins are heard and recorded: their lines go to whoever shows the run, their calls
//! into the run's audit.

use std::io;
use std::sync::{Arc, OnceLock};

use mst_model::audit::{AuditCall, Caller};
use mst_sandbox::{AuditSink, LogSink, Sinks};
use mst_store::{AuditLog, RunWriter, StoreError};

use crate::error::Failure;

/// The audit of a run. Plugins are loaded before their run is made, and called after.
#[derive(Default)]
struct Audit(OnceLock<AuditLog>);

impl Audit {
    fn log(&self) -> io::Result<&AuditLog> {
        self.0.get().ok_or_else(|| io::Error::other("there is no run yet"))
    }
}

impl AuditSink for Audit {
    fn append(&self, by: &Caller, calls: &[AuditCall]) -> io::Result<()> {
        self.log()?.append(by, calls).map_err(with_cause)
    }

    fn keep(&self, by: &Arc<Caller>, calls: Vec<AuditCall>) -> io::Result<()> {
        self.log()?.keep(by, calls).map_err(with_cause)
    }
}

/// What the person is to read of it stands in one text.
fn with_cause(error: StoreError) -> io::Error {
    io::Error::other(Failure::from_error(&error).one_line())
}

/// Where the plugins of one run are heard and recorded.
#[derive(Clone)]
pub(crate) struct Told {
    audit: Arc<Audit>,
    pub(crate) sinks: Sinks,
}

impl Told {
    /// Lines go to `log`; calls nowhere, and so there are none, until there is a run.
    pub(crate) fn new(log: Arc<dyn LogSink>) -> Told {
        let audit = Arc::new(Audit::default());
        Told { sinks: Sinks { log, audit: audit.clone() }, audit }
    }

    /// From now on calls are recorded in this run.
    pub(crate) fn record_in(&self, run: &RunWriter) -> Result<(), Failure> {
        let log = run.audit_log().map_err(|error| Failure::from_error(&error))?;
        // A process has one run.
        let _ = self.audit.0.set(log);
        Ok(())
    }
}
