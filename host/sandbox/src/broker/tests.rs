use std::io;
use std::sync::{Mutex, PoisonError};

use mst_model::Digest;
use mst_model::audit::{AuditCall, Decision};
use mst_plugin::Manifest;

use super::*;

#[derive(Default)]
struct Kept(Mutex<Vec<AuditCall>>);

impl AuditSink for Kept {
    fn append(&self, _: &Caller, calls: &[AuditCall]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(calls);
        Ok(())
    }
}

impl Kept {
    fn calls(&self) -> Vec<AuditCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn broker(requests: &str, dirs: &[&str]) -> (Broker, Arc<Kept>) {
    broker_of(Granted::all(manifest(requests)), dirs)
}

fn manifest(requests: &str) -> Arc<Manifest> {
    let manifest = Manifest::from_toml(&format!(
        "id='acme/judge/x'\nversion='1.0.0'\nworld='judge'\ndescription='Tests.'\n{requests}"
    ));
    Arc::new(manifest.expect("a manifest"))
}

fn broker_of(granted: Granted, dirs: &[&str]) -> (Broker, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let plugin = granted.manifest().id.clone();
    let by = Caller { plugin, sha256: Digest::of(b"x"), about: None };
    let dirs = dirs.iter().map(|name| (*name).to_owned()).collect();
    (Broker::new(Arc::new(granted), dirs, kept.clone(), by), kept)
}

const TEST: &str = "[[workspace]]\nid='test'\nargv=['true']\ntimeout='1s'\n";

#[test]
fn what_the_manifest_has_passes() {
    let (broker, kept) = broker(TEST, &[]);
    for call in
        [Call::Ambient(Ambient::Log), Call::Evidence("trial.report"), Call::Workspace { template: "test" }]
    {
        broker.pass(call).unwrap_or_else(|denied| panic!("{denied}")).ok();
    }
    assert_eq!(broker.first_denial(), None);
    broker.record.end_call().expect("kept");
    let calls = kept.calls();
    let names: Vec<_> = calls.iter().map(|call| &*call.call).collect();
    assert_eq!(names, ["trial.report", "workspace.run", "ambient"]);
    assert!(calls.iter().all(|call| call.decision == Decision::Allowed && !call.rule.is_empty()));
    assert_eq!(calls[1].asks.as_ref().map(|asks| asks.request.as_str()), Some("workspace:test"));
    assert_eq!(calls[2].counts.get("log"), Some(&1));
}

#[test]
fn what_it_has_not_is_denied_with_the_rule() {
    let call = Call::Workspace { template: "deploy\u{1b}[2J" };
    let denied = refused(&broker("", &[]).0, call);
    said(&denied, "its manifest asks for no `[[workspace]]` template");

    let (broker, kept) = broker(TEST, &[]);
    let denied = refused(&broker, call);
    said(&denied, "its manifest has no `[[workspace]]` template of that id, only `test`");
    // Names are whole names.
    for template in ["", "Test", "test ", "tes", "test\0"] {
        refused(&broker, Call::Workspace { template });
    }
    assert_eq!(broker.first_denial(), Some(denied), "the first is the one that is told");
    broker.record.end_call().expect("kept");
    let calls = kept.calls();
    assert_eq!(calls.len(), 6);
    assert!(calls.iter().all(|call| call.decision == Decision::Denied && call.result == "denied"));
    assert!(!calls[0].args.contains('\u{1b}'));
}

#[test]
fn a_directory_is_read_or_written_as_it_was_given_and_never_left() {
    let dirs = "[[dir]]\nname='data'\naccess='read'\n[[dir]]\nname='out'\naccess='read-write'\n[[dir]]\nname='etc'\naccess='read'\n";
    let (broker, kept) = broker(dirs, &["data", "out"]);
    let call = |dir, leads_out, writes| Call::Dir { function: "open", dir, path: "a", leads_out, writes };
    broker.pass(call("data", false, false)).unwrap_or_else(|denied| panic!("{denied}")).ok();
    broker.pass(call("out", false, true)).unwrap_or_else(|denied| panic!("{denied}")).ok();
    let first = refused(&broker, call("data", false, true));
    assert_eq!(first.rule, "its manifest asks for `dir:data` to read only");
    assert!(refused(&broker, call("out", true, false)).rule.contains("leads out"));
    assert_eq!(refused(&broker, call("etc", false, false)).rule, "it was given no such directory");
    assert_eq!(broker.first_denial(), Some(first), "it ends the guest's call");
    broker.record.end_call().expect("kept");
    let denied = kept.calls().iter().filter(|call| call.decision == Decision::Denied).count();
    assert_eq!(denied, 3);
}

#[test]
fn what_is_not_granted_is_denied_with_the_command_that_would() {
    let (broker, kept) = broker_of(Granted::only(manifest(TEST), []), &[]);
    let denial = refused(&broker, Call::Workspace { template: "test" });
    assert_eq!(
        denial.to_string(),
        "`workspace.run(\"test\")`: its manifest asks for `workspace:test`, which is not granted; \
         `mst plugin grant acme/judge/x workspace:test` would grant it"
    );
    broker.record.end_call().expect("kept");
    assert_eq!(kept.calls()[0].grant, denial.grant);
}

fn refused(broker: &Broker, call: Call<'_>) -> Denial {
    match broker.pass(call) {
        Ok(_) => panic!("{call:?} was admitted"),
        Err(Denied(denial)) => denial,
    }
}

#[track_caller]
fn said(denial: &Denial, rule: &str) {
    assert_eq!(denial.call, "workspace.run(\"deploy\u{fffd}[2J\")");
    assert_eq!(denial.rule, rule);
}
