//! Cases with which something is wrong.

use mst_sdk::dataset::bindings::exports::mst::plugin::cases::{EvalCase, File, Message};

use crate::cases::{numbered, with_id};

/// Ids that the contract allows, and that make trouble where they become file names.
pub(crate) fn wicked_ids() -> Vec<String> {
    let mut ids: Vec<String> = [
        "../../x",
        "..",
        ".",
        "/",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "CON",
        "nul.txt",
        "x.",
        " blank ",
        "-rf",
        "~",
        "$HOME",
        "%2e%2e",
        "a:b",
        "*?<>|\"",
        "case",
        "Case",
        "\u{e9}",
        "e\u{301}",
        "\u{202e}gnp.exe",
        "\u{1f600}",
    ]
    .map(str::to_owned)
    .into();
    ids.push("l".repeat(255));
    ids.push("m".repeat(256));
    ids.push("\u{e9}".repeat(128));
    ids
}

pub(crate) fn file(path: &str) -> EvalCase {
    EvalCase {
        files: vec![File { path: path.to_owned(), content: b"x".to_vec(), executable: false }],
        ..numbered(0)
    }
}

pub(crate) fn metadata(json: &str) -> EvalCase {
    EvalCase { metadata: json.to_owned(), ..numbered(0) }
}

pub(crate) fn expected(json: &str) -> EvalCase {
    EvalCase { expected: Some(json.to_owned()), ..numbered(0) }
}

pub(crate) fn role(role: &str) -> EvalCase {
    EvalCase { prompt: vec![Message { role: role.to_owned(), content: "x".to_owned() }], ..numbered(0) }
}

pub(crate) fn prompt(content: String) -> EvalCase {
    EvalCase { prompt: vec![Message { role: "user".to_owned(), content }], ..numbered(0) }
}

/// An id without control characters, and everything that a terminal obeys in the rest.
pub(crate) fn escapes() -> EvalCase {
    let wicked = "a\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}b\r\nc\u{9b}31m";
    EvalCase {
        tags: vec![wicked.to_owned()],
        ..EvalCase { prompt: prompt(wicked.to_owned()).prompt, ..with_id("a\u{202e}b") }
    }
}
