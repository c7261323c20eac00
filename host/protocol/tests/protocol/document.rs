//! `PROTOCOL.md` is true: what it shows is what this mst reads and writes, in an order that its
//! own rules admit.

use std::collections::{BTreeSet, HashMap};

use mst_model::bundle::{Bundle, CaseWork, ThisMachine};
use mst_model::transcript::Transcript;
use mst_model::{Digest, ServiceId, TokenId, TrialKey};
use mst_protocol::{
    FromCoordinator, FromWorker, MAX_LINE_BYTES, MAX_NOISE_LINES, Numbered, PROTOCOL, TrialDone, decode,
    encode,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../PROTOCOL.md");

/// The fenced blocks that are marked `info`.
fn blocks(info: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = DOCUMENT.lines();
    while let Some(line) = lines.next() {
        if line.strip_prefix("```") == Some(info) {
            blocks.push(
                lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect(),
            );
        }
    }
    blocks
}

fn only(info: &str) -> String {
    let mut found = blocks(info);
    assert_eq!(found.len(), 1, "`{info}`");
    found.remove(0)
}

/// What `text` says, which says the same when it is written again.
fn same<T: Serialize + DeserializeOwned>(text: &str) -> T {
    let value: Value = serde_json::from_str(text).expect("JSON");
    let read: T = serde_json::from_str(text).expect("is what it is shown as");
    assert_eq!(serde_json::to_value(&read).expect("writes"), value);
    read
}

/// A line that decodes, and says the same when it is encoded.
fn message<T: Serialize + DeserializeOwned>(line: &str) -> T {
    let read: T = decode(line.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let again = encode(&read).expect("fits");
    let json = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("JSON");
    assert_eq!(json(&again), json(line.as_bytes()));
    read
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Trial {
    Asked,
    /// Asked, and told that it waits for others.
    Waits,
    UnderWay,
    Ended,
}

/// The rules of the document, read as a listener beside the wire would have to keep them.
#[derive(Default)]
struct Wire {
    seq: u64,
    noise: usize,
    greeted: bool,
    cancelled: bool,
    over: bool,
    /// What an open `need-tokens` asks for.
    needed: Option<BTreeSet<TokenId>>,
    given: bool,
    trials: HashMap<TrialKey, Trial>,
}

impl Wire {
    fn ended(&self) -> u64 {
        self.trials.values().filter(|state| **state == Trial::Ended).count() as u64
    }

    fn worker(&mut self, Numbered { seq, message }: Numbered) -> Result<(), String> {
        self.seq += 1;
        let rule = |kept: bool, rule: &str| if kept { Ok(()) } else { Err(rule.to_owned()) };
        rule(seq == self.seq, "seq")?;
        rule(!self.over, "after done")?;
        rule(self.greeted != matches!(message, FromWorker::Hello { .. }), "hello comes first, and once")?;
        match message {
            FromWorker::Hello { protocol, mst, shard, .. } => {
                rule(protocol == PROTOCOL && mst == "0.1.0" && shard == 3, "another version or shard")?;
                self.greeted = true;
            }
            FromWorker::NeedTokens { names, .. } => {
                let known = names.iter().all(|name| name.as_str() == "gateway");
                rule(known && !names.is_empty(), "names what its clients need")?;
                rule(self.needed.replace(names).is_none(), "one at a time")?;
            }
            FromWorker::Acquire { trial, uses } => {
                rule(self.given, "has its tokens first")?;
                let names: Vec<&str> = uses.providers.iter().map(ServiceId::as_str).collect();
                rule(names == ["models"] && uses.servers.is_empty(), "names what the plan names")?;
                let planned =
                    trial.case.as_str() == "sum/1" && trial.variant.as_str() == "plain" && trial.index < 2;
                rule(
                    planned && self.trials.insert(trial, Trial::Asked).is_none(),
                    "asks once, for what is planned",
                )?;
                let asked = |state: &&Trial| matches!(state, Trial::Asked | Trial::Waits);
                rule(self.trials.values().filter(asked).count() <= 2, "more than may wait")?;
            }
            FromWorker::Trial(TrialDone { trial, .. }) => {
                rule(self.trials.insert(trial, Trial::Ended) == Some(Trial::UnderWay), "was not under way")?;
            }
            FromWorker::Heartbeat { trials } => {
                let all = self.trials.values().filter(|state| **state == Trial::UnderWay).count();
                let known = |trial| self.trials.get(trial) == Some(&Trial::UnderWay);
                rule(trials.len() <= all && trials.iter().all(|one| known(&one.trial)), "what is under way")?;
                rule(trials.iter().all(|one| one.deadline_ms == 600_000), "the plan's deadline")?;
            }
            FromWorker::Done { trials, .. } => {
                rule(trials == self.ended(), "the count")?;
                rule(trials == 2 || self.cancelled, "ends too early")?;
                self.over = true;
            }
        }
        Ok(())
    }

    fn coordinator(&mut self, message: FromCoordinator) -> Result<(), String> {
        match message {
            FromCoordinator::Tokens { tokens } => {
                let names: BTreeSet<_> = tokens.into_iter().map(|token| token.name).collect();
                self.given = true;
                match self.needed.take() {
                    Some(needed) if needed == names => Ok(()),
                    other => Err(format!("{names:?} are given, needed were {other:?}")),
                }
            }
            FromCoordinator::Granted { trial } if !self.cancelled => {
                let before = self.trials.insert(trial, Trial::UnderWay);
                if !matches!(before, Some(Trial::Asked | Trial::Waits)) {
                    return Err(format!("granted, and was {before:?}"));
                }
                let under_way = self.trials.values().filter(|state| **state == Trial::UnderWay).count();
                if under_way <= 2 { Ok(()) } else { Err("more than there are places for".to_owned()) }
            }
            FromCoordinator::Waits { trial } if !self.cancelled => {
                match self.trials.insert(trial, Trial::Waits) {
                    Some(Trial::Asked) => Ok(()),
                    other => Err(format!("waits, and was {other:?}")),
                }
            }
            FromCoordinator::Waits { .. } => Err("waits after a cancel".to_owned()),
            FromCoordinator::Granted { .. } => Err("granted after a cancel".to_owned()),
            FromCoordinator::Cancel { .. } => {
                self.cancelled = true;
                Ok(())
            }
        }
    }

    fn hear(&mut self, line: &str) -> Result<(), String> {
        match line.split_at(2) {
            ("> ", line) => self.worker(message(line)),
            ("< ", line) => self.coordinator(message(line)),
            ("~ ", line) => {
                assert!(decode::<Numbered>(line.as_bytes()).is_err(), "noise is no message: {line}");
                self.noise += 1;
                if self.greeted || self.noise > MAX_NOISE_LINES { Err("noise".to_owned()) } else { Ok(()) }
            }
            _ => panic!("who says `{line}`?"),
        }
    }
}

#[test]
fn the_exchanges_are_messages_in_an_order_that_the_rules_admit() {
    let exchanges = blocks("mst.shard/v1");
    assert!(exchanges.len() >= 3);
    for exchange in &exchanges {
        let mut wire = Wire::default();
        for line in exchange.lines() {
            wire.hear(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        }
        assert!(wire.over, "ends without `done`:\n{exchange}");
    }
    // Every message stands in one of them.
    let names = [
        "hello",
        "need-tokens",
        "acquire",
        "trial",
        "heartbeat",
        "done",
        "tokens",
        "granted",
        "waits",
        "cancel",
    ];
    for name in names {
        assert!(exchanges.concat().contains(&format!("\"type\":\"{name}\"")), "`{name}` is not shown");
        assert!(DOCUMENT.contains(&format!("### `{name}`\n")), "`{name}` is not described");
    }
}

#[test]
fn the_broken_exchanges_break_at_their_last_line() {
    let exchanges = blocks("mst.shard/v1 broken");
    assert!(exchanges.len() >= 4);
    for exchange in exchanges {
        let mut wire = Wire::default();
        let lines: Vec<&str> = exchange.lines().collect();
        let (last, before) = lines.split_last().expect("has lines");
        for line in before {
            wire.hear(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        }
        assert!(wire.hear(last).is_err(), "nothing is wrong with {last}");
    }
}

#[test]
fn the_files_are_what_this_mst_reads_and_their_digests_are_right() {
    let bundle: Bundle = same(&only("json bundle.json"));
    assert_eq!(bundle.schema, Bundle::SCHEMA);
    let work: CaseWork = same(&only("json work.jsonl"));
    assert_eq!(work.sha256, work.case.digest().expect("digests"));
    let text = only("json transcript.json");
    let transcript: Transcript = same(&text);
    assert_eq!(transcript.schema, Transcript::SCHEMA);
    assert_eq!((&transcript.run, transcript.shard), (&bundle.run, bundle.shard));
    assert_eq!((&transcript.trial.case, transcript.case_sha256), (&work.case.id, work.sha256));
    assert_eq!(work.trials.len(), 2, "the exchanges are about these");
    assert!(bundle.clients.contains_key(&transcript.trial.variant));
    let machine: ThisMachine = same(&only("json machine.json"));
    assert_eq!(machine.schema, ThisMachine::SCHEMA);
    let image = machine.image.expect("an image").digest;
    let greeting = format!(r#""image":"{image}","clients":{{"plain":{{"name":"command"}}}}"#);
    assert!(blocks("mst.shard/v1").concat().contains(&greeting), "`hello` says what the bundle says");

    let mut said = 0;
    for line in blocks("mst.shard/v1").concat().lines() {
        if let Some(line) = line.strip_prefix("> ")
            && let FromWorker::Trial(done) = message::<Numbered>(line).message
            && done.trial == transcript.trial
        {
            assert_eq!((done.size_bytes, done.sha256), (text.len() as u64, Digest::of(text.as_bytes())));
            assert_eq!(done.status, transcript.outcome.status);
            said += 1;
        }
    }
    assert!(said > 0);
}

#[test]
fn the_bounds_are_those_of_the_codec() {
    assert!(DOCUMENT.contains("at most 1,048,576 bytes") && MAX_LINE_BYTES == 1_048_576);
    assert!(DOCUMENT.contains("passed over and shown to the user: at most 64\n") && MAX_NOISE_LINES == 64);
}
