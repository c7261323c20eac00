//! What a guest may use, and the meter that holds it there.

use std::time::Duration;

use wasmtime::ResourceLimiter;

use crate::error::LimitKind;

/// What one instance of a plugin may use. Each bound is a number a person can be told.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Linear memory of all its memories together, in bytes.
    pub memory_bytes: usize,
    /// Entries of each of its tables.
    pub table_entries: usize,
    /// Core instances, memories and tables in the component.
    pub instances: usize,
    /// Things of the host's that it holds at once: files, streams, trials.
    pub handles: usize,
    /// Bytes that one call may pass to the host.
    pub call_bytes: usize,
    /// Lines that it may log in one call.
    pub log_lines: u32,
    /// Wall time of one call, its host calls included.
    pub call_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory_bytes: 256 << 20,
            table_entries: 100_000,
            instances: 32,
            handles: 1024,
            call_bytes: 64 << 20,
            log_lines: 1000,
            call_time: Duration::from_secs(30),
        }
    }
}

/// Counts what an instance uses, and remembers the first thing that it was refused: a guest that
/// gets no memory traps a moment later with a reason of its own, and the person at the terminal
/// needs this one.
pub(crate) struct Meter {
    memory_bytes: usize,
    table_entries: usize,
    instances: usize,
    used_memory_bytes: usize,
    last_growth_bytes: usize,
    refused: Option<(LimitKind, u64)>,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Meter {
        Meter {
            memory_bytes: limits.memory_bytes,
            table_entries: limits.table_entries,
            instances: limits.instances,
            used_memory_bytes: 0,
            last_growth_bytes: 0,
            refused: None,
        }
    }

    /// The first bound that was met, and what was asked for beyond it.
    pub(crate) fn refused(&self) -> Option<(LimitKind, u64)> {
        self.refused
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let wanted = self.used_memory_bytes.saturating_add(desired.saturating_sub(current));
        if wanted > self.memory_bytes {
            self.refused.get_or_insert((LimitKind::Memory, wanted as u64));
            return Ok(false);
        }
        self.last_growth_bytes = wanted - self.used_memory_bytes;
        self.used_memory_bytes = wanted;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        // Called for growths that were admitted and failed, and for those refused above.
        if self.refused.is_none() {
            self.used_memory_bytes -= self.last_growth_bytes;
        }
        let _ = error;
        self.last_growth_bytes = 0;
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.table_entries {
            self.refused.get_or_insert((LimitKind::Table, desired as u64));
            return Ok(false);
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances
    }
}
