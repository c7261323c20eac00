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
