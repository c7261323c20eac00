//! `mst/dataset/jsonl`, as an eval meets it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Eval, Space};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("ended")
}

/// What is said of this file as a dataset.
#[track_caller]
fn said(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let space = Space::new();
    Eval::new().set("dataset.options.path", json!(name)).write(&space);
    space.write(name, bytes);
    let output = space.mst(["run", "eval.yaml"]).exits(105);
    assert!(!space.path("runs").exists(), "nothing could start, and there is a run");
    space.assert_tidy();
    output.stderr
}

/// The cases of a run as it records them. What it would ask after that is not waited for.
fn resolved(space: &Space) -> Value {
    let mut command = space.command(["run", "eval.yaml", "--json"]);
    let mut mst = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(mst.stdout.take().expect("piped")).lines();
    let mut event =
        || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("reads")).expect("JSON") };
    while event()["event"] != "cases-resolved" {}
    mst.kill().expect("killed");
    mst.wait().expect("ended");
    space.run().record()["cases"].clone()
}

#[test]
fn lines_and_arrays_gzipped_or_not_are_the_same_cases() {
    let cases: Vec<Value> = (0..600)
        .map(|n| json!({"id": n, "prompt": format!("{n} \u{e9}\u{1f600} \"\\"), "expected": n, "tags": ["t"], "metadata": {"n": n}}))
        .collect();
    let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
    let crlf = format!("\u{feff}{}", lines.replace('\n', "\r\n\r\n"));
    let array = format!("  {:#}", Value::Array(cases));
    let two_members = [gzip(&lines.as_bytes()[..20_000]), gzip(&lines.as_bytes()[20_000..])].concat();
    let mut sets = Vec::new();
    for (name, bytes) in [
        ("cases.jsonl", lines.clone().into_bytes()),
        ("cases.json", array.clone().into_bytes()),
        ("cases.jsonl.gz", gzip(lines.as_bytes())),
        ("cases.json.gz", gzip(array.as_bytes())),
        // Seen from the content, whatever it is called.
        ("cases.txt", gzip(array.as_bytes())),
        ("crlf.jsonl", crlf.into_bytes()),
        ("members.gz", two_members),
    ] {
        let space = Space::new();
        Eval::new().set("dataset.options.path", json!(name)).write(&space);
        space.write(name, bytes);
        sets.push((name, resolved(&space)));
    }
    for (name, set) in &sets {
        assert_eq!((&set["count"], set), (&json!(600), &sets[0].1), "{name}");
    }
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    insta::assert_snapshot!(said("c.jsonl", "{\"id\": 1, \"prompt\": \"x\"}\n\n{\"id\": 2, \"prompt\": x}\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 3, column 21: expected value
    ");
    insta::assert_snapshot!(said("c.jsonl.gz", gzip(b"{\"id\": 1, \"prompt\": \"x\"}\n{\"id\": 2\n")), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl.gz` line 2, column 8: EOF while parsing an object; the object has no end here, and JSONL has one whole object on each line
    ");
    insta::assert_snapshot!(said("c.json", "[{\"id\": 1, \"prompt\": \"x\"},\n {\"id\": 2, \"prompt\": }]"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.json` line 2, column 22: expected value
    ");
    insta::assert_snapshot!(said("c.jsonl", "{\"id\": 1, \"prompt\": \"x\"}\n[2]\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 2, column 1: expected an object, found an array
    ");
    insta::assert_snapshot!(said("c.jsonl", b"{\"id\": 1, \"prompt\": \"\xff\"}\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 1, column 22: the byte 0xff is not UTF-8; save the file as UTF-8
    ");
    insta::assert_snapshot!(said("c.json", "[{\"id\": 1, \"prompt\": \"x\"}"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.json` line 1, column 2: the object that begins here has no end: the file is cut off, or a quote or a bracket is not closed
    ");
}

#[test]
fn a_field_that_is_missing_or_wrong_is_named() {
    insta::assert_snapshot!(said("c.jsonl", "{\"id\": 1, \"promt\": \"x\"}\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 1: missing field `prompt` (option `fields.prompt`); the fields here are `id`, `promt`
    ");
    insta::assert_snapshot!(said("c.jsonl", "{\"prompt\": \"x\"}\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 1: missing field `id` (option `fields.id`); the fields here are `prompt`
    ");
    insta::assert_snapshot!(said("c.jsonl", "{\"id\": 1.5, \"prompt\": \"x\"}\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 1: the field `id` (option `fields.id`) must be a string or a whole number, and is a number
    ");
    insta::assert_snapshot!(said("c.jsonl", "{\"id\": \"a\\nb\", \"prompt\": \"x\"}\n"), @r"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 1: the field `id` (option `fields.id`) is `a\nb`, and an id must have 1 to 256 bytes and no control characters
    ");
    insta::assert_snapshot!(said("c.jsonl", "{\"id\": 1, \"prompt\": \"x\", \"files\": [{\"path\": \"../x\", \"content\": \"\"}]}\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.jsonl` line 1: the field `files` (option `fields.files`) names `../x`, which is no path in a workspace: it has an empty, `.` or `..` part
    ");
}

#[test]
fn two_cases_of_one_name_are_refused() {
    insta::assert_snapshot!(said("c.jsonl", "{\"id\": 1, \"prompt\": \"x\"}\n{\"id\": \"1\", \"prompt\": \"y\"}\n"), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - two cases are called `1`: a case's id must be unique in its dataset
    ");
}

#[test]
fn a_file_that_is_cut_off_or_empty_or_not_there() {
    let whole = gzip("{\"id\": 1, \"prompt\": \"x\"}\n".repeat(100).as_bytes());
    insta::assert_snapshot!(said("c.gz", &whole[..whole.len() - 9]), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.gz` is gzipped and cut off near line 94: its end is missing; copy or download it again
    ");
    let mut damaged = whole.clone();
    let end = damaged.len();
    damaged[end - 6] ^= 0xff;
    insta::assert_snapshot!(said("c.gz", damaged), @"
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `c.gz` is gzipped and damaged near line 101: corrupt gzip stream does not have a matching checksum
    ");
    insta::assert_snapshot!(said("c.jsonl", ""), @"
    error: the dataset `mst/dataset/jsonl` has no cases
    hint: look at its options
    ");
    insta::assert_snapshot!(said("c.json", "[]"), @"
    error: the dataset `mst/dataset/jsonl` has no cases
    hint: look at its options
    ");
    let space = Space::new();
    Eval::new().set("dataset.options.path", json!("data/none.jsonl")).write(&space);
    insta::assert_snapshot!(space.mst(["run", "eval.yaml"]).exits(105), @"
    exit 105
    -- stderr
    error: the option `path` of `mst/dataset/jsonl` names `data/none.jsonl`, which can't be read
      - No such file or directory (os error 2)
    hint: paths are relative to the eval's file, in `[DIR]`
    ");
    assert!(!space.path("runs").exists());
    Eval::new().set("dataset.options.path", json!(".")).write(&space);
    insta::assert_snapshot!(space.mst(["run", "eval.yaml"]).exits(105), @"
    exit 105
    -- stderr
    error: the dataset `mst/dataset/jsonl` can't be read
      - `mst/dataset/jsonl`: `data` is a directory; the option `path` must name a file in it
    ");
}

#[test]
fn fields_are_mapped() {
    let space = Space::new();
    let options = json!({"path": "c.jsonl", "fields": {
        "id": "task", "prompt": "/q/text", "expected": {"x": "a", "y": "/q/b"}, "metadata": ["level"], "files": {"in/data.txt": "data"},
    }});
    Eval::new().set("dataset.options", options).check("test \"$(cat in/data.txt)\" = D").write(&space);
    space.write(
        "c.jsonl",
        "{\"task\": \"T/0\", \"q\": {\"text\": \"Q\", \"b\": 2}, \"a\": 1, \"level\": 3, \"data\": \"D\"}\n",
    );
    space.mst(["run", "eval.yaml"]).exits(0);
    space.run().assert_passed();
    insta::assert_snapshot!(format!("{:#}", space.run().cases()[0]), @r#"
    {
      "expected": {
        "x": 1,
        "y": 2
      },
      "files": [
        {
          "content": "D",
          "path": "in/data.txt"
        }
      ],
      "id": "T/0",
      "metadata": {
        "level": 3
      },
      "prompt": [
        {
          "content": "Q",
          "role": "user"
        }
      ]
    }
    "#);
}
