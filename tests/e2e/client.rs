//! Clients: processes of their own, and what of them is kept.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Eval, Run, Running, Space, before_its_deadline, case, gone, sh, sha256, wait_until};

/// The run of an eval whose trials all pass.
fn run_of(eval: &Eval) -> (Space, Run) {
    let space = Space::new();
    eval.run(&space).exits(0);
    let run = passed(&space);
    (space, run)
}

/// The only run of a place, all of whose trials pass.
fn passed(space: &Space) -> Run {
    let run = space.run();
    run.assert_whole();
    run.assert_passed();
    space.assert_tidy();
    run
}

/// A judge that passes everything.
fn lenient(eval: Eval) -> Eval {
    eval.check("true")
}

#[test]
fn a_report_is_kept_byte_for_byte() {
    let (_space, run) =
        run_of(&lenient(Eval::new().client(r"printf 'a\000\377\376\r\n\033[31m\303'; printf '\001' >&2")));
    let expected = b"a\0\xff\xfe\r\n\x1b[31m\xc3";
    assert_eq!(run.report("a/v/0"), expected);
    let transcript = run.transcript("a/v/0");
    assert_eq!(transcript["report"], json!({"size_bytes": 12, "cut_bytes": 0, "sha256": sha256(expected)}));
    assert_eq!(transcript["stderr"]["size_bytes"], 1);
    assert_eq!(transcript["outcome"], json!({"status": "completed", "exit": {"code": 0}}));
}

#[test]
fn its_version_is_asked_once_and_stands_in_every_transcript() {
    let space = Space::new();
    let eval = Eval::new().cases(["a", "b"].map(case)).client("cat").set(
        "client.version_argv",
        json!(["sh", "-c", "echo asked >> asked; echo >> $LOG; printf '\\nagent 1.2\\033[31m\\nmore\\n'"]),
    );
    let log = space.path("log").to_string_lossy().into_owned();
    let eval = eval.set("client.env", json!({"LOG": log}));
    eval.run(&space).exits(0);
    let run = space.run();
    for trial in ["a/v/0", "b/v/0"] {
        assert_eq!(run.transcript(trial)["client"], json!({"name": "command", "version": "agent 1.2[31m"}));
        assert!(run.transcript(trial).get("files").is_none(), "it was asked in a directory of its own");
    }
    assert_eq!(space.read("log"), "\n", "once for both");
    run.assert_whole();
    space.assert_tidy();

    let space = Space::new();
    Eval::new().run(&space).exits(0);
    let echo = &space.run().transcript("a/v/0")["client"];
    assert_eq!(*echo, json!({"name": "echo", "version": env!("CARGO_PKG_VERSION")}));
}

#[test]
fn who_says_its_version_has_no_secret_to_say() {
    let space = Space::new();
    Eval::new()
        .client("test \"$KEY\" = sesame-sesame")
        .set("client.pass_env", json!(["KEY"]))
        .set("client.version_argv", json!(["sh", "-c", "echo \"agent 1 ${KEY:-without}\""]))
        .write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("KEY", "sesame-sesame");
    space.finish(command).exits(0);
    let transcript = space.run().transcript("a/v/0");
    assert_eq!(transcript["client"]["version"], "agent 1 without");
    assert_eq!(transcript["outcome"]["status"], "completed", "the client itself has it");
}

#[test]
fn while_a_version_is_asked_mst_can_be_stopped() {
    let space = Space::new();
    let begun = space.text("begun");
    Eval::new()
        .client("cat")
        .set("client.env", json!({"BEGUN": begun}))
        .set("client.version_argv", json!(["sh", "-c", "touch $BEGUN; exec sleep 25"]))
        .write(&space);
    let mut running = Running::start(&space, space.command(["run", "eval.yaml"]));
    wait_until("the question", || space.path("begun").exists());
    let asked = std::time::Instant::now();
    running.signal(Signal::INT);
    wait_until("its end", || running.ended());
    // It would be over by itself in 25 seconds.
    assert!(asked.elapsed().as_secs() < 20, "{:?}", asked.elapsed());
    running.end().exits(130);
}

#[test]
fn without_the_version_that_it_should_say_it_is_asked_nothing() {
    for (argv, why) in [
        (json!(["sh", "-c", "echo 'no licence' >&2; exit 3"]), "ended with code 3, and said: no licence"),
        (json!(["true"]), "printed nothing"),
        (json!(["no-such-agent", "--version"]), "no program `no-such-agent`"),
    ] {
        let space = Space::new();
        let asked = space.path("asked").to_string_lossy().into_owned();
        let eval = Eval::new()
            .client("touch $ASKED")
            .set("client.env", json!({"ASKED": asked}))
            .set("client.version_argv", argv);
        let said = eval.run(&space).exits(105).said();
        assert!(
            said.contains("the version of the client of `v` can't be had: ") && said.contains(why),
            "{said}"
        );
        assert!(!space.path("asked").exists() && space.runs().is_empty());
    }
}

#[test]
fn output_is_bounded_and_what_was_cut_is_counted() {
    let eval = Eval::new()
        .client("head -c 1000000 /dev/zero; head -c 2000 /dev/zero >&2")
        .set("client.max_output_bytes", json!(1000));
    let (_space, run) = run_of(&lenient(eval));
    assert_eq!(run.report("a/v/0"), [0; 1000]);
    let transcript = run.transcript("a/v/0");
    let cut = |name: &str| (&transcript[name]["size_bytes"], &transcript[name]["cut_bytes"]);
    assert_eq!(cut("report"), (&json!(1000), &json!(999_000)));
    assert_eq!(cut("stderr"), (&json!(1000), &json!(1000)));
}

#[test]
fn at_its_deadline_all_that_it_started_is_gone_before_it_is_judged() {
    // A child, a grandchild of a child that has ended, one in a session of its own, and one that
    // shrugs off every signal that it can.
    let client = "
        echo partial
        echo $$ >> pids
        sleep 600 & echo $! >> pids
        sh -c 'sleep 600 & echo $! >> pids'
        setsid sh -c 'echo $$ >> pids; sleep 600 & echo $! >> pids; wait' &
        sh -c 'trap \"\" TERM HUP INT; echo $$ >> pids; while :; do sleep 600; done' &
        while test $(wc -l < pids) -lt 6; do sleep 0.01; done
        touch ready $READY
        wait";
    let eval = Eval::new()
        .client(client)
        .check("test -e ready && test $(wc -l < pids) -eq 6 && for pid in $(cat pids); do if kill -0 $pid; then exit 1; fi; done");
    let (space, output) = before_its_deadline([3, 50], |seconds| {
        let space = Space::new();
        let eval = eval.clone().set("client.env", json!({"READY": space.text("ready")}));
        let output = eval.set("deadlines", json!({"client": format!("{seconds}s")})).run(&space);
        space.path("ready").exists().then_some((space, output))
    });
    output.exits(0);
    let run = passed(&space);
    let transcript = run.transcript("a/v/0");
    // Graded on what it left, cut short or not.
    assert_eq!(transcript["outcome"]["status"], "completed");
    assert_eq!(transcript["outcome"]["limit"], "timeout");
    assert_eq!(transcript["outcome"].get("cleanup"), None);
    assert_eq!(run.report("a/v/0"), b"partial\n");
}

#[test]
fn what_it_leaves_running_when_it_ends_is_gone_too() {
    let eval = Eval::new()
        .client("setsid sleep 600 > /dev/null 2>&1 & echo $! > pid; sleep 600 & echo $! >> pid; echo done")
        .check("for pid in $(cat pid); do if kill -0 $pid; then exit 1; fi; done");
    run_of(&eval);
}

#[test]
fn a_crash_is_graded() {
    let space = Space::new();
    let judges = json!([{"plugin": "mst/judge/text", "options": {"mode": "exact"}}]);
    let output = Eval::new()
        .client("cat; test $MST_CASE_ID = code && exit 3; kill -KILL $$")
        .cases(["code", "signal"].map(case))
        .judges(judges)
        .run(&space)
        .exits(0);
    insta::assert_snapshot!(output, @"
    exit 0
    -- stdout

    [RUN]
    2 cases, 2 trials, complete

     variant  judge  passed  failed  instrument errors  missing                  pass rate
     v        text        2       0                  0        0  100.0 % [34.2 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)
    -- stderr
    run [RUN] in runs/[RUN]
    2 cases
    collect 1/2 code v #0: crashed
    collect 2/2 signal v #0: crashed
    grade 1/2
    grade 2/2
    ");
    let outcome = |trial: &str| space.run().transcript(trial)["outcome"].clone();
    assert_eq!(outcome("code/v/0"), json!({"status": "crashed", "exit": {"code": 3}}));
    assert_eq!(outcome("signal/v/0"), json!({"status": "crashed", "exit": {"signal": 9}}));
}

#[test]
fn a_program_that_is_not_there_is_an_instruments_error_and_says_where_it_looked() {
    let space = Space::new();
    let client = |argv: Value| json!({"kind": "command", "argv": argv, "env": {"PATH": "/usr/bin:/bin"}});
    space.write("text", "no program");
    space.script("no-interpreter", "#!/no/such/interpreter\n");
    let output = Eval::new()
        .set(
            "variants",
            json!([
                {"id": "by-name", "client": client(json!(["no-such-agent"]))},
                {"id": "by-path", "client": client(json!(["./agents/no-such"]))},
                {"id": "no-program", "client": client(json!(["./text"]))},
                {"id": "no-interpreter", "client": client(json!(["./no-interpreter"]))},
                {"id": "good"},
            ]),
        )
        .run(&space)
        .exits(106);
    insta::assert_snapshot!(output, @"
    exit 106
    -- stdout

    [RUN]
    1 case, 5 trials, complete

     variant         judge  passed  failed  instrument errors  missing                  pass rate
     by-name         text        0       0                  1        0                          –
     by-path         text        0       0                  1        0                          –
     no-program      text        0       0                  1        0                          –
     no-interpreter  text        0       0                  1        0                          –
     good            text        1       0                  0        0  100.0 % [20.7 %, 100.0 %]
    pass rates with their 95 % interval (Wilson)

    instrument errors:
         1 × no program `no-such-agent`: looked in `/usr/bin`, `/bin`
             first at a by-name #0
         1 × no program `./agents/no-such`: looked in `[DIR]/./agents`
             first at a by-path #0
         1 × no program `./text`: `[DIR]/./text` is there, but is no executable file
             first at a no-program #0
         1 × program `[DIR]/./no-interpreter` names an interpreter that is not there
             first at a no-interpreter #0
    -- stderr
    run [RUN] in runs/[RUN]
    1 case
    collect 1/5 a by-name #0: instrument error
    collect 2/5 a by-path #0: instrument error
    collect 3/5 a no-program #0: instrument error
    collect 4/5 a no-interpreter #0: instrument error
    collect 5/5 a good #0: completed
    grade 1/5
    ");
    let transcript = space.run().transcript("a/by-name/0");
    assert_eq!(transcript["outcome"]["status"], "error");
    assert_eq!(transcript.get("report"), None);
}

#[test]
fn a_workspace_is_fresh_and_what_is_left_in_it_is_kept() {
    let eval = Eval::new()
        .client("ls -a; cat given/file; test -x given/run; echo exit $?; mkdir out; echo new > out/new; ln -s /etc/passwd link; rm given/file")
        .cases([
            json!({"id": "a", "prompt": "p", "files": [
                {"path": "given/file", "content": "from the case"},
                {"path": "given/run", "content": "", "executable": true},
            ]}),
            json!({"id": "b", "prompt": "p"}),
        ]);
    let space = Space::new();
    lenient(eval).run(&space).exits(0);
    let run = space.run();
    run.assert_whole();
    insta::assert_snapshot!(run.report_text("a/v/0"), @"
    .
    ..
    given
    from the caseexit 0
    ");
    insta::assert_snapshot!(run.report_text("b/v/0"), @"
    .
    ..
    exit 1
    ");
    let transcript = run.transcript("a/v/0");
    let paths: Vec<&Value> =
        transcript["files"].as_array().expect("files").iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["given/run", "out/new"]);
    assert_eq!(transcript["files"][0]["executable"], true);
    insta::assert_snapshot!(transcript["omitted"], @r#"[{"path":"link","why":"it is a symbolic link"}]"#);
}

#[test]
fn its_environment_is_closed() {
    let space = Space::new();
    let eval = Eval::new()
        .set(
            "client",
            json!({"kind": "command", "argv": ["env"], "env": {"OWN": "own"}, "pass_env": ["PASSED"]}),
        )
        .set("variants", json!([{"id": "v", "env": {"OF_VARIANT": "variant"}}]))
        .set("trials", json!(2))
        .cases([json!({"id": "a/b c", "prompt": "p"})]);
    lenient(eval).write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command
        .env("PASSED", "passed")
        .env("NOT_PASSED", "x")
        .env("PATH", "/usr/bin:/bin")
        .env("LANG", "xx")
        .env("MST_TRIAL", "77");
    space.finish(command).exits(0);
    let mut lines: Vec<String> =
        space.normal(&space.run().report_text("a%2Fb%20c/v/1")).lines().map(str::to_owned).collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"), @"
    HOME=[ROOT]/home
    LANG=C.UTF-8
    MST_CASE_ID=a/b c
    MST_PROCESS=[MARK]
    MST_PROMPT_FILE=[ROOT]/tmp/mst-[RANDOM]/trials/trial-[RANDOM]/prompt
    MST_TRIAL=1
    MST_VARIANT=v
    OF_VARIANT=variant
    OWN=own
    PASSED=passed
    PATH=/usr/bin:/bin
    TMPDIR=[ROOT]/tmp/mst-[RANDOM]/trials/trial-[RANDOM]/tmp
    ");
}

#[test]
fn the_prompt_comes_on_stdin_and_as_a_file_and_the_rest_of_the_case_does_not() {
    let client = "
        cat > stdin; cmp stdin $MST_PROMPT_FILE && cat stdin
        pwd > place; env; ls -aR \"$(dirname \"$MST_PROMPT_FILE\")\"; cat /proc/self/environ; grep -r . . ; true";
    let space = Space::new();
    lenient(Eval::new().client(client))
        .cases([json!({
            "id": "a", "prompt": "the question: \u{e9}\n", "expected": "CANARY-1", "metadata": {"k": "CANARY-2"}, "tags": ["CANARY-3"],
        })])
        .run(&space)
        .exits(0);
    let run = space.run();
    let report = String::from_utf8_lossy(&run.report("a/v/0")).into_owned();
    assert!(report.starts_with("the question: \u{e9}\n"), "{report}");
    assert!(!report.contains("CANARY"), "{report}");
    // That is where it would have been seen.
    let cases = run.cases();
    assert!(
        ["expected", "metadata", "tags"].iter().all(|part| cases[0][part].to_string().contains("CANARY"))
    );
}

#[test]
fn a_large_prompt_to_a_client_that_does_not_read_it_is_no_fault() {
    let prompt = "x".repeat(4 << 20);
    let eval = lenient(Eval::new().client("exec < /dev/null; echo fine"))
        .cases([json!({"id": "a", "prompt": prompt})]);
    let (_space, run) = run_of(&eval);
    assert_eq!(run.report("a/v/0"), b"fine\n");
}

#[test]
fn a_case_may_have_a_deadline_of_its_own() {
    let eval = lenient(Eval::new().client("echo $$ > pid; touch $BEGUN; exec sleep 600"));
    let (space, output) = before_its_deadline([3, 50], |seconds| {
        let space = Space::new();
        let eval = eval.clone().set("client.env", json!({"BEGUN": space.text("begun")}));
        let output =
            eval.cases([json!({"id": "a", "prompt": "p", "deadline_ms": 1000 * seconds})]).run(&space);
        space.path("begun").exists().then_some((space, output))
    });
    output.exits(0);
    let run = passed(&space);
    assert_eq!(run.transcript("a/v/0")["outcome"]["limit"], "timeout");
    let pid = std::fs::read_to_string(run.dir().join("trials/a/v/0/files/pid")).expect("reads");
    assert!(gone(&pid), "{pid}");
}

#[test]
fn a_program_with_a_slash_stands_beside_the_eval() {
    let space = Space::new();
    space.script("sub/agent.sh", "#!/bin/sh\necho beside\n");
    let eval = lenient(Eval::new()).set("client", json!({"kind": "command", "argv": ["./agent.sh"]}));
    eval.write(&space);
    for file in ["eval.yaml", "cases.jsonl"] {
        std::fs::rename(space.path(file), space.path("sub").join(file)).expect("moved");
    }
    // From wherever mst is started.
    space.mst(["run", "sub/eval.yaml"]).exits(0);
    assert_eq!(space.run().report("a/v/0"), b"beside\n");
}

#[test]
fn trials_of_a_case_are_counted_from_0() {
    let eval =
        lenient(Eval::new().set(
            "client",
            json!({"kind": "command", "argv": sh("echo $MST_CASE_ID $MST_VARIANT $MST_TRIAL")}),
        ))
        .set("trials", json!(3));
    let (_space, run) = run_of(&eval);
    assert_eq!([0, 1, 2].map(|n| run.report_text(&format!("a/v/{n}"))), ["a v 0\n", "a v 1\n", "a v 2\n"]);
}
