//! One call into a guest: its wall time, and what a failure is called.

use std::time::{Duration, Instant};

use mst_model::PluginId;
use wasmtime::{Store, Trap};
use wasmtime_wasi::ResourceTableError;

use crate::bindings::types;
use crate::broker::Denied;
use crate::error::{CallError, GuestError, GuestErrorKind, LimitKind, bytes, seconds};
use crate::guest::Guest;
use crate::limits::Limits;
use crate::text::clean;

/// The longest message of a guest that is kept.
const MAX_MESSAGE: usize = 4096;

/// Runs `call` on `store` within the time that `limits` admits. After an error the store is not
/// to be used again.
pub(crate) async fn call<T>(
    store: &mut Store<Guest>,
    limits: &Limits,
    function: &'static str,
    call: impl AsyncFnOnce(&mut Store<Guest>) -> wasmtime::Result<Result<T, types::Error>>,
) -> Result<T, CallError> {
    let started = Instant::now();
    // The call gives way at every tick of the epoch thread and at every host call, so this is
    // the bound for both. Dropping the call ends it wherever it is.
    let result = tokio::time::timeout(limits.call_time, call(store)).await;
    store.data().lines.end_call(limits.log_lines);
    let plugin = store.data().manifest.id.clone();
    match result {
        Err(_) => Err(over_time(plugin, function, limits.call_time, started.elapsed())),
        Ok(Err(error)) => Err(failure(store.data(), limits, function, &error)),
        Ok(Ok(answer)) => {
            if let Some(denial) = store.data().broker.first_denial() {
                return Err(CallError::Denied { plugin, denial: denial.clone() });
            }
            answer.map_err(|error| CallError::Guest { plugin, error: guest_error(error) })
        }
    }
}

fn over_time(plugin: PluginId, function: &'static str, allowed: Duration, used: Duration) -> CallError {
    let what = format!("the call took {}, its limit is {}", seconds(used), seconds(allowed));
    CallError::Limit { plugin, function, limit: LimitKind::Time, what }
}

fn failure(guest: &Guest, limits: &Limits, function: &'static str, error: &wasmtime::Error) -> CallError {
    let plugin = guest.manifest.id.clone();
    let limit = |limit, what| CallError::Limit { plugin: plugin.clone(), function, limit, what };
    if let Some(Denied(denial)) = error.downcast_ref() {
        return CallError::Denied { plugin, denial: denial.clone() };
    }
    // A guest that was refused memory ends in a trap of its own making; the refusal is the cause.
    match guest.meter.refused() {
        Some((LimitKind::Memory, asked)) => {
            let what = format!(
                "it asked for {} of memory, its limit is {}",
                bytes(asked),
                bytes(limits.memory_bytes as u64)
            );
            return limit(LimitKind::Memory, what);
        }
        Some((kind, asked)) => {
            return limit(
                kind,
                format!("it asked for a table of {asked} entries, its limit is {}", limits.table_entries),
            );
        }
        None => {}
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return limit(
            LimitKind::Handles,
            format!("it held {} handles of the host's, its limit is {}", limits.handles, limits.handles),
        );
    }
    if error.downcast_ref() == Some(&Trap::StackOverflow) {
        return limit(LimitKind::Stack, "its calls went deeper than the 512 KiB stack admits".to_owned());
    }
    let text = format!("{error:#}");
    if text.contains("fuel allocated for hostcalls has been exhausted") {
        let what =
            format!("one call passed more than {} to the host, its limit", bytes(limits.call_bytes as u64));
        return limit(LimitKind::CallBytes, what);
    }
    let trapped =
        error.downcast_ref::<Trap>().is_some() || error.downcast_ref::<wasmtime_wasi::I32Exit>().is_some();
    if !trapped && error.downcast_ref::<wasmtime::WasmBacktrace>().is_none() {
        return CallError::Host { plugin, function, what: clean(&text, MAX_MESSAGE, false) };
    }
    let reason = match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string(),
        None => clean(&text, MAX_MESSAGE, false),
    };
    let reason = match guest.lines.last_words() {
        words if words.is_empty() => reason,
        words => format!("{reason}; its last words: {words}"),
    };
    CallError::Trap { plugin, function, reason }
}

fn guest_error(error: types::Error) -> GuestError {
    let (kind, message) = match error {
        types::Error::Invalid(message) => (GuestErrorKind::Invalid, message),
        types::Error::NotFound(message) => (GuestErrorKind::NotFound, message),
        types::Error::Unavailable(message) => (GuestErrorKind::Unavailable, message),
        types::Error::Denied(message) => (GuestErrorKind::Denied, message),
        types::Error::Failed(message) => (GuestErrorKind::Failed, message),
    };
    GuestError { kind, message: clean(&message, MAX_MESSAGE, true) }
}
