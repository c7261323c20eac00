//! Tokens: a client finds them, and nobody finds them anywhere else.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::docker::{containers, image};
use crate::faults;
use crate::support::{
    Eval, Running, Sampling, Space, case, example, files_below, gone, holds, need, processes_that_hold,
    wait_until,
};

/// As no other texts have them, so that finding one means something.
const CANARIES: [(&str, &str); 3] = [
    ("from-env", "tok_e_7d1f0c55aa"),
    ("from-file", "tok_f_91b3e2c8d4"),
    ("from-program", "tok_p_40e6a7f913"),
];

fn held(bytes: &[u8]) -> Option<&'static str> {
    CANARIES.iter().map(|(_, value)| *value).find(|value| holds(bytes, value))
}

/// A place with the three sources, and an eval whose client needs all of them.
fn space(client: &str) -> (Space, Eval) {
    let space = Space::new();
    for dir in ["gate", "machines", "sources"] {
        fs::create_dir(space.path(dir)).expect("made");
    }
    space.write("sources/token", format!("{}\n", CANARIES[1].1));
    let printed = format!("#!/bin/sh\necho '{{\"value\": \"{}\", \"expires_in\": 3600}}'\n", CANARIES[2].1);
    space.script("sources/credentials", &printed);
    space.script("bin/docker", &engine(&space));
    let tokens = json!({
        "from-env": {"env": "CANARY"},
        "from-file": {"file": "sources/token"},
        "from-program": {"command": ["sources/credentials"]},
    });
    let eval = Eval::new()
        .client(client)
        .set("client.env", json!({"GATE": space.text("gate")}))
        .set("client.tokens", json!(CANARIES.map(|(name, _)| name)))
        .set("tokens", tokens);
    (space, eval)
}

fn command(space: &Space, more: &[&str]) -> Command {
    if more.starts_with(&ON_MACHINES) {
        space.add(example("dir-runner").expect("who asks for machines has looked whether it is there"));
    }
    let mut command = space.command(["run", "eval.yaml"]);
    command.args(more).env("CANARY", CANARIES[0].1);
    command
}

/// On two machines that are directories here.
const ON_MACHINES: [&str; 6] =
    ["--runner", "example/runner/dir", "--runner-option", "base=machines", "--shards", "2"];

/// Files below the place that hold a value or have one in their name, the sources apart.
fn found_below(space: &Space) -> Vec<PathBuf> {
    let root = space.dir().parent().expect("a root").to_owned();
    let sources = space.path("sources");
    let files = files_below(&root).into_iter().filter(|path| !path.starts_with(&sources));
    files
        .filter(|path| {
            let named = held(path.as_os_str().as_encoded_bytes()).is_some();
            // A file may go away while it is looked at.
            named || fs::read(path).is_ok_and(|bytes| held(&bytes).is_some())
        })
        .collect()
}

/// Processes that have a value in their arguments, or in their environment: there the coordinators
/// alone have the one that they were given so, and the program that they asked.
fn found_in_processes() -> Vec<String> {
    processes_that_hold(held, |shown| {
        shown.contains("/mst run eval.yaml ") || shown.contains("sources/credentials")
    })
}

/// The directories of a run's tokens.
pub(crate) fn token_dirs(run: &str) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let places = [PathBuf::from("/run/mst/tokens"), PathBuf::from(format!("/dev/shm/mst-tokens-{user}"))];
    let entries = places.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let is_ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(run));
    entries.map(|entry| entry.path()).filter(is_ours).collect()
}

/// Gives all three away in every way that is kept, then waits. In no argument: those are looked at.
const TELLS: &str = "cat $MST_TOKENS/from-env $MST_TOKENS/from-file; cat $MST_TOKENS/from-program >&2; \
     ls $MST_TOKENS | tr '\\n' ' '; stat -c %a $MST_TOKENS $MST_TOKENS/from-env | tr '\\n' ' '; \
     cat $MST_TOKENS/* > all; cat $MST_TOKENS/from-env > \"$(cat $MST_TOKENS/from-env)\"; \
     touch $GATE/$MST_CASE_ID; while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done";

/// What on machines holds a canary that should not, and whether tokens lie there.
type Seen = (Vec<String>, bool);

/// Where the clients of a test run.
struct Where<'a> {
    /// What says so on the command line.
    args: &'a [&'a str],
    /// The directory `gate`, as clients see it.
    gate: Option<&'a str>,
    /// Looks at machines that are out of sight from here.
    look: Option<fn(&Space) -> Seen>,
}

const HERE: Where = Where { args: &[], gate: None, look: None };

fn no_canary_is_found(there: &Where) {
    let (space, mut eval) = space(TELLS);
    if let Some(gate) = there.gate {
        eval = eval.set("client.env.GATE", json!(gate));
    }
    eval.cases(["a", "b", "c", "d"].map(case)).write(&space);
    let mut command = command(&space, &[there.args, &["--json", "--concurrency", "2"]].concat());
    if there.gate.is_some() {
        command.env("PATH", format!("{}:{}", space.text("bin"), std::env::var("PATH").expect("a PATH")));
    }
    let running = Running::start(&space, command);
    let sampling = Sampling::start(found_in_processes);
    let begun = || fs::read_dir(space.path("gate")).expect("lists").count();
    wait_until("two trials", || begun() >= 2);
    let none = [""; 0].map(PathBuf::from);
    // The clients' workspaces hold what the clients put there, as long as they are.
    let ours =
        |path: &PathBuf| !path.starts_with(space.tmp()) || !path.to_string_lossy().contains("/trials/");
    let found: Vec<_> = found_below(&space).into_iter().filter(ours).collect();
    assert_eq!(found, none, "while it runs");
    let (found, lie_there) = match there.look {
        Some(look) => look(&space),
        None => (Vec::new(), !token_dirs(&space.run().name()).is_empty()),
    };
    assert_eq!(found, [""; 0], "on machines");
    assert!(lie_there, "they lie somewhere");
    let since = sampling.looked();
    wait_until("looks at processes", || sampling.looked() > since + 5);
    space.write("gate/go", "");
    let output = running.end();
    let found = sampling.found();
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!((held(&output.raw.0), held(&output.raw.1)), (None, None), "{output}");
    assert_eq!(found_below(&space), none, "at the end");
    assert_eq!(token_dirs(&space.run().name()), none, "they are gone");
    let run = space.run();
    // What plugins did was written down, and was searched with the rest.
    let audit = fs::read_to_string(run.dir().join("audit.jsonl")).expect("an audit");
    assert_eq!(audit.contains("exec:"), !there.args.is_empty(), "{audit}");
    assert!(audit.contains("mst/dataset/jsonl"), "{audit}");
    let said = run.report_text("a/v/0");
    assert_eq!(said, "[token from-env][token from-file]from-env from-file from-program 700 600 ");
    let transcript = run.transcript("a/v/0");
    let scrubbed = transcript["scrubbed"].as_array().expect("it says so");
    for (name, entry) in [
        ("from-env", "report"),
        ("from-env", "files/all"),
        ("from-file", "report"),
        ("from-file", "files/all"),
        ("from-program", "stderr"),
        ("from-program", "files/all"),
    ] {
        let one = json!({"entry": entry, "token": name, "times": 1});
        assert!(scrubbed.contains(&one), "{one} is not in {scrubbed:?}");
    }
    assert_eq!(transcript["omitted"][0]["path"], "[token from-env]");
    assert_eq!(run.record()["eval"]["tokens"]["from-env"]["env"], "CANARY", "names are recorded");
    run.assert_whole();
}

#[test]
fn no_canary_is_found_where_they_are_used_here() {
    no_canary_is_found(&HERE);
}

#[test]
fn no_canary_is_found_on_machines() {
    need!(example("dir-runner"));
    no_canary_is_found(&Where { args: &ON_MACHINES, ..HERE });
}

#[test]
fn no_canary_is_found_in_containers() {
    let option = format!("image={}", need!(image()));
    let args = ["--runner", "mst/runner/docker", "--runner-option", &option, "--shards", "2"];
    no_canary_is_found(&Where { args: &args, gate: Some("/gate"), look: Some(look_into_containers) });
}

/// A `docker` whose containers see the directory `gate`.
pub(crate) fn engine(space: &Space) -> String {
    let gate = space.text("gate");
    format!(
        "#!/bin/sh\nPATH=${{PATH#*:}}\ncase $1 in run) shift; exec docker run --volume {gate}:/gate \"$@\" ;; esac\n\
         exec docker \"$@\"\n"
    )
}

/// Containers are searched from within, as far as a file there can hold anything; and the engine is asked
/// for what it knows and wrote down of them.
fn look_into_containers(space: &Space) -> Seen {
    let (mut found, mut tokens, mut of_clients) = (Vec::new(), 0, 0);
    for name in containers(&space.run().name()) {
        let engine = |args: &[&str]| {
            let output = Command::new("docker").args(args).output().expect("docker starts");
            (output.status.success(), [output.stdout, output.stderr].concat())
        };
        // No value is in an argument: they are looked for in those too.
        let patterns: String = CANARIES.iter().map(|(_, value)| format!("{value}\n")).collect();
        let mut grep = Command::new("docker")
            .args(["exec", "--interactive", &name, "sh", "-c"])
            .arg("grep -rlsF -f - / --exclude-dir=proc --exclude-dir=sys --exclude-dir=tokens; find / -xdev")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("docker starts");
        grep.stdin.take().expect("piped").write_all(patterns.as_bytes()).expect("it reads");
        let listed = grep.wait_with_output().expect("it ends");
        // After the files that hold one, the names of all: a value in one of those is no better.
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let named = text.lines().filter(|line| held(line.as_bytes()).is_some());
        let holders = text.lines().take_while(|line| *line != "/");
        let workspaces = |line: &&str| !line.contains("/trials/");
        of_clients += holders.clone().filter(|line| line.ends_with("/all")).count();
        found.extend(named.chain(holders).filter(workspaces).map(|line| format!("{name}: {line}")));
        assert!(text.lines().any(|line| line.ends_with("/bundle/bundle.json")), "it was searched");
        for told in [&["inspect", &name][..], &["logs", &name], &["diff", &name]] {
            let (ok, bytes) = engine(told);
            assert!(ok && !bytes.is_empty() || told[0] == "logs", "{told:?}");
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            let lines = shown.lines().filter(|line| held(line.as_bytes()).is_some());
            found.extend(lines.filter(workspaces).map(|line| format!("{told:?}: {line}")));
        }
        let (_, lie) = engine(&["exec", &name, "sh", "-c", "cat /run/mst/tokens/*/*/* /run/mst/tokens/*/*"]);
        tokens += usize::from(held(&lie).is_some());
        let (_, mounts) = engine(&["exec", &name, "cat", "/proc/mounts"]);
        let mounts = String::from_utf8_lossy(&mounts).into_owned();
        assert!(mounts.contains("tmpfs /run/mst tmpfs"), "in memory: {mounts}");
    }
    assert!(of_clients > 0, "what clients put into their workspaces would have been found");
    (found, tokens > 0)
}

const WAITS: &str =
    "echo $$ > $GATE/$MST_CASE_ID; while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done";

/// Ends something while trials run, in a way that it can't see, or that it can.
fn all_are_gone_after(signal: Signal, more: &[&str], whom: fn(&Space, u32) -> Vec<i32>) {
    let (space, eval) = space(WAITS);
    eval.cases((0..6).map(|n| case(&n.to_string()))).write(&space);
    let running = Running::start(&space, command(&space, more));
    wait_until("a trial", || fs::read_dir(space.path("gate")).expect("lists").count() > 0);
    assert!(!token_dirs(&space.run().name()).is_empty());
    let ended = whom(&space, running.pid());
    assert!(!ended.is_empty());
    for pid in &ended {
        kill_process(Pid::from_raw(*pid).expect("a process"), signal).expect("it is there");
    }
    for pid in ended {
        // The coordinator's own end is seen by who started it.
        wait_until("its end", || gone(&pid.to_string()));
    }
    wait_until("the end of all tokens", || {
        // What runs elsewhere may end too.
        space.write("gate/go", "");
        token_dirs(&space.run().name()).is_empty()
    });
    let output = running.end();
    assert_ne!(output.code, 0, "{output}");
    assert_eq!((held(&output.raw.0), held(&output.raw.1)), (None, None), "{output}");
    assert_eq!(found_below(&space), [""; 0].map(PathBuf::from));
}

#[test]
fn a_coordinator_that_is_killed_leaves_no_token() {
    all_are_gone_after(Signal::KILL, &[], |_, coordinator| vec![coordinator as i32]);
}

#[test]
fn a_worker_that_is_killed_leaves_no_token() {
    need!(example("dir-runner"));
    all_are_gone_after(Signal::KILL, &ON_MACHINES, |space, _| faults::dir::workers(space));
}

#[test]
fn a_worker_that_is_told_to_end_leaves_no_token() {
    need!(example("dir-runner"));
    for signal in [Signal::TERM, Signal::HUP] {
        all_are_gone_after(signal, &ON_MACHINES, |space, _| faults::dir::workers(space));
    }
}

#[test]
fn a_run_that_misses_nothing_is_resumed_without_its_tokens() {
    let (space, eval) = space("cat");
    eval.cases(["a", "b"].map(case)).write(&space);
    let first = space.finish(command(&space, &[]));
    let name = space.run().name();
    assert_eq!(space.run().trials(), 2, "{first}");
    let resume = |more: &[&str]| space.mst([&["run", "--resume", name.as_str()], more].concat());
    let again = resume(&[]);
    assert_eq!((again.code, &again.stdout), (first.code, &first.stdout), "{again}");
    // Here one could be asked again.
    assert!(resume(&["--retry-unfinished"]).exits(105).stderr.contains("the token `from-env` can't be had"));
    fs::remove_dir_all(space.run().dir().join("trials/b/v/0")).expect("removed");
    assert!(resume(&[]).exits(105).stderr.contains("the token `from-env` can't be had"));
}

#[test]
fn a_source_that_fails_is_said_before_anything_is_made() {
    let (space, eval) = space("cat");
    let said = |eval: &Eval| {
        eval.write(&space);
        let mut command = command(&space, &[]);
        // Its program has it too, while other tests look for theirs.
        command.env("CANARY", "another-token");
        let output = space.finish(command).exits(105);
        assert!(!space.path("runs").exists(), "{output}");
        assert!(!output.stderr.contains("hunter2"), "{output}");
        output.said().lines().next().expect("a line").to_owned()
    };
    let with = |name: &str, source: Value| said(&eval.clone().set(&format!("tokens.{name}"), source));
    let program = |script: &str, timeout: &str| {
        with("from-program", json!({"command": ["sh", "-c", script], "timeout": timeout}))
    };
    assert_eq!(
        with("from-env", json!({"env": "NOT_SET"})),
        "error: the token `from-env` can't be had: the variable `NOT_SET` is not set"
    );
    assert_eq!(
        with("from-file", json!({"file": "nowhere"})),
        "error: the token `from-file` can't be had: the file `[DIR]/nowhere` can't be read: No such file or directory (os error 2)"
    );
    assert_eq!(
        program("echo hunter2; echo hunter2 >&2; exit 3", "10s"),
        "error: the token `from-program` can't be had: `sh` ended with code 3 (run it yourself: what it says may hold secrets and is not shown)"
    );
    assert_eq!(
        program("echo hunter2", "10s"),
        "error: the token `from-program` can't be had: `sh` printed what is no JSON object of a token (line 1, column 1)"
    );
    assert_eq!(
        program("sleep 60", "200ms"),
        "error: the token `from-program` can't be had: its source did not answer within 0.2 s"
    );
}
