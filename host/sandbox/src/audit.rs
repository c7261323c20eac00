//! The record of what one instance calls, and where it goes.
//!
//! Calls are kept in memory and handed on when the host's call into the guest ends. One whose effect
//! leaves the host is handed on, and written, before it is done: what can't be recorded is not done. How much one
//! call into a guest can put into the record is bounded, whatever the guest does: beyond the first
//! [`MAX_LINES`] calls of a function they are counted in one line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mst_model::audit::{Asks, AuditCall, Caller, Decision, Phase};

use crate::broker::{Ambient, Denial};
use crate::call::{CantLeave, HostFault};

/// How many calls of one function, in one call into a guest, have a line each.
const MAX_LINES: u32 = 256;

/// How many kinds of calls are told apart in one call into a guest.
const MAX_KINDS: usize = 1000;

/// How many lines are kept in memory.
const MAX_KEPT: usize = 512;

/// The longest argument that is kept, in bytes.
pub(crate) const MAX_ARGS: usize = 1024;

/// How many calls that leave the host one call into a guest may make.
pub const MAX_LEFT: u32 = 10_000;

/// Where the record of a plugin's calls goes.
pub trait AuditSink: Send + Sync {
    /// Takes calls, in the order in which they ended. When this returns they must outlive the
    /// process. It must not block for long: a guest waits for it. An error ends the guest's call.
    fn append(&self, by: &Caller, calls: &[AuditCall]) -> io::Result<()>;

    /// Takes calls that have left nothing outside of the host. They need not outlive the process by
    /// themselves: only where what came of them does, or a call that is appended later.
    fn keep(&self, by: &Arc<Caller>, calls: Vec<AuditCall>) -> io::Result<()> {
        self.append(by, &calls)
    }
}

/// Drops every call: for tests, and for whoever measures.
#[derive(Debug, Clone, Copy)]
pub struct Unrecorded;

impl AuditSink for Unrecorded {
    fn append(&self, _: &Caller, _: &[AuditCall]) -> io::Result<()> {
        Ok(())
    }
}

/// The record of one instance.
pub(crate) struct Record {
    sink: Arc<dyn AuditSink>,
    by: Arc<Caller>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    within: &'static str,
    kept: Vec<AuditCall>,
    /// Whether one of them has left the host, or was denied: that is written at once.
    urgent: bool,
    seen: Vec<Seen>,
    ambient: [u64; Ambient::COUNT],
    /// Why lines were lost; the call into the guest does not succeed then.
    failed: Option<String>,
    denial: Option<Denial>,
    /// How many calls have left the host since the host called the guest.
    left: u32,
    /// Whether that were too many.
    too_often: bool,
}

/// Calls of one function, for one thing, with one decision.
struct Seen {
    call: Cow<'static, str>,
    decision: Decision,
    asks: Option<Asks>,
    count: u32,
    /// Those beyond the first.
    further: Option<AuditCall>,
}

impl Record {
    pub(crate) fn new(sink: Arc<dyn AuditSink>, by: Caller) -> Arc<Record> {
        Arc::new(Record { sink, by: Arc::new(by), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host calls this function of the guest's.
    pub(crate) fn begin_call(&self, within: &'static str) {
        let mut state = self.state();
        state.within = within;
        state.too_often = false;
    }

    pub(crate) fn within(&self) -> &'static str {
        self.state().within
    }

    pub(crate) fn ambient(&self, which: Ambient) {
        self.state().ambient[which as usize] += 1;
    }

    /// Counts a call that is about to leave the host: each has lines of its own.
    fn leave(&self) -> Result<(), CantLeave> {
        let mut state = self.state();
        state.left += 1;
        match state.left {
            0..=MAX_LEFT => Ok(()),
            _ => {
                state.too_often = true;
                Err(CantLeave::TooOften)
            }
        }
    }

    /// Whether the guest did too much outside of the host in the call that has ended.
    pub(crate) fn left_too_often(&self) -> bool {
        self.state().too_often
    }

    /// Remembers the first refusal that ends the guest's call.
    pub(crate) fn refuse(&self, denial: &Denial) {
        self.state().denial.get_or_insert_with(|| denial.clone());
    }

    pub(crate) fn first_denial(&self) -> Option<Denial> {
        self.state().denial.clone()
    }

    /// Keeps a call that ended. One that has left the host is never only counted.
    fn keep(&self, call: AuditCall, left: bool) {
        let mut state = self.state();
        if !left && !state.has_room(&call) {
            return;
        }
        state.urgent |= left || call.decision == Decision::Denied;
        state.kept.push(call);
        if state.kept.len() >= MAX_KEPT {
            state.hand_on(&*self.sink, &self.by);
        }
    }

    /// Hands on all that is kept and `call`, now.
    pub(crate) fn through(&self, call: AuditCall) -> Result<(), HostFault> {
        let mut state = self.state();
        state.urgent = true;
        state.kept.push(call);
        state.hand_on(&*self.sink, &self.by);
        state.fault()
    }

    /// Ends a call into the guest: hands on all that is left.
    pub(crate) fn end_call(&self) -> Result<(), HostFault> {
        let mut state = self.state();
        state.left = 0;
        let further: Vec<AuditCall> = state.seen.drain(..).filter_map(|seen| seen.further).collect();
        state.urgent |= further.iter().any(|call| call.decision == Decision::Denied);
        state.kept.extend(further);
        let counts: BTreeMap<Cow<'static, str>, u64> = Ambient::ALL
            .into_iter()
            .zip(std::mem::take(&mut state.ambient))
            .filter(|(_, count)| *count > 0)
            .map(|(which, count)| (Cow::Borrowed(which.as_str()), count))
            .collect();
        if !counts.is_empty() {
            let mut call = blank(state.within, "ambient".into());
            call.rule = "there is nothing to ask for".into();
            call.result = "ok".into();
            call.count = counts.values().sum();
            call.counts = counts;
            state.kept.push(call);
        }
        if !state.kept.is_empty() {
            state.hand_on(&*self.sink, &self.by);
        }
        state.fault()
    }
}

impl State {
    /// Whether this call has a line of its own; otherwise it is counted.
    fn has_room(&mut self, call: &AuditCall) -> bool {
        let many = self.seen.len() >= MAX_KINDS;
        let same = |seen: &&mut Seen| {
            // What was refused is a guest's own invention, of which there are as many as it likes.
            let alike = many || call.decision == Decision::Denied || seen.asks == call.asks;
            seen.decision == call.decision && seen.call == call.call && alike
        };
        let Some(seen) = self.seen.iter_mut().find(same) else {
            let (name, decision, asks) = (call.call.clone(), call.decision, call.asks.clone());
            self.seen.push(Seen { call: name, decision, asks, count: 1, further: None });
            return true;
        };
        if seen.count < MAX_LINES {
            seen.count += 1;
            return true;
        }
        match &mut seen.further {
            None => seen.further = Some(call.clone()),
            Some(further) => {
                further.count += 1;
                further.bytes_in += call.bytes_in;
                further.bytes_out += call.bytes_out;
                further.duration_ns += call.duration_ns;
                further.args.clear();
                if further.result != call.result {
                    further.result = "various".into();
                }
            }
        }
        false
    }

    fn hand_on(&mut self, sink: &dyn AuditSink, by: &Arc<Caller>) {
        let calls = std::mem::take(&mut self.kept);
        let handed =
            if std::mem::take(&mut self.urgent) { sink.append(by, &calls) } else { sink.keep(by, calls) };
        if let Err(error) = handed {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    fn fault(&self) -> Result<(), HostFault> {
        match &self.failed {
            // A full disk must not keep a machine: what is left behind costs more than a line.
            Some(_) if self.within == "destroy-machine" => Ok(()),
            Some(why) => Err(HostFault(format!("the audit can't be written: {why}"))),
            None => Ok(()),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // An instance that was thrown away without an end: nobody is left to be told of a failure.
        let _ = self.end_call();
    }
}

fn blank(within: &'static str, call: Cow<'static, str>) -> AuditCall {
    AuditCall {
        at: Timestamp::now(),
        within: within.into(),
        call,
        phase: Phase::Ended,
        asks: None,
        decision: Decision::Allowed,
        rule: "".into(),
        grant: None,
        args: String::new(),
        result: "".into(),
        bytes_in: 0,
        bytes_out: 0,
        duration_ns: 0,
        count: 1,
        counts: BTreeMap::new(),
    }
}

/// A call that the broker has decided on. It has its line however it ends: one that is dropped was
/// broken off.
#[must_use]
pub(crate) struct Pass(Option<Box<Open>>);

struct Open {
    record: Arc<Record>,
    call: AuditCall,
    started: Instant,
    left: bool,
}

impl Pass {
    /// Of a call that is only counted.
    pub(crate) fn counted() -> Pass {
        Pass(None)
    }

    pub(crate) fn open(
        record: &Arc<Record>,
        call: impl Into<Cow<'static, str>>,
        asks: Option<Asks>,
        rule: impl Into<Cow<'static, str>>,
    ) -> Pass {
        let call = AuditCall { asks, rule: rule.into(), ..blank(record.within(), call.into()) };
        Pass(Some(Box::new(Open { record: record.clone(), call, started: Instant::now(), left: false })))
    }

    /// Says what the call was given, in words and without secrets.
    pub(crate) fn args(&mut self, args: impl FnOnce() -> String) {
        if let Some(open) = &mut self.0 {
            open.call.args = crate::clean(&args(), MAX_ARGS, false);
        }
    }

    /// The call is about to leave the host: its line is with the system when this returns.
    pub(crate) fn leave(&mut self) -> Result<(), CantLeave> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        open.record.leave()?;
        open.left = true;
        let mut begun = open.call.clone();
        begun.phase = Phase::Begun;
        Ok(open.record.through(begun)?)
    }

    /// The call was refused.
    pub(crate) fn denied(mut self, grant: Option<String>) {
        if let Some(open) = &mut self.0 {
            open.call.decision = Decision::Denied;
            open.call.grant = grant;
        }
        self.end("denied", 0, 0);
    }

    /// The call was refused after all, for what turned out on its way. `call` is what a person is told of it.
    pub(crate) fn refused(mut self, call: String, rule: String) -> Denial {
        if let Some(open) = &mut self.0 {
            open.call.rule = rule.clone().into();
        }
        self.denied(None);
        Denial { call, rule, grant: None }
    }

    /// The call has no line after all.
    pub(crate) fn untold(mut self) {
        self.0 = None;
    }

    /// The call is over.
    pub(crate) fn ok(self) {
        self.end("ok", 0, 0);
    }

    /// The call is over, and so many bytes went to the guest.
    pub(crate) fn gave(self, bytes: usize) {
        self.end("ok", bytes as u64, 0);
    }

    /// The call is over: with this result, bytes that went to the guest and that it gave.
    pub(crate) fn end(mut self, result: impl Into<Cow<'static, str>>, bytes_in: u64, bytes_out: u64) {
        if let Some(mut open) = self.0.take() {
            open.call.result = result.into();
            open.call.bytes_in = bytes_in;
            open.call.bytes_out = bytes_out;
            open.finish();
        }
    }
}

impl Open {
    fn finish(mut self) {
        self.call.duration_ns = nanoseconds(self.started.elapsed());
        self.record.keep(self.call, self.left);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(mut open) = self.0.take() {
            open.call.result = "broken off".into();
            open.finish();
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
