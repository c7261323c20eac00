//! Refresh tokens that are good once: none is lost, and none is sent again.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::json;

use super::{ACCESS, ALL, REFRESH, answer, command_with, gives, held, run, space};
use crate::support::{Asked, Login, Output, Running, wait_until};

/// A server each of whose refresh tokens is good once, and ends with all that came of it when one is used
/// again. It holds back an answer until it may go on.
fn rotates(goes: impl Fn(usize) + Send + Sync + 'static) -> Login {
    let good = AtomicUsize::new(0);
    Login::plain(move |n, asked| {
        let now = good.load(Ordering::SeqCst);
        if !asked.body.contains(&format!("refresh_token={REFRESH}-{now}&")) {
            good.store(usize::MAX, Ordering::SeqCst);
            return (400, String::new(), json!({"error": "invalid_grant"}).to_string());
        }
        good.store(now + 1, Ordering::SeqCst);
        goes(n);
        answer(json!({
            "access_token": format!("{ACCESS}-{n}"), "expires_in": 300,
            "refresh_token": format!("{REFRESH}-{}", now + 1),
        }))
    })
}

/// A gate that opens once, for all that wait at it.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn wait(&self) {
        wait_until("the gate", || self.0.load(Ordering::SeqCst));
    }
}

#[test]
fn an_interrupt_loses_no_refresh_token_that_is_on_its_way() {
    let gate = Gate::default();
    let waits = gate.clone();
    let login = rotates(move |_| waits.wait());
    let (space, eval) = space(&login, "cat");
    eval.set("tokens.gateway.timeout", json!("100s")).write(&space);
    let mut running = Running::start(&space, command_with(&mut space.command(["run", "eval.yaml"])));
    wait_until("the server is asked", || !login.asked().is_empty());
    running.signal(Signal::INT);
    wait_until("word of it", || running.stderr().contains("waiting for a server") || running.ended());
    gate.open();
    let output = running.end().exits(130);
    insta::assert_snapshot!(output.said(), @"
    stopping: nothing new starts, what runs may end; once more to end it now
    waiting for a server that gives tokens: its answer may have the next refresh token
    error: interrupted while tokens were got; nothing was started
    ");
    assert_eq!(space.read("sources/refresh"), format!("{REFRESH}-1\n"));
    let mut again = space.command(["run", "eval.yaml"]);
    space.finish(command_with(&mut again)).exits(0);
    assert_eq!(space.read("sources/refresh"), format!("{REFRESH}-2\n"));
}

#[test]
fn the_end_of_a_run_loses_no_refresh_token_that_is_on_its_way() {
    let gate = Gate::default();
    let waits = gate.clone();
    // Renewed after five seconds; the client waits until that has begun, and is not heard of it.
    let login = Login::plain(move |n, _| {
        if n == 1 {
            waits.wait();
        }
        answer(json!({
            "access_token": format!("{ACCESS}-{n}"), "expires_in": 20,
            "refresh_token": format!("{REFRESH}-{}", n + 1),
        }))
    });
    let (space, eval) = space(&login, "while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done; cat");
    eval.set("tokens.gateway.timeout", json!("100s")).write(&space);
    let mut command = space.command(["run", "eval.yaml", "--json"]);
    let mut running = Running::start(&space, command_with(&mut command));
    wait_until("another is asked for", || login.asked().len() == 2);
    space.write("gate/go", "");
    wait_until("word of it", || running.stderr().contains("waiting for a server") || running.ended());
    gate.open();
    let output = running.end().exits(0);
    let last = output.stdout.lines().last().expect("a summary");
    assert!(last.starts_with(r#"{"event":"summary""#), "{last}");
    assert_eq!(space.read("sources/refresh"), format!("{REFRESH}-2\n"));
}

#[test]
fn a_third_interrupt_waits_for_no_server_and_says_what_may_be_lost() {
    let gate = Gate::default();
    let waits = gate.clone();
    let login = rotates(move |_| waits.wait());
    let (space, eval) = space(&login, "cat");
    eval.set("tokens.gateway.timeout", json!("100s")).write(&space);
    let mut running = Running::start(&space, command_with(&mut space.command(["run", "eval.yaml"])));
    wait_until("the server is asked", || !login.asked().is_empty());
    running.interrupt_until_it_ends("waiting for a server");
    let output = running.end().exits(130);
    let said = output.said();
    let last = said.lines().last().expect("a line");
    assert_eq!(
        last,
        "ended at once; a server that gives tokens did not answer: you may have to log in again"
    );
    gate.open();
}

#[test]
fn two_runs_share_a_refresh_token_that_is_good_once() {
    // The answer comes when the other run had its time to ask, too.
    let login = rotates(|n| std::thread::sleep(Duration::from_millis(if n == 0 { 1500 } else { 0 })));
    let (space, eval) = space(&login, "cat");
    eval.set("tokens.gateway.timeout", json!("100s")).write(&space);
    let start = || {
        let mut command = space.command(["run", "eval.yaml"]);
        command_with(&mut command).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let one = start();
    wait_until("the server is asked", || !login.asked().is_empty());
    let other = start();
    for child in [one, other] {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(login.asked().len(), 2);
    assert_eq!(space.read("sources/refresh"), format!("{REFRESH}-2\n"));
}

#[test]
fn a_refresh_token_that_another_has_in_hand_is_waited_for_and_said() {
    let login = Login::plain(gives);
    let (space, eval) = space(&login, "cat");
    let held = fs::File::open(space.path("sources")).expect("opens");
    flock(&held, FlockOperation::LockExclusive).expect("it is free");
    let eval = eval.set("tokens.gateway.timeout", json!("2s"));
    let said = || run(&space, &eval).exits(105).said();
    // What is left of the time is to say this. On a busy machine that may be too little, once.
    let is_said = |said: &String| !said.contains("its source did not answer within 2 s");
    insta::assert_snapshot!((0..3).map(|_| said()).find(is_said).expect("why it was not had"), @"
    error: the token `gateway` can't be had: its refresh token can't be had: the file `[DIR]/sources/refresh` is being renewed by another, who took more than 1.8 s
    hint: `on_failure: wait` lets shards wait for a token that is not there yet
    ");
    assert_eq!(login.asked().len(), 0);
    drop(held);
    run(&space, &eval).exits(0);
}

/// A run whose refresh token is in a variable and is replaced with the first answer. The server answers
/// with this word the first time that it is asked after that.
fn refused_once_replaced(word: &'static str) -> (Login, Output) {
    let login = Login::plain(move |n, asked| match n {
        0 => answer(json!({
            "access_token": format!("{ACCESS}-0"), "expires_in": 14, "refresh_token": format!("{REFRESH}-1"),
        })),
        1 => (400, String::new(), json!({"error": word}).to_string()),
        _ => gives(n, asked),
    });
    let (space, eval) = space(&login, "while test -d $GATE && ! test -e $GATE/go; do sleep 0.02; done; cat");
    eval.set("tokens.gateway.oauth2.refresh_token", json!({"env": "REFRESH"})).write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("REFRESH", format!("{REFRESH}-0"));
    let mut running = Running::start(&space, command_with(&mut command));
    wait_until("it is asked for the third time", || login.asked().len() >= 3 || running.ended());
    space.write("gate/go", "");
    (login, running.end())
}

/// Which refresh tokens it was sent.
fn sent(login: &Login) -> Vec<usize> {
    let which = |asked: &Asked| (0..9).find(|n| asked.body.contains(&format!("{REFRESH}-{n}&")));
    login.asked().iter().map(|asked| which(asked).expect("one of them")).collect()
}

#[test]
fn a_client_that_is_not_known_loses_no_refresh_token() {
    let (login, output) = refused_once_replaced("invalid_client");
    output.exits(0);
    assert_eq!(sent(&login), [0, 1, 1]);
}

#[test]
fn a_refresh_token_that_was_replaced_is_never_sent_again() {
    let (login, output) = refused_once_replaced("invalid_grant");
    assert_eq!(sent(&login), [0, 1], "{output}");
    let said = "the server has ended the refresh token that it gave last, and the one before it, which still \
        stands where the first came from, is not sent again: log in again";
    assert!(output.stderr.contains(said), "{output}");
    assert_eq!(held(&output.raw.1, &ALL), None, "{output}");
    output.exits(106);
}

#[test]
fn a_refresh_token_is_kept_whatever_came_with_it() {
    let login = Login::plain(|n, asked| match n {
        0 => answer(
            json!({"access_token": ACCESS, "token_type": "mac", "refresh_token": format!("{REFRESH}-1")}),
        ),
        _ => gives(n, asked),
    });
    let (space, eval) = space(&login, "cat");
    let output = run(&space, &eval).exits(105);
    assert!(output.stderr.contains("a token of another type than `bearer`"), "{output}");
    assert_eq!(space.read("sources/refresh"), format!("{REFRESH}-1\n"));
    run(&space, &eval).exits(0);
    assert_eq!(sent(&login), [0, 1]);
}

#[test]
fn tokens_of_one_login_go_on_with_what_came_for_any_of_them() {
    let login = Login::plain(|n, _| {
        answer(
            json!({"access_token": format!("{ACCESS}-{n}"), "refresh_token": format!("{REFRESH}-{}", n + 1)}),
        )
    });
    let (space, eval) = space(&login, "cat");
    let mut second = eval.value()["tokens"]["gateway"].clone();
    second["oauth2"]["scopes"] = json!(["wiki.read"]);
    let eval = eval
        .set("tokens.wiki", second)
        .set("tokens.gateway.oauth2.refresh_token", json!({"env": "REFRESH"}))
        .set("tokens.wiki.oauth2.refresh_token", json!({"env": "REFRESH"}))
        .set("client.tokens", json!(["gateway", "wiki"]));
    eval.write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("REFRESH", format!("{REFRESH}-0"));
    let output = space.finish(command_with(&mut command)).exits(0);
    assert_eq!(sent(&login), [0, 1], "{output}");
}
