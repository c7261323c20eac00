//! A token that a server gives for a refresh token: what is secret of it stays with the coordinator.

mod rotation;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Asked, Eval, Login, Output, Proxy, Running, Sampling, Space, case, example, files_below, holds, need,
    processes_that_hold, wait_until,
};

/// As no other texts have them, so that finding one means something. Those of tokens go on with a number.
const SECRET: &str = "sec_5b20d7e9f1";
const REFRESH: &str = "ref_c83a06b4d2";
const ACCESS: &str = "acc_1f7e92a5c0";

fn held(bytes: &[u8], values: &[&'static str]) -> Option<&'static str> {
    values.iter().copied().find(|value| holds(bytes, value))
}

const ALL: [&str; 3] = [SECRET, REFRESH, ACCESS];

/// Gives `ACCESS-N` for five minutes, and keeps the refresh token.
fn gives(n: usize, _: &Asked) -> (u16, String, String) {
    answer(json!({"access_token": format!("{ACCESS}-{n}"), "token_type": "Bearer", "expires_in": 300}))
}

fn answer(body: Value) -> (u16, String, String) {
    (200, String::new(), body.to_string())
}

/// A place with an eval whose client needs the server's token. Its refresh token is in a file.
fn space(login: &Login, client: &str) -> (Space, Eval) {
    let space = Space::new();
    for dir in ["gate", "machines", "sources"] {
        fs::create_dir(space.path(dir)).expect("made");
    }
    space.write("sources/refresh", format!("{REFRESH}-0\n"));
    let grant = json!({
        "token_url": login.url(),
        "client_id": "mst",
        "client_secret": {"env": "CLIENT_SECRET"},
        "refresh_token": {"file": "sources/refresh"},
        "scopes": ["models.read"],
    });
    let eval = Eval::new()
        .client(client)
        .set("client.env", json!({"GATE": space.text("gate")}))
        .set("client.tokens", json!(["gateway"]))
        .set("tokens", json!({"gateway": {"oauth2": grant, "timeout": "10s"}}));
    (space, eval)
}

fn run(space: &Space, eval: &Eval) -> Output {
    eval.write(space);
    let mut command = space.command(["run", "eval.yaml"]);
    space.finish(command_with(&mut command))
}

fn command_with(command: &mut std::process::Command) -> std::process::Command {
    command.env("CLIENT_SECRET", SECRET);
    std::mem::replace(command, std::process::Command::new("true"))
}

/// Files of the place that hold a secret or have one in their name, the sources apart.
fn found_below(space: &Space, values: &[&'static str]) -> Vec<PathBuf> {
    let sources = space.path("sources");
    let files = files_below(space.dir().parent().expect("a root")).into_iter();
    let holds = |path: &PathBuf| {
        held(path.as_os_str().as_encoded_bytes(), values).is_some()
            || fs::read(path).is_ok_and(|bytes| held(&bytes, values).is_some())
    };
    files.filter(|path| !path.starts_with(&sources)).filter(holds).collect()
}

/// Processes that have a secret in their arguments, or in an environment that is not the coordinator's.
fn found_in_processes() -> Vec<String> {
    processes_that_hold(|bytes| held(bytes, &ALL), |shown| shown.contains("/mst run eval.yaml "))
}

#[test]
fn what_gets_a_token_stays_with_the_coordinator_while_it_is_renewed_and_replaced() {
    let runner = need!(example("dir-runner"));
    // It lives so short that a client sees the next one, and each refresh token is good once.
    let login = Login::tls(|n, asked| {
        if !asked.body.contains(&format!("refresh_token={REFRESH}-{n}&")) {
            return (400, String::new(), json!({"error": "invalid_grant"}).to_string());
        }
        answer(json!({
            "access_token": format!("{ACCESS}-{n}"), "token_type": "bearer", "expires_in": 14,
            "refresh_token": format!("{REFRESH}-{}", n + 1),
        }))
    });
    // On a busy machine one may end before there is the next: it is waited for.
    let client = "next() { until cp $MST_TOKENS/gateway $1 2>/dev/null; do again; done; }; \
        again() { test -d $GATE || exit; sleep 0.05; }; \
        next first; cat first; touch $GATE/$MST_CASE_ID; \
        next second; while cmp -s first second; do again; next second; done; cat second";
    let (space, eval) = space(&login, client);
    eval.cases(["a", "b", "c", "d"].map(case)).write(&space);
    login.write_certificate(&space.path("authority.pem"));
    space.add(runner);
    let mut command = space.command(["run", "eval.yaml", "--runner", "example/runner/dir", "--json"]);
    command.args(["--runner-option", "base=machines", "--shards", "2"]);
    command.env("SSL_CERT_FILE", space.path("authority.pem"));
    let running = Running::start(&space, command_with(&mut command));
    let sampling = Sampling::start(found_in_processes);
    wait_until("a trial", || fs::read_dir(space.path("gate")).expect("lists").count() > 0);
    assert_eq!(found_below(&space, &[SECRET, REFRESH]), [""; 0].map(PathBuf::from), "while it runs");
    let output = running.end();
    let found = sampling.found();
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!((held(&output.raw.0, &ALL), held(&output.raw.1, &ALL)), (None, None), "{output}");
    assert_eq!(found_below(&space, &ALL), [""; 0].map(PathBuf::from), "at the end");
    let there = space.run();
    for name in ["a", "b", "c", "d"] {
        let said = there.report_text(&format!("{name}/v/0"));
        assert_eq!(said, "[token gateway][token gateway]", "{output}");
    }
    let asked = login.asked();
    assert!(asked.len() >= 3, "it was renewed: {asked:?}");
    for (n, one) in asked.iter().enumerate() {
        // `mst:sec_5b20d7e9f1`
        assert_eq!(one.authorization.as_deref(), Some("Basic bXN0OnNlY181YjIwZDdlOWYx"));
        assert_eq!(
            one.body,
            format!("grant_type=refresh_token&refresh_token={REFRESH}-{n}&scope=models.read")
        );
    }
    // The next run finds the one that is good.
    assert_eq!(space.read("sources/refresh"), format!("{REFRESH}-{}\n", asked.len()));
    assert_eq!(there.record()["eval"]["tokens"]["gateway"]["oauth2"]["client_id"], "mst");
}

#[test]
fn a_refresh_token_that_can_not_be_put_back_is_kept_for_the_run_and_said() {
    let login = Login::plain(|n, _| {
        answer(
            json!({"access_token": format!("{ACCESS}-{n}"), "refresh_token": format!("{REFRESH}-{n}-new")}),
        )
    });
    let (space, eval) = space(&login, "cat");
    let eval = eval
        .set("tokens.gateway.oauth2.refresh_token", json!({"env": "REFRESH"}))
        .set("tokens.gateway.oauth2.client_auth", json!("body"));
    eval.write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("REFRESH", format!("{REFRESH}-0"));
    let output = space.finish(command_with(&mut command)).exits(0);
    insta::assert_snapshot!(output.said(), @"the server gave another refresh token for `gateway`, with which this run goes on; where it came from the old one still stands: you may have to log in again before the next run");
    let asked = login.asked();
    assert_eq!(asked.len(), 1, "it has no end");
    assert_eq!(asked[0].authorization, None);
    assert!(asked[0].body.ends_with(&format!("&client_id=mst&client_secret={SECRET}")), "{asked:?}");
    assert_eq!(found_below(&space, &ALL), [""; 0].map(PathBuf::from));
    // A program hears of it too.
    let mut command = space.command(["run", "eval.yaml", "--json"]);
    command.env("REFRESH", format!("{REFRESH}-0"));
    let output = space.finish(command_with(&mut command)).exits(0);
    let told = |event: &Value| {
        event["event"] == "note" && event["text"].as_str().is_some_and(|text| text.contains("log in again"))
    };
    assert!(output.events().iter().any(told), "{output}");
}

/// What is wrong where no run comes of it.
fn said(login: &Login, change: impl FnOnce(Eval) -> Eval) -> String {
    said_with(SECRET, login, change)
}

fn said_with(secret: &str, login: &Login, change: impl FnOnce(Eval) -> Eval) -> String {
    let (space, eval) = space(login, "cat");
    change(eval).write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("CLIENT_SECRET", secret);
    let output = space.finish(command).exits(105);
    assert!(!space.path("runs").exists(), "{output}");
    assert_eq!((held(&output.raw.0, &ALL), held(&output.raw.1, &ALL)), (None, None), "{output}");
    assert_eq!(found_below(&space, &ALL), [""; 0].map(PathBuf::from));
    let said = output.said();
    let line = said.lines().find(|line| line.starts_with("error: ")).expect("an error");
    line.replace(&login.port.to_string(), "[PORT]")
}

#[test]
fn a_server_that_gives_no_token_is_told_without_what_it_said() {
    let echo = |status: u16, asked: &Asked| {
        // As an unkind server: all that it was sent comes back.
        let text = json!({"error": "hunter2", "error_description": format!("{asked:?}")}).to_string();
        (status, format!("x-asked: {SECRET} {REFRESH}\r\n"), text)
    };
    let with =
        |answers: fn(usize, &Asked) -> (u16, String, String)| said(&Login::plain(answers), |eval| eval);
    let mut lines = vec![
        with(|_, asked| {
            let text = json!({"error": "invalid_grant", "error_description": format!("{asked:?}")});
            (400, String::new(), text.to_string())
        }),
        with(|_, _| (401, String::new(), json!({"error": "invalid_client"}).to_string())),
        said(&Login::plain(move |_, asked| echo(400, asked)), |eval| eval),
        said(&Login::plain(move |_, asked| echo(500, asked)), |eval| eval),
        with(|_, asked| (200, String::new(), format!("{asked:?}"))),
        with(|_, _| (200, String::new(), "x".repeat(1 << 20))),
        with(|_, _| answer(json!({"access_token": ACCESS, "token_type": "mac"}))),
        with(|_, _| answer(json!({"access_token": ACCESS, "expires_in": 5}))),
        with(|_, _| (200, "content-length: 99999\r\n".to_owned(), String::new())),
    ];
    let slow = Login::plain(|n, asked| {
        std::thread::sleep(Duration::from_secs(60));
        gives(n, asked)
    });
    lines.push(said(&slow, |eval| eval.set("tokens.gateway.timeout", json!("300ms"))));
    insta::assert_snapshot!(lines.join("\n"), @"
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` refused with `invalid_grant` (status 400): the refresh token has ended, was taken back, or is another client's
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` refused with `invalid_client` (status 401): it does not know the client, or not by this secret (`client_auth` says how it is sent)
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` answered with status 400
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` answered with status 500
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` gave what is no JSON object of a token (line 1, column 1)
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` answered with more than 65536 bytes
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` gave a token of another type than `bearer`
    error: the token `gateway` can't be had: its source gave one that ends within 10 s
    error: the token `gateway` can't be had: `http://localhost:[PORT]/token` did not answer as an HTTP server
    error: the token `gateway` can't be had: its source did not answer within 0.3 s
    ");
}

#[test]
fn a_refresh_token_goes_nowhere_else() {
    let other = Arc::new(Login::plain(gives));
    for status in [301, 302, 303, 307, 308] {
        let url = other.url();
        let login = Login::plain(move |_, _| (status, format!("location: {url}\r\n"), String::new()));
        assert_eq!(
            said(&login, |eval| eval),
            format!(
                "error: the token `gateway` can't be had: `http://localhost:[PORT]/token` leads somewhere else (status {status}), where no refresh token is sent: say in `token_url` where it is"
            )
        );
    }
    assert_eq!(other.asked().len(), 0);
    // Nobody vouches for it here.
    let stranger = Login::tls(gives);
    insta::assert_snapshot!(said(&stranger, |eval| eval), @"error: the token `gateway` can't be had: `https://localhost:[PORT]/token` can't be trusted: invalid peer certificate: UnknownIssuer");
    assert_eq!(stranger.asked().len(), 0);
    // Another name than it has.
    let (space, eval) = space(&stranger, "cat");
    stranger.write_certificate(&space.path("authority.pem"));
    let url = stranger.url().replace("localhost", "127.0.0.1");
    eval.clone().set("tokens.gateway.oauth2.token_url", json!(url)).write(&space);
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("SSL_CERT_FILE", space.path("authority.pem"));
    let output = space.finish(command_with(&mut command)).exits(105);
    assert!(output.stderr.contains("can't be trusted: invalid peer certificate"), "{output}");
    assert_eq!(stranger.asked().len(), 0);
    // No TLS to another machine; nothing is asked.
    let output =
        run(&space, &eval.set("tokens.gateway.oauth2.token_url", json!("http://login.acme.com/token")));
    insta::assert_snapshot!(output.exits(105).said(), @"
    error: the eval `eval.yaml` is not valid
      - `tokens.gateway.oauth2.token_url`: a refresh token goes over TLS; `http://` is for loopback addresses alone (write `https://`)
    hint: `mst schema eval` prints the schema
    ");
    // Who speaks TLS is not asked without.
    let plain = Login::plain(gives);
    let line = said(&plain, |eval| {
        let url = plain.url().replace("http:", "https:");
        eval.set("tokens.gateway.oauth2.token_url", json!(url))
    });
    assert!(line.contains("can't be"), "{line}");
    assert_eq!(plain.asked().len(), 0);
}

#[test]
fn what_a_refresh_takes_and_is_not_there_is_told() {
    let login = Login::plain(gives);
    // A program that is asked has the variable too, while other tests look for theirs.
    let grant = |name: &str, value: Value| {
        said_with("another-secret", &login, |eval| eval.set(&format!("tokens.gateway.oauth2.{name}"), value))
    };
    let lines = [
        grant("refresh_token", json!({"file": "nowhere"})),
        grant("refresh_token", json!({"env": "NOT_SET"})),
        grant("client_secret", json!({"command": ["sh", "-c", "echo hunter2; exit 3"]})),
        grant("token_url", json!("http://localhost:1/token")),
    ];
    insta::assert_snapshot!(lines.join("\n"), @"
    error: the token `gateway` can't be had: its refresh token can't be had: the file `[DIR]/nowhere` can't be read: No such file or directory (os error 2)
    error: the token `gateway` can't be had: its refresh token can't be had: the variable `NOT_SET` is not set
    error: the token `gateway` can't be had: its client's secret can't be had: `sh` ended with code 3 (run it yourself: what it says may hold secrets and is not shown)
    error: the token `gateway` can't be had: `http://localhost:1/token` can't be talked to: Connection refused (os error 111)
    ");
    assert_eq!(login.asked().len(), 0);
}

#[test]
fn a_refresh_token_that_somebody_replaced_is_read_again() {
    // The second run finds the file as another login left it.
    let login = Login::plain(gives);
    let (space, eval) = space(&login, "cat");
    run(&space, &eval).exits(0);
    space.write("sources/refresh", format!("{REFRESH}-9\n"));
    run(&space, &eval).exits(0);
    let sent: Vec<bool> =
        login.asked().iter().map(|asked| asked.body.contains(&format!("{REFRESH}-9"))).collect();
    assert_eq!(sent, [false, true]);
    assert_eq!(space.read("sources/refresh"), format!("{REFRESH}-9\n"), "the server gave no other");
}

#[test]
fn a_proxy_is_asked_for_the_servers_place_and_sees_no_more() {
    let login = Login::tls(gives);
    let proxy = Proxy::start();
    let (space, eval) = space(&login, "cat");
    eval.write(&space);
    login.write_certificate(&space.path("authority.pem"));
    for (except, asked) in [("elsewhere.example", 1), ("localhost", 1)] {
        let mut command = space.command(["run", "eval.yaml"]);
        command.env("SSL_CERT_FILE", space.path("authority.pem"));
        command.env("HTTPS_PROXY", proxy.url()).env("NO_PROXY", except);
        space.finish(command_with(&mut command)).exits(0);
        let heard = proxy.heard();
        assert_eq!(heard.len(), asked, "where `NO_PROXY` names {except}");
        assert!(heard[0].starts_with(&format!("CONNECT localhost:{} ", login.port)), "{heard:?}");
        assert_eq!(held(heard[0].as_bytes(), &ALL), None);
    }
    assert_eq!(login.asked().len(), 2);
    proxy.refuse();
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("SSL_CERT_FILE", space.path("authority.pem")).env("HTTPS_PROXY", proxy.url());
    let said = space.finish(command_with(&mut command)).exits(105).said();
    insta::assert_snapshot!(said.replace(&login.port.to_string(), "[PORT]"), @"
    error: the token `gateway` can't be had: `https://localhost:[PORT]/token` can't be reached by the proxy that `HTTPS_PROXY` names; a host in `NO_PROXY` is asked without it
    hint: `on_failure: wait` lets shards wait for a token that is not there yet
    ");
}
