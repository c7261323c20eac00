//! Machines of a run that is stopped or killed.

use super::*;

#[test]
fn after_kill_9_what_is_left_is_listed_reaped_and_the_run_resumed() {
    let runner = need!(example("dir-runner"));
    let space = space();
    gated(&space, 4);
    let running = Running::start(&space, command(&space, runner, &["--shards", "2"]));
    wait_until("a trial on each machine", || begun(&space) == 2);
    let pids: Vec<String> = ["0", "1", "2", "3"]
        .iter()
        .filter_map(|n| fs::read_to_string(space.path(format!("gate/pid-{n}"))).ok())
        .collect();
    running.signal(Signal::KILL);
    running.end();
    // The workers lose their stdin, and end with their clients.
    wait_until("the end of the clients", || pids.iter().all(|pid| crate::support::gone(pid)));
    let left = machines(&space);
    assert_eq!(left.len(), 2);
    // Somebody else's machine stays.
    fs::create_dir(space.path("machines/mst-other")).expect("made");
    let there = space.run();
    let listed = space.mst(["machines", "list", "--json"]).exits(0).json();
    let names: Vec<&str> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|line| line["machine"].as_str().expect("a name"))
        .collect();
    assert_eq!(names.len(), 2);
    assert!(left.iter().all(|name| names.contains(&name.as_str())), "{left:?} {names:?}");
    let output = space.mst(["machines", "reap", &there.name()]).exits(0);
    assert_eq!(output.stderr.matches(": removed").count(), 2, "{output}");
    assert_eq!(machines(&space), ["mst-other"]);
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "");

    space.write("gate/go", "");
    space.mst(["run", "--resume", &there.name()]).exits(0);
    there.assert_whole();
    assert_eq!(there.trials(), 4);
    assert_eq!(machines(&space), ["mst-other"]);
}

#[test]
fn an_interrupt_ends_the_trials_and_removes_the_machines() {
    let runner = need!(example("dir-runner"));
    let space = space();
    gated(&space, 4);
    let running = Running::start(&space, command(&space, runner, &["--shards", "2"]));
    wait_until("a trial on each machine", || begun(&space) == 2);
    running.signal(Signal::INT);
    wait_until("word of the stop", || running.stderr().contains("stopping: "));
    space.write("gate/go", "");
    running.end().exits(130);
    assert_eq!(space.run().trials(), 2);
    assert_eq!(machines(&space), [""; 0]);
}

#[test]
fn a_second_interrupt_ends_what_runs_and_removes_the_machines() {
    let runner = need!(example("dir-runner"));
    let space = space();
    gated(&space, 4);
    let running = Running::start(&space, command(&space, runner, &["--shards", "2"]));
    wait_until("a trial on each machine", || begun(&space) == 2);
    running.signal(Signal::INT);
    wait_until("word of the stop", || running.stderr().contains("stopping: "));
    running.signal(Signal::INT);
    running.end().exits(130);
    assert_eq!(space.run().trials(), 0);
    assert_eq!(machines(&space), [""; 0]);
}

#[test]
fn after_a_third_interrupt_machines_are_removed_by_a_process_of_its_own_session() {
    let space = space();
    // Who removes a machine is written beside the machines: field 6 is its session, field 1 itself.
    let bytes = fs::read(need!(example("dir-runner"))).expect("reads");
    let mut manifest = wasm::manifest(&bytes);
    for template in manifest["exec"].as_array_mut().expect("templates") {
        if template["id"] == "destroy" {
            let script = "cat /proc/$PPID/stat >> \"$1/../../reaper\"; exec rm -rf -- \"$1\"";
            template["argv"] = json!(["/bin/sh", "-c", script, "sh", "{option(base)}/{machine}"]);
        }
    }
    space.write("runner.wasm", wasm::with_manifest(&bytes, &manifest));
    gated(&space, 4);
    let mut running = Running::start(&space, command(&space, &space.path("runner.wasm"), &["--shards", "2"]));
    wait_until("a trial on each machine", || begun(&space) == 2);
    running.interrupt_until_it_ends("stopping: ");
    let output = running.end().exits(130);
    let said = output.said();
    assert!(said.contains("ending what runs; once more to end at once\n"), "{said}");
    let last = said.lines().last().expect("a line");
    assert_eq!(
        last,
        "ended at once; its machines are removed meanwhile, and `runs/[RUN]/reap.log` says how that goes"
    );
    wait_until("the removal of the machines", || machines(&space).is_empty());
    let run = space.run();
    // It has the run in hand until it has said so.
    space.mst(["machines", "reap", &run.name(), "--wait"]).exits(0);
    let told = fs::read_to_string(run.dir().join("reap.log")).expect("reads");
    assert_eq!(told.matches(": removed").count(), 2, "{told}");
    let reaper = space.read("reaper");
    assert_eq!(reaper.lines().count(), 2, "{reaper}");
    for stat in reaper.lines() {
        let fields: Vec<&str> = stat.split(' ').collect();
        assert_eq!((fields[1], fields[0]), ("(mst)", fields[5]), "it leads a session: {stat}");
    }
    run.assert_whole();
    assert_eq!(run.trials(), 0);
    space.write("gate/go", "");
    space.mst(["run", "--resume", &run.name()]).exits(0);
    assert_eq!(run.trials(), 4);
    space.assert_tidy();
}

#[test]
fn a_third_interrupt_removes_the_machines_of_an_eval_that_was_moved() {
    let runner = need!(example("dir-runner"));
    let space = space();
    gated(&space, 2);
    // The lock is beside the eval, and both go elsewhere after the run began.
    fs::create_dir(space.path("before")).expect("made");
    for file in fs::read_dir(space.dir()).expect("lists").flatten().filter(|file| file.path().is_file()) {
        fs::rename(file.path(), space.path("before").join(file.file_name())).expect("moved");
    }
    let add = ["plugin", "add", runner.to_str().expect("UTF-8"), "--grant", "all", "--lock"];
    space.mst(add.iter().chain(&["before/mst.lock"])).exits(0);
    let mut command = space.command(["run", "before/eval.yaml", "--runner", "example/runner/dir"]);
    command.args(["--runner-option", &format!("base={}", space.text("machines"))]);
    let running = Running::start(&space, command);
    wait_until("a trial", || begun(&space) == 1);
    for _ in 0..2 {
        let said = running.stderr();
        running.signal(Signal::INT);
        wait_until("word of it", || running.stderr() != said);
    }
    running.end().exits(130);
    let run = space.run();
    assert_eq!((run.trials(), machines(&space)), (0, Vec::new()));
    fs::rename(space.path("before"), space.path("after")).expect("moved");
    fs::remove_dir_all(space.path("gate")).expect("removed");
    fs::create_dir(space.path("gate")).expect("made");

    let mut running =
        Running::start(&space, space.command(["run", "after/eval.yaml", "--resume", &run.name()]));
    wait_until("a trial", || begun(&space) == 1);
    running.interrupt_until_it_ends("stopping: ");
    let output = running.end().exits(130);
    assert!(output.stderr.contains("its machines are removed meanwhile"), "{output}");
    // It ends with its last line, whether or not it removed any.
    let told = || fs::read_to_string(run.dir().join("reap.log")).unwrap_or_default();
    wait_until("what became of them", || told().contains(": removed") || told().contains("error: "));
    assert_eq!(told().matches(": removed").count(), 1, "{}", told());
    assert_eq!(machines(&space), [""; 0]);
}

#[test]
fn a_third_interrupt_removes_no_machine_that_is_kept() {
    let runner = need!(example("dir-runner"));
    let space = space();
    gated(&space, 2);
    let mut running = Running::start(&space, command(&space, runner, &["--keep", "always"]));
    wait_until("a trial", || begun(&space) == 1);
    running.interrupt_until_it_ends("stopping: ");
    let output = running.end().exits(130);
    assert!(output.stderr.contains("`mst machines list runs/"), "{output}");
    assert_eq!(machines(&space).len(), 1);
    let run = space.run();
    assert!(!run.dir().join("reap.log").exists());
    space.mst(["machines", "reap", &run.name()]).exits(0);
    assert_eq!(machines(&space), [""; 0]);
    // One that was kept before is none that was left behind.
    space.write("gate/go", "");
    space.mst(["run", "--resume", &run.name(), "--keep", "always"]).exits(0);
    space.mst(["machines", "reap", &run.name(), "--wait", "--left-behind"]).exits(0);
    assert_eq!(machines(&space).len(), 1);
    space.mst(["machines", "reap", &run.name(), "--wait"]).exits(0);
    assert_eq!(machines(&space), [""; 0]);
}

#[test]
fn machines_are_kept_where_that_was_asked_for() {
    let runner = need!(example("dir-runner"));
    let space = space();
    eval(1).write(&space);
    run(&space, runner, &["--keep", "failed"]).exits(0);
    assert_eq!(machines(&space), [""; 0]);
    fs::remove_dir_all(space.path("runs")).expect("removed");
    run(&space, runner, &["--keep", "always"]).exits(0);
    assert_eq!(machines(&space).len(), 1);
    assert_eq!(ledger(&space).last().expect("a line").1, "kept");
    let listed = space.mst(["machines", "list"]).exits(0);
    assert!(listed.stdout.contains("kept: it was asked for"), "{listed}");
    space.mst(["machines", "reap", &space.run().name()]).exits(0);
    assert_eq!(machines(&space), [""; 0]);
}
