//! What a machine may lack.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::repository;

/// Says why a test is skipped, or fails where the machine must not lack that.
pub(crate) fn missing(what: &str, why: &str) {
    let require = format!("MST_REQUIRE_{what}");
    assert!(env::var_os(&require).is_none_or(|value| value != "1"), "{require}=1, and {why}");
    eprintln!("skipped: {why}");
}

/// A directory with python3, the interpreter itself: a version manager's shim costs more than
/// most of what is run with it.
pub(crate) fn python() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let mut command = Command::new("python3");
        let output = command.args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
        let program = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
        Some(program.parent()?.to_owned()).filter(|dir| dir.join("python3").is_file())
    });
    if found.is_none() {
        missing("PYTHON", "there is no python3");
    }
    found.as_deref()
}

/// HumanEval's file.
pub(crate) fn human_eval() -> Option<PathBuf> {
    let beside = || repository().join("../shared/data/HumanEval.jsonl.gz");
    let path = env::var_os("MST_HUMANEVAL").map_or_else(beside, PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    missing("HUMANEVAL", &format!("{} is not there (MST_HUMANEVAL names another)", path.display()));
    None
}
