//! Whole files, as bytes: what comes out of them, and what is said of bad ones.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use mst_sdk::dataset::{File, Message, Role};
use serde_json::{Value, json};

use super::*;

fn read_as(bytes: impl AsRef<[u8]>, format: Format, fields: Value) -> Result<Vec<Case>, Error> {
    let mapping = Mapping::new(serde_json::from_value(fields).expect("fields"))?;
    Cases::new("cases.jsonl".into(), Cursor::new(bytes.as_ref().to_vec()), format, mapping)?.collect()
}

fn read(bytes: impl AsRef<[u8]>) -> Result<Vec<Case>, Error> {
    read_as(bytes, Format::Auto, json!({}))
}

fn ids(bytes: impl AsRef<[u8]>) -> Vec<String> {
    read(bytes).expect("reads").into_iter().map(|case| case.id).collect()
}

fn fault(bytes: impl AsRef<[u8]>, fields: Value) -> String {
    match read_as(bytes, Format::Auto, fields) {
        Err(Error::Invalid(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writes");
    encoder.finish().expect("ends")
}

const TWO: &str = "{\"id\": \"a\", \"prompt\": \"p\"}\n{\"id\": 2, \"prompt\": \"q\"}";

#[test]
fn lines_and_arrays_gzipped_or_not() {
    let array = format!("[{}]", TWO.replace('\n', ",\n"));
    for text in [
        TWO,
        &array,
        &TWO.replace('\n', "\r\n\r\n"),
        &format!("\u{feff}\n  \n{TWO}\n\n"),
        &format!("\u{feff} \n{array}\n "),
    ] {
        assert_eq!(ids(text), ["a", "2"], "{text}");
        assert_eq!(ids(gzip(text.as_bytes())), ["a", "2"], "{text}");
    }
    // Members of a gzip file follow one another, as `cat a.gz b.gz` makes them.
    assert_eq!(
        ids([gzip(b"{\"id\": \"a\", \"prompt\": \"p\"}\n"), gzip(b"{\"id\": \"b\", \"prompt\": \"p\"}\n")]
            .concat()),
        ["a", "b"]
    );
    for empty in ["", "\n\n", "\u{feff}", "[]", " [ \n ] "] {
        assert_eq!(ids(empty), [""; 0], "{empty:?}");
    }
}

#[test]
fn a_whole_case() {
    let line = json!({
        "id": "a", "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "expected": [1, {"x": null}], "tags": ["t"], "metadata": {"m": 1}, "deadline_ms": 5,
        "files": [{"path": "run.sh", "content": "x", "executable": true}], "other": 0,
    });
    let case = read(line.to_string()).expect("reads").remove(0);
    assert_eq!(case.prompt, [Message::new(Role::System, "s"), Message::new(Role::User, "u")]);
    assert_eq!(case.expected, Some(json!([1, {"x": null}])));
    assert_eq!(
        (case.tags, Value::Object(case.metadata), case.deadline_ms),
        (vec!["t".into()], json!({"m": 1}), Some(5))
    );
    assert_eq!(case.files, [File { path: "run.sh".into(), content: b"x".to_vec(), executable: true }]);
}

#[test]
fn fields_by_name_and_by_pointer() {
    let line = json!({
        "task_id": "T/0", "q": {"text": "why?", "a/b": 1}, "answer": 42, "test": "t", "level": "hard", "ms": null, "metadata": "x", "tags": 7,
    });
    let fields = json!({
        "id": "task_id", "prompt": "/q/text", "expected": {"answer": "answer", "test": "test"}, "metadata": ["level", "/q/a~1b"],
        "tags": "level", "files": {"src/main.py": "/q/text"}, "deadline_ms": "ms",
    });
    let case = read_as(line.to_string(), Format::Auto, fields).expect("reads").remove(0);
    assert_eq!((&case.id[..], &case.prompt[0].content[..]), ("T/0", "why?"));
    assert_eq!(case.expected, Some(json!({"answer": 42, "test": "t"})));
    assert_eq!(Value::Object(case.metadata), json!({"level": "hard", "a/b": 1}));
    assert_eq!((case.tags, case.deadline_ms), (vec!["hard".into()], None));
    assert_eq!(
        case.files,
        [File { path: "src/main.py".into(), content: b"why?".to_vec(), executable: false }]
    );

    let none =
        json!({"id": "task_id", "prompt": "test", "expected": "answer", "metadata": null, "tags": null});
    let case = read_as(line.to_string(), Format::Auto, none).expect("reads").remove(0);
    assert_eq!((case.expected, case.metadata.len(), case.tags.len()), (Some(json!(42)), 0, 0));
}

#[test]
fn bad_text_is_told_with_its_place() {
    for (bytes, said) in [
        (&b"\n{\"id\" 1}"[..], "`cases.jsonl` line 2, column 7: expected `:`"),
        ("{\"é\": 1 \"id\": 2}".as_bytes(), "`cases.jsonl` line 1, column 9: expected `,` or `}`"),
        (
            b"{\n\"id\": 1}",
            "`cases.jsonl` line 1, column 1: EOF while parsing an object; the object has no end here",
        ),
        (b"17", "`cases.jsonl` line 1, column 1: expected an object, found a number"),
        (b"{\"id\": \"\xff\"}", "`cases.jsonl` line 1, column 9: the byte 0xff is not UTF-8"),
        (
            b"[\n  {\"id\": 1, \"prompt\": \"p\"},\n  {\"id\": 2 \"prompt\": \"p\"}\n]",
            "`cases.jsonl` line 3, column 12: expected `,` or `}`",
        ),
        (
            b"[{\"id\": 1, \"prompt\": \"p\"}, {\"id\":\n\n 2,, \"x\": 1}]",
            "`cases.jsonl` line 3, column 4: key must be a string",
        ),
        (
            b"[{\"id\": 1, \"prompt\": \"p\"},\n 3]",
            "`cases.jsonl` line 2, column 2: expected an object, found a number",
        ),
        (
            b"[{\"id\": 1, \"prompt\": \"p\"},\n]",
            "`cases.jsonl` line 2, column 1: expected an object, found `]`; there is a comma too many",
        ),
        (b"[,", "`cases.jsonl` line 1, column 2: expected an object, found `,`"),
        (
            b"[{\"id\": 1, \"prompt\": \"p\"}\n",
            "`cases.jsonl` line 1, column 2: the object that begins here has no end",
        ),
        (
            b"[{\"id\": 1, \"prompt\": \"p\"}] x",
            "`cases.jsonl` line 1, column 28: expected the end of the file",
        ),
        (b"[", "`cases.jsonl` line 1, column 2: the file ends within the array"),
        (b"[{\"id\": \"]}", "`cases.jsonl` line 1, column 2: the object that begins here has no end"),
        (b"[{\"a\": [1}]", "`cases.jsonl` line 1, column 2: the object that begins here has no end"),
        (b"[{\"id\": 1]]", "`cases.jsonl` line 1, column 10: expected `,` or `}`"),
    ] {
        let text = match read(bytes) {
            Err(Error::Invalid(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(text.starts_with(said), "{}\n  said {text}\n  not  {said}", String::from_utf8_lossy(bytes));
    }
    let text = read_as(TWO, Format::Json, json!({})).expect_err("no array").to_string();
    assert!(text.starts_with("`cases.jsonl` line 1, column 1: expected `[`"), "{text}");
}

#[test]
fn bad_objects_are_told_with_their_line() {
    for (line, fields, said) in [
        (
            json!({"x": 1, "prompt": "p"}),
            json!({}),
            "missing field `id` (option `fields.id`); the fields here are `prompt`, `x`",
        ),
        (
            json!({"id": 1.5, "prompt": "p"}),
            json!({}),
            "the field `id` (option `fields.id`) must be a string or a whole number, and is a number",
        ),
        (json!({"id": "a\nb", "prompt": "p"}), json!({}), "the field `id` (option `fields.id`) is `a\\nb`"),
        (json!({"id": "", "prompt": "p"}), json!({}), "the field `id`"),
        (json!({"id": "a"}), json!({"prompt": "/q/0"}), "missing field `/q/0` (option `fields.prompt`)"),
        (
            json!({"id": "a", "prompt": []}),
            json!({}),
            "the field `prompt` (option `fields.prompt`) is an empty array",
        ),
        (
            json!({"id": "a", "prompt": [{"role": "robot", "content": "x"}]}),
            json!({}),
            "message 1 of the field `prompt`",
        ),
        (
            json!({"id": "a", "prompt": "p", "tags": [1]}),
            json!({}),
            "the field `tags` (option `fields.tags`) must be a list of strings",
        ),
        (
            json!({"id": "a", "prompt": "p", "metadata": 1}),
            json!({}),
            "the field `metadata` (option `fields.metadata`) must be an object",
        ),
        (
            json!({"id": "a", "prompt": "p"}),
            json!({"expected": {"x": "y"}}),
            "missing field `y` (option `fields.expected.x`)",
        ),
        (
            json!({"id": "a", "prompt": "p", "f": 1}),
            json!({"files": {"a.txt": "f"}}),
            "the field `f` (option `fields.files.a.txt`) must be a string",
        ),
        (
            json!({"id": "a", "prompt": "p", "files": [{"path": "../x", "content": ""}]}),
            json!({}),
            "the field `files` (option `fields.files`) names `../x`",
        ),
        (
            json!({"id": "a", "prompt": "p", "files": "x"}),
            json!({}),
            "the field `files` (option `fields.files`) must be a list",
        ),
        (
            json!({"id": "a", "prompt": "p", "deadline_ms": 0}),
            json!({}),
            "the field `deadline_ms` (option `fields.deadline_ms`) is `0`",
        ),
    ] {
        let text = fault(format!("\n{line}"), fields);
        assert!(
            text.starts_with(&format!("`cases.jsonl` line 2: {said}")),
            "{line}\n  said {text}\n  not  {said}"
        );
    }
    assert!(fault(TWO, json!({"files": {"/etc/x": "id"}})).contains("it must be relative"));
    assert_eq!(
        fault(TWO, json!({"metadata": ["id", "nope"]})),
        "`cases.jsonl`: no case has the field `nope` (option `fields.metadata`)"
    );
}

#[test]
fn bad_gzip() {
    let whole = gzip(format!("{TWO}\n").repeat(100).as_bytes());
    assert!(fault(&whole[..whole.len() - 9], json!({})).contains("cut off"));
    assert!(fault(&whole[..5], json!({})).contains("cut off"));
    let mut damaged = gzip(TWO.as_bytes());
    let at = damaged.len() - 6;
    damaged[at] ^= 0xff;
    assert!(fault(damaged, json!({})).contains("damaged"));
}

#[test]
fn long_elements_are_refused_and_just_fitting_ones_are_not() {
    let line = |bytes: usize| {
        let frame = r#"{"id":"a","prompt":""}"#.len();
        format!(r#"{{"id":"a","prompt":"{}"}}"#, "x".repeat(bytes - frame))
    };
    let limit = crate::element::LIMIT;
    assert_eq!(ids(format!("{}\r\n", line(limit))), ["a"]);
    assert_eq!(ids(format!("[{}]", line(limit))), ["a"]);
    assert_eq!(fault(line(limit + 1), json!({})), "`cases.jsonl` line 1: the line is longer than 16 MiB");
    assert!(fault(format!("[{}]", line(limit + 1)), json!({})).contains("longer than 16 MiB"));
}

#[test]
fn any_way_of_reading_gives_the_same() {
    /// Gives a byte at a time.
    struct Slow(Cursor<Vec<u8>>);
    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let one = into.len().min(1);
            self.0.read(&mut into[..one])
        }
    }
    for text in [TWO.to_owned(), format!("\u{feff}[{}]", TWO.replace('\n', ",\n"))] {
        for bytes in [text.clone().into_bytes(), gzip(text.as_bytes())] {
            let mapping = Mapping::new(Default::default()).expect("fields");
            let cases =
                Cases::new("x".into(), Slow(Cursor::new(bytes)), Format::Auto, mapping).expect("begins");
            let ids: Vec<_> = cases.map(|case| case.expect("reads").id).collect();
            assert_eq!(ids, ["a", "2"]);
        }
    }
}
