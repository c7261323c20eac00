//! Any message is itself again after the wire.

use std::collections::{BTreeMap, BTreeSet};

use mst_model::outcome::Status;
use mst_model::transcript::ClientInfo;
use mst_model::{CaseId, Digest, TrialKey, VariantId};
use mst_protocol::{
    FromCoordinator, FromWorker, InFlight, Lines, Need, Numbered, Secret, Token, TrialDone, Uses, Work,
    encode,
};
use proptest::prelude::*;

fn trial() -> impl Strategy<Value = TrialKey> {
    let case = "\\PC{1,64}".prop_filter("fits", |id| id.len() <= CaseId::MAX_BYTES);
    (case, "[a-z0-9][a-z0-9-]{0,63}", any::<u32>()).prop_map(|(case, variant, index)| TrialKey {
        case: case.parse().expect("a case's id"),
        variant: variant.parse().expect("a variant's name"),
        index,
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[\\x00-\\x1f\"\\\\/\u{2028}💥]{0,20}"]
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 4]>().prop_map(|bytes| Digest::of(&bytes))
}

fn names<T: std::str::FromStr + Ord + std::fmt::Debug>() -> impl Strategy<Value = BTreeSet<T>>
where
    T::Err: std::fmt::Debug,
{
    prop::collection::btree_set("[a-z0-9][a-z0-9-]{0,63}", 0..4)
        .prop_map(|names| names.iter().map(|name| name.parse().expect("a name")).collect())
}

fn clients() -> impl Strategy<Value = BTreeMap<VariantId, ClientInfo>> {
    let client = (text(), prop::option::of(text())).prop_map(|(name, version)| ClientInfo { name, version });
    let variant = "[a-z0-9][a-z0-9-]{0,63}".prop_map(|name| name.parse().expect("a name"));
    prop::collection::btree_map(variant, client, 0..3)
}

fn token() -> impl Strategy<Value = Token> {
    let name = "[a-z0-9][a-z0-9-]{0,63}".prop_map(|name| name.parse().expect("a name"));
    (name, text(), any::<Option<u64>>()).prop_map(|(name, value, expires_in_ms)| Token {
        name,
        value: Secret::new(value),
        expires_in_ms,
    })
}

fn from_worker() -> impl Strategy<Value = FromWorker> {
    let work = prop_oneof![Just(Work::Collect), Just(Work::Grade)];
    let why = prop_oneof![Just(Need::Start), Just(Need::Expiring), Just(Need::Connector)];
    let status = prop_oneof![Just(Status::Completed), Just(Status::Crashed), Just(Status::Error)];
    let in_flight = (trial(), any::<u64>(), any::<u64>()).prop_map(|(trial, age_ms, deadline_ms)| InFlight {
        trial,
        age_ms,
        deadline_ms,
    });
    prop_oneof![
        (text(), text(), any::<u32>(), work, any::<Option<u8>>(), clients()).prop_map(
            |(protocol, mst, shard, work, image, clients)| {
                let image = image.map(|byte| Digest::of(&[byte]).to_string());
                FromWorker::Hello { protocol, mst, shard, work, image, clients }
            }
        ),
        (names(), why).prop_map(|(names, why)| FromWorker::NeedTokens { names, why }),
        (trial(), names(), names()).prop_map(|(trial, providers, servers)| FromWorker::Acquire {
            trial,
            uses: Uses { providers, servers }
        }),
        (trial(), status, text(), any::<u64>(), digest()).prop_map(
            |(trial, status, path, size_bytes, sha256)| {
                FromWorker::Trial(TrialDone { trial, status, path, size_bytes, sha256 })
            }
        ),
        prop::collection::vec(in_flight, 0..20).prop_map(|trials| FromWorker::Heartbeat { trials }),
        (any::<u64>(), any::<bool>()).prop_map(|(trials, clean)| FromWorker::Done { trials, clean }),
    ]
}

fn from_coordinator() -> impl Strategy<Value = FromCoordinator> {
    prop_oneof![
        prop::collection::vec(token(), 0..4).prop_map(|tokens| FromCoordinator::Tokens { tokens }),
        trial().prop_map(|trial| FromCoordinator::Granted { trial }),
        trial().prop_map(|trial| FromCoordinator::Waits { trial }),
        (text(), any::<Option<u64>>()).prop_map(|(why, grace_ms)| FromCoordinator::Cancel { why, grace_ms }),
    ]
}

proptest! {
    #[test]
    fn the_workers(messages in prop::collection::vec((any::<u64>(), from_worker()), 0..6)) {
        let mut lines = Lines::default();
        for (seq, message) in &messages {
            let line = encode(&Numbered { seq: *seq, message: message.clone() }).expect("fits");
            let name = format!("\"type\":\"{}\"", message.name());
            prop_assert!(String::from_utf8_lossy(&line).contains(&name));
            lines.push(&line).expect("fits");
        }
        for (seq, message) in messages {
            let read = lines.next::<Numbered>().expect("a message");
            prop_assert_eq!(read, Some(Numbered { seq, message }));
        }
        prop_assert_eq!(lines.next_line(), None);
        prop_assert!(lines.end().is_ok());
    }

    #[test]
    fn the_coordinators(messages in prop::collection::vec(from_coordinator(), 0..6)) {
        let mut lines = Lines::default();
        for message in &messages {
            lines.push(&encode(message).expect("fits")).expect("fits");
        }
        for message in messages {
            prop_assert_eq!(lines.next::<FromCoordinator>().expect("a message"), Some(message));
        }
        prop_assert_eq!(lines.next_line(), None);
    }
}
