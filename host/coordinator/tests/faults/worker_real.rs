//! mst's own worker behind pipes that break.

use std::time::Duration;

use mst_model::run::ShardEnding;

use crate::bench::{Bench, paused};
use crate::crew::Shard;
use crate::pipe::{Break, Gag};
use crate::run::How;

#[test]
fn it_does_everything_where_nothing_breaks() {
    for how in [How::here(), How::on_machines()] {
        paused(async {
            let bench = Bench::new(6, 2, 2);
            let seen = bench.collect(vec![Shard::real(); 2], How { concurrency: 3, ..how }).await;
            assert_eq!(seen.stored, 12);
        });
    }
}

/// Every byte of a short conversation, in steps that hit every kind of place in a frame.
#[test]
fn the_way_from_it_breaks_at_any_byte() {
    for at in (0..1500).step_by(53) {
        for fault in [Break::Cut(at), Break::Fail(at), Break::Stall(at), Break::Garble(at), Break::Panic(at)]
        {
            paused(async {
                let bench = Bench::new(2, 1, 1);
                let shard = Shard { ear: Some(fault), ..Shard::real() };
                bench.collect(vec![shard], How::here()).await;
                bench.resume(&How::here()).await;
            });
        }
    }
}

#[test]
fn the_way_to_it_breaks_at_any_byte() {
    for at in (0..160).step_by(11) {
        for fault in [Gag::Fail(at), Gag::Block(at)] {
            paused(async {
                let bench = Bench::new(2, 1, 1);
                let shard = Shard { gag: Some(fault), ..Shard::real() };
                bench.collect(vec![shard], How::here()).await;
                bench.resume(&How::here()).await;
            });
        }
    }
}

#[test]
fn a_delay_is_no_end() {
    paused(async {
        let bench = Bench::new(3, 2, 1);
        let shard = Shard { ear: Some(Break::Delay(300, Duration::from_secs(29))), ..Shard::real() };
        let seen = bench.collect(vec![shard], How::here()).await;
        assert_eq!(*seen.ending(), ShardEnding::Complete);
        assert!(seen.took >= Duration::from_secs(29));
    });
}
