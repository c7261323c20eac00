//! The README's first command.

use std::fs;

use crate::support::{Output, Space, repository};

fn copy() -> Space {
    let space = Space::new();
    for entry in fs::read_dir(repository().join("examples/quickstart")).expect("lists") {
        let entry = entry.expect("an entry");
        // With its mode: the agent is a program.
        fs::copy(entry.path(), space.path(entry.file_name())).expect("copied");
    }
    space
}

/// The summary without the name of its run.
fn summary(output: &Output) -> String {
    output.stdout.clone()
}

#[test]
fn it_gives_the_expected_table_and_report_gives_it_again() {
    let space = copy();
    let first = space.mst(["run", "eval.yaml"]).exits(0);
    insta::assert_snapshot!(first.stdout, @"

    quickstart · [RUN]
    12 cases, 48 trials, complete

     variant  judge       passed  failed  instrument errors  missing                  pass rate
     careful  answer          24       0                  0        0  100.0 % [75.8 %, 100.0 %]
     careful  shows-work      24       0                  0        0  100.0 % [75.8 %, 100.0 %]
     hasty    answer          14      10                  0        0    58.3 % [32.0 %, 80.7 %]
     hasty    shows-work       0      24                  0        0      0.0 % [0.0 %, 24.2 %]
    pass rates with their 95 % interval (Wilson, trials of a case taken together)
    ");
    let run = space.run();
    run.assert_whole();
    assert_eq!(run.trials(), 48);
    for name in [run.name(), format!("runs/{}", run.name())] {
        assert_eq!(space.mst(["report", &name]).exits(0).stdout, first.stdout);
    }
    // And again: another run beside the first, with the same result.
    let second = space.mst(["run", "eval.yaml", "--concurrency", "4"]).exits(0);
    assert_eq!(summary(&second), summary(&first));
    let [one, other] = &space.runs()[..] else { panic!("two runs") };
    assert_eq!(one.record()["identity"], other.record()["identity"]);
    space.assert_tidy();
}

#[test]
fn off_a_terminal_progress_is_plain_lines_on_stderr() {
    let space = copy();
    let output = space.mst(["run", "eval.yaml"]).exits(0);
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(lines[..3], ["run [RUN] in runs/[RUN]", "12 cases", "collect 1/48 add careful #0: completed"]);
    assert_eq!(lines[lines.len() - 2..], ["grade 90/96", "grade 96/96"]);
    assert!(!output.stderr.contains(['\u{1b}', '\r']), "{output}");
}

#[test]
fn json_is_one_object_a_line_and_ends_with_the_summary() {
    let space = copy();
    let output = space.mst(["run", "eval.yaml", "--json"]).exits(0);
    assert_eq!(output.stderr, "");
    let events = output.events();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    let names = ["run-started", "cases-resolved", "trial-started", "trial-stored", "graded", "summary"];
    assert_eq!(names.map(count), [1, 1, 48, 48, 96, 1]);
    assert_eq!(events[0]["event"], "run-started");
    let last = events.last().expect("an event");
    assert_eq!(last["event"], "summary");
    let again = space.mst(["report", &space.run().name(), "--json"]).exits(0);
    assert_eq!(again.json(), last["summary"]);
}

#[test]
fn on_a_terminal_one_line_tells_how_far_it_is() {
    let space = copy();
    // util-linux's: gives a command a terminal of its own.
    if space.any_command("script", ["--version"]).output().is_err() {
        eprintln!("skipped: there is no `script`");
        return;
    }
    let run = format!("{} run eval.yaml", env!("CARGO_BIN_EXE_mst"));
    let mut command = space.any_command("script", ["-qec", &run, "/dev/null"]);
    command.env("TERM", "xterm");
    let output = space.finish(command).exits(0);
    let lines = regex_lite::Regex::new(r"collect \[[=> ]{32}\] \d+/48  \d+s gone, \d+s left").expect("valid");
    assert!(lines.is_match(&output.stdout), "{output}");
    assert!(output.stdout.contains("run [RUN] in runs/[RUN]"), "{output}");
    // The line is gone at the end, the summary stays.
    assert!(!output.stdout.contains("collect 1/48 add careful #0: completed"), "{output}");
    assert!(output.stdout.contains("careful  answer          24       0"), "{output}");
}
