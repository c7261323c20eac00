//! Reaching for what was not given, and telling what came back.

use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use mst_sdk::judge::{Error, Trial, Verdict, workspace};

pub(crate) fn read_past(trial: &Trial<'_>) -> Verdict {
    let first = trial.entries().into_iter().next().map(|entry| entry.name).unwrap_or_default();
    let mut found = String::new();
    for (name, offset, limit) in [
        ("files/nope", 0, 10),
        ("files/../report", 0, 10),
        ("", 0, 10),
        (&first, u64::MAX, 10),
        (&first, 1 << 40, u32::MAX),
        (&first, 0, 0),
        (&first, 0, u32::MAX),
    ] {
        let got = trial.read(name, offset, limit).map(|content| (content.bytes.len(), content.rest));
        let _ = writeln!(found, "{name}@{offset}+{limit}: {got:?}");
    }
    Verdict::pass(found)
}

pub(crate) fn run(template: &str, slots: &[(&str, &str)], stdin: Option<&str>) -> Verdict {
    let mut run = workspace::template(template);
    for (name, value) in slots {
        run = run.slot(*name, *value);
    }
    if let Some(stdin) = stdin {
        run = run.stdin(stdin);
    }
    Verdict::pass(match run.run() {
        Ok(output) => format!(
            "ran: {:?} stdout={:?} stderr={:?}",
            output.status,
            output.stdout_text(),
            output.stderr_text()
        ),
        Err(error) => format!("refused: {error:?}"),
    })
}

pub(crate) fn files() -> Verdict {
    let mut found = String::new();
    for path in [
        "/etc/passwd",
        "/etc/hostname",
        "/proc/self/environ",
        "../../../etc/passwd",
        "/data/../etc/passwd",
        "report",
        "/report",
    ] {
        let _ = writeln!(
            found,
            "read {path}: {:?}",
            fs::read(path).map(|bytes| bytes.len()).map_err(|error| error.kind())
        );
    }
    for path in ["/", ".", "..", "/data", "/tmp", "/work"] {
        let names = fs::read_dir(path).map(|entries| entries.count()).map_err(|error| error.kind());
        let _ = writeln!(found, "list {path}: {names:?}");
    }
    for path in ["/tmp/mst-escape", "mst-escape", "/mst-escape"] {
        let _ = writeln!(found, "write {path}: {:?}", fs::write(path, "x").map_err(|error| error.kind()));
        let _ = writeln!(
            found,
            "mkdir {path}.d: {:?}",
            fs::create_dir(format!("{path}.d")).map_err(|error| error.kind())
        );
    }
    Verdict::pass(found)
}

pub(crate) fn environment() -> Verdict {
    let mut found = String::new();
    for (name, value) in std::env::vars() {
        let _ = writeln!(found, "env {name}={value}");
    }
    for argument in std::env::args() {
        let _ = writeln!(found, "arg {argument}");
    }
    let _ = writeln!(
        found,
        "stdin {:?}",
        std::io::read_to_string(std::io::stdin()).map_err(|error| error.kind())
    );
    Verdict::pass(found)
}

/// `1` in a fresh instance, more in one that was used before.
pub(crate) fn state() -> Verdict {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    Verdict::pass((CALLS.fetch_add(1, Ordering::Relaxed) + 1).to_string())
}

pub(crate) fn evidence(trial: &Trial<'_>) -> Result<Verdict, Error> {
    let mut found = String::new();
    for entry in trial.entries() {
        let _ = writeln!(found, "entry {} {} {}", entry.name, entry.size, trial.read_all(&entry.name)?.len());
    }
    let outcome = trial.outcome()?;
    let _ = writeln!(found, "outcome {:?} {:?} {:?}", outcome.status, outcome.limit, outcome.exit);
    let _ = writeln!(found, "case {}", trial.case()?.id);
    let _ = writeln!(found, "variant {} index {}", trial.variant(), trial.index());
    let _ = writeln!(found, "report {:?}", trial.report().map(|report| report.len()));
    Ok(Verdict::pass(found))
}
