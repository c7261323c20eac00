//! An eval's file, and what is said of a wrong one. Nothing is made where nothing could start.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Eval, Output, Space, repository};

/// The eval is refused with 105, and nothing is left.
#[track_caller]
fn refused(space: &Space, file: &str) -> Output {
    let output = space.mst(["run", file]).exits(105);
    assert_eq!(output.stdout, "");
    assert!(!space.path("runs").exists(), "nothing could start, and there is a run");
    space.assert_tidy();
    output
}

#[track_caller]
fn said(change: impl FnOnce(Eval) -> Eval) -> String {
    let space = Space::new();
    change(Eval::new()).write(&space);
    refused(&space, "eval.yaml").stderr
}

#[track_caller]
fn said_of(file: &str, text: impl AsRef<[u8]>) -> String {
    let space = Space::new();
    space.write(file, text);
    refused(&space, file).stderr
}

#[test]
fn unknown_keys_suggest_the_near_one() {
    insta::assert_snapshot!(said(|eval| eval.set("trails", json!(3)).set("client.kin", json!(1)).set("judges.0.min_pas_rate", json!(1))), @"
    error: the eval `eval.yaml` is not valid
      - `client`: unknown key `kin` (did you mean `kind`?)
      - `judges[0]`: unknown key `min_pas_rate` (did you mean `min_pass_rate`?)
      - unknown key `trails` (did you mean `trials`?)
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("zzzzzzzz", json!(3))), @"
    error: the eval `eval.yaml` is not valid
      - unknown key `zzzzzzzz` (known keys: `capacity`, `client`, `dataset`, `deadlines`, `judges`, `limits`, `name`, `tokens`, `trials`, `variants`)
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("judges.0.options.tolerence", json!(3))), @"
    error: `judges[0].options` does not fit the plugin `mst/judge/text`
      - unknown key `tolerence` (did you mean `tolerance`?)
    hint: `mst plugin inspect mst/judge/text` shows the options
    ");
    insta::assert_snapshot!(said(|eval| eval.set("dataset.options.fields", json!({"promt": "x"}))), @"
    error: `dataset.options` does not fit the plugin `mst/dataset/jsonl`
      - `fields`: unknown key `promt` (did you mean `prompt`?)
    hint: `mst plugin inspect mst/dataset/jsonl` shows the options
    ");
}

#[test]
fn values_of_the_wrong_type_or_size() {
    insta::assert_snapshot!(said(|eval| eval.set("trials", json!("many"))), @r#"
    error: the eval `eval.yaml` is not valid
      - `trials`: "many" is not of type "integer"
    hint: `mst schema eval` prints the schema
    "#);
    insta::assert_snapshot!(said(|eval| eval.set("trials", json!(0))), @"
    error: the eval `eval.yaml` is not valid
      - `trials`: 0 is less than the minimum of 1
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("variants", json!([]))), @"
    error: the eval `eval.yaml` is not valid
      - `variants`: [] has less than 1 item
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("variants.0.id", json!("Not A Name"))), @r#"
    error: the eval `eval.yaml` is not valid
      - `variants[0].id`: `Not A Name` is no variant name: it must be 1 to 64 of `a-z`, `0-9` and `-`, and start with a letter or digit
    hint: `mst schema eval` prints the schema
    "#);
    insta::assert_snapshot!(said(|eval| eval.set("variants", json!([{"id": "a"}, {"id": "a"}]))), @"
    error: the eval `eval.yaml` is not valid
      - `variants[1].id`: two variants are called `a`
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("deadlines", json!({"client": "soon"}))), @"
    error: the eval `eval.yaml` is not valid
      - `deadlines.client`: `soon` is no length of time: write a number and a unit, as `90s`, `10m` or `1h 30m`; at least `1ms`, at most `30days`
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("deadlines", json!({"client": 5}))), @r#"
    error: the eval `eval.yaml` is not valid
      - `deadlines.client`: 5 is not of type "string"
    hint: `mst schema eval` prints the schema
    "#);
    insta::assert_snapshot!(said(|eval| eval.set("client", json!({"kind": "comand"}))), @"
    error: the eval `eval.yaml` is not valid
      - `client.kind`: `comand` is none of `command`, `echo` (did you mean `command`?)
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("client", json!({"kind": "command"}))), @"
    error: the eval `eval.yaml` is not valid
      - `client.argv`: a `command` client needs a program (as argv: [python3, agent.py])
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("client", Value::Null)), @"
    error: the eval `eval.yaml` is not valid
      - `variants[0]`: variant `v` has no client (add `client` to it or to the eval)
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("judges.0.min_pass_rate", json!(1.5))), @"
    error: the eval `eval.yaml` is not valid
      - `judges[0].min_pass_rate`: 1.5 is greater than the maximum of 1.0
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said_of("eval.yaml", "[]"), @r#"
    error: the eval `eval.yaml` is not valid
      - [] is not of type "object"
    hint: `mst schema eval` prints the schema
    "#);
    insta::assert_snapshot!(said_of("eval.yaml", ""), @r#"
    error: the eval `eval.yaml` is not valid
      - null is not of type "object"
    hint: `mst schema eval` prints the schema
    "#);
}

#[test]
fn plugins_that_are_unknown_or_of_another_kind() {
    insta::assert_snapshot!(said(|eval| eval.set("dataset.plugin", json!("mst/dataset/json"))), @"
    error: there is no plugin `mst/dataset/json`
    hint: did you mean `mst/dataset/jsonl`?
    ");
    insta::assert_snapshot!(said(|eval| eval.set("judges.0.plugin", json!("acme/judge/tone"))), @"
    error: there is no plugin `acme/judge/tone`
    hint: a plugin that is not mst's own is added first: `mst plugin add FILE.wasm`
    ");
    insta::assert_snapshot!(said(|eval| eval.set("judges.0.plugin", json!("mst/dataset/jsonl"))), @"
    error: the eval `eval.yaml` is not valid
      - `judges[0].plugin`: `mst/dataset/jsonl` is a dataset, not a judge
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("dataset.plugin", json!("mst/judge/text"))), @"
    error: the eval `eval.yaml` is not valid
      - `dataset.plugin`: `mst/judge/text` is a judge, not a dataset
    hint: `mst schema eval` prints the schema
    ");
    insta::assert_snapshot!(said(|eval| eval.set("dataset.plugin", json!("jsonl"))), @r#"
    error: the eval `eval.yaml` is not valid
      - `dataset.plugin`: `jsonl` is no plugin id: it must be `org/kind/name`, as `mst/judge/text`
    hint: `mst schema eval` prints the schema
    "#);
    let twice = json!([
        {"plugin": "mst/judge/text", "options": {"mode": "exact"}},
        {"plugin": "mst/judge/text", "options": {"mode": "contains"}},
    ]);
    insta::assert_snapshot!(said(|eval| eval.judges(twice)), @"
    error: the eval `eval.yaml` is not valid
      - `judges[1]`: two judges are called `text` (give one an `id` of its own)
    hint: `mst schema eval` prints the schema
    ");
}

#[test]
fn options_that_do_not_fit_the_manifest() {
    insta::assert_snapshot!(said(|eval| eval.set("judges.0.options", json!({"mode": "exat"}))), @"
    error: `judges[0].options` does not fit the plugin `mst/judge/text`
      - `mode`: `exat` is none of `exact`, `contains`, `regex`, `json-equal`, `number` (did you mean `exact`?)
    hint: `mst plugin inspect mst/judge/text` shows the options
    ");
    insta::assert_snapshot!(said(|eval| eval.set("judges.0.options", json!({}))), @"
    error: `judges[0].options` does not fit the plugin `mst/judge/text`
      - `mode` is missing
    hint: `mst plugin inspect mst/judge/text` shows the options
    ");
    insta::assert_snapshot!(said(|eval| eval.set("dataset.options", json!({"path": 7}))), @r#"
    error: `dataset.options` does not fit the plugin `mst/dataset/jsonl`
      - `path`: 7 is not of type "string"
    hint: `mst plugin inspect mst/dataset/jsonl` shows the options
    "#);
    insta::assert_snapshot!(said(|eval| eval.check("true").set("judges.0.options.command", json!([]))), @"
    error: `judges[0].options` does not fit the plugin `mst/judge/command`
      - `command`: [] has less than 1 item
    hint: `mst plugin inspect mst/judge/command` shows the options
    ");
}

#[test]
fn a_variable_to_be_passed_that_is_not_set() {
    insta::assert_snapshot!(
        said(|eval| eval.set("client", json!({"kind": "command", "argv": ["cat"], "pass_env": ["MY_TOKEN", "OTHER"]}))),
        @"
    error: clients are to get `MY_TOKEN`, `OTHER` from your environment, where it is not set
    hint: set it, or take it out of `pass_env`
    "
    );
    insta::assert_snapshot!(said(|eval| eval.set("variants.0.env", json!({"MST_TRIAL": "7"}))), @"
    error: the eval `eval.yaml` is not valid
      - `variants[0].env`: `MST_TRIAL` is one of mst's own variables (names that start with `MST_` are set by mst)
    hint: `mst schema eval` prints the schema
    ");
}

#[test]
fn files_that_are_not_there_or_no_eval() {
    let space = Space::new();
    insta::assert_snapshot!(refused(&space, "none.yaml"), @"
    exit 105
    -- stderr
    error: can't read the eval `none.yaml`
      - No such file or directory (os error 2)
    ");
    fs::create_dir(space.path("dir.yaml")).expect("made");
    insta::assert_snapshot!(refused(&space, "dir.yaml"), @"
    exit 105
    -- stderr
    error: `dir.yaml` is a directory
    hint: name the eval's file, as eval.yaml
    ");
    space.write("eval", "");
    insta::assert_snapshot!(refused(&space, "eval"), @"
    exit 105
    -- stderr
    error: `eval` has no ending that tells its format
    hint: an eval is a `.yaml`, `.json` or `.toml` file
    ");
    space.write("eval.txt", "");
    insta::assert_snapshot!(refused(&space, "eval.txt"), @"
    exit 105
    -- stderr
    error: `eval.txt` has no ending that tells its format
    hint: an eval is a `.yaml`, `.json` or `.toml` file
    ");
    space.write("bytes.yaml", b"a: \xff\xfe\n");
    insta::assert_snapshot!(refused(&space, "bytes.yaml"), @"
    exit 105
    -- stderr
    error: the eval `bytes.yaml` is no text
      - the byte 0xff at 3 is not UTF-8
    hint: save the file as UTF-8
    ");
    space.write("large.yaml", "#".repeat(5 << 20));
    insta::assert_snapshot!(refused(&space, "large.yaml"), @"
    exit 105
    -- stderr
    error: `large.yaml` has 5242880 bytes; an eval has at most 4194304
    ");
}

#[test]
fn bad_syntax_shows_the_place() {
    insta::assert_snapshot!(said_of("eval.yaml", "name: x\nvariants: [{id: a}\njudges: []\n"), @"
    error: the eval `eval.yaml` is no YAML
      - error: line 3 column 7: illegal placement of ':' indicator
         --> eval.yaml:3:7
          |
        1 | name: x
        2 | variants: [{id: a}
        3 | judges: []
          |       ^ illegal placement of ':' indicator
    ");
    insta::assert_snapshot!(said_of("eval.yaml", "name: x\n\tvariants: []\n"), @"
    error: the eval `eval.yaml` is no YAML
      - error: line 1 column 7: while scanning a plain scalar, found a tab
         --> eval.yaml:1:7
          |
        1 | name: x
          |       ^ while scanning a plain scalar, found a tab
        2 |     variants: []
          |
    ");
    insta::assert_snapshot!(said_of("eval.json", "{\"name\": \"x\",\n \"trials\": }"), @"
    error: the eval `eval.json` is no JSON
      - expected value at line 2 column 12
    ");
    insta::assert_snapshot!(said_of("eval.toml", "name = 'x'\ntrials = = 3\n"), @"
    error: the eval `eval.toml` is no TOML
      - TOML parse error at line 2, column 10
          |
        2 | trials = = 3
          |          ^
        extra `=`, expected nothing
    ");
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    insta::assert_snapshot!(said_of("eval.yaml", "name: x\ntrials: 1\ntrials: 2\n"), @"
    error: the eval `eval.yaml` is no YAML
      - error: line 3 column 1: duplicate mapping key: trials
         --> eval.yaml:3:1
          |
        1 | name: x
        2 | trials: 1
        3 | trials: 2
          | ^ duplicate mapping key: trials
    ");
    insta::assert_snapshot!(said_of("eval.toml", "name = 'x'\ntrials = 1\ntrials = 2\n"), @"
    error: the eval `eval.toml` is no TOML
      - TOML parse error at line 3, column 1
          |
        3 | trials = 2
          | ^^^^^^
        duplicate key
    ");
}

#[test]
fn a_key_that_stands_twice_in_json_is_refused_too() {
    let space = Space::new();
    let eval = Eval::new();
    eval.write(&space);
    space.write("eval.json", eval.value().to_string().replacen('{', "{\"trials\": 3, \"trials\": 1, ", 1));
    let output = refused(&space, "eval.json");
    assert!(output.stderr.starts_with("error: the eval `eval.json` is no JSON"), "{output}");
}

#[test]
fn yaml_that_is_meant_to_blow_up_ends_quickly() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let list = vec![format!("*a{}", n - 1); 10].join(", ");
        laughs.push_str(&format!("a{n}: &a{n} [{list}]\n"));
    }
    let bombs = [
        laughs,
        "[".repeat(1 << 20),
        "{a: ".repeat(100_000),
        (0..2_500).map(|n| format!("{}- \n", " ".repeat(n))).collect(),
        "a: &a [*a]\n".to_owned(),
        format!("name: {}\n", "!!str ".repeat(10_000)),
    ];
    for (n, bomb) in bombs.iter().enumerate() {
        let began = Instant::now();
        let said = said_of("eval.yaml", bomb);
        assert!(began.elapsed() < Duration::from_secs(60), "bomb {n} took {:?}", began.elapsed());
        assert!(said.starts_with("error: the eval `eval.yaml` is no"), "bomb {n}: {said}");
        assert!(said.len() < 10_000, "bomb {n} says {} bytes", said.len());
    }
}

#[test]
fn json_that_nests_without_end_is_refused() {
    let said = said_of("eval.json", "[".repeat(1 << 20));
    assert!(said.starts_with("error: the eval `eval.json` is no JSON"), "{said}");
}

#[test]
fn the_same_eval_in_three_formats_has_one_identity() {
    let space = Space::new();
    let eval = Eval::new()
        .set("name", json!("same"))
        .set("trials", json!(2))
        .set("deadlines", json!({"client": "90s"}))
        .set("judges.0.min_pass_rate", json!(0.5));
    eval.write(&space);
    space.write("eval.json", eval.value().to_string());
    space.write(
        "eval.yaml",
        "# Flow and block, comments, quotes.\nname: 'same'\ntrials: 2\nclient: {kind: echo}\nvariants:\n  - id: v\n\
         dataset:\n  plugin: mst/dataset/jsonl\n  options: {path: cases.jsonl}\n\
         judges:\n  - plugin: mst/judge/text\n    options:\n      mode: exact\n    min_pass_rate: 0.5\n\
         deadlines: {client: 1m 30s}\n",
    );
    space.write(
        "eval.toml",
        "name = 'same'\ntrials = 2\n[client]\nkind = 'echo'\n[[variants]]\nid = 'v'\n\
         [dataset]\nplugin = 'mst/dataset/jsonl'\noptions = {path = 'cases.jsonl'}\n\
         [[judges]]\nplugin = 'mst/judge/text'\nmin_pass_rate = 0.5\n[judges.options]\nmode = 'exact'\n\
         [deadlines]\nclient = '90s'\n",
    );
    let identities: Vec<Value> = ["yaml", "json", "toml"]
        .iter()
        .map(|format| {
            let runs = format!("runs-{format}");
            let output = space.mst(["run", &format!("eval.{format}"), "--runs", &runs, "--json"]).exits(0);
            let path = output.events()[0]["path"].as_str().expect("a path").to_owned();
            let record: Value = serde_json::from_str(&space.read(&format!("{path}/run.json"))).expect("JSON");
            record["identity"].clone()
        })
        .collect();
    assert_eq!(identities[0], identities[1]);
    assert_eq!(identities[0], identities[2]);
}

#[test]
fn what_is_asked_is_the_identity() {
    let space = Space::new();
    let identity = |eval: Eval| {
        eval.write(&space);
        let output = space.mst(["run", "eval.yaml", "--json"]);
        let path = output.events()[0]["path"].as_str().expect("a path").to_owned();
        let record: Value = serde_json::from_str(&space.read(&format!("{path}/run.json"))).expect("JSON");
        record["identity"]["sha256"].clone()
    };
    let same = identity(Eval::new());
    assert_eq!(identity(Eval::new()), same);
    for other in [
        Eval::new().cases([json!({"id": "a", "prompt": "a", "expected": "b"})]),
        Eval::new().set("trials", json!(2)),
        Eval::new().set("judges.0.options.ignore_case", json!(true)),
        Eval::new().set("deadlines", json!({"client": "1s"})),
    ] {
        assert_ne!(identity(other), same);
    }
}

#[test]
fn the_schema_admits_the_examples_and_not_a_mistyped_one() {
    let space = Space::new();
    let schema = space.mst(["schema", "eval"]).exits(0).json();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut seen = 0;
    for example in fs::read_dir(repository().join("examples")).expect("lists") {
        let path = example.expect("an entry").path().join("eval.yaml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let value: Value = serde_saphyr::from_str(&text).expect("YAML");
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        seen += 1;
    }
    assert!(seen >= 2);
    assert!(validator.is_valid(Eval::new().value()));
    assert!(!validator.is_valid(Eval::new().set("trails", json!(1)).value()));
}
