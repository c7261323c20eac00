//! The guests that misbehave, built once for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{missing, repository};

/// Where their sources are.
pub(crate) fn guests_dir() -> PathBuf {
    repository().join("tests/guests")
}

/// The component of `tests/guests/NAME`; none where nothing here compiles guests.
pub(crate) fn guest(name: &'static str) -> Option<&'static Path> {
    static JUDGE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static DATASET: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static MACHINE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static SHARD: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static WEB: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = match name {
        "judge" => &JUDGE,
        "dataset" => &DATASET,
        "machine" => &MACHINE,
        "shard" => &SHARD,
        "web" => &WEB,
        _ => panic!("no guest `{name}`"),
    };
    found(built.get_or_init(|| build(&guests_dir(), name)))
}

/// The component of `examples/plugins/NAME`; none where nothing here compiles guests.
pub(crate) fn example(name: &'static str) -> Option<&'static Path> {
    static DIR: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static SSH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = match name {
        "dir-runner" => &DIR,
        "ssh-runner" => &SSH,
        _ => panic!("no example `{name}`"),
    };
    found(built.get_or_init(|| build(&repository().join("examples/plugins"), name)))
}

fn found(built: &'static Result<PathBuf, String>) -> Option<&'static Path> {
    match built {
        Ok(path) => Some(path),
        Err(why) => {
            missing("GUESTS", why);
            None
        }
    }
}

fn build(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e/guests");
    std::fs::create_dir_all(&dir).expect("made");
    let file = dir.join(format!("{name}.wasm"));
    // With the whole environment: cargo needs its home, its registry, perhaps a proxy.
    let mut command = Command::new(env!("CARGO_BIN_EXE_mst"));
    let output = command.args(["plugin", "build"]).arg(folder.join(name)).arg("-o").arg(&file).output();
    let output = output.expect("mst starts");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(file);
    }
    assert!(said.contains("no toolchain for `wasm32-wasip2`"), "the guest `{name}` does not build:\n{said}");
    Err("nothing here compiles for wasm32-wasip2".to_owned())
}
