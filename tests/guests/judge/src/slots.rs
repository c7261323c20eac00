//! What a slot may be told, and what comes of it. The template `look` then says what ran.

use std::fmt::Write as _;

use mst_sdk::judge::{Verdict, workspace};

/// Whatever of these ran leaves `ran` in the workspace.
const TEXTS: &[(&str, &str)] = &[
    ("plain", "fine"),
    ("empty", ""),
    ("NUL", "a\0b"),
    ("newline", "a\ntouch ran"),
    ("escape", "a\u{1b}[2Jb"),
    ("bidi", "a\u{202e}b"),
    ("nothing to see", "a\u{200b}b"),
    ("two commands", "a;touch ran"),
    ("a command's output", "$(touch ran)"),
    ("the same, older", "`touch ran`"),
    ("quotes", "'\"; touch ran; '"),
    ("pattern", "*"),
    ("flag", "-n"),
    ("long flag", "--help"),
    ("Cyrillic", "p\u{430}ss"),
    ("full width", "\u{ff50}ass"),
    ("up", "../../etc/passwd"),
    ("up, from the root", "/work/../etc/passwd"),
    ("remote", "host:/etc/passwd"),
];

/// Fills the slot `value` of `template` with each.
pub(crate) fn texts(template: &str) -> Verdict {
    let long = "x".repeat(5 << 10);
    let texts = TEXTS.iter().copied().chain([("5 KiB", &*long)]);
    tell(texts.map(|(kind, text)| (kind, workspace::template(template).slot("value", text))))
}

/// Fills it with other than one value.
pub(crate) fn forms(template: &str) -> Verdict {
    let run = || workspace::template(template);
    let many = vec!["x"; 100_000];
    tell([
        ("no value", run().slots("value", [""; 0])),
        ("two values", run().slots("value", ["fine", "more"])),
        ("the second wicked", run().slots("value", ["fine", "$(touch ran)"])),
        ("100,000 values", run().slots("value", many)),
        ("twice", run().slot("value", "fine").slot("value", "more")),
        ("no name", run().slot("value", "fine").slot("", "more")),
        ("a name with escapes", run().slot("value", "fine").slot("\u{1b}[2J\u{202e}", "more")),
        ("a type in the name", run().slot("value:text(/.*/)", "more")),
        ("a number for a name", run().slot("0", "more")),
        ("100,000 slots", (0..100_000).fold(run(), |run, n| run.slot(n.to_string(), "x"))),
    ])
}

fn tell<'a>(runs: impl IntoIterator<Item = (&'a str, workspace::Run)>) -> Verdict {
    let mut told = String::new();
    for (kind, run) in runs {
        let _ = match run.run() {
            Ok(output) => writeln!(told, "{kind}: {:?} {:?}", output.status, output.stdout_text()),
            Err(error) => writeln!(told, "{kind}: {error:?}"),
        };
    }
    let ran = workspace::template("look").run().map(|output| output.stdout_text().into_owned());
    let _ = write!(told, "in the workspace: {ran:?}");
    Verdict::pass(told)
}
