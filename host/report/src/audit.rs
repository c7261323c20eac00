//! What the plugins of a run called, put together: by plugin, call and what was asked for.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use mst_model::audit::{AuditCall, AuditLine, Decision, Phase};
use mst_model::{Digest, PluginId};
use mst_store::{RunDir, StoreError};
use serde::Serialize;

/// What is asked for is a plugin's own text where it is denied; memory must not grow with it.
const MAX_ROWS: usize = 2000;
const MAX_GRANTS: usize = 100;

/// The audit of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Calls {
    /// In the order of plugins, calls and what they asked for.
    pub rows: Vec<CallRow>,
    /// Calls of further kinds.
    pub others: u64,
    /// The commands that would grant what was denied, each once, in the order of the first denial.
    pub grants: Vec<String>,
}

/// Calls of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallRow {
    /// Who called.
    pub plugin: PluginId,
    /// The component's digest.
    pub sha256: Digest,
    /// The host's function.
    pub call: String,
    /// The narrowest request that admits it; none where there is nothing to ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// How far it goes: an HTTP method, `read` or `write`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// What was decided.
    pub decision: Decision,
    /// By which rule; of the first.
    pub rule: String,
    /// The command that would have granted it, where one would; of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// How many.
    pub count: u64,
    /// Of these, calls that were begun and of whose end nothing was written: the host died.
    pub unfinished: u64,
    /// Of these, calls that came to something else than `ok`.
    pub not_ok: u64,
    /// Bytes that went to the plugin.
    pub bytes_in: u64,
    /// Bytes that the plugin gave.
    pub bytes_out: u64,
    /// How long they took together.
    pub duration_ns: u64,
}

type Kind = (PluginId, String, Option<String>, Option<String>, Decided, Digest);

/// What a call came to, as far as calls of one kind are to have it in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Decided {
    Allowed,
    /// And a command would have granted it, or none.
    Denied {
        mended: bool,
    },
}

impl Calls {
    /// Of a run; only what was denied where `denied` says so.
    pub fn of(run: &RunDir, denied: bool) -> Result<Calls, StoreError> {
        let mut calls = Gathering::default();
        for line in run.audit()? {
            calls.add(line?);
        }
        Ok(calls.finish(denied))
    }
}

#[derive(Default)]
struct Gathering {
    rows: BTreeMap<Kind, CallRow>,
    others: u64,
    grants: Vec<String>,
    /// Calls that have begun, with their kind.
    open: HashMap<(Timestamp, PluginId, String), Option<Kind>>,
}

impl Gathering {
    fn add(&mut self, line: AuditLine) {
        let AuditLine { by, call } = line;
        let (request, access) = match &call.asks {
            Some(asks) => (Some(asks.request.clone()), asks.access.as_ref().map(ToString::to_string)),
            None => (None, None),
        };
        let denied = call.decision == Decision::Denied;
        let decided =
            if denied { Decided::Denied { mended: call.grant.is_some() } } else { Decided::Allowed };
        let kind = (by.plugin.clone(), call.call.to_string(), request, access, decided, by.sha256);
        let known = self.rows.contains_key(&kind);
        if call.phase == Phase::Begun {
            let key = (call.at, by.plugin, call.call.to_string());
            if known || self.rows.len() < MAX_ROWS {
                row(&mut self.rows, &kind, &call).unfinished += 1;
                self.open.insert(key, Some(kind));
            } else {
                self.open.insert(key, None);
            }
            return;
        }
        if !self.open.is_empty()
            && let Some(Some(kind)) = self.open.remove(&(call.at, by.plugin, call.call.to_string()))
            && let Some(row) = self.rows.get_mut(&kind)
        {
            row.unfinished -= 1;
            row.count -= 1;
        }
        if let Some(grant) = &call.grant
            && self.grants.len() < MAX_GRANTS
            && !self.grants.contains(grant)
        {
            self.grants.push(grant.clone());
        }
        if !known && self.rows.len() >= MAX_ROWS {
            self.others += call.count;
            return;
        }
        let row = row(&mut self.rows, &kind, &call);
        if call.result != "ok" && !denied {
            row.not_ok += call.count;
        }
        row.bytes_in += call.bytes_in;
        row.bytes_out += call.bytes_out;
        row.duration_ns += call.duration_ns;
    }

    fn finish(self, denied: bool) -> Calls {
        let rows = self.rows.into_values();
        let rows =
            rows.filter(|row| row.count > 0 && (!denied || row.decision == Decision::Denied)).collect();
        Calls { rows, others: self.others, grants: self.grants }
    }
}

/// The row of a kind, with this call counted.
fn row<'a>(rows: &'a mut BTreeMap<Kind, CallRow>, kind: &Kind, call: &AuditCall) -> &'a mut CallRow {
    let (plugin, name, request, access, _, sha256) = kind;
    let row = rows.entry(kind.clone()).or_insert_with(|| CallRow {
        plugin: plugin.clone(),
        sha256: *sha256,
        call: name.clone(),
        request: request.clone(),
        access: access.clone(),
        decision: call.decision,
        rule: call.rule.to_string(),
        grant: call.grant.clone(),
        count: 0,
        unfinished: 0,
        not_ok: 0,
        bytes_in: 0,
        bytes_out: 0,
        duration_ns: 0,
    });
    row.count += call.count;
    row
}

#[cfg(test)]
mod tests {
    use mst_model::audit::{Asks, Caller};

    use super::*;

    fn line(call: &str, request: Option<&str>, decision: Decision, phase: Phase, at: i64) -> AuditLine {
        AuditLine {
            by: Caller {
                plugin: "a/runner/b".parse().expect("an id"),
                sha256: Digest::of(b"x"),
                about: None,
            },
            call: AuditCall {
                at: Timestamp::from_second(at).expect("a time"),
                within: "create-machine".into(),
                call: call.to_owned().into(),
                phase,
                asks: request.map(|request| Asks { request: request.to_owned(), access: None }),
                decision,
                rule: "a rule".into(),
                grant: (decision == Decision::Denied).then(|| "mst plugin grant a/runner/b x".to_owned()),
                args: String::new(),
                result: if phase == Phase::Begun { "".into() } else { "ok".into() },
                bytes_in: 1,
                bytes_out: 0,
                duration_ns: 5,
                count: 1,
                counts: BTreeMap::new(),
            },
        }
    }

    #[test]
    fn a_call_of_two_lines_is_one_and_one_without_an_end_is_told() {
        let mut calls = Gathering::default();
        let run = |phase, at| line("process.run", Some("exec:create"), Decision::Allowed, phase, at);
        for line in [
            run(Phase::Begun, 1),
            run(Phase::Begun, 2),
            run(Phase::Ended, 1),
            line("log", None, Decision::Allowed, Phase::Ended, 3),
            line("process.run", Some("exec:x"), Decision::Denied, Phase::Ended, 4),
            line("process.run", Some("exec:x"), Decision::Denied, Phase::Ended, 5),
        ] {
            calls.add(line);
        }
        let calls = calls.finish(false);
        let told: Vec<_> =
            calls.rows.iter().map(|row| (row.request.as_deref(), row.count, row.unfinished)).collect();
        assert_eq!(told, [(None, 1, 0), (Some("exec:create"), 2, 1), (Some("exec:x"), 2, 0)]);
        assert_eq!(calls.grants, ["mst plugin grant a/runner/b x"]);
        let grants: Vec<_> = calls.rows.iter().map(|row| row.grant.as_deref()).collect();
        assert_eq!(grants, [None, None, Some("mst plugin grant a/runner/b x")]);
    }

    #[test]
    fn what_a_command_would_grant_is_told_apart_from_what_none_would() {
        let mut calls = Gathering::default();
        for (grant, at) in [(false, 1), (true, 2), (false, 3)] {
            let mut line = line("http.request", Some("http:https://a.b"), Decision::Denied, Phase::Ended, at);
            line.call.grant = line.call.grant.filter(|_| grant);
            calls.add(line);
        }
        let rows = calls.finish(true).rows;
        assert_eq!(
            rows.iter().map(|row| (row.grant.is_some(), row.count)).collect::<Vec<_>>(),
            [(false, 2), (true, 1)]
        );
    }

    #[test]
    fn memory_is_bounded_whatever_a_plugin_asks_for() {
        let mut calls = Gathering::default();
        for n in 0..10_000 {
            let request = format!("exec:t{n}");
            calls.add(line("process.run", Some(&request), Decision::Denied, Phase::Ended, n));
        }
        assert_eq!((calls.rows.len(), calls.others), (MAX_ROWS, 8000));
    }
}
