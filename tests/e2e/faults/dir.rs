//! Faults over `examples/plugins/dir-runner`: its component as it is, its manifest with templates
//! that can fail and a channel that can be cut.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Fault, Ground, Play, play};
use super::{kill, seeds};
use crate::support::wasm::{manifest, with_manifest};
use crate::support::{Chance, Eval, Space, example, need, processes_with};

/// How many seeds take about as long as the rest of these tests.
const SEEDS: u64 = 40;

/// Makes the machine, and then fails as often as there are files for it.
const CREATE: &str = r#"mkdir -m 700 -- "$1" "$1/run-$2" || exit
for fault in "$3"/create-*; do rm -- "$fault" 2>/dev/null && { echo "it is there and not well" >&2; exit 1; }; done
exit 0"#;

const DESTROY: &str = r#"for fault in "$2"/destroy-*; do rm -- "$fault" 2>/dev/null && { echo "it is protected" >&2; exit 1; }; done
chmod -R u+rwx -- "$1" 2>/dev/null; exec rm -rf -- "$1""#;

#[test]
fn seeds_over_directories_lose_double_and_leave_nothing() {
    let runner = need!(example("dir-runner"));
    let made = tempfile::tempdir().expect("a directory");
    let runners = [false, true].map(|relayed| faulty(runner, made.path(), relayed));
    seeds(SEEDS, |seed| {
        let space = Space::new();
        for dir in ["machines", "machines.faults", "machines/mst-other"] {
            fs::create_dir(space.path(dir)).expect("made");
        }
        let mut chance = Chance(!seed);
        // The executable is copied to machines that have none: to some, for it is big.
        let has_mst = !chance.one_in(6);
        if has_mst {
            fs::create_dir(space.path("bin")).expect("made");
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mst"), space.path("bin/mst")).expect("linked");
        }
        let relayed = chance.one_in(2);
        space.add(&runners[usize::from(relayed)]);
        let dirs = Dirs { shards: 1 + chance.below(3), concurrency: 1 + chance.below(2) };
        let stage = Play {
            cases: 1 + chance.below(6),
            trials: 1 + chance.below(2),
            faults: &[
                Fault::KillWorker,
                Fault::RemoveMachine,
                Fault::CutChannel,
                Fault::KillCoordinator,
                Fault::KillCoordinator,
                Fault::FailCreate,
                Fault::FailDestroy,
            ],
            attempts: 4,
            after: Duration::from_millis(if chance.one_in(2) { 6 } else { 150 }),
            asked: space.text("asked"),
        };
        play(seed, &space, &dirs, &stage);
        assert!(space.path("machines/mst-other").exists(), "another's machine stays");
        space.assert_tidy();
    });
}

/// dir-runner's component with templates that can fail.
fn faulty(runner: &Path, dir: &Path, relayed: bool) -> PathBuf {
    let bytes = fs::read(runner).expect("reads");
    let mut manifest = manifest(&bytes);
    let machine = "{option(base)}/{machine}";
    let faults = "{option(base)}.faults";
    let script = |text: &str| text.replace('{', "{{").replace('}', "}}");
    let argv = |id: &str| match id {
        "create" => Some(json!(["/bin/sh", "-c", script(CREATE), "sh", machine, "{run}", faults])),
        "destroy" => Some(json!(["/bin/sh", "-c", script(DESTROY), "sh", machine, faults])),
        "exec" if relayed => Some(json!(["/bin/sh", "-c", "{command:shell} | cat"])),
        _ => None,
    };
    for exec in manifest["exec"].as_array_mut().expect("templates") {
        if let Some(argv) = argv(exec["id"].as_str().expect("an id")) {
            exec["argv"] = argv;
        }
    }
    let path = dir.join(if relayed { "relayed.wasm" } else { "direct.wasm" });
    fs::write(&path, with_manifest(&bytes, &manifest)).expect("written");
    path
}

struct Dirs {
    shards: u64,
    concurrency: u64,
}

impl Ground for Dirs {
    fn run(&self, space: &Space) -> Command {
        let shards = self.shards.to_string();
        let args = ["run", "eval.yaml", "--json", "--runner", "example/runner/dir", "--shards", &shards];
        let mut command = self.about(space, &args);
        command.args(["--runner-option", "base=machines"]);
        command
    }

    fn about(&self, space: &Space, args: &[&str]) -> Command {
        let mut command = space.command(args);
        if args[0] == "run" {
            command.args(["--concurrency", &self.concurrency.to_string()]);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut with_ours = OsString::from(space.path("bin"));
        with_ours.push(":");
        with_ours.push(path);
        command.env("PATH", with_ours);
        command
    }

    fn machines(&self, space: &Space, _: &str) -> Vec<String> {
        let entries = fs::read_dir(space.path("machines")).expect("lists").flatten();
        let names = entries.map(|entry| entry.file_name().into_string().expect("a name"));
        names.filter(|name| name != "mst-other").collect()
    }

    fn meet(&self, space: &Space, fault: Fault, chance: &mut Chance) {
        let mut kill_one = |of: Vec<i32>| {
            if !of.is_empty() {
                kill(chance.pick(&of));
            }
        };
        match fault {
            Fault::KillWorker => kill_one(workers(space)),
            Fault::CutChannel => kill_one(relays(space)),
            Fault::FailCreate => space.write(&format!("machines.faults/create-{}", chance.below(3)), ""),
            Fault::FailDestroy => space.write(&format!("machines.faults/destroy-{}", chance.below(3)), ""),
            Fault::RemoveMachine => {
                let mut names = self.machines(space, "");
                names.sort();
                if !names.is_empty() {
                    let name = &names[chance.below(names.len() as u64) as usize];
                    // Whatever is written there meanwhile, a part of it goes.
                    let _ = fs::remove_dir_all(space.path("machines").join(name));
                }
            }
            Fault::KillCoordinator => {}
        }
    }

    fn heal(&self, space: &Space) {
        fs::remove_dir_all(space.path("machines.faults")).expect("removed");
        fs::create_dir(space.path("machines.faults")).expect("made");
    }

    fn is_busy(&self, space: &Space) -> bool {
        !processes(space).is_empty()
    }
}

/// Processes whose command line names a place in the space.
fn processes(space: &Space) -> Vec<i32> {
    let root = space.dir().to_str().expect("UTF-8").to_owned();
    processes_with(|argv| argv.iter().any(|arg| arg.contains(&root)))
}

pub(crate) fn workers(space: &Space) -> Vec<i32> {
    let root = space.dir().to_str().expect("UTF-8").to_owned();
    let mut workers = processes_with(|argv| {
        argv.get(1).is_some_and(|arg| arg == "collect") && argv.iter().any(|arg| arg.contains(&root))
    });
    // A client looks like its worker from its fork to its exec; one that is killed is an answer.
    let all = workers.clone();
    workers.retain(|pid| parent(*pid).is_none_or(|parent| !all.contains(&parent)));
    workers
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What leads from a worker to mst: the shell that started the worker, and its `cat`.
fn relays(space: &Space) -> Vec<i32> {
    let root = space.dir().to_str().expect("UTF-8").to_owned();
    let is_shell = |arg: &String| arg.contains(&root) && arg.contains("collect") && arg.ends_with("| cat");
    let mut relays = processes_with(|argv| argv.get(2).is_some_and(is_shell));
    let mut cats = processes_with(|argv| argv.first().is_some_and(|program| program == "cat"));
    cats.retain(|pid| parent(*pid).is_some_and(|parent| relays.contains(&parent)));
    relays.extend(cats);
    relays
}

#[test]
fn a_run_that_came_to_nothing_is_kept_where_it_may_have_left_a_machine() {
    let runner = need!(example("dir-runner"));
    let made = tempfile::tempdir().expect("a directory");
    let space = Space::new();
    fs::create_dir(space.path("machines")).expect("made");
    for fault in ["create-0", "destroy-0"] {
        space.write(&format!("machines.faults/{fault}"), "");
    }
    Eval::new().write(&space);
    space.add(&faulty(runner, made.path(), false));
    let dirs = Dirs { shards: 1, concurrency: 1 };
    let output = space.finish(dirs.run(&space)).exits(106);
    assert!(output.stdout.contains("`mst machines reap"), "{output}");
    let run = space.run();
    assert_eq!((run.trials(), dirs.machines(&space, "").len()), (0, 1));
    // Now it goes, and there is still a run to be resumed.
    space.finish(dirs.about(&space, &["machines", "reap", &run.name()])).exits(0);
    assert_eq!(dirs.machines(&space, ""), [""; 0]);
    space.finish(dirs.about(&space, &["run", "--resume", &run.name()])).exits(0);
    assert_eq!(run.trials(), 1);
}

#[test]
fn what_is_faulty_is_still_dir_runner() {
    let runner = need!(example("dir-runner"));
    let made = tempfile::tempdir().expect("a directory");
    let was: Value = manifest(&fs::read(runner).expect("reads"));
    let is = manifest(&fs::read(faulty(runner, made.path(), true)).expect("reads"));
    assert_eq!(was["id"], is["id"]);
    let changed =
        was["exec"].as_array().expect("templates").iter().zip(is["exec"].as_array().expect("templates"));
    assert_eq!(changed.filter(|(was, is)| was != is).count(), 3);
}
