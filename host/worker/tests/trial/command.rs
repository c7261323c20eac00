//! The client that is a program.

use std::os::unix::fs::PermissionsExt as _;

use mst_model::outcome::Limit;
use rustix::process::{Pid, test_kill_process};

use super::*;

#[tokio::test]
async fn it_gets_the_prompt_twice_and_its_stdout_is_the_report() {
    let place = Place::new();
    let transcript = place
        .sh(
            "cat; echo; cat \"$MST_PROMPT_FILE\"; printf 'a\\000\\377'; echo why >&2; echo x >left; ls -A",
            case(),
        )
        .await;
    assert_eq!(transcript.outcome, Outcome::exited(Exit::Code(0)));
    assert_eq!(place.left_bytes("report"), b"2 + 2?\n2 + 2?a\0\xffleft\n", "the prompt's file lies outside");
    assert_eq!(place.left("stderr"), "why\n");
    assert_eq!(place.left("files/left"), "x\n");
    assert_eq!(transcript.report.expect("a report").cut_bytes, 0);
    assert_eq!(transcript.client.name, "command");
}

#[tokio::test]
async fn what_comes_after_the_bound_is_counted() {
    let place = Place::new();
    let client = json!({
        "kind": "command", "argv": ["sh", "-c", "head -c 500000 /dev/zero; head -c 7 /dev/zero >&2"],
        "max_output_bytes": 5,
    });
    let transcript = place.run(client, case()).await;
    let sizes =
        |stream: Option<mst_model::transcript::Captured>| stream.map(|it| (it.size_bytes, it.cut_bytes));
    assert_eq!(sizes(transcript.report), Some((5, 499_995)));
    assert_eq!(sizes(transcript.stderr), Some((5, 2)));
}

#[tokio::test]
async fn a_client_that_fails_has_crashed_and_what_it_left_is_kept() {
    for (script, exit) in
        [("echo x >left; exit 7", Exit::Code(7)), ("echo x >left; kill -SEGV $$", Exit::Signal(11))]
    {
        let place = Place::new();
        let transcript = place.sh(script, case()).await;
        assert_eq!(transcript.outcome, Outcome::exited(exit));
        assert_eq!(transcript.outcome.status, Status::Crashed);
        assert_eq!(transcript.files.len(), 1);
        assert_eq!(transcript.report.map(|it| it.size_bytes), Some(0), "it said nothing, which is an answer");
        assert_eq!(transcript.stderr, None);
    }
}

#[tokio::test]
async fn at_its_deadline_it_and_all_that_it_started_are_gone_and_what_it_left_is_kept() {
    // The longer one is for a machine that was too busy for all that comes before the shorter.
    for (deadline_ms, last) in [(2000, false), (20_000, true)] {
        let place = Place::new();
        let told = place.at("told");
        let script = format!(
            "mkfifo ready
            sleep 1000 & echo $!
            setsid sh -c 'echo $$ >ready; exec sleep 1000' >/dev/null 2>&1 &
            read daemon <ready; echo $daemon
            echo x >left
            touch {}
            sleep 1000",
            told.display()
        );
        let mut case = case();
        case["deadline_ms"] = json!(deadline_ms);
        let transcript = place.sh(&script, case).await;
        if told.exists() {
            return assert_all_is_gone_and_kept(&place, &transcript, deadline_ms);
        }
        assert!(!last, "it came as far as its deadline");
    }
}

fn assert_all_is_gone_and_kept(place: &Place, transcript: &Transcript, deadline_ms: u64) {
    assert_eq!(transcript.outcome, Outcome::timed_out(Some(Exit::Signal(9))));
    assert_eq!(transcript.outcome.limit, Some(Limit::Timeout));
    assert!(transcript.spent.client_ms >= deadline_ms);
    assert_eq!(place.left("files/left"), "x\n");
    assert_eq!(transcript.omitted[0].why, "it is a FIFO");
    let report = place.left("report");
    let pids: Vec<i32> = report.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        let alive = test_kill_process(Pid::from_raw(pid).expect("a pid"));
        assert_eq!(alive, Err(rustix::io::Errno::SRCH), "process {pid}");
    }
}

#[tokio::test]
async fn the_environment_is_closed_and_has_the_documented_names() {
    let mut place = Place::new();
    place.vars.extend([("TOKEN".to_owned(), "s3cret".to_owned()), ("UNASKED".to_owned(), "1".to_owned())]);
    let client = json!({
        "kind": "command", "argv": ["env"], "env": {"LEVEL": "high"}, "pass_env": ["TOKEN", "NOT_SET"],
    });
    let transcript = place.run(client, case()).await;
    let report = place.left("report");
    let env: BTreeMap<&str, &str> = report.lines().filter_map(|line| line.split_once('=')).collect();
    let names: Vec<&str> = env.keys().copied().collect();
    assert_eq!(
        names,
        [
            "HOME",
            "LANG",
            "LEVEL",
            "MST_CASE_ID",
            "MST_PROCESS",
            "MST_PROMPT_FILE",
            "MST_TRIAL",
            "MST_VARIANT",
            "PATH",
            "TMPDIR",
            "TOKEN",
        ]
    );
    assert_eq!((env["HOME"], env["LANG"], env["PATH"]), ("/home/someone", "C.UTF-8", PATH));
    assert_eq!((env["MST_CASE_ID"], env["MST_VARIANT"], env["MST_TRIAL"]), ("case/1", "arm", "2"));
    assert_eq!((env["LEVEL"], env["TOKEN"]), ("high", "s3cret"));
    assert!(env["TMPDIR"].starts_with(place.at("scratch").to_str().expect("text")));
    assert!(!Path::new(env["TMPDIR"]).exists(), "it is removed");
    assert_eq!(transcript.outcome.status, Status::Completed);
}

#[tokio::test]
async fn a_passed_value_is_recorded_nowhere() {
    let mut place = Place::new();
    place.vars.insert("TOKEN".to_owned(), "s3cret".to_owned());
    let client = json!({
        "kind": "command", "argv": ["sh", "-c", "test \"$TOKEN\" = s3cret && echo got it; echo TOKEN=$TOKEN >.env"],
        "pass_env": ["TOKEN"],
    });
    let transcript = place.run(client, case()).await;
    assert_eq!(place.left("report"), "got it\n");
    assert_eq!(transcript.files, []);
    let text = serde_json::to_string(&transcript).expect("writes");
    assert!(!text.contains("s3cret"), "{text}");
    let runner = place.runner(json!({"kind": "echo"}));
    assert!(!format!("{runner:?}").contains("s3cret"), "nor does it show in a log");
}

#[tokio::test]
async fn what_judges_compare_with_is_out_of_its_sight() {
    let place = Place::new();
    let mut case = case();
    case["expected"] = json!("the-answer");
    case["metadata"] = json!({"note": "the-answer"});
    case["tags"] = json!(["the-answer"]);
    let transcript = place.sh("env; cat; cat \"$MST_PROMPT_FILE\"; grep -r the- .. ; ls -AR ..", case).await;
    assert_eq!(transcript.outcome.exit, Some(Exit::Code(0)));
    assert!(!place.left("report").contains("the-answer"));
}

#[tokio::test]
async fn the_cases_files_stand_in_the_workspace_before_it_starts() {
    let place = Place::new();
    let mut case = case();
    case["files"] = json!([
        {"path": "bin/tool", "content": "#!/bin/sh\necho tool ran\n", "executable": true},
        {"path": "data", "content": {"base64": "/wA="}},
    ]);
    let transcript = place.sh("bin/tool; rm bin/tool; cat data", case).await;
    assert_eq!(place.left_bytes("report"), b"tool ran\n\xff\0");
    let files: Vec<&str> = transcript.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["data"]);
}

#[tokio::test]
async fn a_program_is_found_beside_the_eval_or_on_the_path_that_it_will_have() {
    let place = Place::new();
    let put = |path: PathBuf, says: &str| {
        fs::create_dir_all(path.parent().expect("has one")).expect("made");
        fs::write(&path, format!("#!/bin/sh\necho {says}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    };
    put(place.at("evals/agent.sh"), "beside");
    put(place.at("special/agent"), "special");
    place.run(json!({"kind": "command", "argv": ["./agent.sh"]}), case()).await;
    assert_eq!(place.left("report"), "beside\n");
    let path = format!("{}:/bin", place.at("special").display());
    place.run(json!({"kind": "command", "argv": ["agent"], "env": {"PATH": path}}), case()).await;
    assert_eq!(place.left("report"), "special\n");
}

#[tokio::test]
async fn a_client_that_can_not_be_started_is_the_instruments_error() {
    let place = Place::new();
    let transcript = place.run(json!({"kind": "command", "argv": ["no-such-agent"]}), case()).await;
    let said = assert_broken(&transcript.outcome, Stage::Client);
    assert_eq!(said, "no program `no-such-agent`: looked in `/usr/local/bin`, `/usr/bin`, `/bin`");
    assert_eq!((transcript.report, transcript.stderr, transcript.outcome.exit), (None, None, None));

    let place = Place::new();
    let bad = place.at("evals/bad");
    fs::write(&bad, "#!/no/interpreter\n").expect("written");
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).expect("set");
    let transcript = place.run(json!({"kind": "command", "argv": ["./bad"]}), case()).await;
    assert!(
        assert_broken(&transcript.outcome, Stage::Client).ends_with("names an interpreter that is not there")
    );
}

#[tokio::test]
async fn a_workspace_that_can_not_be_made_is_the_instruments_error() {
    let place = Place::new();
    let mut case = case();
    case["files"] = json!([{"path": "a", "content": ""}, {"path": "a/b", "content": ""}]);
    let transcript = place.sh("echo never", case).await;
    let said = assert_broken(&transcript.outcome, Stage::Provision);
    assert!(said.starts_with("the workspace can't be made: `a/b`: "), "{said}");
    assert_eq!(transcript.report, None);
}

#[tokio::test]
async fn an_export_that_takes_too_long_is_the_instruments_error_and_leaves_no_half_of_it() {
    let mut place = Place::new();
    place.deadlines = json!({"export": "1ms"});
    let script = "i=0; while [ $i -lt 2000 ]; do echo x >$i; i=$((i+1)); done; echo said; exit 4";
    let transcript = place.sh(script, case()).await;
    let said = assert_broken(&transcript.outcome, Stage::Export);
    assert_eq!(said, "what the client left can't be kept: not done after 1ms");
    assert_eq!(transcript.outcome.exit, Some(Exit::Code(4)));
    assert_eq!(place.left("report"), "said\n", "its answer is there to be looked at");
    assert_eq!(transcript.files, []);
}

#[tokio::test]
async fn what_can_not_be_cleaned_up_stands_beside_the_outcome() {
    let mut place = Place::new();
    place.deadlines = json!({"cleanup": "1s"});
    // It carries another's mark, so it is nobody's to kill, and holds the output open.
    let script = "mkfifo ready; MST_PROCESS=other setsid sh -c 'echo $$ >ready; exec sleep 1000' &
        read daemon <ready; echo $daemon";
    let transcript = place.sh(script, case()).await;
    assert_eq!(
        (transcript.outcome.status, transcript.outcome.exit),
        (Status::Completed, Some(Exit::Code(0)))
    );
    let cleanup = transcript.outcome.cleanup.expect("says what is left");
    assert_eq!(cleanup.stage, Stage::Cleanup);
    assert!(cleanup.message.contains("holds the output open"), "{}", cleanup.message);
    let pid = Pid::from_raw(place.left("report").trim().parse().expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
}

#[tokio::test]
async fn a_trial_that_is_dropped_leaves_no_process_and_no_workspace() {
    let place = Place::new();
    let told = place.at("told");
    let script = format!("echo $$ >{0}.tmp; mv {0}.tmp {0}; sleep 1000", told.display());
    let runner = place.runner(json!({"kind": "command", "argv": ["sh", "-c", script]}));
    let case: Case = read(case());
    let variant = "arm".parse().expect("a name");
    let into = place.at("into");
    let trial = runner.run(&case, Digest::of(b""), &variant, 0, 0, &into);
    tokio::select! {
        _ = trial => panic!("ended by itself"),
        () = async { while !told.exists() { tokio::time::sleep(std::time::Duration::from_millis(5)).await } } => {}
    }
    assert_eq!(mst_process::settle(std::time::Duration::from_secs(60)), 0);
    let pid = Pid::from_raw(fs::read_to_string(told).expect("reads").trim().parse().expect("a pid"));
    assert_eq!(test_kill_process(pid.expect("a pid")), Err(rustix::io::Errno::SRCH));
    assert_eq!(fs::read_dir(place.at("scratch")).expect("lists").count(), 0);
}
