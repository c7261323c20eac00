use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mst_model::Digest;

use super::*;

#[derive(Default)]
struct Kept {
    calls: Mutex<Vec<AuditCall>>,
    /// How many of them need not be written yet.
    later: AtomicUsize,
    full: AtomicBool,
}

impl AuditSink for Kept {
    fn append(&self, _: &Caller, calls: &[AuditCall]) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(io::Error::other("no space left"));
        }
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(calls);
        Ok(())
    }

    fn keep(&self, by: &Arc<Caller>, calls: Vec<AuditCall>) -> io::Result<()> {
        self.later.fetch_add(calls.len(), Ordering::SeqCst);
        self.append(by, &calls)
    }
}

impl Kept {
    fn calls(&self) -> Vec<AuditCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn record() -> (Arc<Record>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let by = Caller { plugin: "a/judge/b".parse().expect("an id"), sha256: Digest::of(b"x"), about: None };
    let record = Record::new(kept.clone(), by);
    record.begin_call("judge");
    (record, kept)
}

fn read(record: &Arc<Record>) -> Pass {
    Pass::open(record, "trial.read", None, "its own")
}

#[test]
fn a_flood_is_counted_and_says_how_much_it_was() {
    let (record, kept) = record();
    for _ in 0..100_000 {
        read(&record).gave(10);
        record.ambient(Ambient::Poll);
    }
    record.end_call().expect("kept");
    let calls = kept.calls();
    assert_eq!(calls.len(), MAX_LINES as usize + 2);
    assert_eq!(calls.iter().map(|call| call.count).sum::<u64>(), 200_000);
    assert_eq!(calls.iter().map(|call| call.bytes_in).sum::<u64>(), 1_000_000);
    assert!(calls.iter().all(|call| call.within == "judge"));
    // The next call begins anew.
    record.begin_call("next");
    read(&record).ok();
    record.end_call().expect("kept");
    assert_eq!(kept.calls().len(), calls.len() + 1);
    assert_eq!(kept.calls().last().map(|call| call.within.clone()), Some("next".into()));
}

#[test]
fn what_leaves_the_host_is_written_before_it_is_done_and_never_folded() {
    let (record, kept) = record();
    for n in 0..300 {
        let asks = Asks { request: format!("exec:t{n}"), access: None };
        let mut pass = Pass::open(&record, "process.run", Some(asks), "a template");
        pass.leave().expect("written");
        let last = kept.calls().last().map(|call| (call.phase, call.result.clone()));
        assert_eq!(last, Some((Phase::Begun, "".into())));
        pass.end("ok", 1, 2);
    }
    record.end_call().expect("kept");
    let calls = kept.calls();
    assert_eq!(calls.iter().filter(|call| call.phase == Phase::Begun).count(), 300);
    let subjects: std::collections::BTreeSet<_> =
        calls.iter().filter(|call| call.phase == Phase::Ended).map(|call| call.asks.clone()).collect();
    assert_eq!(subjects.len(), 300, "what is asked for is in a line of its own");
}

#[test]
fn calls_that_only_read_may_be_written_later() {
    let (record, kept) = record();
    let mut calls = 0;
    for (urgent, act) in [
        (false, &(|| read(&record).ok()) as &dyn Fn()),
        (true, &|| read(&record).denied(None)),
        (false, &|| record.ambient(Ambient::Poll)),
        (true, &|| {
            let mut pass = read(&record);
            pass.leave().expect("written");
            pass.ok();
        }),
        (false, &|| read(&record).ok()),
        // As many as have lines, and one more.
        (true, &|| (0..=MAX_LINES).for_each(|_| read(&record).denied(None))),
    ] {
        let later = kept.later.load(Ordering::SeqCst);
        act();
        record.end_call().expect("kept");
        let (now, is_later) = (kept.calls().len(), kept.later.load(Ordering::SeqCst) > later);
        assert!(now > calls);
        assert_eq!(is_later, !urgent);
        calls = now;
    }
}

#[test]
fn a_call_that_is_dropped_was_broken_off() {
    let (record, kept) = record();
    drop(read(&record));
    drop(record);
    assert_eq!(kept.calls()[0].result, "broken off");
}

#[test]
fn what_cant_be_recorded_is_not_done() {
    let (record, kept) = record();
    kept.full.store(true, Ordering::SeqCst);
    let mut pass = read(&record);
    let error = pass.leave().expect_err("a full disk");
    assert_eq!(error.to_string(), "the audit can't be written: no space left");
    drop(pass);
    // It stays so: lines were lost.
    kept.full.store(false, Ordering::SeqCst);
    record.end_call().expect_err("lines were lost");
}

#[test]
fn one_call_does_not_leave_the_host_without_end() {
    let (record, _) = record();
    let leave = || {
        let mut pass = Pass::open(&record, "process.run", None, "a template");
        let left = pass.leave();
        pass.ok();
        left
    };
    for _ in 0..MAX_LEFT {
        leave().expect("written");
    }
    let error = leave().expect_err("enough").to_string();
    assert_eq!(error, "it did more than 10000 things outside of mst in one call, its limit");
    assert!(record.left_too_often(), "whatever the guest makes of it");
    record.end_call().expect("kept");
    record.begin_call("next");
    assert!(!record.left_too_often());
    leave().expect("another call");
}

/// A disk without room.
struct Full;

impl AuditSink for Full {
    fn append(&self, _: &Caller, _: &[AuditCall]) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

#[test]
fn what_can_not_be_written_is_not_done_but_a_machine_is_removed() {
    let by = Caller { plugin: "a/runner/b".parse().expect("an id"), sha256: Digest::of(b"x"), about: None };
    for (within, done) in [("create-machine", false), ("destroy-machine", true)] {
        let record = Record::new(Arc::new(Full), by.clone());
        record.begin_call(within);
        let mut pass = Pass::open(&record, "process.run", None, "a template");
        assert_eq!(pass.leave().is_ok(), done, "{within}");
        pass.ok();
        assert_eq!(record.end_call().is_ok(), done, "{within}");
    }
}
