//! Bundles, as they lie on the disk when their shard is started.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mst_coordinator::plan::shard_of;
use mst_coordinator::{Events, Options, Runner, RunnerError, Session, ShardSpec, Stop};
use mst_model::CaseId;
use mst_model::bundle::{Bundle, CaseWork};

use crate::bench::{Bench, paused};

/// A runner that only looks at what it is given.
#[derive(Default)]
struct Looks(Mutex<BTreeSet<CaseId>>);

#[async_trait]
impl Runner for Looks {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        let head = fs::read(spec.bundle.join(Bundle::FILE)).expect("is there");
        let head: Bundle = serde_json::from_slice(&head).expect("reads");
        assert_eq!((head.shard, head.concurrency), (spec.shard, 3));
        let work = fs::read_to_string(spec.bundle.join(Bundle::WORK_FILE)).expect("is there");
        for line in work.lines() {
            let work: CaseWork = serde_json::from_str(line).expect("a line of work");
            assert_eq!(shard_of(&work.case.id, spec.shards), spec.shard);
            assert_eq!(work.trials.len(), 10_000);
            assert!(self.0.lock().expect("locks").insert(work.case.id), "a case is in one shard, once");
        }
        Err(RunnerError::new("it was seen".to_owned()))
    }
}

#[test]
fn bundles_that_do_not_fit_into_memory_are_whole() {
    // Some 45 MB of lines, which are appended to their files a few at a time.
    let bench = Bench::new(100, 10_000, 8);
    let looks = Arc::new(Looks::default());
    paused(async {
        let run = Arc::new(bench.open_write());
        let (stop, events) = (Stop::default(), Events::to(|_| {}));
        let collected = mst_coordinator::collect(
            &run,
            bench.record(),
            looks.clone(),
            Options { concurrency: 3, ..Options::default() },
            &stop,
            &events,
        )
        .await;
        let collected = collected.expect("it collects");
        assert_eq!((collected.missing, collected.begun), (1_000_000, 0));
    });
    assert_eq!(looks.0.lock().expect("locks").len(), 100);
}
