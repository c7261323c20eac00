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
    /// Its core instances, its memories and its tables: of each at most so many.
    pub instances: usize,
    /// Things of the host's that it holds at once: files, streams, trials. As many handles of its
    /// own may be live, since each takes room in a table of the host's.
    pub handles: usize,
    /// Bytes that it may pass to the host at once: in one call of a host's function, or as the
    /// answer to one of the host's calls.
    pub call_bytes: usize,
    /// Bytes of the body of one request that it sends, and of the answer's.
    pub http_bytes: u64,
    /// How long the lookup of a name, a connection and TLS may take, each.
    pub http_connect_time: Duration,
    /// How long the first byte of an answer may take. The call has a bound of its own.
    pub http_answer_time: Duration,
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
            http_bytes: 64 << 20,
            http_connect_time: Duration::from_secs(30),
            http_answer_time: Duration::from_secs(600),
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
    refused: Option<(LimitKind, u64)>,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Meter {
        Meter {
            memory_bytes: limits.memory_bytes,
            table_entries: limits.table_entries,
            instances: limits.instances,
            used_memory_bytes: 0,
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
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Beyond what the memory itself declares there is no growth, whatever is said here: the
        // guest asked for what it had ruled out, and no bound of ours was met.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let wanted = self.used_memory_bytes.saturating_add(desired.saturating_sub(current));
        if wanted > self.memory_bytes {
            self.refused.get_or_insert((LimitKind::Memory, wanted as u64));
            return Ok(false);
        }
        // Counted for good. `memory_grow_failed` does not say which growth failed, and comes
        // without a growth before it too; to take anything off there would let a guest count
        // itself down. What is left to fail is the system's own lack of memory.
        self.used_memory_bytes = wanted;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
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

#[cfg(test)]
mod tests;
