//! The ledger of a run's machines, as `mst.ledger/v1`: what was about to be made, was made, kept
//! and destroyed, one entry a line of `machines.jsonl`. An entry is on the disk before what it
//! announces is done, so that a crash at any instruction leaves no machine that is not in it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::{Image, Machine};

/// One line. On the disk it names its schema, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// When.
    pub at: Timestamp,
    /// The machine's name, minted by the host and used for no other.
    pub machine: String,
    /// The shard that it is for.
    pub shard: u32,
    /// What happens.
    #[serde(flatten)]
    pub event: LedgerEvent,
}

/// What happens to a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum LedgerEvent {
    /// It is about to be made.
    Intent,
    /// It is there, and has not been used yet.
    Created {
        /// The runner's own.
        handle: Value,
        /// The directory there that is the host's to use.
        root: String,
        /// What it was made from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<Image>,
    },
    /// It stays, on purpose.
    Kept {
        /// Why, for people.
        why: String,
    },
    /// It is gone.
    Destroyed,
    /// It was to go, and may be there still.
    DestroyFailed {
        /// Why, for people.
        why: String,
    },
}

impl LedgerEvent {
    /// What stands in `event`, for each of them.
    pub const NAMES: [&'static str; 5] = ["intent", "created", "kept", "destroyed", "destroy-failed"];
}

impl LedgerEntry {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.ledger/v1";
}

/// Whether a machine is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineStatus {
    /// Nobody knows: its making was begun, and no more was heard.
    Intended,
    /// It is.
    Created,
    /// It is, on purpose.
    Kept {
        /// Why, for people.
        why: String,
    },
    /// It is not.
    Destroyed,
}

/// What a ledger says of one machine, in all.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineState {
    /// Its name.
    pub machine: String,
    /// The shard that it was made for.
    pub shard: u32,
    /// When its last entry was written.
    pub at: Timestamp,
    /// Whether it is there.
    pub status: MachineStatus,
    /// What its runner said of it, if it came to that; also when it is gone.
    pub made: Option<Machine>,
    /// Why it could not be destroyed when that was last tried; none from then on that it is gone.
    pub destroy_failed: Option<String>,
}

impl MachineState {
    /// Whether it is there, or may be: whether there is anything to reap.
    pub fn may_exist(&self) -> bool {
        self.status != MachineStatus::Destroyed
    }

    fn first(entry: &LedgerEntry) -> MachineState {
        MachineState {
            machine: entry.machine.clone(),
            shard: entry.shard,
            at: entry.at,
            status: MachineStatus::Intended,
            made: None,
            destroy_failed: None,
        }
    }

    /// The last word counts. Nothing is refused here: a ledger whose entries make no sense must
    /// still be good for finding what is left.
    fn then(&mut self, entry: LedgerEntry) {
        self.at = entry.at;
        match entry.event {
            // It says that something may be there soon, which is no news of what is.
            LedgerEvent::Intent if self.may_exist() => {}
            LedgerEvent::Intent => self.status = MachineStatus::Intended,
            LedgerEvent::Created { handle, root, image } => {
                self.status = MachineStatus::Created;
                self.made = Some(Machine { name: self.machine.clone(), handle, root, image });
            }
            LedgerEvent::Kept { why } => self.status = MachineStatus::Kept { why },
            LedgerEvent::Destroyed => {
                self.status = MachineStatus::Destroyed;
                self.destroy_failed = None;
            }
            // What is gone can't be destroyed again, and that is no failure.
            LedgerEvent::DestroyFailed { .. } if !self.may_exist() => {}
            LedgerEvent::DestroyFailed { why } => self.destroy_failed = Some(why),
        }
    }
}

/// What became of each machine, in the order in which they were first mentioned.
pub fn machines(entries: impl IntoIterator<Item = LedgerEntry>) -> Vec<MachineState> {
    let mut machines: Vec<MachineState> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for entry in entries {
        let place = *places.entry(entry.machine.clone()).or_insert_with(|| {
            machines.push(MachineState::first(&entry));
            machines.len() - 1
        });
        machines[place].then(entry);
    }
    machines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(machine: &str, second: i64, event: LedgerEvent) -> LedgerEntry {
        let at = Timestamp::from_second(second).expect("a time");
        LedgerEntry { at, machine: machine.to_owned(), shard: 3, event }
    }

    fn created() -> LedgerEvent {
        LedgerEvent::Created { handle: json!({"id": "c0ffee"}), root: "/mst".to_owned(), image: None }
    }

    #[test]
    fn a_line_is_what_the_schema_says() {
        let image = Some(Image { reference: "debian:12".to_owned(), digest: "sha256:00".to_owned() });
        let event = LedgerEvent::Created { handle: json!([1, null]), root: "/mst".to_owned(), image };
        let cases = [
            (LedgerEvent::Intent, json!({"event": "intent"})),
            (
                event,
                json!({
                    "event": "created", "handle": [1, null], "root": "/mst",
                    "image": {"reference": "debian:12", "digest": "sha256:00"},
                }),
            ),
            (LedgerEvent::Kept { why: "w".to_owned() }, json!({"event": "kept", "why": "w"})),
            (LedgerEvent::Destroyed, json!({"event": "destroyed"})),
            (
                LedgerEvent::DestroyFailed { why: "w".to_owned() },
                json!({"event": "destroy-failed", "why": "w"}),
            ),
        ];
        for ((event, mut expected), name) in cases.into_iter().zip(LedgerEvent::NAMES) {
            let entry = entry("mst-x-3", 1, event);
            let object = expected.as_object_mut().expect("an object");
            assert_eq!(object["event"], name);
            object.extend([
                ("at".to_owned(), json!("1970-01-01T00:00:01Z")),
                ("machine".to_owned(), json!("mst-x-3")),
                ("shard".to_owned(), json!(3)),
            ]);
            assert_eq!(serde_json::to_value(&entry).expect("writes"), expected);
            assert_eq!(serde_json::from_value::<LedgerEntry>(expected).expect("reads"), entry);
        }
    }

    /// The state after these events of one machine.
    fn after(events: &[LedgerEvent]) -> MachineState {
        let entries = events.iter().zip(1..).map(|(event, second)| entry("m", second, event.clone()));
        let mut states = machines(entries);
        assert_eq!(states.len(), 1);
        let state = states.remove(0);
        assert_eq!(state.at.as_second(), events.len() as i64);
        state
    }

    #[test]
    fn the_last_word_counts_and_what_was_made_stays_known() {
        use LedgerEvent::{DestroyFailed, Destroyed, Intent, Kept};
        let why = || "w".to_owned();
        let failed = || DestroyFailed { why: why() };
        let is = |events: &[LedgerEvent], status, made: bool, destroy_failed: bool| {
            let state = after(events);
            assert_eq!(state.status, status, "{events:?}");
            assert_eq!(state.made.is_some(), made, "{events:?}");
            assert_eq!(state.destroy_failed.is_some(), destroy_failed, "{events:?}");
        };
        is(&[Intent], MachineStatus::Intended, false, false);
        is(&[Intent, failed()], MachineStatus::Intended, false, true);
        is(&[Intent, Destroyed], MachineStatus::Destroyed, false, false);
        is(&[Intent, created()], MachineStatus::Created, true, false);
        is(&[Intent, created(), Kept { why: why() }], MachineStatus::Kept { why: why() }, true, false);
        is(&[Intent, created(), failed()], MachineStatus::Created, true, true);
        is(&[Intent, created(), failed(), Destroyed], MachineStatus::Destroyed, true, false);
        is(&[Intent, created(), Destroyed, failed()], MachineStatus::Destroyed, true, false);
        // A call that was given up on and came back after all.
        is(&[Intent, Destroyed, created()], MachineStatus::Created, true, false);
        is(&[Intent, created(), Intent], MachineStatus::Created, true, false);
        is(&[Destroyed], MachineStatus::Destroyed, false, false);
        assert!(!after(&[Intent, Destroyed]).may_exist() && after(&[Intent]).may_exist());
        let made = after(&[Intent, created()]).made.expect("was made");
        assert_eq!((made.name.as_str(), made.handle), ("m", json!({"id": "c0ffee"})));
    }

    #[test]
    fn machines_are_kept_apart_and_in_order() {
        let states = machines([
            entry("b", 1, LedgerEvent::Intent),
            entry("a", 2, LedgerEvent::Intent),
            entry("b", 3, created()),
            entry("a", 4, LedgerEvent::Destroyed),
        ]);
        let said: Vec<_> = states.iter().map(|state| (&state.machine[..], state.may_exist())).collect();
        assert_eq!(said, [("b", true), ("a", false)]);
    }
}
