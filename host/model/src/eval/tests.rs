use super::*;
use crate::Span;
use serde_json::json;

fn minimal() -> Value {
    json!({
        "dataset": {"plugin": "mst/dataset/jsonl", "options": {"path": "cases.jsonl"}},
        "judges": [{"plugin": "mst/judge/text"}],
        "client": {"kind": "echo"},
        "variants": [{"id": "a"}],
    })
}

fn said(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut value = minimal();
    change(&mut value);
    match Eval::read(&value) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_least_eval_has_the_documented_defaults() {
    let eval = Eval::read(&minimal()).expect("valid");
    assert_eq!(eval.trials, 1);
    assert_eq!(eval.deadlines.client, Span::secs(600));
    assert_eq!(eval.judges[0].name().as_str(), "text");
    // Read, written and read again it is the same: run.json keeps it.
    let again = Eval::read(&serde_json::to_value(&eval).expect("writes")).expect("valid");
    assert_eq!(eval, again);
}

#[test]
fn how_it_is_paced_is_no_part_of_what_it_asks() {
    let digest = |change: fn(&mut Value)| {
        let mut value = minimal();
        value["client"]["providers"] = json!(["models"]);
        change(&mut value);
        Eval::read(&value).expect("valid").digest().expect("a digest")
    };
    let plain = digest(|_| {});
    assert_eq!(plain, digest(|v| v["limits"] = json!({"providers": {"models": {"concurrency": 3}}})));
    assert_eq!(plain, digest(|v| v["capacity"] = json!([{"key": "gpu", "limit": 2, "tags": ["big"]}])));
    assert_ne!(plain, digest(|v| v["deadlines"] = json!({"client": "1s"})));
}

#[test]
fn tokens_have_one_source_each() {
    let with = |tokens: Value| {
        said(|v| {
            v["client"]["tokens"] = json!(["gateway"]);
            v["tokens"] = tokens;
        })
    };
    assert_eq!(with(json!({"gateway": {"env": "TOKEN"}})), [""; 0]);
    assert_eq!(
        with(json!({})),
        [
            "`client.tokens`: the token `gateway` has no source (say in the eval's `tokens` where it comes from)"
        ]
    );
    assert_eq!(
        with(json!({"gateway": {"env": "TOKEN", "file": "token"}})),
        [
            "`tokens.gateway`: a token has one source, not 2 (give it one of `env`, `file`, `command` and `oauth2`)"
        ]
    );
    assert_eq!(
        with(json!({"gateway": {"env": "TOKEN", "on_failure": "weit"}})),
        ["`tokens.gateway.on_failure`: `weit` is none of `end`, `wait` (did you mean `wait`?)"]
    );
}

#[test]
fn limits_that_limit_nothing_are_refused() {
    let with = |limits: Value| {
        said(|v| {
            v["client"]["providers"] = json!(["models"]);
            v["limits"] = limits;
        })
    };
    assert_eq!(with(json!({"providers": {"models": {"concurrency": 3}}})), [""; 0]);
    assert_eq!(
        with(json!({"providers": {"model": {"concurrency": 3}}})),
        ["`limits.providers.model`: no client talks to a provider `model` (did you mean `models`?)"]
    );
    assert_eq!(
        with(json!({"servers": {"db": {}}})),
        [
            "`limits.servers.db`: it limits nothing (give it `concurrency` or `starts_per_minute`)",
            "`limits.servers.db`: no client talks to a server `db` (name it in a client's `servers`)"
        ]
    );
    assert_eq!(
        with(json!({"providers": {"models": {"concurrency": 0}}})),
        ["`limits.providers.models.concurrency`: 0 is less than the minimum of 1"]
    );
    assert_eq!(
        said(|v| v["capacity"] =
            json!([{"key": "gpu", "limit": 1, "variants": ["b"]}, {"key": "gpu", "limit": 1}])),
        ["`capacity[0].variants`: there is no variant `b`", "`capacity[1].key`: two pools are called `gpu`"]
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_a_way_out() {
    assert_eq!(said(|v| v["trails"] = json!(3)), ["unknown key `trails` (did you mean `trials`?)"]);
    assert_eq!(
        said(|v| v["client"]["kind"] = json!("comand")),
        ["`client.kind`: `comand` is none of `command`, `echo` (did you mean `command`?)"]
    );
    assert_eq!(
        said(|v| v["client"] = json!({"kind": "command"})),
        ["`client.argv`: a `command` client needs a program (as argv: [python3, agent.py])"]
    );
    assert_eq!(
        said(|v| v["judges"][0]["plugin"] = json!("mst/dataset/jsonl")),
        ["`judges[0].plugin`: `mst/dataset/jsonl` is a dataset, not a judge"]
    );
    assert_eq!(
        said(|v| v["variants"] = json!([{"id": "a"}, {"id": "a"}])),
        ["`variants[1].id`: two variants are called `a`"]
    );
    assert_eq!(said(|v| v["trials"] = json!(0)), ["`trials`: 0 is less than the minimum of 1"]);
    assert_eq!(
        said(|v| v["deadlines"] = json!({"client": "soon"})),
        [
            "`deadlines.client`: `soon` is no length of time: write a number and a unit, as `90s`, `10m` or `1h 30m`; at least `1ms`, at most `30days`"
        ]
    );
    assert_eq!(
        said(|v| v["variants"][0]["id"] = json!("A b")),
        [
            "`variants[0].id`: `A b` is no variant name: it must be 1 to 64 of `a-z`, `0-9` and `-`, and start with a letter or digit"
        ]
    );
    assert_eq!(
        said(|v| v["variants"][0]["env"] = json!({"MST_TRIAL": "7"})),
        [
            "`variants[0].env`: `MST_TRIAL` is one of mst's own variables (names that start with `MST_` are set by mst)"
        ]
    );
    let command = json!({"kind": "command", "argv": ["a"], "env": {"A": "x\u{0}", "B": "x"}});
    assert_eq!(
        said(|v| {
            v["client"] = command;
            v["judges"][0]["options"] = json!({"command": ["true", "\u{0}"], "of": {"a": "b\u{0}c"}});
        }),
        [
            "`client.env.A`: it holds a NUL, which no program can be given",
            "`judges[0].options.command[1]`: it holds a NUL, which no program can be given",
            "`judges[0].options.of.a`: it holds a NUL, which no program can be given",
        ]
    );
}
