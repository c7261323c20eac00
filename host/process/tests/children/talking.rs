//! Children that are talked with: `start`.

use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use mst_process::{Cause, ChildStdout, Exit, Running, STDERR_TAIL_BYTES};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

async fn start(spec: Spec) -> Running {
    mst_process::start(spec).await.expect("starts")
}

async fn all(stdout: &mut ChildStdout) -> Vec<u8> {
    let mut bytes = Vec::new();
    stdout.read_to_end(&mut bytes).await.expect("reads");
    bytes
}

/// The process ids on the first line.
async fn first_line(stdout: &mut ChildStdout) -> Vec<Pid> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(stdout.read_u8().await.expect("a line"));
    }
    pids(&line)
}

async fn until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn what_is_said_comes_back_at_once_and_the_end_of_input_is_seen() {
    let dir = dir();
    let mut cat = start(sh(dir.path(), "exec cat")).await;
    let (mut stdin, mut stdout) = (cat.take_stdin().expect("once"), cat.take_stdout().expect("once"));
    assert!(cat.take_stdin().is_none() && cat.take_stdout().is_none());
    let bytes: Vec<u8> = (0..=255).collect();
    for _ in 0..3 {
        stdin.write_all(&bytes).await.expect("writes");
        let mut back = [0; 256];
        stdout.read_exact(&mut back).await.expect("reads");
        assert_eq!(back[..], bytes);
    }
    stdin.write_all(b"last").await.expect("writes");
    stdin.shutdown().await.expect("closes");
    assert_eq!(stdin.write(b"x").await.expect_err("closed").kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(all(&mut stdout).await, b"last");
    let ended = cat.wait().await.expect("ends");
    assert_eq!((ended.exit, ended.cause, ended.left.clone()), (Exit::Code(0), Cause::Itself, None));
    assert_eq!(cat.wait().await.expect("says it again"), ended);
}

#[tokio::test]
async fn stdin_that_nobody_wants_is_closed_by_waiting() {
    let dir = dir();
    let mut cat = start(sh(dir.path(), "cat; exit 3")).await;
    assert_eq!(cat.wait().await.expect("ends").exit, Exit::Code(3));
    let mut cat = start(sh(dir.path(), "cat; exit 4")).await;
    drop(cat.take_stdin());
    assert_eq!(cat.wait().await.expect("ends").exit, Exit::Code(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_megabytes_each_way_at_once() {
    const PIECE: usize = 1 << 16;
    const PIECES: usize = 1600;
    let byte = |at: usize| (at ^ (at >> 8) ^ (at >> 16)) as u8;
    let dir = dir();
    let mut cat = start(sh(dir.path(), "cat; head -c 300000 /dev/zero >&2")).await;
    let (mut stdin, mut stdout) = (cat.take_stdin().expect("once"), cat.take_stdout().expect("once"));
    let writing = tokio::spawn(async move {
        for piece in 0..PIECES {
            let piece: Vec<u8> = (piece * PIECE..(piece + 1) * PIECE).map(byte).collect();
            stdin.write_all(&piece).await.expect("writes");
        }
    });
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    loop {
        let read = stdout.read(&mut piece).await.expect("reads");
        if read == 0 {
            break;
        }
        let same = piece[..read].iter().enumerate().all(|(offset, seen)| *seen == byte(at + offset));
        assert!(same, "somewhere after {at}");
        at += read;
    }
    writing.await.expect("writes");
    assert_eq!(at, PIECES * PIECE);
    assert_eq!(cat.wait().await.expect("ends").exit, Exit::Code(0));
}

#[tokio::test]
async fn a_reader_that_is_away_makes_the_child_wait_and_loses_nothing() {
    let dir = dir();
    let mut cat = start(sh(dir.path(), "exec cat")).await;
    let (mut stdin, mut stdout) = (cat.take_stdin().expect("once"), cat.take_stdout().expect("once"));
    // Nothing is read ahead: two pipes and what `cat` holds is all that can be under way.
    let mut sent = 0;
    while let Ok(wrote) = tokio::time::timeout(Duration::from_millis(300), stdin.write(&[7; 1 << 16])).await {
        sent += wrote.expect("writes");
        assert!(sent < 4 << 20, "somebody reads ahead");
    }
    drop(stdin);
    assert_eq!(all(&mut stdout).await.len(), sent);
    assert_eq!(cat.wait().await.expect("ends").exit, Exit::Code(0));
}

#[tokio::test]
async fn what_was_written_before_the_end_can_be_read_long_after_it() {
    let dir = dir();
    let mut child = start(sh(dir.path(), "head -c 50000 /dev/zero; echo end")).await;
    assert_eq!(child.wait().await.expect("ends").exit, Exit::Code(0));
    let stdout = all(&mut child.take_stdout().expect("once")).await;
    assert_eq!((stdout.len(), &stdout[50_000..]), (50_004, &b"end\n"[..]));
}

#[tokio::test]
async fn a_child_that_reads_nothing_is_no_deadlock() {
    let dir = dir();
    let mut child = start(sh(dir.path(), "exec 0<&-; echo ok; exit 6")).await;
    let mut stdin = child.take_stdin().expect("once");
    let error = stdin.write_all(&vec![0; 1 << 20]).await.expect_err("nobody reads");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(all(&mut child.take_stdout().expect("once")).await, b"ok\n");
    assert_eq!(child.wait().await.expect("ends").exit, Exit::Code(6));
}

#[tokio::test]
async fn the_last_of_stderr_is_there_at_any_time_and_blocks_nobody() {
    let dir = dir();
    let script = "echo early >&2; read x; head -c 500000 /dev/zero >&2; printf 'why it broke' >&2; exit 9";
    let mut child = start(sh(dir.path(), script)).await;
    let stderr = child.stderr().clone();
    until(|| stderr.bytes() == b"early\n").await;
    child.take_stdin().expect("once").write_all(b"\n").await.expect("writes");
    assert_eq!(child.wait().await.expect("ends").exit, Exit::Code(9));
    drop(child);
    let said = stderr.bytes();
    assert_eq!((said.len(), stderr.cut()), (STDERR_TAIL_BYTES, 500_018 - STDERR_TAIL_BYTES as u64));
    assert!(said.ends_with(b"\0why it broke"));
}

/// Starts children in and out of the group, says who they are, and waits for ever.
const FAMILY: &str = "mkfifo ready never
    sleep 1000 & one=$!
    (sleep 1000 & wait) & two=$!
    setsid sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1 &
    read daemon <ready
    echo $$ $one $two $daemon
    read x <never";

#[tokio::test]
async fn a_kill_ends_the_whole_tree() {
    let dir = dir();
    let mut child = start(sh(dir.path(), FAMILY)).await;
    let mut stdout = child.take_stdout().expect("once");
    let family = first_line(&mut stdout).await;
    child.kill();
    let ended = child.wait().await.expect("ends");
    assert_eq!((ended.exit, ended.cause, ended.left), (Exit::Signal(9), Cause::Killed, None));
    assert_gone(&family, 4);
    assert_eq!(all(&mut stdout).await, b"");
    child.kill();
}

#[tokio::test]
async fn an_end_by_itself_takes_the_tree_along_though_nobody_waits() {
    let dir = dir();
    let script = FAMILY.replace("read x <never", "exit 5");
    let mut child = start(sh(dir.path(), &script)).await;
    let mut stdout = child.take_stdout().expect("once");
    let family = first_line(&mut stdout).await;
    assert_eq!(all(&mut stdout).await, b"", "a child of the child can't hold its stdout open");
    until(|| family.iter().copied().all(gone)).await;
    child.kill();
    let ended = child.wait().await.expect("ends");
    assert_eq!((ended.exit, ended.cause), (Exit::Code(5), Cause::Itself), "the kill came too late");
}

#[tokio::test]
async fn the_deadline_needs_nobody_to_wait_either() {
    for seconds in MORE_AND_MORE {
        let dir = dir();
        let mut spec = sh(dir.path(), &FAMILY.replace("read x", "touch told; read x"));
        spec.time = Duration::from_secs(seconds);
        let mut child = start(spec).await;
        let mut stdout = child.take_stdout().expect("once");
        let said = all(&mut stdout).await;
        let ended = child.wait().await.expect("ends");
        assert_eq!((ended.exit, ended.cause, ended.left), (Exit::Signal(9), Cause::TimeUp, None));
        if dir.path().join("told").exists() {
            return assert_gone(&pids(&said), 4);
        }
    }
    panic!("it said who it started before its deadline");
}

#[tokio::test]
async fn no_bound_is_none() {
    let dir = dir();
    let mut spec = sh(dir.path(), "read x; exit 2");
    spec.time = Duration::MAX;
    let mut child = start(spec.clone()).await;
    assert_eq!(child.wait().await.expect("ends").exit, Exit::Code(2));
    assert_eq!(run(spec).await.exit, Exit::Code(2));
}

// On one thread: what a drop does, it does there and then.
#[tokio::test]
async fn a_drop_kills_the_tree_at_once() {
    let dir = dir();
    let mut child = start(sh(dir.path(), FAMILY)).await;
    let mut stdout = child.take_stdout().expect("once");
    let family = first_line(&mut stdout).await;
    drop(child);
    assert_eq!(mst_process::settle(LONG), 0);
    assert_gone(&family, 4);
    assert_eq!(all(&mut stdout).await, b"");
}

#[test]
fn a_child_outlives_its_runtime_no_longer_than_its_handle() {
    let dir = dir();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("builds");
    let first = runtime();
    let (mut child, family) = first.block_on(async {
        let mut child = start(sh(dir.path(), FAMILY)).await;
        let family = first_line(&mut child.take_stdout().expect("once")).await;
        (child, family)
    });
    drop(first);
    let error = runtime().block_on(child.wait()).expect_err("nobody watched");
    assert_eq!(error.to_string(), "program `/bin/sh` could not be watched");
    drop(child);
    assert_eq!(mst_process::settle(LONG), 0);
    assert_gone(&family, 4);
}

#[tokio::test]
async fn who_hid_from_the_group_can_not_hold_the_reader() {
    let dir = dir();
    // It carries another's mark and so is nobody's to kill, and it holds stdout, not stderr.
    let script = "mkfifo ready
        MST_PROCESS=other setsid sh -c 'echo $$ >ready; exec sleep 1000' 2>/dev/null &
        read daemon <ready; echo $daemon";
    let mut child = start(sh(dir.path(), script)).await;
    let stdout = all(&mut child.take_stdout().expect("once")).await;
    let daemon = pids(&stdout);
    assert!(!gone(daemon[0]));
    assert_eq!(child.wait().await.expect("ends").exit, Exit::Code(0));
    rustix::process::kill_process(daemon[0], rustix::process::Signal::KILL).expect("killed");
}

#[tokio::test]
async fn a_wait_may_be_given_up_and_the_child_lives_on() {
    let dir = dir();
    let mut child = start(sh(dir.path(), "mkfifo f; echo up; read x <f; exit 8")).await;
    let mut stdout = child.take_stdout().expect("once");
    assert_eq!(stdout.read_u8().await.expect("is up"), b'u');
    let pending = {
        let mut wait = pin!(child.wait());
        std::future::poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_pending())).await
    };
    assert!(pending);
    let fifo = dir.path().join("f");
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "\n")).await.expect("runs").expect("writes");
    assert_eq!(child.wait().await.expect("ends").exit, Exit::Code(8));
}

#[tokio::test]
async fn what_can_not_be_started_is_told_apart_as_for_a_run() {
    let dir = dir();
    let mut spec = sh(dir.path(), ":");
    spec.program = "/no/such/program".into();
    let error = mst_process::start(spec).await.expect_err("refused");
    assert!(matches!(error, mst_process::RunError::NotFound { .. }), "{error:?}");
}

#[test]
fn handles_may_go_to_other_threads() {
    fn goes<T: Send + Sync + Unpin + 'static>() {}
    fn reads<T: AsyncRead>() {}
    goes::<Running>();
    goes::<ChildStdout>();
    goes::<mst_process::ChildStdin>();
    goes::<mst_process::StderrTail>();
    reads::<ChildStdout>();
}
