//! The ledger: what is appended is there, whatever a cut-off writer left, and is folded right.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;

use crate::fixture::*;
use mst_model::ledger::{LedgerEntry, LedgerEvent, MachineStatus};
use mst_model::machine::Image;
use mst_store::{RunDir, StoreError};
use serde_json::json;

fn entry(machine: &str, event: LedgerEvent) -> LedgerEntry {
    let at = "2026-11-30T01:52:42.123456789Z".parse().expect("a time");
    LedgerEntry { at, machine: machine.to_owned(), shard: 2, event }
}

fn created() -> LedgerEvent {
    LedgerEvent::Created {
        handle: json!({"id": "c0ffee", "port": 2222, "ratio": 0.1, "words": ["a\nb", "é", null]}),
        root: "/var/lib/mst".to_owned(),
        image: Some(Image { reference: "debian:12".to_owned(), digest: "sha256:00".to_owned() }),
    }
}

fn file(run: &Path) -> PathBuf {
    run.join("machines.jsonl")
}

/// `name status`, for each machine.
fn machines(run: &Path) -> Vec<String> {
    let read = RunDir::open_read(run).expect("opens");
    let states = read.machines().expect("reads");
    states
        .iter()
        .map(|state| {
            let status = match &state.status {
                MachineStatus::Intended => "intended",
                MachineStatus::Created => "created",
                MachineStatus::Kept { .. } => "kept",
                MachineStatus::Destroyed => "destroyed",
            };
            format!("{} {status}", state.machine)
        })
        .collect()
}

#[test]
fn a_run_without_machines_has_no_ledger() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    assert_eq!(run.machines().expect("reads"), []);
    assert!(!file(run.path()).exists());
}

#[test]
fn what_is_appended_reads_back_in_order_while_the_run_is_locked() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let ledger = run.ledger().expect("opens");
    let steps = [
        ("b", LedgerEvent::Intent, vec!["b intended"]),
        ("a", LedgerEvent::Intent, vec!["b intended", "a intended"]),
        ("b", created(), vec!["b created", "a intended"]),
        ("a", LedgerEvent::Destroyed, vec!["b created", "a destroyed"]),
        ("b", LedgerEvent::DestroyFailed { why: "busy".to_owned() }, vec!["b created", "a destroyed"]),
        ("b", LedgerEvent::Kept { why: "it failed".to_owned() }, vec!["b kept", "a destroyed"]),
    ];
    for (machine, event, expected) in steps {
        ledger.append(&entry(machine, event)).expect("appends");
        assert_eq!(machines(run.path()), expected);
    }
    let states = run.machines().expect("reads");
    let (made, LedgerEvent::Created { handle, root, image }) =
        (states[0].made.as_ref().expect("was made"), created())
    else {
        unreachable!("it is one");
    };
    assert_eq!((&made.handle, &made.root, &made.image), (&handle, &root, &image));
    assert_eq!((states[0].shard, states[0].destroy_failed.as_deref()), (2, Some("busy")));
    assert_eq!(states[0].at, entry("b", created()).at);

    let text = fs::read_to_string(file(run.path())).expect("reads");
    assert_eq!(
        text.lines().next().expect("a line"),
        r#"{"schema":"mst.ledger/v1","at":"2026-11-30T01:52:42.123456789Z","machine":"b","shard":2,"event":"intent"}"#
    );
    assert_eq!(text.lines().count(), 6);
}

#[test]
fn a_line_cut_off_at_any_byte_is_not_there_and_not_in_the_way() {
    let runs = tempfile::tempdir().expect("makes");
    let path = {
        let run = run(runs.path(), &["x"]);
        let ledger = run.ledger().expect("opens");
        ledger.append(&entry("a", LedgerEvent::Intent)).expect("appends");
        ledger.append(&entry("a", LedgerEvent::Destroyed)).expect("appends");
        run.path().to_owned()
    };
    let whole = fs::read(file(&path)).expect("reads");
    let first = whole.iter().position(|byte| *byte == b'\n').expect("has one") + 1;
    for size in 0..=whole.len() {
        fs::write(file(&path), &whole[..size]).expect("writes");
        let kept: &[&str] = match size {
            _ if size < first => &[],
            _ if size < whole.len() => &["a intended"],
            _ => &["a destroyed"],
        };
        assert_eq!(machines(&path), kept, "{size} bytes");
        assert_eq!(fs::read(file(&path)).expect("reads").len(), size, "a reader mends nothing");

        let run = reopened(&path);
        run.ledger().expect("opens").append(&entry("b", LedgerEvent::Intent)).expect("appends");
        let expected: Vec<&str> = kept.iter().copied().chain(["b intended"]).collect();
        assert_eq!(machines(&path), expected, "{size} bytes");
    }
    // What a power cut may leave: a size, and none of the bytes.
    fs::write(file(&path), [&whole[..first], &[0; 100]].concat()).expect("writes");
    assert_eq!(machines(&path), ["a intended"]);
}

#[test]
fn a_run_that_is_opened_again_goes_on_with_its_ledger() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let path = run.path().to_owned();
    run.ledger().expect("opens").append(&entry("a", LedgerEvent::Intent)).expect("appends");
    run.ledger().expect("is the same").append(&entry("b", LedgerEvent::Intent)).expect("appends");
    drop(run);
    let run = reopened(&path);
    let ledger = run.ledger().expect("opens");
    ledger.append(&entry("a", LedgerEvent::Destroyed)).expect("appends");
    assert_eq!(machines(&path), ["a destroyed", "b intended"]);
    drop(run);
    assert!(matches!(RunDir::open_write(&path), Err(StoreError::Locked { .. })), "a ledger is a writer");
    drop(ledger);
    reopened(&path);
}

#[test]
fn threads_share_it() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let ledger = run.ledger().expect("opens");
    thread::scope(|scope| {
        for thread in 0..8 {
            let ledger = &ledger;
            scope.spawn(move || {
                for index in 0..16 {
                    let name = format!("m-{thread}-{index}");
                    for event in [LedgerEvent::Intent, created(), LedgerEvent::Destroyed] {
                        ledger.append(&entry(&name, event)).expect("appends");
                    }
                }
            });
        }
    });
    let states = run.machines().expect("reads");
    assert_eq!(states.len(), 128);
    assert!(states.iter().all(|state| !state.may_exist()));
}

#[test]
fn newer_foreign_and_damaged_ledgers_say_so() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    run.ledger().expect("opens").append(&entry("a", LedgerEvent::Intent)).expect("appends");
    let path = file(run.path());
    let line = fs::read_to_string(&path).expect("reads");
    let said = |text: &str| {
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| {
                file.set_len(line.len() as u64)?;
                file.write_all(text.as_bytes())
            })
            .expect("writes");
        let error = run.machines().expect_err("is no ledger of ours");
        (error.to_string().replace(&path.display().to_string(), "FILE"), error.hint())
    };
    let upgrade = Some("upgrade mst".to_owned());
    assert_eq!(
        said(&line.replace("intent", "parked")),
        ("`FILE` has the event `parked` at line 2, and this mst knows none of that name: it was written by a newer mst".to_owned(), upgrade.clone())
    );
    assert_eq!(
        said("{\"schema\":\"mst.ledger/v2\",\"what\":[]}\n"),
        ("`FILE` is in `mst.ledger/v2`, and this mst reads up to `mst.ledger/v1`: it was written by a newer mst".to_owned(), upgrade)
    );
    assert_eq!(
        said("{\"schema\":\"mst.run/v1\"}\n").0,
        "`FILE` must be in `mst.ledger/v1` but says that it is in `mst.run/v1`"
    );
    assert_eq!(said("\n").0, "`FILE` is damaged at line 2, column 0");
    assert_eq!(said(&line.replace("\"shard\":2", "\"shard\" 2")).0, "`FILE` is damaged at line 2, column 87");
    assert!(said(&line.replace("\"shard\":2,", "")).0.starts_with("`FILE` is damaged at line 2"));
    assert!(said(&line.replace(",\"event\":\"intent\"", "")).0.starts_with("`FILE` is damaged at line 2"));
    // More than is known of an entry is no harm.
    fs::write(&path, line.replace("\"shard\"", "\"zone\":\"eu\",\"shard\"")).expect("writes");
    assert_eq!(machines(run.path()), ["a intended"]);
}

#[test]
fn a_run_with_machines_is_not_discarded() {
    let runs = tempfile::tempdir().expect("makes");
    let run = RunDir::create(runs.path(), &run_id()).expect("creates");
    run.ledger().expect("opens").append(&entry("a", LedgerEvent::Intent)).expect("appends");
    let path = run.path().to_owned();
    assert!(matches!(run.discard(), Err(StoreError::HasMachines { .. })));
    assert!(file(&path).exists());
}

#[test]
fn a_run_that_came_to_nothing_goes_unless_a_machine_may_be_left() {
    let runs = tempfile::tempdir().expect("makes");
    let run = run(runs.path(), &["x"]);
    let ledger = run.ledger().expect("opens");
    ledger.append(&entry("a", LedgerEvent::Intent)).expect("appends");
    assert!(matches!(run.abandon(), Err(StoreError::HasMachines { .. })));
    ledger.append(&entry("a", LedgerEvent::Destroyed)).expect("appends");
    let trials = run.path().join("trials");
    fs::create_dir(&trials).expect("makes");
    assert!(matches!(run.abandon(), Err(StoreError::HasTrials { .. })));
    fs::remove_dir(&trials).expect("removes");
    run.read_record().expect("it is whole so far");
    run.abandon().expect("removes");
    assert!(!run.path().exists());
}
