//! What broke, and what it is called: the guest, its answer, a rule, or the host.

use std::sync::Arc;

use mst_sandbox::{CallError, JudgeError, JudgePlugin, Limits, LoadError, Permit, Sinks};
use serde_json::json;

use crate::wat::{dataset, judge as guest, plugin};
use crate::world::{Endless, LONG, Trial, error_of, judge, load, sandbox};

#[tokio::test]
async fn a_trap_is_a_crash() {
    let error = error_of(Limits::default(), &guest("unreachable", "")).await;
    assert_eq!(
        error.to_string(),
        "`test/judge/wat` crashed in `judge`: wasm trap: wasm `unreachable` instruction executed"
    );
}

#[tokio::test]
async fn an_exit_has_words_of_its_own() {
    for (status, code) in [(0, 0), (1, 1)] {
        let error =
            error_of(Limits::default(), &guest(&format!("(call $exit (i32.const {status}))"), "")).await;
        assert_eq!(
            error.to_string(),
            format!("`test/judge/wat` crashed in `judge`: it exited with code {code} in place of an answer")
        );
    }
}

/// A pointer out of the memory, a text that is no UTF-8, a finding that the contract does not have.
#[tokio::test]
async fn an_answer_that_can_not_be_read() {
    let reason = |at: i32, length: i32| {
        format!(
            "(i32.store (i32.const 1048) (i32.const {at})) (i32.store (i32.const 1052) (i32.const {length}))"
        )
    };
    let no_utf8 = format!("(i32.store (i32.const 5000) (i32.const -1)) {}", reason(5000, 4));
    let finding = "(i32.store8 (i32.const 1032) (i32.const 9))".to_owned();
    for body in [reason(1 << 30, 10), reason(0, -1), no_utf8, finding, "(return (i32.const -8))".to_owned()] {
        let error = error_of(Limits::default(), &guest(&body, "")).await;
        // Some of these wasmtime calls traps; none is the host's fault.
        assert!(matches!(error, CallError::Answer { .. } | CallError::Trap { .. }), "{body}: {error:?}");
        assert!(!error.to_string().contains("backtrace"), "{error}");
    }
}

/// The same, the other way: what the guest hands to a function of the host's.
#[tokio::test]
async fn an_argument_that_can_not_be_read() {
    for body in [
        "(call $log (i32.const 1) (i32.const 1073741824) (i32.const 10))",
        "(call $log (i32.const 77) (i32.const 0) (i32.const 0))",
        "(i32.store (i32.const 5000) (i32.const -1)) (call $log (i32.const 1) (i32.const 5000) (i32.const 4))",
        // A handle that it was never given.
        "(call $block (i32.const 77))",
        "(call $read (i32.const 99) (i32.const 4096) (i32.const 7) (i64.const 0) (i32.const 1) (i32.const 3000))",
    ] {
        let error = error_of(Limits::default(), &guest(body, "")).await;
        assert!(matches!(error, CallError::Trap { .. }), "{body}: {error:?}");
        assert!(!error.to_string().contains("backtrace"), "{error}");
    }
}

#[tokio::test]
async fn evidence_that_the_host_can_not_read_is_the_hosts_fault() {
    let read = "(call $read (local.get $trial) (i32.const 4096) (i32.const 7) (i64.const 0) (i32.const 1) (i32.const 3000))";
    let judge = load(&sandbox(Limits::default()), &guest(read, ""));
    let trial = Trial { broken: true, ..Trial::new("yes") };
    let sinks = Sinks::unrecorded(Arc::new(mst_sandbox::Quiet));
    let result =
        judge.judge(Arc::new(trial), Arc::new(Endless::default()), &json!({}).into(), LONG, &sinks).await;
    let error = result.expect_err("the disk is gone").to_string();
    assert_eq!(
        error,
        "mst failed while `test/judge/wat` ran `judge`: the trial's evidence can't be read: the disk is gone"
    );
}

#[tokio::test]
async fn a_call_that_it_may_not_make_names_the_rule() {
    let run = "(call $run (i32.const 4096) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 3000))";
    let error = error_of(Limits::default(), &guest(run, "")).await;
    assert_eq!(
        error.to_string(),
        "`test/judge/wat` was denied `workspace.run(\"nowhere\")`: its manifest has no `[[workspace]]` template of that id, only `wait`"
    );
}

/// What one call leaves in its memory the next does not find.
#[tokio::test]
async fn each_call_has_an_instance_of_its_own() {
    let counts = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (i32.store (i32.const 4112) (i32.add (i32.load (i32.const 4112)) (i32.const 1)))
        (if (i32.ne (i32.add (global.get $calls) (i32.load (i32.const 4112))) (i32.const 2)) (then unreachable))";
    let plugin = load(&sandbox(Limits::default()), &guest(counts, "(global $calls (mut i32) (i32.const 0))"));
    for _ in 0..3 {
        judge(&plugin, json!({}), LONG, &Arc::default()).await.expect("the first call each time");
    }
}

#[tokio::test]
async fn another_kind_of_plugin_is_refused() {
    let file = dataset("", "");
    match JudgePlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)) {
        Err(error @ LoadError::Kind { .. }) => {
            assert_eq!(error.to_string(), "`test/dataset/wat` is a dataset, not a judge");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("loaded"),
    }
}

#[tokio::test]
async fn a_component_without_the_worlds_export_does_not_fit() {
    let component = |text: &str| plugin(wat::parse_str(text).expect("WAT"), "judge", "");
    let told = |text: &str| {
        let file = component(text);
        match JudgePlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("loaded: {text}"),
        }
    };
    let text = told("(component)");
    assert!(text.starts_with("`test/judge/wat` does not fit this mst: "), "{text}");
    let text = told(r#"(component (import "wasi:sockets/tcp@0.2.6" (instance (export "f" (func)))))"#);
    assert!(text.contains("`wasi:sockets/tcp@0.2.6`"), "{text}");
}

/// A memory that two threads share is not counted by wasmtime's limiter: there is none.
#[tokio::test]
async fn a_shared_memory_is_refused() {
    // Validated by whoever reads the file first; here, by the engine alone.
    let text = "(component (core module (memory 1 100 shared)))";
    let shared = wat::parse_str(text).expect("WAT");
    let file = std::panic::catch_unwind(|| plugin(shared, "judge", ""));
    let Ok(file) = file else { return };
    match JudgePlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)) {
        Err(LoadError::Compile { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("loaded"),
    }
}

#[tokio::test]
async fn the_error_of_a_call_is_no_load_error() {
    let plugin = load(&sandbox(Limits::default()), &guest("unreachable", ""));
    let error = judge(&plugin, json!({}), LONG, &Arc::default()).await.expect_err("a trap");
    assert!(matches!(error, JudgeError::Call(CallError::Trap { .. })), "{error:?}");
}
