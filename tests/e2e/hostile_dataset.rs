//! Datasets of a stranger's that do what none should.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Eval, Output, Run, Running, Space, files_below, guest, need, wait_until};

fn eval(options: Value) -> Eval {
    let judge = json!([{"plugin": "mst/judge/text", "options": {"mode": "contains"}}]);
    Eval::new().set("dataset", json!({"plugin": "test/dataset/hostile", "options": options})).judges(judge)
}

fn run(file: &Path, space: &Space, options: Value) -> Output {
    eval(options).write(space);
    space.add(file);
    space.mst(["run", "eval.yaml"])
}

/// It is refused with 105, and nothing is left.
#[track_caller]
fn refused(file: &Path, behaviour: &str) -> String {
    let space = Space::new();
    let output = run(file, &space, json!({"behaviour": behaviour})).exits(105);
    assert_eq!(output.stdout, "");
    assert!(!space.path("runs").exists(), "nothing could start, and there is a run");
    space.assert_tidy();
    output.stderr.replace("error: the dataset `test/dataset/hostile` can't be read\n", "")
}

fn run_of(file: &Path, behaviour: &str) -> (Space, Output, Run) {
    let space = Space::new();
    let output = run(file, &space, json!({"behaviour": behaviour})).exits(0);
    let run = space.run();
    run.assert_whole();
    (space, output, run)
}

#[test]
fn pages_that_break_the_contract() {
    let file = need!(guest("dataset"));
    let behaviours = [
        "empty",
        "over-full-page",
        "error-in-open",
        "trap-in-open",
        "error-on-page-3",
        "trap-on-page-2",
        "duplicate-ids",
        "duplicate-ids-far",
        "huge-prompt",
    ];
    let said: String = behaviours.map(|name| format!("{name}:\n{}", refused(file, name))).concat();
    insta::assert_snapshot!(said, @"
    empty:
    error: the dataset `test/dataset/hostile` has no cases
    hint: look at its options
    over-full-page:
      - `test/dataset/hostile` gave a wrong answer from `next`: a page of 257 cases, where at most 256 were asked for
    error-in-open:
      - `test/dataset/hostile`: told to be invalid
    trap-in-open:
      - `test/dataset/hostile` crashed in `open`: wasm trap: wasm `unreachable` instruction executed
    error-on-page-3:
      - `test/dataset/hostile`: told to fail on page 3
    trap-on-page-2:
      - `test/dataset/hostile` crashed in `next`: wasm trap: wasm `unreachable` instruction executed
    duplicate-ids:
      - two cases are called `same`: a case's id must be unique in its dataset
    duplicate-ids-far:
      - two cases are called `same`: a case's id must be unique in its dataset
    huge-prompt:
      - `test/dataset/hostile` met a limit in `next`: one call passed more than 64.0 MiB to the host, its limit
    ");
}

#[test]
fn cases_that_break_the_contract() {
    let file = need!(guest("dataset"));
    let behaviours = [
        "control-id",
        "empty-id",
        "long-id",
        "bad-file-path",
        "absolute-file-path",
        "bad-json",
        "metadata-no-object",
        "bad-expected",
        "bad-role",
        "no-prompt",
    ];
    let said: String = behaviours.map(|name| format!("{name}:\n{}", refused(file, name))).concat();
    insta::assert_snapshot!(said, @r#"
    control-id:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: "a\nb" is no case id: it must be 1 to 256 bytes without control characters
    empty-id:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: "" is no case id: it must be 1 to 256 bytes without control characters
    long-id:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is no case id: it must be 1 to 256 bytes without control characters
    bad-file-path:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: `case-0`: `../x` is no path in a workspace: it has an empty, `.` or `..` part
    absolute-file-path:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: `case-0`: `/abs` is no path in a workspace: it must be relative
    bad-json:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: `case-0`: its metadata is no JSON: key must be a string at line 1 column 2
    metadata-no-object:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: `case-0`: its metadata is no JSON object
    bad-expected:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: `case-0`: its expected is no JSON: key must be a string at line 1 column 2
    bad-role:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: `case-0`: `robot` is no role: it must be `system`, `user` or `assistant`
    no-prompt:
      - `test/dataset/hostile` gave a wrong answer from `next`: case 1: `case-0`: its prompt has no message
    "#);
}

#[test]
fn pages_of_any_size_are_one_dataset() {
    let file = need!(guest("dataset"));
    let space = Space::new();
    run(file, &space, json!({"behaviour": "count", "count": 700})).exits(0);
    assert_eq!(space.run().cases().len(), 700);
}

/// How much of the machine's memory mst had at most, in bytes.
fn peak(running: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn as_many_pages_as_there_are_cases_cost_no_more_memory_and_no_more_audit() {
    let file = need!(guest("dataset"));
    let read = |behaviour: &str| {
        let space = Space::new();
        eval(json!({"behaviour": behaviour, "count": 100_000})).client("sleep 600").write(&space);
        space.add(file);
        // Read to their end, the cases are there before the first trial ends.
        let mut running = Running::start(&space, space.command(["run", "eval.yaml"]));
        wait_until("the cases", || running.stderr().contains("100000 cases") || running.ended());
        let peak = peak(&running);
        running.interrupt_until_it_ends("stopped");
        let output = running.end();
        assert_eq!(space.run().cases().len(), 100_000, "{output}");
        let audit = space.run().dir().join("audit.jsonl").metadata().expect("an audit").len();
        (peak, audit, space)
    };
    let (whole, _, _) = read("count");
    let (tiny, audit, space) = read("tiny-pages");
    assert!(tiny < whole + (16 << 20), "{tiny} bytes, with whole pages {whole}");
    assert!(audit < 16 << 10, "{audit} bytes of audit");
    let told = space.mst(["audit", &space.run().name()]).exits(0);
    insta::assert_snapshot!(told.stdout, @"
    test/dataset/hostile  [DIGEST]
      ambient                                                              4  allowed
    ");
}

#[test]
fn wicked_ids_stay_inside_the_run() {
    let file = need!(guest("dataset"));
    let (space, output, run) = run_of(file, "wicked-ids");
    assert!(output.stdout.contains("26 cases, 26 trials, complete"), "{output}");
    assert_eq!(run.trials(), 26);
    let root = space.dir().parent().expect("a root").to_owned();
    for path in files_below(&root) {
        let ours = ["eval.yaml", "cases.jsonl", "mst.lock"].map(|name| space.path(name));
        let mut inside = ours.into_iter().chain([run.dir().to_owned()]);
        assert!(inside.any(|place| path.starts_with(place)), "{} is outside", path.display());
    }
    // One component each, and no two that a file system could hold to be one.
    let mut names: Vec<String> = fs::read_dir(run.dir().join("trials"))
        .expect("lists")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8").to_lowercase())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 26);
    for name in &names {
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-%=+".contains(&byte)), "{name}");
        assert!(!name.starts_with('.') && !name.ends_with('.') && name.len() <= 150, "{name}");
    }
}

#[test]
fn no_byte_that_a_terminal_obeys_comes_from_it() {
    let file = need!(guest("dataset"));
    for behaviour in ["escapes", "wicked-ids"] {
        let (space, output, run) = run_of(file, behaviour);
        let report = space.mst(["report", &run.name()]);
        for bytes in [&output.raw.0, &output.raw.1, &report.raw.0, &report.raw.1] {
            let text = String::from_utf8_lossy(bytes);
            let wicked = text.chars().find(|&c| (c.is_control() && c != '\n') || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
            assert_eq!(wicked, None, "{text}");
        }
    }
}

/// What comes of each attempt to leave what `path` names, a line each: what the dataset was told, or why
/// its call was ended.
#[track_caller]
fn attempts(file: &Path, space: &Space, path: &str) -> String {
    let mut found = String::new();
    for number in 0.. {
        let output = run(file, space, json!({"behaviour": "fs-escape", "path": path, "count": number}));
        if output.code != 0 {
            let denied = output.stderr.lines().find_map(|line| line.split_once("was denied "));
            let (_, denial) = denied.unwrap_or_else(|| panic!("it was not denied: {output}"));
            found.push_str(&format!("denied {denial}\n"));
        } else {
            let run = space.run();
            let told = run.report_text("case-0/v/0");
            if told == "no further attempt" {
                break;
            }
            found.push_str(&format!("{told}\n"));
        }
        fs::remove_dir_all(space.path("runs")).expect("removed");
    }
    found
}

#[test]
fn it_sees_the_file_that_was_named_and_nothing_beside_it() {
    let file = need!(guest("dataset"));
    let space = Space::new();
    space.write("data/named", "the data");
    space.write("data/inside", "a sibling");
    std::os::unix::fs::symlink("/etc/passwd", space.path("data/link")).expect("linked");
    insta::assert_snapshot!(attempts(file, &space, "data/named"), @"
    read beside it: Err(NotFound)
    read by a link: Err(NotFound)
    denied `descriptor.open-at(/data/../etc/passwd)`: the path leads out of the directory that it was given
    denied `descriptor.open-at(/data/../../../../etc/passwd)`: the path leads out of the directory that it was given
    denied `descriptor.open-at(/data/../etc/passwd)`: the path leads out of the directory that it was given
    denied `descriptor.open-at(/data/inside/../../etc/passwd)`: the path leads out of the directory that it was given
    read from the root: Err(Uncategorized)
    read from /proc: Err(Uncategorized)
    list the root: Err(Uncategorized)
    list where it is: Err(Uncategorized)
    denied `descriptor.open-at(/data/..)`: the path leads out of the directory that it was given
    list /tmp: Err(Uncategorized)
    denied `descriptor.open-at(/data/mst-escape)`: its manifest asks for `dir:data` to read only
    denied `descriptor.open-at(/data/inside)`: its manifest asks for `dir:data` to read only
    denied `descriptor.unlink-file-at(/data/inside)`: its manifest asks for `dir:data` to read only
    denied `descriptor.rename-at(/data/inside)`: its manifest asks for `dir:data` to read only
    denied `descriptor.create-directory-at(/data/mst-escape)`: its manifest asks for `dir:data` to read only
    denied `descriptor.link-at(/data/inside)`: its manifest asks for `dir:data` to read only
    ");
    assert_eq!(space.read("data/inside"), "a sibling");
}

#[test]
fn of_a_directory_it_sees_nothing_beside_it() {
    let file = need!(guest("dataset"));
    let space = Space::new();
    space.write("data/inside", "a file");
    space.write("inside", "not a file of it");
    let found = attempts(file, &space, "data");
    let refused = |line: &str| line.contains(": Err(") || line.starts_with("denied ");
    assert!(found.lines().count() > 10 && found.lines().all(refused), "{found}");
    assert_eq!(
        (space.read("inside"), files_below(&space.path("data")).len()),
        ("not a file of it".to_owned(), 1)
    );
}

/// Started, and once `ready` killed by two signals, as a person does who has had enough.
#[track_caller]
fn interrupted(file: &Path, behaviour: &str, ready: impl Fn(&Space) -> bool) {
    let space = Space::new();
    eval(json!({"behaviour": behaviour})).write(&space);
    space.add(file);
    let mut running = Running::start(&space, space.command(["run", "eval.yaml"]));
    wait_until("the reading of cases", || ready(&space));
    running.signal(Signal::INT);
    wait_until("the end", || running.ended());
    running.end().exits(130);
    assert!(!space.path("runs").exists(), "nothing could start, and there is a run");
    space.assert_tidy();
}

#[test]
fn a_dataset_without_end_can_be_interrupted_and_leaves_nothing() {
    let file = need!(guest("dataset"));
    let size = |space: &Space| -> u64 {
        files_below(&space.path("runs")).iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum()
    };
    interrupted(file, "endless", |space| size(space) > 100_000);
    interrupted(file, "loop-in-open", |space| space.runs().len() == 1);
}

#[test]
fn a_dataset_without_end_ends_at_its_limit() {
    let file = need!(guest("dataset"));
    let space = Space::new();
    space.add(file);
    let told = |behaviour: &str, most: u64| {
        eval(json!({"behaviour": behaviour, "count": 300}))
            .set("dataset.max_cases", json!(most))
            .write(&space);
        space.mst(["run", "eval.yaml"])
    };
    insta::assert_snapshot!(told("endless", 5000).exits(105).stderr, @"
    error: the dataset `test/dataset/hostile` can't be read
      - it gives more than 5000 cases, its limit
    hint: `max_cases` in the eval's `dataset` admits more
    ");
    assert!(!space.path("runs").exists(), "nothing could start, and there is a run");
    told("count", 299).exits(105);
    told("count", 300).exits(0);
    insta::assert_snapshot!(told("count", 0).exits(105).stderr, @"
    error: the eval `eval.yaml` is not valid
      - `dataset.max_cases`: 0 is less than the minimum of 1
    hint: `mst schema eval` prints the schema
    ");
}

#[test]
fn a_link_as_the_named_file_is_the_users_own_word() {
    let file = need!(guest("dataset"));
    let space = Space::new();
    space.write("real/inside", "a file");
    space.write("real/sibling", "not named");
    std::os::unix::fs::symlink("real/inside", space.path("named")).expect("linked");
    run(file, &space, json!({"behaviour": "options", "path": "named"})).exits(0);
    insta::assert_snapshot!(space.run().report_text("case-0/v/0"), @r#"path=Some("/data/named") count=None"#);
}
