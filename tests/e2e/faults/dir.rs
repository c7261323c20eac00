//! Faults over `examples/plugins/dir-runner`: its component as it is, its manifest with templates
//! that can fail and a channel that can be cut.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Fault, Ground, Line, Play, play};
use super::{kill, seeds};
use crate::support::wasm::{manifest, with_manifest};
use crate::support::{Chance, Eval, Space, example, need, processes_with};

/// How many seeds take about as long as the rest of these tests.
const SEEDS: u64 = 40;

/// Makes the machine, and then fails, or does not end in time, as often as there are files for it.
const CREATE: &str = r#"for fault in "$3"/hang-*; do rm -- "$fault" 2>/dev/null && exec sleep 60; done
mkdir -m 700 -- "$1" "$1/run-$2" || exit
for fault in "$3"/create-*; do rm -- "$fault" 2>/dev/null && { echo "it is there and not well" >&2; exit 1; }; done
exit 0"#;

const DESTROY: &str = r#"for fault in "$2"/destroy-*; do rm -- "$fault" 2>/dev/null && { echo "it is protected" >&2; exit 1; }; done
chmod -R u+rwx -- "$1" 2>/dev/null; exec rm -rf -- "$1""#;

/// Copies, or the halves of some files as often as there are files for it.
const COPY_FROM: &str = r#"for fault in "$3"/copy-*; do rm -- "$fault" 2>/dev/null && {
  for file in "$1"/*; do [ ! -f "$file" ] || head -c 100 -- "$file" > "$2/${file##*/}"; done
  echo "connection reset" >&2; exit 1; }
done
exec cp -a -- "$1/." "$2""#;

/// The way from a worker to mst, a line at a time. Of each file that is there something befalls a line.
const WIRE: &str = r#"while IFS= read -r line; do
  for fault in "$1"/line-*; do
    rm -- "$fault" 2>/dev/null || continue
    case $fault in
      *-cut-*) printf %.14s "$line"; exit ;;
      *-end-*) exit ;;
      *-garbage-*) printf '\033[2J\377 segmentation fault\n' ;;
      *-huge-*) head -c 2097152 /dev/zero | tr '\000' x ;;
      *-twice-*) printf '%s\n' "$line" ;;
      *-digest-*) line=$(printf '%s' "$line" | sed 's/"sha256:......../"sha256:00000000/') ;;
      *-unplanned-*) line=$(printf '%s' "$line" | sed 's/"index":/"index":7/') ;;
      *-lost-*) continue 2 ;;
      *-late-*) sleep 45 ;;
    esac
  done
  printf '%s\n' "$line" || exit
done"#;

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
        // These take their time: a few seeds are enough.
        let patient = chance.one_in(12);
        let dirs = Dirs { shards: 1 + chance.below(3), concurrency: 1 + chance.below(2) };
        let stage = Play {
            cases: 1 + chance.below(6),
            trials: 1 + chance.below(2),
            faults: match (relayed, patient) {
                (true, false) => [&WHEREVER[..], &ON_THE_WIRE].concat(),
                (true, true) => vec![Fault::Line(Line::Late), Fault::HangCreate, Fault::KillCoordinator],
                (false, _) => WHEREVER.to_vec(),
            },
            attempts: 4,
            after: Duration::from_millis(if chance.one_in(2) { 6 } else { 150 }),
            asked: space.text("asked"),
            load: None,
        };
        play(seed, &space, &dirs, &stage);
        assert!(space.path("machines/mst-other").exists(), "another's machine stays");
        space.assert_tidy();
    });
}

const WHEREVER: [Fault; 8] = [
    Fault::KillWorker,
    Fault::RemoveMachine,
    Fault::CutChannel,
    Fault::KillCoordinator,
    Fault::KillCoordinator,
    Fault::FailCreate,
    Fault::FailDestroy,
    Fault::CutCopy,
];

const ON_THE_WIRE: [Fault; 8] = [
    Fault::Line(Line::Cut),
    Fault::Line(Line::End),
    Fault::Line(Line::Garbage),
    Fault::Line(Line::Huge),
    Fault::Line(Line::Twice),
    Fault::Line(Line::Digest),
    Fault::Line(Line::Unplanned),
    Fault::Line(Line::Lost),
];

/// dir-runner's component with templates that can fail.
pub(super) fn faulty(runner: &Path, dir: &Path, relayed: bool) -> PathBuf {
    let bytes = fs::read(runner).expect("reads");
    let mut manifest = manifest(&bytes);
    let machine = "{option(base)}/{machine}";
    let faults = "{option(base)}.faults";
    let script = |text: &str| text.replace('{', "{{").replace('}', "}}");
    let quoted = |text: &str| text.replace('\'', r"'\''");
    let argv = |id: &str| match id {
        "create" => Some(json!(["/bin/sh", "-c", script(CREATE), "sh", machine, "{run}", faults])),
        "destroy" => Some(json!(["/bin/sh", "-c", script(DESTROY), "sh", machine, faults])),
        "exec" if relayed => {
            let relay = format!("{{command:shell}} | /bin/sh -c '{}' wire \"$1\"", quoted(&script(WIRE)));
            Some(json!(["/bin/sh", "-c", relay, "sh", faults]))
        }
        "copy-from" => {
            let source = "{option(base)}/{machine}{source:machine-path}";
            Some(json!(["/bin/sh", "-c", script(COPY_FROM), "sh", source, "{target:host-dir}", faults]))
        }
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

pub(super) struct Dirs {
    pub(super) shards: u64,
    pub(super) concurrency: u64,
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
            Fault::HangCreate => space.write("machines.faults/hang-0", ""),
            Fault::CutCopy => space.write(&format!("machines.faults/copy-{}", chance.below(3)), ""),
            Fault::Line(line) => space.write(&format!("machines.faults/line-{}-0", line.name()), ""),
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

/// What leads from a worker to mst: the shell that started the worker, and the one that hands its lines on.
fn relays(space: &Space) -> Vec<i32> {
    let root = space.dir().to_str().expect("UTF-8").to_owned();
    let is_shell = |arg: &String| arg.contains(&root) && arg.contains("collect") && arg.contains(" wire ");
    let mut relays = processes_with(|argv| argv.get(2).is_some_and(is_shell));
    let wire = |argv: &[String]| argv.get(3).is_some_and(|name| name == "wire");
    let mut wires = processes_with(wire);
    wires.retain(|pid| parent(*pid).is_some_and(|parent| relays.contains(&parent)));
    relays.extend(wires);
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
fn what_befalls_a_line_is_told_and_costs_at_most_its_trial() {
    let runner = need!(example("dir-runner"));
    let made = tempfile::tempdir().expect("a directory");
    let runner = faulty(runner, made.path(), true);
    let mut all = String::new();
    for fault in ON_THE_WIRE {
        let Fault::Line(line) = fault else { unreachable!("all of these befall lines") };
        let space = Space::new();
        for dir in ["machines", "machines.faults"] {
            fs::create_dir(space.path(dir)).expect("made");
        }
        space.add(&runner);
        // It befalls what is said next: that this trial has ended.
        let file = space.text(&format!("machines.faults/line-{}-0", line.name()));
        Eval::new().client("cat; : > $FAULT").set("client.env", json!({ "FAULT": file })).write(&space);
        let output = space.finish(Dirs { shards: 1, concurrency: 1 }.run(&space));
        assert!(!Path::new(&file).exists(), "{line:?} did not come: {output}");
        let run = space.run();
        let why = run.record()["shards"][0]["ending"]["why"].as_str().unwrap_or_default().to_owned();
        let why: String = why.chars().take(38).collect();
        all += &format!("{}: {:?}, {} kept: {why}\n", line.name(), output.code, run.trials());
        run.assert_whole();
        space.assert_tidy();
    }
    insta::assert_snapshot!(all, @r#"
    cut: 106, 0 kept: the stream ended in the middle of a li
    end: 106, 0 kept: the way from its worker ended before `
    garbage: 106, 0 kept: a line that is no message of mst.shard
    huge: 106, 0 kept: a line of more than 1048576 bytes that
    twice: 0, 1 kept: message 3 came where 4 was due
    digest: 106, 0 kept: the transcript of a v #0 can't be kept
    unplanned: 106, 0 kept: `trial` names a trial that is not of t
    lost: 106, 0 kept: message 4 came where 3 was due
    "#);
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
    assert_eq!(changed.filter(|(was, is)| was != is).count(), 4);
}
