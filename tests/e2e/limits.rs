//! A provider that counts: it never sees more than its limit, and as many as that whenever there is
//! work.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::support::{Eval, Space, case, example, python};

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

#[test]
fn a_provider_sees_its_limit_and_no_more_from_eight_machines() {
    let (Some(python), Some(runner)) = (python(), example("dir-runner")) else { return };
    let (port, counts) = serve();
    let space = Space::new();
    space.script(
        "agent.py",
        "#!/usr/bin/env python3\nimport os, urllib.request\nprint(urllib.request.urlopen(os.environ['PROVIDER'], timeout=120).read().decode(), end='')\n",
    );
    std::fs::create_dir(space.path("machines")).expect("made");
    let cases: Vec<_> = (0..TRIALS).map(|at| case(&format!("case-{at}"))).collect();
    Eval::new()
        .set("client", json!({"kind": "command", "argv": ["./agent.py"], "providers": ["models"]}))
        .set("client.env", json!({"PROVIDER": format!("http://127.0.0.1:{port}/"), "PATH": python}))
        .set("limits", json!({"providers": {"models": {"concurrency": 7}}}))
        .judges(json!([{"plugin": "mst/judge/text", "options": {"mode": "exact", "value": "ok"}}]))
        .cases(cases)
        .write(&space);
    space.add(runner);
    let mut args = vec!["run".to_owned(), "eval.yaml".to_owned()];
    // As many at a time as the limit: where one machine alone has work left, it fills it.
    for more in ["--runner", "example/runner/dir", "--shards", "8", "--concurrency", "3", "--seed", "5"] {
        args.push(more.to_owned());
    }
    args.extend(["--runner-option".to_owned(), format!("base={}", space.text("machines"))]);
    args.extend(["--limit".to_owned(), format!("provider:models={LIMIT}")]);
    space.mst(args).exits(0);
    let counts = counts.0.lock().expect("locks");
    assert_eq!((counts.most, counts.served, counts.full), (LIMIT, TRIALS, TRIALS / LIMIT));
    assert!(!counts.starved, "it was not kept at its limit while there was work");
    let run = space.run();
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
