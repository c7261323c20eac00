//! The guests of `tests/guests`, built here: what Rust's standard library does when it is told to
//! misbehave. They need a toolchain for `wasm32-wasip2`; where there is none this says so and
//! passes, unless `MST_REQUIRE_GUESTS=1`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mst_plugin::PluginFile;
use mst_plugin::build::{BuildError, Environment, build};
use mst_sandbox::{CallError, JudgeError, JudgePlugin, Level, LimitKind, Limits, LoadError, Permit};
use serde_json::json;

use crate::world::{Heard, LONG, judge, load, sandbox};

pub(crate) fn built(name: &str) -> Option<PluginFile> {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests").join(name);
    match build(&dir, &Environment::new(std::env::vars_os()), &mut |_| {}) {
        Ok(built) => Some(built.file),
        Err(error @ BuildError::NoToolchain { .. }) => {
            assert_ne!(std::env::var("MST_REQUIRE_GUESTS").as_deref(), Ok("1"), "{error}");
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn hostile() -> Option<&'static PluginFile> {
    static FILE: OnceLock<Option<PluginFile>> = OnceLock::new();
    FILE.get_or_init(|| built("judge")).as_ref()
}

async fn does(behaviour: &str, time: Duration, heard: &Arc<Heard>) -> Option<CallError> {
    let plugin = load(&sandbox(Limits::default()), hostile()?);
    match judge(&plugin, json!({"behaviour": behaviour}), time, heard).await {
        Ok(verdict) => panic!("{behaviour}: {verdict:?}"),
        Err(JudgeError::Call(error)) => Some(error),
        Err(JudgeError::Load(error)) => panic!("{behaviour}: {error}"),
    }
}

#[tokio::test]
async fn each_way_to_break_has_its_own_name() {
    for (behaviour, kind) in [
        ("deep-recursion-plain", LimitKind::Stack),
        ("handles", LimitKind::Handles),
        ("handles-streams", LimitKind::Handles),
    ] {
        let Some(error) = does(behaviour, LONG, &Arc::default()).await else { return };
        match &error {
            CallError::Limit { limit, .. } => assert_eq!(*limit, kind, "{behaviour}: {error}"),
            other => panic!("{behaviour}: {other:?}"),
        }
    }
    for (behaviour, words) in [
        ("exit", "it exited with code 0 in place of an answer"),
        ("trap", "unreachable"),
        ("panic", "told to panic"),
    ] {
        match does(behaviour, LONG, &Arc::default()).await {
            Some(CallError::Trap { reason, .. }) => {
                assert!(reason.contains(words), "{behaviour}: {reason}");
                assert!(!reason.contains("backtrace:"), "{behaviour}: {reason}");
            }
            other => panic!("{behaviour}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_loop_a_sleep_and_a_command_end_at_the_limit() {
    for behaviour in ["loop", "sleep-in-guest", "sleep-in-host-call"] {
        match does(behaviour, Duration::from_millis(300), &Arc::default()).await {
            None => return,
            Some(CallError::Limit { limit: LimitKind::Time, .. }) => {}
            Some(other) => panic!("{behaviour}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn output_without_a_newline_is_heard_too() {
    let Some(file) = hostile() else { return };
    let heard = Arc::new(Heard::default());
    let plugin = load(&sandbox(Limits { log_lines: 5000, ..Limits::default() }), file);
    judge(&plugin, json!({"behaviour": "stdout"}), LONG, &heard).await.expect("a verdict");
    let said = |level: Level, text: &str| {
        heard.lines().iter().any(|line| line.level == level && line.message == text)
    };
    assert!(said(Level::Info, "out 999") && said(Level::Warn, "err 999"));
    assert!(said(Level::Warn, "no newline on stderr"), "{:?}", heard.lines().last());
    assert!(said(Level::Info, "no newline on stdout\u{fffd}\u{fffd} no UTF-8"), "{:?}", heard.lines().last());
}

#[tokio::test]
async fn progress_counts_as_lines() {
    let Some(file) = hostile() else { return };
    let heard = Arc::new(Heard::default());
    let plugin = load(&sandbox(Limits { log_lines: 7, ..Limits::default() }), file);
    judge(&plugin, json!({"behaviour": "progress-flood"}), LONG, &heard).await.expect("a verdict");
    assert_eq!(heard.steps.load(std::sync::atomic::Ordering::SeqCst), 7);
}

#[tokio::test]
async fn sockets_fail_at_load() {
    // Not by way of `mst_plugin::open`, which refuses it too.
    match built_anyway() {
        None => {}
        Some(file) => match JudgePlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)) {
            Err(LoadError::Link { what, .. }) => assert!(what.contains("wasi:sockets/"), "{what}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was linked"),
        },
    }
}

/// The guest that imports sockets, if whoever checks components let it through.
fn built_anyway() -> Option<PluginFile> {
    let dir: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/sockets");
    match build(&dir, &Environment::new(std::env::vars_os()), &mut |_| {}) {
        Ok(built) => Some(built.file),
        Err(BuildError::Open(error)) => {
            assert!(error.to_string().contains("sockets"), "{error}");
            None
        }
        Err(error @ BuildError::NoToolchain { .. }) => {
            assert_ne!(std::env::var("MST_REQUIRE_GUESTS").as_deref(), Ok("1"), "{error}");
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
