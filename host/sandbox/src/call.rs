//! One call into a guest: its wall time, and what a failure is called.

use std::time::{Duration, Instant};

use mst_model::PluginId;
use wasmtime::{Store, Trap, WasmBacktrace};
use wasmtime_wasi::{I32Exit, ResourceTableError};

use crate::audit::MAX_LEFT;
use crate::bindings::types;
use crate::broker::Denied;
use crate::engine::WASM_STACK_BYTES;
use crate::error::{CallError, GuestError, GuestErrorKind, LimitKind, bytes, seconds};
use crate::guest::Guest;
use crate::limits::Limits;
use crate::text::clean;

/// The longest message of a guest that is kept.
const MAX_MESSAGE: usize = 4096;

/// Marks an error of the host's on its way through a guest.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HostFault(pub(crate) String);

/// Why a call may not leave the host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CantLeave {
    #[error(transparent)]
    Host(#[from] HostFault),
    #[error("it did more than {MAX_LEFT} things outside of mst in one call, its limit")]
    TooOften,
}

/// Marks an error that came while an instance was made.
#[derive(Debug, thiserror::Error)]
#[error("no instance could be made")]
pub(crate) struct Instantiating;

/// Runs `call` on `store` within the time that `limits` admits. After an error the store is not
/// to be used again.
pub(crate) async fn call<T>(
    store: &mut Store<Guest>,
    limits: &Limits,
    function: &'static str,
    call: impl AsyncFnOnce(&mut Store<Guest>) -> wasmtime::Result<Result<T, types::Error>>,
) -> Result<T, CallError> {
    let started = Instant::now();
    store.data().broker.record.begin_call(function);
    // The call gives way at every tick of the epoch thread and at every host call, so this is
    // the bound for both. Dropping the call ends it wherever it is.
    let result = tokio::time::timeout(limits.call_time, call(store)).await;
    let ended = store.data().end_call(limits.log_lines);
    let plugin = || store.data().manifest.id.clone();
    if let (Ok(Ok(_)), Err(HostFault(what))) = (&result, ended) {
        // Whatever it answered, nobody could say later what it had done.
        return Err(CallError::Host { plugin: plugin(), function, what });
    }
    // Whatever a guest made of a refusal: an answer, a trap, or nothing until its time was over.
    if let Some(denial) = store.data().broker.first_denial() {
        return Err(CallError::Denied { plugin: plugin(), denial });
    }
    if store.data().broker.record.left_too_often() {
        return Err(too_often(plugin(), function));
    }
    match result {
        Err(_) => Err(over_time(plugin(), function, limits.call_time, started.elapsed())),
        Ok(Err(error)) => Err(failure(store.data(), limits, function, &error)),
        Ok(Ok(answer)) => {
            answer.map_err(|error| CallError::Guest { plugin: plugin(), error: guest_error(error) })
        }
    }
}

fn too_often(plugin: PluginId, function: &'static str) -> CallError {
    CallError::Limit { plugin, function, limit: LimitKind::CallsOut, what: CantLeave::TooOften.to_string() }
}

fn over_time(plugin: PluginId, function: &'static str, allowed: Duration, used: Duration) -> CallError {
    let what = format!("the call took {}, its limit is {}", seconds(used), seconds(allowed));
    CallError::Limit { plugin, function, limit: LimitKind::Time, what }
}

/// What a call that ended in an error of wasmtime's was.
fn failure(guest: &Guest, limits: &Limits, function: &'static str, error: &wasmtime::Error) -> CallError {
    let plugin = guest.manifest.id.clone();
    if let Some(Denied(denial)) = error.downcast_ref() {
        return CallError::Denied { plugin, denial: denial.clone() };
    }
    let host = |what: &str| {
        let what = clean(what, MAX_MESSAGE, false);
        CallError::Host { plugin: plugin.clone(), function, what }
    };
    match error.downcast_ref() {
        Some(CantLeave::Host(HostFault(what))) => return host(what),
        Some(CantLeave::TooOften) => return too_often(plugin, function),
        None => {}
    }
    if let Some(HostFault(what)) = error.downcast_ref() {
        return host(what);
    }
    if let Some((limit, what)) = limit_met(guest, limits, error) {
        return CallError::Limit { plugin, function, limit, what };
    }
    // Without the backtrace, which is several lines of numbers in a stripped component.
    let cause = error.root_cause().to_string();
    let reason = match (error.downcast_ref::<I32Exit>(), error.downcast_ref::<Trap>()) {
        (Some(I32Exit(code)), _) => format!("it exited with code {code} in place of an answer"),
        (None, Some(trap)) => trap.to_string(),
        (None, None) if error.is::<WasmBacktrace>() => cause,
        // It has run none of the guest's code.
        (None, None) if error.is::<Instantiating>() => return host(&cause),
        (None, None) => {
            let what =
                format!("it breaks the component model's rules: {}", clean(&cause, MAX_MESSAGE, false));
            return CallError::Answer { plugin, function, what };
        }
    };
    let reason = clean(&reason, MAX_MESSAGE, false);
    let reason = match guest.lines.last_words() {
        words if words.is_empty() => reason,
        words => format!("{reason}; its last words: {words}"),
    };
    CallError::Trap { plugin, function, reason }
}

/// The limit that was the cause, and what was used of it.
fn limit_met(guest: &Guest, limits: &Limits, error: &wasmtime::Error) -> Option<(LimitKind, String)> {
    // A guest that was refused memory ends in a trap of its own making; the refusal is the cause.
    if let Some((kind, asked)) = guest.meter.refused() {
        let what = match kind {
            LimitKind::Memory => format!(
                "it asked for {} of memory, its limit is {}",
                bytes(asked),
                bytes(limits.memory_bytes as u64)
            ),
            _ => format!("it asked for a table of {asked} entries, its limit is {}", limits.table_entries),
        };
        return Some((kind, what));
    }
    if error.downcast_ref() == Some(&Trap::StackOverflow) {
        let what = format!("its calls went deeper than the {} KiB stack admits", WASM_STACK_BYTES >> 10);
        return Some((LimitKind::Stack, what));
    }
    // wasmtime has no types for these.
    let cause = error.root_cause().to_string();
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        let what = format!("it held {0} handles of the host's, its limit is {0}", limits.handles);
        return Some((LimitKind::Handles, what));
    }
    if cause.contains("store handle limit exceeded") {
        let what = format!("it held {0} handles, its limit is {0}", limits.handles);
        return Some((LimitKind::Handles, what));
    }
    if cause.contains("fuel allocated for hostcalls has been exhausted") {
        let what =
            format!("one call passed more than {} to the host, its limit", bytes(limits.call_bytes as u64));
        return Some((LimitKind::CallBytes, what));
    }
    if cause.contains("resource limit exceeded: ") {
        let what =
            format!("it has more than {} core instances, memories or tables, its limit", limits.instances);
        return Some((LimitKind::Instances, what));
    }
    None
}

fn guest_error(error: types::Error) -> GuestError {
    let (kind, message) = match error {
        types::Error::Invalid(message) => (GuestErrorKind::Invalid, message),
        types::Error::NotFound(message) => (GuestErrorKind::NotFound, message),
        types::Error::Unavailable(message) => (GuestErrorKind::Unavailable, message),
        types::Error::Denied(message) => (GuestErrorKind::Denied, message),
        types::Error::Failed(message) => (GuestErrorKind::Failed, message),
    };
    // One line: a second would stand at a terminal as if mst had said it.
    GuestError { kind, message: clean(message.trim_end(), MAX_MESSAGE, false) }
}
