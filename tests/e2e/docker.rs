//! The real Docker Engine, by `mst/runner/docker`.

use std::fs;
use std::process::Command;

use crate::support::{
    Eval, Run, Running, Space, case, human_eval, missing, need, python, repository, wait_until,
};
use crate::tokens::engine;

/// The image that workers run in: Debian with python3, made without a registry by `.ci/docker`.
pub(crate) fn image() -> Option<String> {
    let image = std::env::var("MST_TEST_IMAGE").unwrap_or_else(|_| "mst-worker-test:latest".to_owned());
    let there = Command::new("docker").args(["image", "inspect", &image]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Some(image);
    }
    missing("DOCKER", &format!("no Docker Engine with the image `{image}` (`.ci/docker` makes it)"));
    None
}

/// The run's containers that are there.
pub(crate) fn containers(run: &str) -> Vec<String> {
    let filter = format!("label=mst.run={run}");
    let output =
        Command::new("docker").args(["ps", "--all", "--format={{.Names}}", "--filter", &filter]).output();
    let text = String::from_utf8(output.expect("docker starts").stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

fn humaneval(space: &Space) -> Option<()> {
    let file = human_eval()?;
    fs::copy(repository().join("examples/humaneval/eval.yaml"), space.path("eval.yaml")).expect("copied");
    fs::copy(file, space.path("HumanEval.jsonl.gz")).expect("copied");
    Some(())
}

/// mst with python3 on its PATH, for the judges: they run here.
fn command(space: &Space, args: &[&str]) -> Option<Command> {
    let mut command = space.command(args);
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", python()?.display()));
    Some(command)
}

#[test]
fn human_eval_in_four_containers() {
    let image = need!(image());
    let space = Space::new();
    need!(humaneval(&space));
    let option = format!("image={image}");
    let args = [
        "run",
        "eval.yaml",
        "--runner",
        "mst/runner/docker",
        "--runner-option",
        &option,
        "--shards",
        "4",
        "--concurrency",
        "2",
    ];
    let output = space.finish(need!(command(&space, &args))).exits(0);
    insta::assert_snapshot!(output.stdout, @"

    humaneval · [RUN]
    164 cases, 328 trials, complete

     variant    judge  passed  failed  instrument errors  missing                  pass rate
     canonical  tests     164       0                  0        0  100.0 % [97.7 %, 100.0 %]
     silent     tests       0     164                  0        0       0.0 % [0.0 %, 2.3 %]
    pass rates with their 95 % interval (Wilson)
    ");
    let run = space.run();
    run.assert_whole();
    assert_eq!(containers(&run.name()), [""; 0]);
    for shard in run.record()["shards"].as_array().expect("shards") {
        assert_eq!(shard["image"]["reference"], *image);
        assert!(
            shard["image"]["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")),
            "{shard}"
        );
    }
}

#[test]
fn a_container_that_is_removed_half_way_is_made_good_by_resume() {
    let image = need!(image());
    let space = Space::new();
    need!(humaneval(&space));
    // No container does more than some of its trials before it may.
    let eval = space.read("eval.yaml");
    let waits = "echo >> /tmp/asked; while test $(wc -l < /tmp/asked) -gt 10 && ! test -e /gate/go; do sleep 0.02; done";
    let silent = "argv: [\"true\"]";
    assert_eq!(eval.matches(silent).count(), 1, "{eval}");
    space.write("eval.yaml", eval.replace(silent, &format!("argv: [sh, -c, \"{waits}\"]")));
    fs::create_dir(space.path("gate")).expect("made");
    space.script("bin/docker", &engine(&space));
    let command = |args: &[&str]| {
        let mut command = command(&space, args)?;
        let path = format!("{}:{}:/usr/local/bin:/usr/bin:/bin", space.text("bin"), python()?.display());
        command.env("PATH", path);
        Some(command)
    };
    let option = format!("image={image}");
    let args =
        ["run", "eval.yaml", "--runner", "mst/runner/docker", "--runner-option", &option, "--shards", "4"];
    let running = Running::start(&space, need!(command(&args)));
    let of_shard_2 = || {
        let all = space.runs().first().map(Run::all_trials).unwrap_or_default();
        all.iter().filter(|trial| trial["shard"] == 2).count()
    };
    wait_until("trials of shard 2", || of_shard_2() > 0);
    let run = space.run();
    let one =
        containers(&run.name()).into_iter().find(|name| name.contains("-2-")).expect("shard 2's container");
    assert!(
        Command::new("docker")
            .args(["rm", "--force", &one])
            .output()
            .expect("docker starts")
            .status
            .success()
    );
    space.write("gate/go", "");
    let output = running.end().exits(106);
    assert!(output.stderr.contains("shard 2 broke: "), "{output}");
    run.assert_whole();
    // Of the others nothing is lost.
    let endings: Vec<_> = run.record()["shards"]
        .as_array()
        .expect("shards")
        .iter()
        .map(|it| it["ending"]["how"].clone())
        .collect();
    assert!([0, 1, 3].iter().all(|at| endings[*at] == "complete"), "{endings:?}");
    let (kept, of_shard_2) = (run.trials(), of_shard_2());
    assert!(kept < 328 && of_shard_2 > 0 && of_shard_2 < kept, "{kept} trials, {of_shard_2} of shard 2");
    assert_eq!(containers(&run.name()), [""; 0]);
    let output = space.finish(need!(command(&["run", "--resume", &run.name()]))).exits(0);
    assert!(output.stdout.contains("328 trials, complete"), "{output}");
    assert!(
        output.stdout.contains(" canonical  tests     164       0                  0        0 "),
        "{output}"
    );
    run.assert_whole();
    assert_eq!(run.trials(), 328);
    assert_eq!(containers(&run.name()), [""; 0]);
}

#[test]
fn after_kill_9_containers_are_reaped() {
    let image = need!(image());
    let space = Space::new();
    Eval::new().client("cat; exec sleep 600").cases((0..2).map(|n| case(&n.to_string()))).write(&space);
    let option = format!("image={image}");
    let args = ["run", "eval.yaml", "--runner", "mst/runner/docker", "--runner-option", &option, "--json"];
    let running = Running::start(&space, space.command(args));
    wait_until("a trial", || {
        let out = fs::read_to_string(space.dir().parent().expect("a root").join("stdout"));
        out.is_ok_and(|out| out.contains("\"trial-started\""))
    });
    running.signal(rustix::process::Signal::KILL);
    running.end();
    let run = space.run();
    assert_eq!(containers(&run.name()).len(), 1);
    let listed = space.mst(["machines", "list", &run.name()]).exits(0);
    assert!(listed.stdout.contains("is there"), "{listed}");
    space.mst(["machines", "reap", &run.name()]).exits(0);
    assert_eq!(containers(&run.name()), [""; 0]);
}

#[test]
fn after_a_third_interrupt_containers_are_removed_though_mst_is_gone() {
    let image = need!(image());
    let space = Space::new();
    Eval::new()
        .client("trap '' INT TERM; cat; while :; do sleep 600; done")
        .cases((0..2).map(|n| case(&n.to_string())))
        .write(&space);
    let option = format!("image={image}");
    let mut args = vec!["run", "eval.yaml", "--runner", "mst/runner/docker", "--runner-option", &option];
    args.extend(["--shards", "2"]);
    let mut running = Running::start(&space, space.command(args));
    wait_until("a worker in a container", || {
        let runs = space.runs();
        let names = runs.iter().flat_map(|run| containers(&run.name()));
        let mut top =
            names.map(|name| Command::new("docker").args(["top", &name]).output().expect("docker starts"));
        top.any(|output| String::from_utf8_lossy(&output.stdout).contains("sleep 600"))
    });
    running.interrupt_until_it_ends("stopping: ");
    let output = running.end().exits(130);
    assert!(output.said().contains("its machines are removed meanwhile"), "{output}");
    let run = space.run();
    wait_until("the removal of the containers", || containers(&run.name()).is_empty());
    // It has the run in hand until it has said so.
    space.mst(["machines", "reap", &run.name(), "--wait"]).exits(0);
    let told = fs::read_to_string(run.dir().join("reap.log")).expect("reads");
    // One that was still being made may have come to be after its removal, and is removed again.
    assert!(told.matches(": removed").count() >= 2, "{told}");
    assert_eq!(run.trials(), 0);
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "");
}

#[test]
fn an_image_that_is_not_there_is_said_and_no_machine_is_left() {
    need!(image());
    let space = Space::new();
    Eval::new().client("cat").cases([case("0")]).write(&space);
    let option = "image=mst.invalid/no-such-image:1";
    let args = ["run", "eval.yaml", "--runner", "mst/runner/docker", "--runner-option", option];
    let output = space.mst(args).exits(105);
    assert!(output.stderr.contains("no-such-image"), "{output}");
    // What the engine was asked stays to be read.
    let run = space.run();
    assert_eq!(run.trials(), 0);
    assert!(output.said().contains("; `mst audit runs/[RUN]` tells what plugins did"), "{output}");
    assert_eq!(containers(&run.name()), [""; 0]);
}

#[test]
fn setup_makes_a_worker_image_from_a_base() {
    let image = need!(image());
    let space = Space::new();
    let tag = format!("mst-setup-test:{}", std::process::id());
    let output = space.mst(["runner", "setup", "docker", "--base", &image, "--tag", &tag]).exits(0);
    assert_eq!(output.stdout, format!("{tag}\n"));
    let version = Command::new("docker")
        .args(["run", "--rm", &tag, "mst", "--version"])
        .output()
        .expect("docker starts");
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("mst {}\n", env!("CARGO_PKG_VERSION")));
    Eval::new().client("cat").cases([case("0")]).write(&space);
    let option = format!("image={tag}");
    space.mst(["run", "eval.yaml", "--runner", "mst/runner/docker", "--runner-option", &option]);
    assert_eq!(space.run().trials(), 1);
    assert!(Command::new("docker").args(["rmi", &tag]).output().expect("docker starts").status.success());
}
