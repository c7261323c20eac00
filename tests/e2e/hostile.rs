//! Judges of a stranger's that do what none should: each is its own instrument's error, said with
//! plugin, function, limit and use, and the good judge beside it never notices.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{
    Eval, Output, Run, Space, before_its_deadline, case, files_below, guest, holds, need, wasm,
};

/// A judge `NAME` that behaves so.
fn hostile(behaviour: &str, more: Value) -> Value {
    let mut options = json!({"behaviour": behaviour});
    options.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    json!({"id": behaviour, "plugin": "test/judge/hostile", "options": options})
}

/// Two cases under these judges and a good one.
fn run(file: &Path, space: &Space, judges: impl IntoIterator<Item = Value>) -> (Output, Run) {
    let (output, run) = run_within(file, space, judges, 60);
    assert_good_passes(&output, &run);
    (output, run)
}

/// Each with so many seconds for a trial.
fn run_within(
    file: &Path,
    space: &Space,
    judges: impl IntoIterator<Item = Value>,
    seconds: u64,
) -> (Output, Run) {
    let good = json!({"id": "good", "plugin": "mst/judge/text", "options": {"mode": "exact"}});
    let judges: Vec<Value> = judges.into_iter().chain([good]).collect();
    Eval::new()
        .judges(json!(judges))
        .cases(["a", "b"].map(case))
        .set("deadlines", json!({"scoring": format!("{seconds}s")}))
        .write(space);
    space.add(file);
    let output = space.mst(["run", "eval.yaml"]);
    let run = space.run();
    run.assert_whole();
    space.assert_tidy();
    (output, run)
}

#[track_caller]
fn assert_good_passes(output: &Output, run: &Run) {
    for case in ["a", "b"] {
        assert_eq!(run.grade("good", &format!("{case}/v/0"))["verdict"]["finding"], "pass", "{output}");
    }
}

/// The part of the summary that tells what broke.
fn broken(output: &Output) -> &str {
    output.stdout.split_once("instrument errors:\n").map_or("", |(_, errors)| errors)
}

fn reason(run: &Run, judge: &str) -> String {
    run.grade(judge, "a/v/0")["verdict"]["reason"].as_str().expect("a verdict").to_owned()
}

#[test]
fn time_is_bounded_wherever_it_goes() {
    let file = need!(guest("judge"));
    let judges = [
        hostile("loop", json!({})),
        hostile("sleep-in-guest", json!({})),
        hostile("sleep-in-host-call", json!({})),
        hostile("host-call-flood", json!({"count": 1_000_000_000})),
    ];
    // The good one has no longer than they: it needs a machine that has a moment for it.
    let (output, seconds) = before_its_deadline([2, 20], |seconds| {
        let space = Space::new();
        let (output, run) = run_within(file, &space, judges.clone(), seconds);
        let had_none =
            broken(&output).contains(" good: `mst/judge/text` met a limit in `judge`: the call took ");
        (!had_none).then(|| {
            assert_good_passes(&output, &run);
            (output, seconds)
        })
    });
    let output = output.exits(106);
    let stdout = output.stdout.replace(&format!("its limit is {seconds}.0 s"), "its limit is [DEADLINE]");
    insta::assert_snapshot!(stdout, @"

    [RUN]
    2 cases, 2 trials, complete

     variant  judge               passed  failed  instrument errors  missing                  pass rate
     v        loop                     0       0                  2        0                          –
     v        sleep-in-guest           0       0                  2        0                          –
     v        sleep-in-host-call       0       0                  2        0                          –
     v        host-call-flood          0       0                  2        0                          –
     v        good                     2       0                  0        0  100.0 % [34.2 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)

    instrument errors:
         2 × loop: `test/judge/hostile` met a limit in `judge`: the call took [TIME], its limit is [DEADLINE]
             first at a v #0
         2 × sleep-in-guest: `test/judge/hostile` met a limit in `judge`: the call took [TIME], its limit is [DEADLINE]
             first at a v #0
         2 × sleep-in-host-call: `test/judge/hostile` met a limit in `judge`: the call took [TIME], its limit is [DEADLINE]
             first at a v #0
         2 × host-call-flood: `test/judge/hostile` met a limit in `judge`: the call took [TIME], its limit is [DEADLINE]
             first at a v #0
    ");
}

#[test]
fn memory_stack_and_handles_are_bounded() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let judges = [
        // 400 MiB at once.
        hostile("reason-huge", json!({"count": 400 << 20})),
        hostile("deep-recursion", json!({})),
        hostile("deep-recursion-plain", json!({})),
        hostile("handles", json!({})),
        hostile("handles-streams", json!({})),
        // Refused, it copes: that is its right.
        hostile("memory", json!({})),
    ];
    let (output, run) = run(file, &space, judges);
    assert_eq!(output.code, 106, "{output}");
    insta::assert_snapshot!(broken(&output), @"
    2 × reason-huge: `test/judge/hostile` met a limit in `judge`: it asked for 401.2 MiB of memory, its limit is 256.0 MiB
        first at a v #0
    2 × deep-recursion: `test/judge/hostile` crashed in `judge`: wasm trap: out of bounds memory access
        first at a v #0
    2 × deep-recursion-plain: `test/judge/hostile` met a limit in `judge`: its calls went deeper than the 512 KiB stack admits
        first at a v #0
    2 × handles: `test/judge/hostile` met a limit in `judge`: it held 1024 handles of the host's, its limit is 1024
        first at a v #0
    2 × handles-streams: `test/judge/hostile` met a limit in `judge`: it held 1024 handles of the host's, its limit is 1024
        first at a v #0
    ");
    assert!(reason(&run, "memory").starts_with("refused after 2"), "{}", reason(&run, "memory"));
}

#[test]
fn a_crash_is_said_with_its_last_words() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let judges = ["trap", "panic", "exit"].map(|behaviour| hostile(behaviour, json!({})));
    let (output, _) = run(file, &space, judges);
    assert_eq!(output.code, 106, "{output}");
    insta::assert_snapshot!(broken(&output), @"
    2 × trap: `test/judge/hostile` crashed in `judge`: wasm trap: wasm `unreachable` instruction executed
        first at a v #0
    2 × panic: `test/judge/hostile` crashed in `judge`: wasm trap: wasm `unreachable` instruction executed; its last words: thread '<unnamed>' (1) panicked at judge/src/lib.rs:45:24: / told to panic / note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
        first at a v #0
    2 × exit: `test/judge/hostile` crashed in `judge`: it exited with code 0 in place of an answer
        first at a v #0
    ");
}

#[test]
fn verdicts_that_the_contract_does_not_admit_do_not_count() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let behaviours = [
        "cites-unseen",
        "cites-wrong-quote",
        "cites-often",
        "score-nan",
        "score-2",
        "score-negative",
        "measure-nan",
        "measure-name",
    ];
    let (output, _) = run(file, &space, behaviours.map(|behaviour| hostile(behaviour, json!({}))));
    assert_eq!(output.code, 106, "{output}");
    insta::assert_snapshot!(broken(&output), @"
    2 × cites-unseen: `test/judge/hostile` gave a wrong answer from `judge`: it cites `files/nope`, which the trial does not have
        first at a v #0
    2 × cites-wrong-quote: `test/judge/hostile` gave a wrong answer from `judge`: it cites words that do not stand in `report`: `words that no client ever wrote, 0xdecaf`
        first at a v #0
    2 × cites-often: `test/judge/hostile` gave a wrong answer from `judge`: 100000 citations, where at most 64 are admitted
        first at a v #0
    2 × score-nan: `test/judge/hostile` gave a wrong answer from `judge`: a score of NaN, where it must be 0.0 to 1.0
        first at a v #0
    2 × score-2: `test/judge/hostile` gave a wrong answer from `judge`: a score of 2, where it must be 0.0 to 1.0
        first at a v #0
    2 × score-negative: `test/judge/hostile` gave a wrong answer from `judge`: a score of -0.1, where it must be 0.0 to 1.0
        first at a v #0
    2 × measure-nan: `test/judge/hostile` gave a wrong answer from `judge`: the measure `n` is inf, where it must be finite
        first at a v #0
    2 × measure-name: `test/judge/hostile` gave a wrong answer from `judge`: a measure called `A name `, where a name is 1 to 64 of `a-z`, `0-9`, `_`, `.` and `-`
        first at a v #0
    ");
}

#[test]
fn its_own_errors_are_its_own_words() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let behaviours = [
        "error-invalid",
        "error-not-found",
        "error-unavailable",
        "error-denied",
        "error-failed",
        "no-such-behaviour",
    ];
    let (output, _) = run(file, &space, behaviours.map(|behaviour| hostile(behaviour, json!({}))));
    assert_eq!(output.code, 106, "{output}");
    insta::assert_snapshot!(broken(&output), @"
    2 × error-invalid: `test/judge/hostile`: told to be invalid
        first at a v #0
    2 × error-not-found: `test/judge/hostile`: not found: told not to be found
        first at a v #0
    2 × error-unavailable: `test/judge/hostile`: unavailable: told to be unavailable
        first at a v #0
    2 × error-denied: `test/judge/hostile`: denied: told to be denied
        first at a v #0
    2 × error-failed: `test/judge/hostile`: told to fail
        first at a v #0
    2 × no-such-behaviour: `test/judge/hostile`: `no-such-behaviour` is no behaviour of this guest
        first at a v #0
    ");
}

#[test]
fn what_it_was_not_given_is_denied_and_the_rule_is_said() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let judges = [
        hostile("workspace-undeclared", json!({})),
        hostile("slot-option", json!({"cmd": ["echo", "the user's own"]})),
        hostile("slot-unknown", json!({})),
        hostile("slot-dash", json!({})),
        hostile("slot-missing", json!({})),
        hostile("stdin-not-admitted", json!({})),
        hostile("slot-good", json!({})),
        hostile("run-opt", json!({"cmd": ["echo", "the user's own"]})),
    ];
    let (output, run) = run(file, &space, judges);
    assert_eq!(output.code, 106, "{output}");
    insta::assert_snapshot!(output.said(), @r#"
    grade 1/18 workspace-undeclared a v #0: instrument error: `test/judge/hostile` was denied `workspace.run("nope")`: its manifest has no `[[workspace]]` template of that id, only `sleep`, `echo-stdin`, `opt`, `flag`
    grade 10/18 workspace-undeclared b v #0: instrument error: `test/judge/hostile` was denied `workspace.run("nope")`: its manifest has no `[[workspace]]` template of that id, only `sleep`, `echo-stdin`, `opt`, `flag`
    "#);
    insta::assert_snapshot!(broken(&output), @r#"
    2 × workspace-undeclared: `test/judge/hostile` was denied `workspace.run("nope")`: its manifest has no `[[workspace]]` template of that id, only `sleep`, `echo-stdin`, `opt`, `flag`
        first at a v #0
    "#);
    let names = [
        "slot-option",
        "slot-unknown",
        "slot-dash",
        "slot-missing",
        "stdin-not-admitted",
        "slot-good",
        "run-opt",
    ];
    let reasons: String = names.map(|name| format!("{name}: {}\n", reason(&run, name))).concat();
    insta::assert_snapshot!(reasons, @r#"
    slot-option: refused: Invalid("template `opt`: slot `cmd` is `option(cmd)`, which the user fills in, never the plugin")
    slot-unknown: refused: Invalid("template `flag`: the template has no slot `other`")
    slot-dash: refused: Invalid("template `flag`: value `-n` for slot `value` is not admitted by `text(/[a-z]+/)`: it must be text without control or invisible characters that `[a-z]+` matches as a whole")
    slot-missing: refused: Invalid("template `flag`: slot `value` is not filled, and is not in a `[...]` group")
    stdin-not-admitted: refused: Invalid("template `echo-stdin` takes no stdin")
    slot-good: ran: Code(0) stdout="fine\n" stderr=""
    run-opt: ran: Code(0) stdout="the user's own\n" stderr=""
    "#);
}

/// The judge with more in its manifest than its own.
fn with_more(file: &Path, space: &Space, more: impl FnOnce(&mut Value)) -> PathBuf {
    let bytes = fs::read(file).expect("reads");
    let mut manifest = wasm::manifest(&bytes);
    more(&mut manifest);
    space.write("judge.wasm", wasm::with_manifest(&bytes, &manifest));
    space.path("judge.wasm")
}

#[test]
fn whatever_it_fills_a_slot_with_is_one_value_of_its_type_or_refused() {
    let file = need!(guest("judge"));
    let space = Space::new();
    // What is admitted as a name becomes a file; the text is any.
    let templates = [
        ("ident", json!(["touch", "--", "{value:ident}"])),
        ("path", json!(["echo", "{value:machine-path}"])),
        ("any", json!(["printf", "<%s>", "{value:text(/.*/)}"])),
        ("look", json!(["ls", "-A"])),
    ];
    let file = with_more(file, &space, |manifest| {
        let workspace = manifest["workspace"].as_array_mut().expect("templates");
        let template = |(id, argv)| json!({"id": id, "argv": argv, "timeout": "10s", "stdin": "none"});
        workspace.extend(templates.map(template));
    });
    let judge = |id: &str, behaviour: &str| {
        json!({"id": format!("{id}-{behaviour}"), "plugin": "test/judge/hostile",
               "options": {"behaviour": behaviour, "attempt": id}})
    };
    let judges = ["ident", "path", "any"].map(|id| judge(id, "slot-texts")).into_iter();
    let (output, run) = run(&file, &space, judges.chain([judge("ident", "slot-forms")]));
    assert_eq!(output.code, 0, "{output}");
    assert!(wicked(&output.stderr).is_none() && wicked(&output.stdout).is_none(), "{output}");
    insta::assert_snapshot!(reason(&run, "ident-slot-texts"), @r#"
    plain: Code(0) ""
    empty: Invalid("template `ident`: value `` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    NUL: Invalid("template `ident`: value `a\\u{0}b` for slot `value` is not admitted by `ident`: it holds a control character")
    newline: Invalid("template `ident`: value `a\\ntouch ran` for slot `value` is not admitted by `ident`: it holds a control character")
    escape: Invalid("template `ident`: value `a\\u{1b}[2Jb` for slot `value` is not admitted by `ident`: it holds a control character")
    bidi: Invalid("template `ident`: value `a\\u{202e}b` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    nothing to see: Invalid("template `ident`: value `a\\u{200b}b` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    two commands: Invalid("template `ident`: value `a;touch ran` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    a command's output: Invalid("template `ident`: value `$(touch ran)` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    the same, older: Invalid("template `ident`: value ``touch ran`` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    quotes: Invalid("template `ident`: value `'\"; touch ran; '` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    pattern: Invalid("template `ident`: value `*` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    flag: Invalid("template `ident`: value `-n` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    long flag: Invalid("template `ident`: value `--help` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    Cyrillic: Invalid("template `ident`: value `pаss` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    full width: Invalid("template `ident`: value `ｐass` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    up: Invalid("template `ident`: value `../../etc/passwd` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    up, from the root: Invalid("template `ident`: value `/work/../etc/passwd` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    remote: Invalid("template `ident`: value `host:/etc/passwd` for slot `value` is not admitted by `ident`: it must be 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`, first a letter, digit or `_`")
    5 KiB: Invalid("template `ident`: value `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` for slot `value` is not admitted by `ident`: it has 5120 bytes; at most 4096 are admitted")
    in the workspace: Ok("fine\n")
    "#);
    insta::assert_snapshot!(reason(&run, "path-slot-texts"), @r#"
    plain: Invalid("template `path`: value `fine` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    empty: Invalid("template `path`: value `` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    NUL: Invalid("template `path`: value `a\\u{0}b` for slot `value` is not admitted by `machine-path`: it holds a control character")
    newline: Invalid("template `path`: value `a\\ntouch ran` for slot `value` is not admitted by `machine-path`: it holds a control character")
    escape: Invalid("template `path`: value `a\\u{1b}[2Jb` for slot `value` is not admitted by `machine-path`: it holds a control character")
    bidi: Invalid("template `path`: value `a\\u{202e}b` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    nothing to see: Invalid("template `path`: value `a\\u{200b}b` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    two commands: Invalid("template `path`: value `a;touch ran` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    a command's output: Invalid("template `path`: value `$(touch ran)` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    the same, older: Invalid("template `path`: value ``touch ran`` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    quotes: Invalid("template `path`: value `'\"; touch ran; '` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    pattern: Invalid("template `path`: value `*` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    flag: Invalid("template `path`: value `-n` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    long flag: Invalid("template `path`: value `--help` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    Cyrillic: Invalid("template `path`: value `pаss` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    full width: Invalid("template `path`: value `ｐass` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    up: Invalid("template `path`: value `../../etc/passwd` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    up, from the root: Invalid("template `path`: value `/work/../etc/passwd` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    remote: Invalid("template `path`: value `host:/etc/passwd` for slot `value` is not admitted by `machine-path`: it must be an absolute path without empty, `.` or `..` parts, of ASCII letters, digits and `_.-+=,@%`")
    5 KiB: Invalid("template `path`: value `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` for slot `value` is not admitted by `machine-path`: it has 5120 bytes; at most 4096 are admitted")
    in the workspace: Ok("")
    "#);
    insta::assert_snapshot!(reason(&run, "any-slot-texts"), @r#"
    plain: Code(0) "<fine>"
    empty: Code(0) "<>"
    NUL: Invalid("template `any`: value `a\\u{0}b` for slot `value` is not admitted by `text(/.*/)`: it holds a control character")
    newline: Invalid("template `any`: value `a\\ntouch ran` for slot `value` is not admitted by `text(/.*/)`: it holds a control character")
    escape: Invalid("template `any`: value `a\\u{1b}[2Jb` for slot `value` is not admitted by `text(/.*/)`: it holds a control character")
    bidi: Invalid("template `any`: value `a\\u{202e}b` for slot `value` is not admitted by `text(/.*/)`: it must be text without control or invisible characters that `.*` matches as a whole")
    nothing to see: Invalid("template `any`: value `a\\u{200b}b` for slot `value` is not admitted by `text(/.*/)`: it must be text without control or invisible characters that `.*` matches as a whole")
    two commands: Code(0) "<a;touch ran>"
    a command's output: Code(0) "<$(touch ran)>"
    the same, older: Code(0) "<`touch ran`>"
    quotes: Code(0) "<'\"; touch ran; '>"
    pattern: Code(0) "<*>"
    flag: Invalid("template `any`: value `-n` for slot `value` is not admitted by `text(/.*/)`: it starts with `-`, which the program would take for an option")
    long flag: Invalid("template `any`: value `--help` for slot `value` is not admitted by `text(/.*/)`: it starts with `-`, which the program would take for an option")
    Cyrillic: Code(0) "<pаss>"
    full width: Code(0) "<ｐass>"
    up: Code(0) "<../../etc/passwd>"
    up, from the root: Code(0) "</work/../etc/passwd>"
    remote: Code(0) "<host:/etc/passwd>"
    5 KiB: Invalid("template `any`: value `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` for slot `value` is not admitted by `text(/.*/)`: it has 5120 bytes; at most 4096 are admitted")
    in the workspace: Ok("")
    "#);
    insta::assert_snapshot!(reason(&run, "ident-slot-forms"), @r#"
    no value: Invalid("template `ident`: slot `value` is not filled, and is not in a `[...]` group")
    two values: Invalid("template `ident`: slot `value` takes one value, and was given 2")
    the second wicked: Invalid("template `ident`: slot `value` takes one value, and was given 2")
    100,000 values: Invalid("template `ident`: slot `value` takes one value, and was given 100000")
    twice: Invalid("template `ident`: slot `value` is filled twice")
    no name: Invalid("template `ident`: the template has no slot ``")
    a name with escapes: Invalid("template `ident`: the template has no slot `\\u{1b}[2J\\u{202e}`")
    a type in the name: Invalid("template `ident`: the template has no slot `value:text(/.*/)`")
    a number for a name: Invalid("template `ident`: the template has no slot `0`")
    100,000 slots: Invalid("template `ident`: the template has no slot `0`")
    in the workspace: Ok("")
    "#);
}

#[test]
fn it_is_given_the_variables_that_were_granted_and_no_other() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let file = with_more(file, &space, |manifest| manifest["env"] = json!(["E2E_GRANTED", "E2E_REFUSED"]));
    Eval::new().judges(json!([hostile("env-dump", json!({}))])).write(&space);
    let add = ["plugin", "add", file.to_str().expect("UTF-8"), "--grant", "env:E2E_GRANTED"];
    space.mst(add).exits(0);
    let mut command = space.command(["run", "eval.yaml"]);
    for name in ["E2E_GRANTED", "E2E_REFUSED", "E2E_UNASKED"] {
        command.env(name, format!("value of {name}"));
    }
    let output = space.finish(command).exits(0);
    let run = space.run();
    assert_eq!(
        reason(&run, "env-dump"),
        "env E2E_GRANTED=value of E2E_GRANTED\nstdin Ok(\"\")\n",
        "{output}"
    );
    // What it was given stands in its verdict; what it was not, in no file of the run.
    for path in files_below(run.dir()) {
        let bytes = fs::read(&path).expect("reads");
        for name in ["E2E_REFUSED", "E2E_UNASKED"] {
            assert!(!holds(&bytes, &format!("value of {name}")), "{}", path.display());
        }
    }
    // Taken back, it is hidden as well.
    space.mst(["plugin", "revoke", "test/judge/hostile", "env:E2E_GRANTED"]).exits(0);
    let mut command = space.command(["run", "eval.yaml", "--runs", "again"]);
    command.env("E2E_GRANTED", "value");
    space.finish(command).exits(0);
    let again = fs::read_dir(space.path("again")).expect("lists").next().expect("a run").expect("an entry");
    assert_eq!(reason(&Run::at(again.path()), "env-dump"), "stdin Ok(\"\")\n");
}

#[test]
fn it_reaches_no_file_no_variable_and_no_other_trial() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let judges =
        ["fs-escape", "env-dump", "read-past", "state"].map(|behaviour| hostile(behaviour, json!({})));
    let (output, run) = run(file, &space, judges);
    assert_eq!(output.code, 0, "{output}");
    let files = reason(&run, "fs-escape");
    assert!(files.lines().count() > 10 && files.lines().all(|line| line.contains(": Err(")), "{files}");
    assert_eq!(reason(&run, "env-dump"), "stdin Ok(\"\")\n");
    // A fresh instance each time.
    for case in ["a", "b"] {
        assert_eq!(run.grade("state", &format!("{case}/v/0"))["verdict"]["reason"], "1");
    }
    insta::assert_snapshot!(reason(&run, "read-past"), @r#"
    files/nope@0+10: Err(NotFound("the trial has no entry `files/nope`"))
    files/../report@0+10: Err(NotFound("the trial has no entry `files/../report`"))
    @0+10: Err(NotFound("the trial has no entry ``"))
    report@18446744073709551615+10: Ok((0, 0))
    report@1099511627776+4294967295: Ok((0, 0))
    report@0+0: Ok((0, 1))
    report@0+4294967295: Ok((1, 0))
    "#);
    assert!(!Path::new("/tmp/mst-escape").exists());
}

#[test]
fn what_it_says_is_bounded() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let judges = [
        hostile("log-flood", json!({})),
        hostile("progress-flood", json!({})),
        hostile("big-log-line", json!({})),
        hostile("stdout", json!({})),
        hostile("reason-huge", json!({})),
    ];
    let (output, run) = run(file, &space, judges);
    assert_eq!(output.code, 0, "{output}");
    // A thousand lines a call and a word on the rest; a line has at most 2 KiB. What it writes to its
    // standard streams counts as its lines do.
    let lines = |what: &str| output.stderr.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("test/judge/hostile: info: line "), 2 * 1000);
    assert_eq!(lines("99000 more lines were dropped: a plugin may say 1000 in one call"), 2 * 2);
    let of_streams = lines("test/judge/hostile: info: out ") + lines("test/judge/hostile: warning: err ");
    assert_eq!(of_streams, 2 * 1000);
    assert_eq!(lines("1002 more lines were dropped: a plugin may say 1000 in one call"), 2);
    assert!(output.stderr.lines().all(|line| line.len() < 2200), "a line is too long");
    assert_eq!(reason(&run, "reason-huge").len(), 4096 + "…".len());
}

/// What no terminal and no file of ours may get from a plugin.
fn wicked(text: &str) -> Option<char> {
    text.chars().find(|&c| {
        (c.is_control() && c != '\n') || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    })
}

#[test]
fn no_byte_that_a_terminal_obeys_comes_from_it() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let (output, run) =
        run(file, &space, [hostile("escapes", json!({})), hostile("cites-wrong-quote", json!({}))]);
    insta::assert_snapshot!(output.said(), @"
    test/judge/hostile: warning: a�[2Jb�]0;title�c�d�e f�g�h�31mi�j�k
    test/judge/hostile: info: a�[2Jb�]0;title�c�d�e
    test/judge/hostile: info: f�g�h�31mi�j�k
    grade 2/6 cites-wrong-quote a v #0: instrument error: `test/judge/hostile` gave a wrong answer from `judge`: it cites words that do not stand in `report`: `words that no client ever wrote, 0xdecaf`
    test/judge/hostile: warning: a�[2Jb�]0;title�c�d�e f�g�h�31mi�j�k
    test/judge/hostile: info: a�[2Jb�]0;title�c�d�e
    test/judge/hostile: info: f�g�h�31mi�j�k
    grade 5/6 cites-wrong-quote b v #0: instrument error: `test/judge/hostile` gave a wrong answer from `judge`: it cites words that do not stand in `report`: `words that no client ever wrote, 0xdecaf`
    ");
    for (name, bytes) in [("stdout", &output.raw.0), ("stderr", &output.raw.1)] {
        assert_eq!(wicked(&String::from_utf8_lossy(bytes)), None, "{name}");
    }
    for path in files_below(&run.dir().join("grades")) {
        let grade: Value = serde_json::from_slice(&fs::read(&path).expect("reads")).expect("JSON");
        // As JSON has them escaped, on the values.
        assert_eq!(wicked(&texts(&grade)), None, "{}", path.display());
    }
    let report = space.mst(["report", &run.name()]);
    assert_eq!(wicked(&String::from_utf8_lossy(&report.raw.0)), None);
    let json = space.mst(["report", &run.name(), "--json"]);
    assert_eq!(wicked(&texts(&json.json())), None);
}

/// Every text in a value.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| name.clone() + &texts(value)).collect(),
        _ => String::new(),
    }
}

#[test]
fn evidence_is_what_the_trial_left() {
    let file = need!(guest("judge"));
    let space = Space::new();
    Eval::new()
        .client("printf 'caf\\303\\251'; echo err >&2; mkdir out; echo file > out/f")
        .judges(json!([hostile("echo-evidence", json!({}))]))
        .write(&space);
    space.add(file);
    space.mst(["run", "eval.yaml"]).exits(0);
    insta::assert_snapshot!(reason(&space.run(), "echo-evidence"), @"
    entry files/out/f 5 5
    entry report 5 5
    entry stderr 4 4
    outcome Completed None Some(Code(0))
    case a
    variant v index 0
    report Some(5)
    ");
}
