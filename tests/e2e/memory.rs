//! What mst's memory holds, and whose: read from outside, as it is while mst runs.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::{
    Eval, Running, Space, case, example, guest, holds, need, processes_with, wait_at_most, wait_until,
};

/// A part of a process's memory.
#[derive(Debug, Clone)]
struct Region {
    from: u64,
    to: u64,
    writable: bool,
    /// Reserved, and nothing there.
    closed: bool,
}

fn regions(pid: u32) -> Vec<Region> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its memory is listed");
    let region = |line: &str| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        let rights = fields.next()?;
        Some(Region {
            from: address(from)?,
            to: address(to)?,
            writable: rights.starts_with("rw"),
            closed: rights.starts_with("---"),
        })
    };
    maps.lines().map(|line| region(line).expect("a line of maps")).collect()
}

/// The linear memories of guests: what is writable right before gigabytes that are reserved and
/// closed, which nothing but a memory that may grow there has behind it.
fn guests(all: &[Region]) -> Vec<Region> {
    let mut found = Vec::new();
    for (at, behind) in all.iter().enumerate() {
        if !behind.closed || behind.to - behind.from < 1 << 30 {
            continue;
        }
        let mut next = behind.from;
        for region in all[..at].iter().rev() {
            if !region.writable || region.to != next {
                break;
            }
            next = region.from;
            found.push(region.clone());
        }
    }
    found
}

/// Whether a text stands in these parts of a process's memory.
fn remembers(pid: u32, regions: &[Region], text: &str) -> bool {
    let mut memory = File::open(format!("/proc/{pid}/mem")).expect("its memory can be read");
    regions.iter().filter(|region| region.writable).any(|region| {
        let mut bytes = vec![0; (region.to - region.from) as usize];
        // What went away meanwhile holds nothing.
        memory.seek(SeekFrom::Start(region.from)).is_ok()
            && memory.read_exact(&mut bytes).is_ok()
            && holds(&bytes, text)
    })
}

#[test]
fn what_passes_over_the_channel_is_never_in_the_guests_memory() {
    let runner = need!(guest("shard"));
    let space = Space::new();
    // The guest is told of this one, so it must be found.
    let base = "shards-known-to-the-guest-5b07";
    for dir in [base, "gate"] {
        fs::create_dir(space.path(dir)).expect("made");
    }
    // Frames carry a trial's case in both directions: `acquire` here, `granted` there. The bundle
    // carries the prompt there, and what the client says meanwhile is on its way back.
    let (framed, sent, answered) =
        ("framed-both-ways-7c1e", "sent-with-the-bundle-90af", "answered-there-3d42");
    let client = format!(
        "cat >/dev/null; echo {answered}; : > \"$GATE/there-$MST_CASE_ID\"; while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done"
    );
    Eval::new()
        .client(&client)
        .set("client.env", json!({ "GATE": space.text("gate") }))
        .cases([case("first"), json!({ "id": framed, "prompt": sent, "expected": "x" })])
        .write(&space);
    let mut command =
        space.command(["run", "eval.yaml", "--runner", "test/runner/shard", "--concurrency", "2"]);
    space.add(runner);
    command.args(["--runner-option", &format!("base={base}")]);
    let running = Running::start(&space, command);
    wait_until("both trials", || {
        ["first", framed].iter().all(|case| space.path(format!("gate/there-{case}")).exists())
    });
    let pid = running.pid();
    let all = regions(pid);
    let guests = guests(&all);
    assert!(!guests.is_empty(), "the runner waits in its call: {all:#x?}");
    // The search finds what is there: in the guest what it was told, in mst what it heard.
    assert!(remembers(pid, &guests, base), "the guest knows its option");
    assert!(remembers(pid, &all, framed), "mst knows the trial that is under way");
    for marker in [framed, sent, answered] {
        assert!(!remembers(pid, &guests, marker), "`{marker}` is in the guest's memory");
    }
    space.write("gate/go", "");
    let output = running.end();
    let run = space.run();
    assert_eq!(run.report_text(&format!("{framed}/v/0")), format!("{answered}\n"), "it passed: {output}");
    let ledger = fs::read_to_string(run.dir().join("machines.jsonl")).expect("reads");
    for marker in [sent, answered] {
        assert!(!output.stderr.contains(marker) && !ledger.contains(marker), "{output}");
    }
}

/// The most memory that mst took, itself and its workers, in bytes.
fn peak(space: &Space, command: Command) -> u64 {
    let mut running = Running::start(space, command);
    let root = space.text("");
    let mut peak = 0;
    // A gigabyte goes there and back.
    wait_at_most(Duration::from_secs(600), "the end", || {
        let workers = processes_with(|argv| {
            argv.get(1).is_some_and(|arg| arg == "collect") && argv.iter().any(|arg| arg.contains(&root))
        });
        for pid in workers.into_iter().chain([running.pid() as i32]) {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or_default() << 10);
        }
        running.ended()
    });
    running.end().exits(0);
    peak
}

#[test]
fn a_gigabyte_that_is_copied_there_and_back_is_in_nobodys_memory() {
    let runner = need!(example("dir-runner"));
    let measured = |mib: u64| {
        let space = Space::new();
        fs::create_dir(space.path("machines")).expect("made");
        // There: the client's program, most of it a hole that no shell reads so far.
        let each = mib * 64;
        let script = format!(
            "#!/bin/sh\ncat >/dev/null; for n in 1 2 3 4; do truncate -s {each}K big-$n; done; echo done; exit 0\n"
        );
        space.script("agent", &script);
        let agent = File::options().write(true).open(space.path("agent")).expect("opens");
        agent.set_len((mib << 20).max(script.len() as u64)).expect("grown");
        // Back: four trials, each with four files, all of it together.
        Eval::new()
            .set("client", json!({"kind": "command", "argv": ["./agent"]}))
            .cases((0..4).map(|n| case(&n.to_string())))
            .write(&space);
        let mut command = space.command(["run", "eval.yaml", "--runner", "example/runner/dir"]);
        space.add(runner);
        command.args(["--runner-option", "base=machines"]);
        let peak = peak(&space, command);
        let run = space.run();
        let size =
            |n| fs::metadata(run.dir().join(format!("trials/{n}/v/0/files/big-1"))).expect("is there").len();
        assert_eq!((0..4).map(size).sum::<u64>(), (mib << 20) / 4);
        peak
    };
    let (small, large) = (measured(1), measured(1024));
    assert!(
        large.saturating_sub(small) <= 64 << 20,
        "{} MiB for a gigabyte, {} MiB for a megabyte",
        large >> 20,
        small >> 20
    );
}
