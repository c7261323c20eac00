//! Dropping a call's future ends it, wherever it is, and frees what it held.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use mst_sandbox::{DatasetPlugin, Evidence, Limits, Permit, Sinks, Workspace};
use serde_json::json;

use crate::wat::{dataset, judge as guest};
use crate::world::{Endless, Heard, LONG, Trial, load, sandbox};

/// Polls `call` until `far_enough` says so or `polls` are over, and drops it.
async fn poll_some<F: Future>(call: F, mut far_enough: impl FnMut() -> bool) {
    let mut call = pin!(call);
    for _ in 0..10_000 {
        let ended = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        assert!(!ended, "it has no end");
        if far_enough() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came so far");
}

async fn dropped_while(body: &str, far_enough: impl Fn(&Endless, usize) -> bool) {
    let plugin = load(&sandbox(Limits::default()), &guest(body, ""));
    let trial: Arc<dyn Evidence> = Arc::new(Trial::new("yes"));
    let workspace = Arc::new(Endless::default());
    let heard = Arc::new(Heard::default());
    for _ in 0..3 {
        let (shown, sinks): (Arc<dyn Workspace>, Sinks) =
            (workspace.clone(), Sinks::unrecorded(heard.clone()));
        let options = json!({}).into();
        let call = plugin.judge(trial.clone(), shown, &options, LONG, &sinks);
        let mut polls = 0;
        poll_some(call, || {
            polls += 1;
            far_enough(&workspace, polls)
        })
        .await;
        drop(sinks);
        assert_eq!(workspace.running.load(Ordering::SeqCst), 0, "the host's own future was dropped too");
        assert_eq!(Arc::strong_count(&trial), 1, "nobody holds the evidence");
        assert_eq!(Arc::strong_count(&workspace), 1, "nor the workspace");
        assert_eq!(Arc::strong_count(&heard), 1, "nor the sink");
    }
}

#[tokio::test]
async fn in_a_loop_of_the_guests() {
    dropped_while("(loop (br 0))", |_, polls| polls == 3).await;
}

#[tokio::test]
async fn in_a_call_of_the_hosts() {
    let run = "(call $run (i32.const 4104) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 3000))";
    dropped_while(run, |workspace, _| workspace.running.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn in_a_wait_of_wasi() {
    dropped_while("(call $block (call $subscribe (i64.const 1000000000000000)))", |_, polls| polls == 3)
        .await;
}

#[tokio::test]
async fn before_it_began() {
    let plugin = load(&sandbox(Limits::default()), &guest("", ""));
    let trial: Arc<dyn Evidence> = Arc::new(Trial::new("yes"));
    let sinks = Sinks::unrecorded(Arc::new(Heard::default()));
    drop(plugin.judge(trial.clone(), Arc::new(Endless::default()), &json!({}).into(), LONG, &sinks));
    assert_eq!((Arc::strong_count(&trial), Arc::strong_count(&sinks.log)), (1, 1));
}

/// A cursor whose call was broken off stands anywhere: it is not asked again.
#[tokio::test]
async fn a_cursor_is_not_used_again() {
    let file = dataset("(loop (br 0))", "");
    let (plugin, _) =
        DatasetPlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)).expect("loaded");
    let mut cursor =
        plugin.open(&json!({}), &[], &Sinks::unrecorded(Arc::new(Heard::default()))).await.expect("opened");
    let mut polls = 0;
    poll_some(cursor.next(10), || {
        polls += 1;
        polls == 2
    })
    .await;
    let error = cursor.next(10).await.expect_err("refused").to_string();
    assert!(error.contains("broken off"), "{error}");
}
