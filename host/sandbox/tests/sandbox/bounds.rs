//! Every bound, met by a guest that goes for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mst_model::grade::Finding;
use mst_sandbox::{CallError, DatasetPlugin, LimitKind, Limits, OpenError, Permit, Sinks};
use serde_json::json;

use crate::wat::{dataset, judge as guest};
use crate::world::{Heard, LONG, error_of, judge, load, sandbox};

#[track_caller]
fn met(error: &CallError, kind: LimitKind, text: &str) {
    match error {
        CallError::Limit { limit, what, plugin, function } => {
            assert_eq!((*limit, &what[..]), (kind, text));
            assert_eq!((plugin.as_str(), *function), ("test/judge/wat", "judge"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn memory() {
    // All that can be had a page at a time, then a trap.
    let hungry =
        guest("(loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable", "");
    let limits = Limits { memory_bytes: 8 << 20, ..Limits::default() };
    met(
        &error_of(limits, &hungry).await,
        LimitKind::Memory,
        "it asked for 8.1 MiB of memory, its limit is 8.0 MiB",
    );
    let error = error_of(Limits::default(), &hungry).await;
    met(&error, LimitKind::Memory, "it asked for 256.1 MiB of memory, its limit is 256.0 MiB");
    assert_eq!(
        error.to_string(),
        "`test/judge/wat` met a limit in `judge`: it asked for 256.1 MiB of memory, its limit is 256.0 MiB"
    );
}

#[tokio::test]
async fn memory_over_several_memories() {
    // 4 pages are the first memory; each of the two others may have any number by its type.
    let grow = "(drop (memory.grow $a (i32.const 60))) (drop (memory.grow $b (i32.const 60)))
        (if (i32.eq (memory.grow $a (i32.const 8)) (i32.const -1)) (then unreachable))";
    let several = guest(grow, "(memory $a 0) (memory $b 0)");
    let limits = |pages: usize| Limits { memory_bytes: pages << 16, ..Limits::default() };
    met(
        &error_of(limits(128), &several).await,
        LimitKind::Memory,
        "it asked for 8.2 MiB of memory, its limit is 8.0 MiB",
    );
    let plugin = load(&sandbox(limits(132)), &several);
    judge(&plugin, json!({}), LONG, &Arc::default()).await.expect("132 pages are enough");
}

/// What a guest starts with is held too, before any of its code runs.
#[tokio::test]
async fn memory_from_the_start() {
    let limits = Limits { memory_bytes: 8 << 20, ..Limits::default() };
    let error = error_of(limits, &guest("", "(memory $large 200)")).await;
    met(&error, LimitKind::Memory, "it asked for 12.8 MiB of memory, its limit is 8.0 MiB");
}

/// Asking for more than its own memory's type admits is the guest's affair and no limit's.
#[tokio::test]
async fn a_memorys_own_maximum_is_not_told_as_the_limit() {
    let own = "(if (i32.ne (memory.grow $a (i32.const 5)) (i32.const -1)) (then unreachable))";
    let error = error_of(Limits::default(), &guest(&format!("{own} unreachable"), "(memory $a 1 2)")).await;
    assert!(matches!(error, CallError::Trap { .. }), "{error:?}");
    // And can be asked for any number of times without its being counted.
    let often = format!(
        "(local $n i32) (loop {own} (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 10000)))) (if (i32.eq (memory.grow (i32.const 1000)) (i32.const -1)) (then unreachable))"
    );
    let plugin = load(&sandbox(Limits::default()), &guest(&often, "(memory $a 1 2)"));
    judge(&plugin, json!({}), LONG, &Arc::default()).await.expect("there is room");
}

/// A guest that was refused and went on is not told anything.
#[tokio::test]
async fn a_refusal_that_the_guest_could_bear_is_no_error() {
    let plugin = load(&sandbox(Limits::default()), &guest("(drop (memory.grow (i32.const 60000)))", ""));
    let verdict = judge(&plugin, json!({}), LONG, &Arc::default()).await.expect("a verdict");
    assert_eq!(verdict.finding, Finding::Pass);
}

#[tokio::test]
async fn tables() {
    let grow =
        "(if (i32.eq (table.grow $t (ref.null func) (i32.const 5000)) (i32.const -1)) (then unreachable))";
    let limits = || Limits { table_entries: 1000, ..Limits::default() };
    let error = error_of(limits(), &guest(grow, "(table $t 10 funcref)")).await;
    met(&error, LimitKind::Table, "it asked for a table of 5010 entries, its limit is 1000");
    let error = error_of(limits(), &guest("", "(table $t 2000 funcref)")).await;
    met(&error, LimitKind::Table, "it asked for a table of 2000 entries, its limit is 1000");
}

#[tokio::test]
async fn memories_tables_and_instances_by_number() {
    let memories: String = (0..40).map(|n| format!("(memory $m{n} 0) ")).collect();
    let tables: String = (0..40).map(|n| format!("(table $t{n} 0 funcref) ")).collect();
    for more in [memories, tables] {
        let error = error_of(Limits::default(), &guest("", &more)).await;
        met(
            &error,
            LimitKind::Instances,
            "it has more than 32 core instances, memories or tables, its limit",
        );
    }
    let error = error_of(Limits { instances: 1, ..Limits::default() }, &guest("", "")).await;
    met(&error, LimitKind::Instances, "it has more than 1 core instances, memories or tables, its limit");
}

#[tokio::test]
async fn handles_of_the_hosts() {
    let hoard = "(loop (drop (call $subscribe (i64.const 1000000000000))) (br 0))";
    let error = error_of(Limits { handles: 100, ..Limits::default() }, &guest(hoard, "")).await;
    met(&error, LimitKind::Handles, "it held 100 handles of the host's, its limit is 100");
    met(
        &error_of(Limits::default(), &guest(hoard, "")).await,
        LimitKind::Handles,
        "it held 1024 handles of the host's, its limit is 1024",
    );
}

/// Handles to what is the guest's own lie in tables of the host's.
#[tokio::test]
async fn handles_of_its_own() {
    let file = dataset("(loop (drop (call $new (i32.const 1))) (br 0))", "");
    let (plugin, _) =
        DatasetPlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)).expect("loaded");
    let mut cursor =
        plugin.open(&json!({}), &[], &Sinks::unrecorded(Arc::new(Heard::default()))).await.expect("opened");
    match cursor.next(10).await {
        Err(CallError::Limit { limit: LimitKind::Handles, what, function: "next", .. }) => {
            assert_eq!(what, "it held 1024 handles, its limit is 1024");
        }
        other => panic!("{other:?}"),
    }
    match cursor.next(10).await {
        Err(CallError::Host { what, .. }) => assert!(what.contains("after a call that failed"), "{what}"),
        other => panic!("a cursor whose instance trapped was used again: {other:?}"),
    }
}

#[tokio::test]
async fn bytes_of_a_call() {
    // One message of 1 MiB, then one byte more.
    let say = |bytes: u32| {
        format!(
            "(drop (memory.grow (i32.const 32))) (call $log (i32.const 1) (i32.const 8192) (i32.const {bytes}))"
        )
    };
    let limits = || Limits { call_bytes: 1 << 20, ..Limits::default() };
    let plugin = load(&sandbox(limits()), &guest(&format!("{0} {0} {0}", say(1 << 20)), ""));
    judge(&plugin, json!({}), LONG, &Arc::default()).await.expect("each call has its own");
    let error = error_of(limits(), &guest(&say((1 << 20) + 1), "")).await;
    met(&error, LimitKind::CallBytes, "one call passed more than 1.0 MiB to the host, its limit");
}

#[tokio::test]
async fn bytes_of_an_answer() {
    // A reason of 2 MiB.
    let answer = "(drop (memory.grow (i32.const 64)))
        (i32.store (i32.const 1048) (i32.const 8192)) (i32.store (i32.const 1052) (i32.const 2097152))";
    let error = error_of(Limits { call_bytes: 1 << 20, ..Limits::default() }, &guest(answer, "")).await;
    met(&error, LimitKind::CallBytes, "one call passed more than 1.0 MiB to the host, its limit");
    let plugin = load(&sandbox(Limits::default()), &guest(answer, ""));
    let verdict = judge(&plugin, json!({}), LONG, &Arc::default()).await.expect("a verdict");
    assert!(verdict.reason.len() <= 4096 + '…'.len_utf8(), "{}", verdict.reason.len());
}

#[tokio::test]
async fn depth() {
    let down = "(func $down (param i32) (result i32) (i32.add (call $down (i32.add (local.get 0) (i32.const 1))) (local.get 0)))";
    let error = error_of(Limits::default(), &guest("(drop (call $down (i32.const 0)))", down)).await;
    met(&error, LimitKind::Stack, "its calls went deeper than the 512 KiB stack admits");
}

async fn within_its_time(body: &str) {
    let plugin = load(&sandbox(Limits::default()), &guest(body, ""));
    let started = Instant::now();
    let error = judge(&plugin, json!({}), Duration::from_millis(200), &Arc::default()).await;
    let error = error.expect_err("there is no end to it");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let text = error.to_string();
    let (before, limit) = text.rsplit_once(", its limit is ").expect("asked and limit");
    assert!(before.starts_with("`test/judge/wat` met a limit in `judge`: the call took "), "{text}");
    assert_eq!(limit, "0.2 s");
}

#[tokio::test]
async fn time_in_a_loop() {
    within_its_time("(loop (br 0))").await;
}

#[tokio::test]
async fn time_in_a_wait_of_wasi() {
    within_its_time("(call $block (call $subscribe (i64.const 1000000000000000)))").await;
}

#[tokio::test]
async fn time_in_a_host_call() {
    within_its_time(
        "(call $run (i32.const 4104) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 3000))",
    )
    .await;
}

#[tokio::test]
async fn time_in_calls_of_the_host_without_end() {
    within_its_time("(loop (call $log (i32.const 1) (i32.const 4096) (i32.const 7)) (br 0))").await;
}

#[tokio::test]
async fn time_in_the_start_function() {
    let file = guest("", "(func $forever (loop (br 0))) (start $forever)");
    let plugin = load(&sandbox(Limits::default()), &file);
    let error = judge(&plugin, json!({}), Duration::from_millis(100), &Arc::default()).await;
    assert!(error.expect_err("no end").to_string().contains("its limit is 0.1 s"));
}

/// On one thread, too: a guest that computes gives way.
#[tokio::test(flavor = "current_thread")]
async fn a_loop_holds_up_nobody_else_on_one_thread() {
    others_go_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_on_every_thread_hold_up_nobody_else() {
    others_go_on().await;
}

async fn others_go_on() {
    let sandbox = sandbox(Limits::default());
    let stuck = Arc::new(load(&sandbox, &guest("(loop (br 0))", "")));
    let good = load(&sandbox, &guest("", ""));
    let spinning: Vec<_> = (0..4)
        .map(|_| {
            let stuck = stuck.clone();
            tokio::spawn(async move { judge(&stuck, json!({}), LONG, &Arc::default()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for _ in 0..5 {
        judge(&good, json!({}), LONG, &Arc::default()).await.expect("a verdict");
    }
    assert!(spinning.iter().all(|call| !call.is_finished()), "they were spinning all the while");
    for call in spinning {
        call.abort();
        assert!(call.await.expect_err("it has no end").is_cancelled());
    }
}

#[tokio::test]
async fn time_to_open_a_dataset() {
    let file = dataset("", "(func $forever (loop (br 0))) (start $forever)");
    let limits = Limits { call_time: Duration::from_millis(100), ..Limits::default() };
    let (plugin, _) = DatasetPlugin::load(&sandbox(limits), &file, &Permit::all(&file)).expect("loaded");
    match plugin.open(&json!({}), &[], &Sinks::unrecorded(Arc::new(Heard::default()))).await {
        Err(OpenError::Call(CallError::Limit { limit: LimitKind::Time, function: "open", .. })) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    }
}
