//! A provider that counts: it never sees more than its limit, and as many as that whenever there is
//! work.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::docker::{containers, image};
use crate::support::{Eval, Space, case, example, need, python};

const LIMIT: u32 = 3;
const TRIALS: u32 = 24;

/// How long a round that is full waits for one too many.
const LINGER: Duration = Duration::from_millis(300);

/// How long a round waits to be full, before it is said that it never was.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Default)]
struct Counts {
    now: u32,
    most: u32,
    served: u32,
    /// How often a round was full.
    full: u32,
    /// How many of the round may go.
    leaving: u32,
    starved: bool,
}

/// A server that answers only when there are as many requests as the limit admits: were there fewer
/// although there is work, it would not answer.
fn serve() -> (u16, Arc<(Mutex<Counts>, Condvar)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = listener.local_addr().expect("an address").port();
    let counts = Arc::new((Mutex::new(Counts::default()), Condvar::new()));
    let shared = counts.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = shared.clone();
            std::thread::spawn(move || answer(stream, &counts));
        }
    });
    (port, counts)
}

fn answer(mut stream: TcpStream, (counts, changed): &(Mutex<Counts>, Condvar)) {
    let mut lines = BufReader::new(stream.try_clone().expect("clones")).lines();
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let mut held = counts.lock().expect("locks");
    held.now += 1;
    held.most = held.most.max(held.now);
    if held.now == LIMIT {
        drop(held);
        std::thread::sleep(LINGER);
        held = counts.lock().expect("locks");
        held.full += 1;
        held.leaving += LIMIT;
        changed.notify_all();
    }
    let (mut held, late) =
        changed.wait_timeout_while(held, PATIENCE, |counts| counts.leaving == 0).expect("locks");
    held.starved |= late.timed_out();
    held.leaving = held.leaving.saturating_sub(1);
    held.now -= 1;
    held.served += 1;
    drop(held);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
}

/// Eight machines with three clients at a time on each, by the runner that `args` name, and a provider that
/// admits three of them.
fn kept_at_its_limit(space: &Space, args: &[&str], env: Value) {
    let (port, counts) = serve();
    // The image of the containers has no more of Python than this.
    let agent = "import os, socket\n\
        with socket.create_connection(('127.0.0.1', int(os.environ['PORT'])), timeout=120) as to:\n    \
            to.sendall(b'GET / HTTP/1.1\\r\\nHost: provider\\r\\n\\r\\n')\n    \
            print(to.makefile('rb').read().partition(b'\\r\\n\\r\\n')[2].decode(), end='')\n";
    space.script("agent.py", &format!("#!/usr/bin/env python3\n{agent}"));
    let cases: Vec<_> = (0..TRIALS).map(|at| case(&format!("case-{at}"))).collect();
    Eval::new()
        .set("client", json!({"kind": "command", "argv": ["./agent.py"], "providers": ["models"]}))
        .set("client.env", env)
        .set("client.env.PORT", json!(port.to_string()))
        .set("limits", json!({"providers": {"models": {"concurrency": 7}}}))
        .judges(json!([{"plugin": "mst/judge/text", "options": {"mode": "exact", "value": "ok"}}]))
        .cases(cases)
        .write(space);
    let limit = format!("provider:models={LIMIT}");
    // As many at a time as the limit: where one machine alone has work left, it fills it.
    let always =
        ["run", "eval.yaml", "--shards", "8", "--concurrency", "3", "--seed", "5", "--limit", &limit];
    space.mst([&always, args].concat()).exits(0);
    let counts = counts.0.lock().expect("locks");
    assert_eq!((counts.most, counts.served, counts.full), (LIMIT, TRIALS, TRIALS / LIMIT));
    assert!(!counts.starved, "it was not kept at its limit while there was work");
    let run = space.run();
    run.assert_passed();
    let waited: Vec<u64> = (0..TRIALS)
        .filter_map(|at| run.transcript(&format!("case-{at}/v/0"))["spent"]["waited_ms"].as_u64())
        .collect();
    assert!(
        waited.iter().any(|ms| *ms > LINGER.as_millis() as u64),
        "who waits for room says so: {waited:?}"
    );
    let record = run.record();
    assert_eq!(record["policy"]["seed"], 5);
    assert_eq!(record["policy"]["limits"]["providers"]["models"]["concurrency"], LIMIT);
    assert_eq!(record["shards"].as_array().expect("shards").len(), 8);
}

#[test]
fn a_provider_sees_its_limit_and_no_more_from_eight_machines() {
    let (Some(python), Some(runner)) = (python(), example("dir-runner")) else { return };
    let space = Space::new();
    std::fs::create_dir(space.path("machines")).expect("made");
    space.add(runner);
    let base = format!("base={}", space.text("machines"));
    kept_at_its_limit(
        &space,
        &["--runner", "example/runner/dir", "--runner-option", &base],
        json!({"PATH": python}),
    );
}

#[test]
fn a_provider_sees_its_limit_and_no_more_from_eight_containers() {
    let image = format!("image={}", need!(image()));
    // With this machine's network, where the provider is.
    let args =
        ["--runner", "mst/runner/docker", "--runner-option", &image, "--runner-option", "network=host"];
    let space = Space::new();
    kept_at_its_limit(&space, &args, json!({}));
    assert_eq!(containers(&space.run().name()), [""; 0]);
}

#[test]
fn a_limit_that_nobody_can_meet_is_said_before_anything_is_made() {
    let space = Space::new();
    Eval::new().write(&space);
    let output = space.mst(["run", "eval.yaml", "--limit", "provider:models=3"]).exits(105);
    assert!(output.stderr.contains("no client talks to a provider `models`"), "{output}");
    assert!(!space.path("runs").exists());
    let output = space.mst(["run", "eval.yaml", "--limit", "models=3"]).exits(2);
    assert!(output.stderr.contains("write it as provider:NAME=3"), "{output}");
}

#[test]
fn a_seed_orders_the_cases_and_nothing_else() {
    let order = |seed: &str| {
        let space = Space::new();
        Eval::new().cases(["a", "b", "c", "d", "e"].map(case)).write(&space);
        let output = space.mst(["run", "eval.yaml", "--json", "--seed", seed]).exits(0);
        let started = output.events().into_iter().filter(|event| event["event"] == "trial-started");
        started.map(|event| event["trial"]["case"].as_str().expect("a case").to_owned()).collect::<String>()
    };
    assert_eq!(["0", "1", "2"].map(order), ["abcde", "deabc", "caebd"]);
}

#[test]
fn a_pool_is_shared_by_the_cases_that_use_it_and_by_no_others() {
    let runner = need!(example("dir-runner"));
    let space = Space::new();
    for dir in ["machines", "pool"] {
        std::fs::create_dir(space.path(dir)).expect("made");
    }
    // Who is in a pool is alone there, and stays until all others are through: were one of those to wait
    // for the pool, this would not end. What is said beside the answer fails it.
    let client = "case $MST_CASE_ID in \
        small-*) touch $POOL/$MST_CASE_ID-$MST_VARIANT ;; \
        *) held=$POOL/${MST_CASE_ID%-*}; mkdir $held || echo two at a time; \
            while test -d $POOL && test $(ls $POOL | grep -c small) -lt 8; do sleep 0.02; done; rmdir $held ;; esac; cat";
    let one = |id: &str, more: (&str, Value)| json!({"id": id, "prompt": id, "expected": id, more.0: more.1});
    let cases = [
        one("big-0", ("tags", json!(["gpu"]))),
        one("big-1", ("tags", json!(["slow", "gpu"]))),
        one("huge-0", ("metadata", json!({"needs": "cluster"}))),
    ];
    let pools = json!([
        {"key": "gpu", "limit": 1, "tags": ["gpu"]},
        {"key": "cluster", "limit": 1, "metadata": {"needs": "cluster"}},
        {"key": "all", "limit": 3},
    ]);
    Eval::new()
        .client(client)
        .set("client.env", json!({"POOL": space.text("pool")}))
        .set("variants", json!([{"id": "v"}, {"id": "w"}]))
        .set("capacity", pools)
        .set("judges.0.min_pass_rate", json!(1.0))
        .cases(cases.into_iter().chain((0..4).map(|n| case(&format!("small-{n}")))))
        .write(&space);
    space.add(runner);
    // Of the three places that a machine has those of the pools take two at the most: who waits takes none.
    let args = ["run", "eval.yaml", "--runner", "example/runner/dir", "--runner-option", "base=machines"];
    space.mst([&args[..], &["--shards", "3", "--concurrency", "3"]].concat()).exits(0);
    let run = space.run();
    assert_eq!(run.trials(), 14);
    // The second of a pool waited for the first, and says so. Less than a millisecond is not said.
    let waited = |trial: &str| run.transcript(trial)["spent"]["waited_ms"].as_u64().unwrap_or(0);
    let longest = ["v", "w"].map(|variant| waited(&format!("huge-0/{variant}/0"))).into_iter().max();
    assert!(longest > Some(0), "{longest:?}");
}

#[test]
fn a_resumed_run_goes_by_what_the_eval_says_now_of_its_pace() {
    let space = Space::new();
    let eval = Eval::new()
        .set("client", json!({"kind": "echo", "providers": ["models"], "servers": ["db"]}))
        .set(
            "limits",
            json!({"providers": {"models": {"concurrency": 7}}, "servers": {"db": {"concurrency": 9}}}),
        )
        .set("capacity", json!([{"key": "all", "limit": 5}]))
        .cases(["a", "b"].map(case));
    eval.write(&space);
    space.mst(["run", "eval.yaml", "--limit", "server:db=2", "--seed", "2"]).exits(0);
    let run = space.run();
    let identity = run.record()["identity"].clone();
    let resume = |more: &[&str]| {
        std::fs::remove_dir_all(run.dir().join("trials/b")).expect("removed");
        space.mst([&["run", "--resume", &run.name()], more].concat()).exits(0)
    };
    insta::assert_snapshot!(resume(&[]).said(), @"`--limit` stands in for what the eval says: server:db=2");
    eval.set("limits.providers.models", json!({"concurrency": 1, "starts_per_minute": 600}))
        .set("capacity", json!([]))
        .write(&space);
    insta::assert_snapshot!(resume(&["--limit", "server:db=60/min"]).said(), @"
    the eval changed in `limits`, `capacity` since the run was begun: it goes on with what is said now
    `--limit` stands in for what the eval says: server:db=2, server:db=60/min
    ");
    let record = run.record();
    assert_eq!(record["identity"], identity);
    assert_eq!(
        record["eval"]["limits"]["providers"]["models"],
        json!({"concurrency": 1, "starts_per_minute": 600})
    );
    assert_eq!(record["eval"].get("capacity"), None);
    assert_eq!(
        record["policy"]["limits"]["servers"]["db"],
        json!({"concurrency": 2, "starts_per_minute": 60})
    );
    assert_eq!(record["policy"]["seed"], 2);
    // Nothing more is said where nothing changed any more.
    insta::assert_snapshot!(resume(&[]).said(), @"`--limit` stands in for what the eval says: server:db=2, server:db=60/min");
}
