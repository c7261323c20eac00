//! A stage's deadline, for work that blocks.

use std::time::{Duration, Instant};

/// What is said when a stage's time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not done after {0:?}")]
pub(crate) struct Late(pub(crate) Duration);

/// The end of a stage. Work on a thread can't be ended from outside, so it has to ask.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    end: Instant,
    limit: Duration,
}

impl Until {
    pub(crate) fn after(limit: Duration) -> Until {
        Until { end: Instant::now() + limit, limit }
    }

    pub(crate) fn check(&self) -> Result<(), Late> {
        if Instant::now() < self.end { Ok(()) } else { Err(Late(self.limit)) }
    }
}
