//! The audit of a run, as `mst.audit/v1`: each call that a plugin made into the host, one a line of
//! `audit.jsonl`.
//!
//! A call whose effect leaves the host (it starts a program, asks a server) has two lines: one with
//! [`Phase::Begun`], which is with the system before anything is done, and one of the same `at` and
//! `call` when it ended. A host that dies in between leaves the first. Calls that ask for nothing
//! (clocks, random, stdio) and calls beyond the first so many of a name are counted in one line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Digest, PluginId};

/// One line. On the disk it names its schema, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Who called.
    #[serde(flatten)]
    pub by: Caller,
    /// What.
    #[serde(flatten)]
    pub call: AuditCall,
}

/// Who calls: one instance of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// The plugin.
    pub plugin: PluginId,
    /// Its component's digest.
    pub sha256: Digest,
    /// What the host had called it for: a trial, a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

/// A call into the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditCall {
    /// When it came.
    pub at: Timestamp,
    /// The plugin's function that the host had called.
    pub within: Cow<'static, str>,
    /// The host's function, as `process.run`.
    pub call: Cow<'static, str>,
    /// Whether it has ended.
    #[serde(default, skip_serializing_if = "Phase::is_ended")]
    pub phase: Phase,
    /// What it took to be allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Asks>,
    /// What was decided.
    pub decision: Decision,
    /// By which rule.
    pub rule: Cow<'static, str>,
    /// The command that would grant it; of a call that was denied, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// Its arguments in words, cut and without secrets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub args: String,
    /// What came of it: `ok`, or what went wrong. Empty as long as that is not known.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub result: Cow<'static, str>,
    /// Bytes that went to the plugin.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_in: u64,
    /// Bytes that the plugin gave.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_out: u64,
    /// How long it took, all calls of the line together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duration_ns: u64,
    /// How many calls this line stands for.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// How many of each function, where the line stands for calls that ask for nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<Cow<'static, str>, u64>,
}

/// What a call takes to be allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Asks {
    /// The narrowest request that would admit it, as `exec:create` or `http:https://api.acme.com`.
    pub request: String,
    /// How far it goes: an HTTP method, `read` or `write` in a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Cow<'static, str>>,
}

/// What the broker decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It was done.
    Allowed,
    /// It was not.
    Denied,
}

/// Whether a call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It is about to be done.
    Begun,
    /// It is over.
    #[default]
    Ended,
}

impl Phase {
    fn is_ended(&self) -> bool {
        *self == Phase::Ended
    }
}

impl AuditLine {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.audit/v1";
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

fn one() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> AuditLine {
        AuditLine {
            by: Caller {
                plugin: "acme/runner/vm".parse().expect("an id"),
                sha256: Digest::of(b"x"),
                about: Some("mst-1-0".to_owned()),
            },
            call: AuditCall {
                at: Timestamp::UNIX_EPOCH,
                within: "create-machine".into(),
                call: "process.run".into(),
                phase: Phase::Begun,
                asks: Some(Asks { request: "exec:create".to_owned(), access: None }),
                decision: Decision::Allowed,
                rule: "granted".into(),
                grant: None,
                args: "create".to_owned(),
                result: "".into(),
                bytes_in: 0,
                bytes_out: 0,
                duration_ns: 0,
                count: 1,
                counts: BTreeMap::new(),
            },
        }
    }

    #[test]
    fn a_line_reads_back_and_says_no_more_than_it_must() {
        let short = line();
        let text = serde_json::to_string(&short).expect("JSON");
        assert_eq!(serde_json::from_str::<AuditLine>(&text).expect("reads"), short);
        for word in ["bytes_in", "count", "\"grant\"", "result"] {
            assert!(!text.contains(word), "{text}");
        }
        let mut long = line();
        long.call.phase = Phase::Ended;
        long.call.count = 3;
        long.call.counts.insert("wasi:io/poll".into(), 3);
        long.call.grant = Some("mst plugin grant".to_owned());
        long.call.bytes_in = 7;
        let text = serde_json::to_string(&long).expect("JSON");
        assert!(!text.contains("phase"), "{text}");
        assert_eq!(serde_json::from_str::<AuditLine>(&text).expect("reads"), long);
    }
}
