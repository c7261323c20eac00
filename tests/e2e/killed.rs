//! A run that is killed, or finds no room, leaves nothing half-made that reads as whole.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::support::{Chance, Eval, Run, Space, case, example, missing, need};

/// Eight cases of a client that writes a few files, slowly enough to be met at it.
fn eval() -> Eval {
    Eval::new()
        .client("cat; head -c 100000 /dev/urandom > big; for n in 1 2 3; do echo $n > $n; sleep 0.003; done; echo x >&2")
        .check("test -s big")
        .cases((0..8).map(|n| case(&n.to_string())))
}

/// A run that was cut off: whole as far as it goes, and its report says so.
fn assert_cut_off(space: &Space, run: &Run, seed: u64) {
    run.assert_whole();
    let report = space.mst(["report", &run.name()]);
    if !run.dir().join("run.json").exists() {
        assert_eq!(report.code, 105, "seed {seed}: {report}");
        assert!(
            report.stderr.contains("there is no run in `runs/[RUN]`: it holds no `run.json`"),
            "seed {seed}: {report}"
        );
        return;
    }
    let trials = run.trials();
    let grades = crate::support::files_below(&run.dir().join("grades")).len();
    if (trials, grades) == (8, 8) && run.record()["collect"] == "complete" {
        report.exits(0);
        run.assert_passed();
        return;
    }
    assert_eq!(report.code, 106, "seed {seed}: {report}");
    if trials < 8 {
        assert!(
            report.stdout.contains(&format!("8 trials, partial: {} missing", 8 - trials)),
            "seed {seed}: {report}"
        );
    }
    if grades < trials {
        assert!(report.stdout.contains("not graded"), "seed {seed}: {report}");
    }
}

/// Kills mst after it has said so many lines and so much time has gone.
fn kill_at(seed: u64, lines: u64, more: Duration) {
    let space = Space::new();
    eval().write(&space);
    let mut command = space.command(["run", "eval.yaml", "--json", "--concurrency", "2"]);
    let mut mst = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let stdout = BufReader::new(mst.stdout.take().expect("piped"));
    let mut said = stdout.lines();
    for _ in 0..lines {
        if said.next().is_none() {
            break;
        }
    }
    // Not to wait for anything: to meet it somewhere else each time.
    std::thread::sleep(more);
    mst.kill().expect("killed");
    mst.wait().expect("ended");
    for run in space.runs() {
        assert_cut_off(&space, &run, seed);
    }
}

#[test]
fn killed_at_any_line_it_leaves_only_whole_files() {
    for seed in 0..20 {
        let mut chance = Chance(seed);
        // A whole run says 4 lines, 16 of trials, 8 of grades and more.
        let lines = chance.below(28);
        kill_at(seed, lines, Duration::from_micros(chance.below(6_000)));
    }
}

#[test]
fn killed_before_or_while_its_cases_are_read_it_is_no_run_or_a_whole_one() {
    for seed in 100..110 {
        kill_at(seed, 0, Duration::from_micros(Chance(seed).below(120_000)));
    }
}

/// Runs mst with `--runs` on a file system of this size, in a mount namespace that ends with it;
/// what was there is copied to `runs` at the end.
fn on_a_small_disk(space: &Space, size: &str, more: &[&str]) -> Option<crate::support::Output> {
    fs::create_dir(space.path("disk")).expect("made");
    // Machines find it there: it would not fit beside the bundles.
    fs::create_dir(space.path("bin")).expect("made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mst"), space.path("bin/mst")).expect("linked");
    let script = format!(
        "export PATH=$PWD/bin:$PATH
         mount -t tmpfs -o size={size} mst-e2e disk || exit 77
         {} run eval.yaml --runs disk/runs \"$@\"; code=$?
         test -e disk/runs && cp -R disk/runs runs
         exit $code",
        env!("CARGO_BIN_EXE_mst")
    );
    let output =
        space.finish(space.any_command("unshare", [&["-m", "sh", "-c", &script, "sh"], more].concat()));
    if output.code == 77 || output.stderr.contains("unshare: ") {
        missing("ROOT", &format!("a small file system can't be mounted: {}", output.stderr.trim()));
        return None;
    }
    Some(output)
}

#[test]
fn a_disk_that_fills_up_is_said_and_what_fitted_is_whole() {
    let space = Space::new();
    Eval::new()
        .client("head -c 300000 /dev/zero > big; echo done")
        .check("test -s big")
        .cases((0..10).map(|n| case(&n.to_string())))
        .write(&space);
    let Some(output) = on_a_small_disk(&space, "1m", &[]) else { return };
    assert_eq!(output.code, 106, "{output}");
    assert!(output.stderr.contains("No space left on device"), "{output}");
    let run = space.run();
    run.assert_whole();
    assert!((1..4).contains(&run.trials()), "{} trials", run.trials());
    let report = space.mst(["report", &run.name()]).exits(106);
    assert!(report.stdout.contains("partial"), "{report}");
}

#[test]
fn a_disk_without_room_for_a_run_has_none() {
    let mut refused = 0;
    for size in ["4k", "8k", "12k"] {
        let space = Space::new();
        Eval::new().write(&space);
        let Some(output) = on_a_small_disk(&space, size, &[]) else { return };
        assert!(output.stderr.contains("No space left on device"), "{size}: {output}");
        if output.code == 105 {
            refused += 1;
            assert!(!space.path("runs").exists(), "{size}: nothing could start, and there is a run");
        }
    }
    assert!(refused > 0, "none was too small");
}

#[test]
fn where_a_machines_trials_find_no_room_no_more_are_asked() {
    let runner = need!(example("dir-runner"));
    let space = Space::new();
    fs::create_dir(space.path("machines")).expect("made");
    Eval::new()
        .client("head -c 300000 /dev/zero > big; echo $MST_CASE_ID >> $ASKED; sleep 0.2")
        .set("client.env", json!({ "ASKED": space.text("asked") }))
        .check("test -s big")
        .cases((0..30).map(|n| case(&n.to_string())))
        .write(&space);
    space.add(runner);
    let options = ["--runner", "example/runner/dir", "--runner-option", "base=machines"];
    let Some(output) = on_a_small_disk(&space, "1m", &options) else { return };
    assert_eq!(output.code, 106, "{output}");
    assert!(output.stderr.contains("shard 0 broke: the transcript of "), "{output}");
    let run = space.run();
    run.assert_whole();
    let (kept, asked) = (run.trials(), space.read("asked").lines().count());
    assert!((1..4).contains(&kept), "{kept} trials");
    // One had no room, and a few began before that was known.
    assert!(asked > kept && asked < 15, "{asked} were asked, {kept} kept\n{output}");
    assert_eq!(fs::read_dir(space.path("machines")).expect("lists").count(), 0);
}

#[test]
fn a_disk_without_room_for_the_cases_leaves_no_run() {
    let space = Space::new();
    Eval::new().cases((0..2000).map(|n| json!({"id": n, "prompt": "x".repeat(100)}))).write(&space);
    let Some(output) = on_a_small_disk(&space, "128k", &[]) else { return };
    insta::assert_snapshot!(output, @"
    exit 105
    -- stderr
    error: can't put `cases.jsonl` into the run's directory
      - No space left on device (os error 28)
    ");
    assert!(space.runs().is_empty());
}
