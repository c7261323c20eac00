//! Ends: by itself, by a signal, at the deadline, by being dropped; and who is gone then.

use std::time::Instant;

use mst_process::Exit;

use super::*;

#[tokio::test]
async fn codes_and_signals() {
    let dir = dir();
    assert_eq!(run(sh(dir.path(), "exit 7")).await.exit, Exit::Code(7));
    assert_eq!(run(sh(dir.path(), "kill -TERM $$")).await.exit, Exit::Signal(15));
    assert_eq!(run(sh(dir.path(), "kill -KILL $$")).await.exit, Exit::Signal(9));
}

#[tokio::test]
async fn what_the_leader_leaves_behind_neither_holds_up_the_run_nor_outlives_it() {
    let dir = dir();
    let ended = run(sh(dir.path(), "sleep 1000 & echo $!; sleep 1000 & echo $!; exit 3")).await;
    assert_eq!((ended.exit, ended.timed_out), (Exit::Code(3), false));
    assert!(ended.took < LONG / 2, "took {:?}", ended.took);
    assert!(ended.left.is_none());
    assert_gone(&pids(&ended.stdout.bytes), 2);
}

#[tokio::test]
async fn at_the_deadline_the_whole_tree_is_killed_and_what_it_wrote_is_kept() {
    let script = "trap '' TERM INT HUP
         mkfifo ready
         sleep 1000 & echo $!
         (sleep 1000 & echo $!; sleep 1000) & echo $!
         setsid sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1 &
         read daemon <ready; echo $daemon
         touch told; wait";
    let mut ended = None;
    for seconds in MORE_AND_MORE {
        let dir = dir();
        let mut spec = sh(dir.path(), script);
        spec.time = Duration::from_secs(seconds);
        let this = run(spec).await;
        ended = dir.path().join("told").exists().then_some(this);
        if ended.is_some() {
            break;
        }
    }
    let ended = ended.expect("it said who it started before its deadline");
    assert!(ended.timed_out && ended.left.is_none());
    assert_eq!(ended.exit, Exit::Signal(9));
    assert_gone(&pids(&ended.stdout.bytes), 4);
}

#[tokio::test]
async fn a_child_that_writes_without_end_meets_its_deadline() {
    let dir = dir();
    for time in [300, 3000].map(Duration::from_millis) {
        let mut spec = sh(dir.path(), "exec cat /dev/zero");
        spec.time = time;
        spec.max_stdout_bytes = 10;
        let ended = run(spec).await;
        assert!(ended.timed_out);
        assert!(ended.took < LONG / 2, "took {:?}", ended.took);
        if ended.stdout.cut > 0 {
            return;
        }
    }
    panic!("it wrote nothing before its deadline");
}

#[tokio::test]
async fn a_stopped_child_meets_its_deadline() {
    let dir = dir();
    let mut spec = sh(dir.path(), "kill -STOP $$");
    spec.time = Duration::from_millis(300);
    let ended = run(spec).await;
    assert!(ended.timed_out && ended.left.is_none());
}

#[tokio::test]
async fn a_child_that_closed_its_pipes_has_not_ended() {
    let dir = dir();
    let ended = run(sh(dir.path(), "mkfifo f; exec >&- 2>&-; (exec >f) & read x <f; exit 4")).await;
    assert_eq!(ended.exit, Exit::Code(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_run_is_killed_and_reaped_in_the_background() {
    let dir = dir();
    let script = "mkfifo ready
        setsid sh -c 'echo $$ >ready; exec sleep 1000' &
        read daemon <ready
        sleep 1000 &
        echo $$ $! $daemon >told.tmp
        mv told.tmp told
        mkfifo never; read x <never";
    let told = dir.path().join("told");
    let running = tokio::spawn(mst_process::run(sh(dir.path(), script)));
    let began = Instant::now();
    while !told.exists() {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.abort();
    assert!(running.await.expect_err("aborted").is_cancelled());
    assert_eq!(mst_process::settle(LONG), 0);
    assert_gone(&pids(&std::fs::read(told).expect("reads")), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once() {
    let dir = dir();
    let runs: Vec<_> = (0..64)
        .map(|at| tokio::spawn(run(sh(dir.path(), &format!("sleep 1000 & echo $!; exit {at}")))))
        .collect();
    for (at, ended) in runs.into_iter().enumerate() {
        let ended = ended.await.expect("ends");
        assert_eq!(ended.exit, Exit::Code(at as i32));
        assert_gone(&pids(&ended.stdout.bytes), 1);
    }
}
