//! `kill -9` of mst and of its workers at any moment, under tokens, limits and pools: what was under way
//! is all that is lost, and the few that had ended and were on their way when mst itself was killed;
//! nothing is counted twice, and no token lies anywhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::dir::{Dirs, faulty};
use super::seeds;
use super::stage::{Fault, Load, Play, play};
use crate::support::{Chance, Eval, Space, example, files_below, holds, need, wait_until};
use crate::tokens::token_dirs;

/// How many seeds take about as long as the rest of these tests.
const SEEDS: u64 = 16;

/// What the provider admits.
const LIMIT: usize = 4;

/// As no other text has it.
const CANARY: &str = "tok_l_3fd80b61c9";

#[test]
fn what_is_killed_under_load_loses_what_was_under_way_and_leaves_no_token() {
    let runner = need!(example("dir-runner"));
    let made = tempfile::tempdir().expect("a directory");
    let runner = faulty(runner, made.path(), false);
    seeds(SEEDS, |seed| {
        let space = Space::new();
        for dir in ["machines", "machines.faults", "machines/mst-other", "bin", "sources"] {
            fs::create_dir(space.path(dir)).expect("made");
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mst"), space.path("bin/mst")).expect("linked");
        space.add(&runner);
        // So short a life that workers ask again all the time.
        let printed = format!("#!/bin/sh\necho '{{\"value\": \"{CANARY}-short\", \"expires_in\": 12}}'\n");
        space.script("sources/credentials", &printed);
        space.write("sources/token", CANARY);
        let mut chance = Chance(!seed);
        let dirs = Dirs { shards: 2 + chance.below(2), concurrency: 1 + chance.below(3) };
        // Of each machine as many as its worker does at a time, and as many more that have ended, or four.
        let of_one = dirs.concurrency + dirs.concurrency.max(4);
        let on_their_way = usize::try_from(dirs.shards * of_one).expect("few");
        let load = Load { eval: loaded, at_a_time: LIMIT, on_their_way, ended, look };
        let stage = Play {
            cases: 6 + chance.below(6),
            trials: 2,
            faults: vec![Fault::KillWorker, Fault::KillCoordinator],
            attempts: 4,
            after: Duration::from_millis(chance.pick(&[5, 50, 500])),
            asked: space.text("asked"),
            load: Some(load),
        };
        play(seed, &space, &dirs, &stage);
        space.assert_tidy();
    });
}

fn loaded(eval: Eval, _: &Space) -> Eval {
    eval.set("client.tokens", json!(["program", "file"]))
        .set("client.providers", json!(["models"]))
        .set(
            "tokens",
            json!({"program": {"command": ["sources/credentials"]}, "file": {"file": "sources/token"}}),
        )
        .set("limits", json!({"providers": {"models": {"concurrency": LIMIT}}}))
        .set("capacity", json!([{"key": "pool", "limit": LIMIT}]))
}

/// What their transcripts say.
fn ended(space: &Space) -> BTreeSet<String> {
    let files = files_below(&space.path("machines")).into_iter();
    let transcripts = files.filter(|path| path.ends_with("transcript.json"));
    let key = |path: PathBuf| {
        let transcript: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let trial = &transcript["trial"];
        let (case, variant) = (trial["case"].as_str()?, trial["variant"].as_str()?);
        Some(format!("{case}/{variant}/{}", trial["index"]))
    };
    transcripts.filter_map(key).collect()
}

/// Nothing of mst's is there any more, and so no token.
fn look(space: &Space, what: &str) {
    for run in space.runs() {
        wait_until(&format!("the end of all tokens; {what}"), || token_dirs(&run.name()).is_empty());
    }
    let root = space.dir().parent().expect("a root").to_owned();
    let sources = space.path("sources");
    for path in files_below(&root).into_iter().filter(|path| !path.starts_with(&sources)) {
        // What a machine that was left still holds may go.
        let bytes = fs::read(&path).unwrap_or_default();
        assert!(!holds(&bytes, CANARY), "{} holds a token; {what}", path.display());
    }
}
