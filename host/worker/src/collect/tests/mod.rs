//! A worker that nobody is kind to.

mod client;
mod coordinator;
mod schedules;

use super::*;

#[tokio::test]
async fn what_a_trial_left_is_seen_at_the_end() {
    let scratch = tempfile::tempdir().expect("made");
    assert!(nothing_left(&scratch.path().join("none")).await);
    assert!(nothing_left(scratch.path()).await);
    std::fs::create_dir(scratch.path().join("work")).expect("made");
    assert!(!nothing_left(scratch.path()).await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_words_nobody_takes_ends_when_nobody_speaks_either() {
    let root = tempfile::tempdir().expect("made");
    let place = schedules::place(root.path(), 1);
    // The reader is there and reads nothing; a few bytes fit.
    let ((to, from), (said, _reader)) = (tokio::io::duplex(64), tokio::io::duplex(64));
    let worker = tokio::spawn(collect_by(Arc::new(InPerson), place, from, said));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!worker.is_finished(), "it waits for who may only be slow");
    drop(to);
    let ended = tokio::time::timeout(2 * LAST_WORDS, worker).await.expect("in time").expect("runs");
    assert!(matches!(ended, Err(CollectError::Channel(_))), "{ended:?}");
}
