use proptest::prelude::*;
use wasmtime::ResourceLimiter as _;

use super::*;

const MIB: usize = 1 << 20;

fn meter() -> Meter {
    Meter::new(&Limits { memory_bytes: 4 * MIB, table_entries: 100, ..Limits::default() })
}

fn grow(meter: &mut Meter, from: usize, to: usize) -> bool {
    meter.memory_growing(from * MIB, to * MIB, None).expect("no trap")
}

fn failed(meter: &mut Meter) {
    meter.memory_grow_failed(wasmtime::Error::msg("the system has none")).expect("no trap");
}

#[test]
fn all_memories_count_together() {
    let mut meter = meter();
    assert!(grow(&mut meter, 0, 1) && grow(&mut meter, 0, 1) && grow(&mut meter, 1, 3));
    assert_eq!(meter.refused(), None, "4 MiB of 4");
    assert!(!grow(&mut meter, 0, 1));
    assert_eq!(meter.refused(), Some((LimitKind::Memory, 5 << 20)));
    assert!(!grow(&mut meter, 0, 100));
    assert_eq!(meter.refused(), Some((LimitKind::Memory, 5 << 20)), "the first is what a person needs");
}

#[test]
fn a_refusal_takes_nothing() {
    let mut meter = meter();
    assert!(grow(&mut meter, 0, 3) && !grow(&mut meter, 3, 5) && grow(&mut meter, 3, 4));
    assert!(!grow(&mut meter, 4, 5));
}

#[test]
fn a_growth_that_fails_never_makes_room() {
    let mut meter = meter();
    assert!(grow(&mut meter, 0, 3));
    // wasmtime says so of growths that it never asked about, too.
    for _ in 0..10 {
        failed(&mut meter);
    }
    assert!(!grow(&mut meter, 0, 2), "the 3 MiB are still there");
    assert!(grow(&mut meter, 0, 1));
}

#[test]
fn a_memorys_own_maximum_is_no_limit_of_ours() {
    let mut meter = meter();
    for _ in 0..10 {
        assert!(!meter.memory_growing(MIB, 3 * MIB, Some(2 * MIB)).expect("no trap"));
        assert!(!meter.table_growing(1, 1000, Some(50)).expect("no trap"));
    }
    assert_eq!(meter.refused(), None);
    assert!(grow(&mut meter, 0, 4), "nothing was counted");
}

#[test]
fn tables_are_held_one_by_one() {
    let mut meter = meter();
    assert!(meter.table_growing(0, 100, None).expect("no trap"));
    assert!(meter.table_growing(0, 100, None).expect("no trap"));
    assert!(!meter.table_growing(100, 101, None).expect("no trap"));
    assert_eq!(meter.refused(), Some((LimitKind::Table, 101)));
}

#[test]
fn nothing_overflows() {
    let mut meter = meter();
    assert!(grow(&mut meter, 0, 1));
    assert!(!meter.memory_growing(0, usize::MAX, None).expect("no trap"));
    assert!(!meter.memory_growing(usize::MAX, 0, Some(0)).expect("no trap") || meter.refused().is_some());
    assert!(!meter.table_growing(0, usize::MAX, None).expect("no trap"));
}

proptest! {
    /// Whatever grows in whatever order, and whatever fails: what was admitted stays within the
    /// limit, and what fits is admitted.
    #[test]
    fn what_is_held_stays_within_the_limit(
        steps in prop::collection::vec((0..4usize, 0..3usize, any::<bool>(), prop::option::of(0..5usize)), 1..60)
    ) {
        let mut meter = meter();
        let mut memories = [0; 4];
        for (which, more, fails, maximum) in steps {
            let (from, to) = (memories[which], memories[which] + more);
            let admitted = meter
                .memory_growing(from * MIB, to * MIB, maximum.map(|maximum| maximum * MIB))
                .expect("no trap");
            let fits = memories.iter().sum::<usize>() + more <= 4 && maximum.is_none_or(|maximum| to <= maximum);
            prop_assert_eq!(admitted, fits);
            if admitted {
                memories[which] = to;
            } else if fails {
                failed(&mut meter);
            }
            prop_assert!(memories.iter().sum::<usize>() <= 4);
        }
    }
}
