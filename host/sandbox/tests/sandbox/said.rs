//! What a guest says: bounded, cleaned, and with its name.

use std::sync::Arc;

use mst_sandbox::{Level, Limits};
use serde_json::json;

use crate::wat::judge as guest;
use crate::world::{Heard, LONG, judge, load, sandbox};

async fn heard(limits: Limits, body: &str, more: &str) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    let plugin = load(&sandbox(limits), &guest(body, more));
    judge(&plugin, json!({}), LONG, &heard).await.expect("a verdict");
    heard
}

#[tokio::test]
async fn lines_are_counted_and_what_was_dropped_is_told() {
    let flood = "(local $n i32) (loop (call $log (i32.const 0) (i32.const 4096) (i32.const 7))
        (br_if 0 (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 5000))))";
    let heard = heard(Limits { log_lines: 10, ..Limits::default() }, flood, "").await;
    let lines = heard.lines();
    assert_eq!(lines.len(), 11);
    assert!(lines.iter().all(|line| line.plugin.as_str() == "test/judge/wat"));
    assert!(lines[..10].iter().all(|line| (line.level, &line.message[..]) == (Level::Debug, "nowhere")));
    assert_eq!(lines[10].level, Level::Warn);
    assert_eq!(lines[10].message, "4990 more lines were dropped: a plugin may say 10 in one call");
}

#[tokio::test]
async fn a_call_does_not_use_up_the_next_ones_lines() {
    let heard = Arc::new(Heard::default());
    let body = "(call $log (i32.const 1) (i32.const 4096) (i32.const 7))";
    let plugin = load(&sandbox(Limits { log_lines: 1, ..Limits::default() }), &guest(body, ""));
    for _ in 0..3 {
        judge(&plugin, json!({}), LONG, &heard).await.expect("a verdict");
    }
    assert_eq!(heard.lines().len(), 3);
}

#[tokio::test]
async fn a_line_is_cleaned_and_cut() {
    let long = "(drop (memory.grow (i32.const 32))) (memory.fill (i32.const 8192) (i32.const 120) (i32.const 1000000))
        (call $log (i32.const 3) (i32.const 8192) (i32.const 1000000))
        (call $log (i32.const 2) (i32.const 4300) (i32.const 15))";
    let wicked = r#"(data (i32.const 4300) "a\1b[2Jb\r\nc\e2\80\aed\00e")"#;
    let lines = heard(Limits::default(), long, wicked).await.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!((lines[0].level, lines[0].message.len()), (Level::Error, 2048 + '…'.len_utf8()));
    assert!(lines[0].message.ends_with("x…"));
    assert_eq!((lines[1].level, &lines[1].message[..]), (Level::Warn, "a\u{fffd}[2Jb c\u{fffd}d\u{fffd}e"));
}
