//! What a command said, the same in each run of a test.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use regex_lite::Regex;
use serde_json::Value;

/// How mst ended and what it said. Its texts are normalised; `raw` is not.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// stdout and stderr, byte for byte.
    pub(crate) raw: (Vec<u8>, Vec<u8>),
}

impl Output {
    pub(crate) fn of(output: std::process::Output, root: &Path) -> Output {
        let status = output.status;
        let text = |bytes: &[u8]| normal(&String::from_utf8_lossy(bytes), root);
        Output {
            // As a shell says it.
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            raw: (output.stdout, output.stderr),
        }
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Output {
        assert_eq!(self.code, code, "{self}");
        self
    }

    /// stdout's lines as JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.raw.0).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    /// stdout as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.raw.0).expect("JSON")
    }

    /// stderr without the lines that say how far a run is.
    pub(crate) fn said(&self) -> String {
        let progress =
            Regex::new(r"^(grade \d+/\d+$|collect \d+/\d+ |run \[RUN\] in |\d+ cases?$)").expect("valid");
        let lines = self.stderr.lines().filter(|line| !progress.is_match(line));
        lines.map(|line| format!("{line}\n")).collect()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit {}", self.code)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "-- {name}")?;
                f.write_str(text)?;
            }
        }
        Ok(())
    }
}

/// Without what differs from run to run: places, names of runs, times, digests.
pub(crate) fn normal(text: &str, root: &Path) -> String {
    let mut text = text.to_owned();
    // The longer first; on some systems the temporary directory is a link.
    for root in [root.canonicalize().unwrap_or_else(|_| root.to_owned()), root.to_owned()] {
        text = text
            .replace(&format!("{}/work", root.display()), "[DIR]")
            .replace(&*root.to_string_lossy(), "[ROOT]");
    }
    for (pattern, name) in [
        (r"\b\d{8}-\d{6}-[a-z2-9]{4}\b", "[RUN]"),
        (r"sha256:[0-9a-f]{64}", "[DIGEST]"),
        (r"took \d+\.\d s", "took [TIME]"),
        (r"(grade|trial)-[A-Za-z0-9]{6}\b", "$1-[RANDOM]"),
        (r"(\[ROOT\]/tmp/mst-)[A-Za-z0-9]{6}\b", "$1[RANDOM]"),
        (r"MST_PROCESS=[0-9a-f]{16}-\d+", "MST_PROCESS=[MARK]"),
    ] {
        text = Regex::new(pattern).expect("valid").replace_all(&text, name).into_owned();
    }
    text
}
