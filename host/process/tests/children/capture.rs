//! What goes in and what comes out.

use mst_process::Exit;

use super::*;

#[tokio::test]
async fn bytes_come_exactly_as_they_were_written() {
    let dir = dir();
    let ended = run(sh(dir.path(), r"printf 'a\000\377\376\n'; printf '\000err' >&2")).await;
    assert_eq!(ended.stdout.bytes, b"a\0\xff\xfe\n");
    assert_eq!(ended.stderr.bytes, b"\0err");
    assert_eq!((ended.exit, ended.stdout.cut, ended.stderr.cut), (Exit::Code(0), 0, 0));
    assert!(ended.left.is_none() && !ended.timed_out);
}

#[tokio::test]
async fn what_comes_after_the_bound_is_counted_and_blocks_nobody() {
    let dir = dir();
    let mut spec = sh(dir.path(), "head -c 3000000 /dev/zero; head -c 200000 /dev/zero >&2; echo end >&2");
    spec.max_stdout_bytes = 1000;
    spec.max_stderr_bytes = 0;
    let ended = run(spec).await;
    assert_eq!((ended.stdout.bytes.len(), ended.stdout.cut), (1000, 2_999_000));
    assert_eq!((ended.stderr.bytes.len(), ended.stderr.cut), (0, 200_004));
    assert_eq!(ended.exit, Exit::Code(0));
}

#[tokio::test]
async fn exactly_the_bound_is_no_cut() {
    let dir = dir();
    let mut spec = sh(dir.path(), "printf 1234");
    spec.max_stdout_bytes = 4;
    let ended = run(spec).await;
    assert_eq!((&ended.stdout.bytes[..], ended.stdout.cut), (&b"1234"[..], 0));
}

#[tokio::test]
async fn both_directions_flow_at_once() {
    let dir = dir();
    let sent: Vec<u8> = (0..2_000_000u32).map(|at| at as u8).collect();
    let mut spec = sh(dir.path(), "cat");
    spec.stdin = Stdin::Bytes(sent.clone());
    spec.max_stdout_bytes = 1 << 30;
    assert!(run(spec).await.stdout.bytes == sent);
}

#[tokio::test]
async fn nobody_has_to_read_stdin() {
    let dir = dir();
    for script in ["echo ok", "exec 0<&-; echo ok", "head -c 1 >first; echo ok"] {
        let mut spec = sh(dir.path(), script);
        spec.stdin = Stdin::Bytes(vec![b'x'; 1 << 20]);
        let ended = run(spec).await;
        assert_eq!((ended.exit, &ended.stdout.bytes[..]), (Exit::Code(0), &b"ok\n"[..]), "{script}");
    }
    let ended = run(sh(dir.path(), "cat; echo end")).await;
    assert_eq!(ended.stdout.bytes, b"end\n", "no stdin is an empty one");
}

#[tokio::test]
async fn the_environment_is_closed() {
    let dir = dir();
    let mut spec = sh(dir.path(), "");
    spec.program = "/usr/bin/env".into();
    spec.args = Vec::new();
    spec.env = vec![("A".into(), "1".into()), (mst_process::MARKER.into(), "mine".into())];
    let ended = run(spec).await;
    let text = String::from_utf8(ended.stdout.bytes).expect("text");
    let mut names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["A", mst_process::MARKER]);
    assert!(!text.contains("mine"), "the marker is the run's own");
}
