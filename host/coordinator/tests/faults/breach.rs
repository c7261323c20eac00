//! A worker that breaks a rule or is gone: the shard's ending names it, and what was announced
//! before is there.

use std::time::Duration;

use crate::bench::{Bench, paused};
use crate::crew::Shard;
use crate::pipe::{Break, Gag};
use crate::run::How;
use crate::worker::{Lie, Script};

/// Six trials on one shard, of which `kept` are kept, and the words of its ending.
#[track_caller]
fn ends(script: Script, kept: usize, words: &[&str]) {
    for how in [How::here(), How::on_machines(), How::whole()] {
        paused(async {
            let bench = Bench::new(3, 2, 1);
            let seen = bench.collect(vec![Shard::script(script.clone())], how.clone()).await;
            let why = seen.why();
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
            assert_eq!(seen.stored, kept, "{why}");
            bench.resume(&how).await;
        });
    }
}

#[test]
fn a_worker_that_is_gone() {
    ends(Script::lies(Lie::Killed, 3), 3, &["its worker failed: signal 9 ended it"]);
    ends(Script::lies(Lie::CutOff, 2), 2, &["the way from its worker ended before `done`"]);
    ends(Script::lies(Lie::CutInFrame, 1), 1, &["in the middle of a line", r#"begins "{\"seq\":2"#]);
    ends(Script::lies(Lie::Silent, 4), 4, &["its worker said nothing for 30 s"]);
}

#[test]
fn a_frame_that_is_none() {
    ends(Script::lies(Lie::Garbage, 3), 3, &["no message of mst.shard/v1", r#"begins "\x1b[2J\xff seg"#]);
    ends(Script::lies(Lie::Huge, 3), 3, &["a line of more than 1048576 bytes", r#"begins "xxxx"#]);
}

#[test]
fn a_message_that_may_not_be_said() {
    ends(Script::lies(Lie::Twice, 2), 3, &["`trial` came twice for case-1 a #0"]);
    ends(
        Script::lies(Lie::Unplanned, 2),
        2,
        &["`acquire` names a trial that is not of this shard: case-1 a #1000"],
    );
    ends(Script::lies(Lie::Unasked, 2), 2, &["`trial` came without `granted` for case-1 a #0"]);
    ends(
        Script::lies(Lie::OtherUses, 2),
        2,
        &["`acquire` for case-1 a #0 names other services than the plan"],
    );
    ends(
        Script::lies(Lie::NeedsToken, 2),
        2,
        &["`need-tokens` names `other`, which no client of this shard"],
    );
    ends(Script::lies(Lie::Gap, 1), 1, &["message ", " came where ", " was due"]);
    ends(Script::lies(Lie::Repeat, 1), 1, &["message ", " came where ", " was due"]);
    ends(Script::lies(Lie::WrongCount, 5), 5, &["`done` counts 99 trials, 5 were seen"]);
    ends(Script::lies(Lie::Early, 5), 5, &["its worker ended before its trials did"]);
}

#[test]
fn a_transcript_that_is_not_what_was_said() {
    // It is missing, and takes no other with it.
    ends(Script::lies(Lie::WrongDigest, 2), 5, &["transcript of case-1 a #0 can't be kept", "has digest"]);
    ends(Script::lies(Lie::OtherTrial, 2), 5, &["belongs to `case-1 a #7`"]);
    ends(Script::lies(Lie::OtherRun, 2), 5, &["belongs to `run 20010101-000000-aaaa`"]);
    ends(Script::lies(Lie::OtherCase, 2), 5, &["belongs to `case sha256:"]);
    ends(Script::lies(Lie::OtherPlace, 2), 5, &["belongs to `shard 1`, not to `shard 0`"]);
    ends(Script::lies(Lie::OtherAttempt, 2), 5, &["belongs to `attempt 1`, not to `attempt 0`"]);
    ends(Script::lies(Lie::PathOut, 2), 5, &["`trial` for case-1 a #0", "`..` part"]);
    ends(Script::lies(Lie::PathAbsolute, 2), 5, &["`trial` for case-1 a #0", "must be relative"]);
}

#[test]
fn a_worker_of_another_kind() {
    ends(Script::lies(Lie::OtherProtocol, 0), 0, &["the worker speaks `mst.shard/v2`"]);
    ends(Script::lies(Lie::OtherVersion, 0), 0, &["the worker is mst 9.9.9, the coordinator is mst 0.1.0"]);
    ends(Script::lies(Lie::OtherShard, 0), 0, &["the worker took shard 7, it was given shard 0"]);
    ends(Script::lies(Lie::OtherWork, 0), 0, &["the worker would `grade`"]);
    ends(
        Script::lies(Lie::OtherClient, 0),
        0,
        &["the worker would ask `command` for `a`, the plan has `echo`"],
    );
    paused(async {
        let bench = Bench::new(3, 2, 1);
        let shard = Shard::script(Script::lies(Lie::OtherImage, 0));
        let seen = bench.collect(vec![shard], How::on_machines()).await;
        assert!(
            seen.why().starts_with("the worker says that its image is `sha256:00`, the runner says `sha256:")
        );
        bench.resume(&How::on_machines()).await;
    });
}

#[test]
fn noise_is_bounded_and_does_not_put_off_the_hello() {
    let noisy = |noise| Script { noise, ..Script::honest() };
    ends(noisy(65), 0, &["no message of mst.shard/v1", r#"begins "motd 64"#]);
    ends(Script::lies(Lie::Mumbles, 0), 0, &["its worker said no `hello` within 20 s"]);
    paused(async {
        let bench = Bench::new(3, 2, 1);
        let seen = bench.collect(vec![Shard::script(noisy(64))], How::here()).await;
        assert_eq!(seen.stored, 6);
    });
}

#[test]
fn a_worker_that_does_not_listen() {
    paused(async {
        // It takes one grant and half of the next. Its heartbeats are no excuse.
        let bench = Bench::new(3, 2, 1);
        let shard = Shard { gag: Some(Gag::Block(100)), ..Shard::healthy() };
        let seen = bench.collect(vec![shard], How::here()).await;
        assert_eq!(seen.why(), "its worker took nothing for 30 s");
        assert_eq!(seen.stored, 1);
        assert!(seen.took < Duration::from_secs(60), "{:?}", seen.took);
        bench.resume(&How::here()).await;
    });
}

#[test]
fn a_worker_that_hears_nothing_any_more_is_still_heard() {
    paused(async {
        let bench = Bench::new(3, 2, 1);
        let shard = Shard { gag: Some(Gag::Fail(100)), ..Shard::healthy() };
        let seen = bench.collect(vec![shard], How::here()).await;
        assert_eq!(seen.why(), "the way to its worker broke: broken pipe");
        assert_eq!(seen.stored, 1);
        // The first trial is under way when the second's grant can't be said, and ends after that.
        let bench = Bench::new(3, 2, 1);
        let late = Some(Break::Delay(250, Duration::from_secs(2)));
        let shard = Shard { gag: Some(Gag::Fail(100)), ear: late, ..Shard::real() };
        let seen = bench.collect(vec![shard], How { concurrency: 2, ..How::here() }).await;
        assert_eq!(seen.why(), "the way to its worker broke: broken pipe");
        assert_eq!(seen.stored, 1);
        bench.resume(&How::here()).await;
    });
}

#[test]
fn a_heart_that_beats_is_no_trial_that_ends() {
    // 600 s for the client, 120 + 60 + 2 * 30 s around it, and a minute.
    ends(
        Script::lies(Lie::Deaf, 2),
        2,
        &["case-1 a #0 is under way for 900 s, where at most 900 s are possible"],
    );
}

#[test]
fn a_worker_that_could_not_clean_up_says_so() {
    paused(async {
        let bench = Bench::new(3, 2, 1);
        let seen = bench.collect(vec![Shard::script(Script::lies(Lie::Untidy, 99))], How::here()).await;
        assert_eq!((seen.stored, seen.collected.shards[0].clean), (6, Some(false)));
        assert_eq!(seen.troubles(), ["its worker could not clean up after its trials"]);
    });
}
