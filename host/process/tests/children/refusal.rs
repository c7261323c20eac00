//! Programs that can't be run, each for its own reason.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use mst_process::RunError;

use super::*;

async fn refused(change: impl FnOnce(&mut Spec)) -> RunError {
    let dir = dir();
    let mut spec = sh(dir.path(), ":");
    change(&mut spec);
    mst_process::run(spec).await.expect_err("refused")
}

fn script(dir: &Path, name: &str, text: &str, mode: u32) -> std::path::PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    path
}

#[tokio::test]
async fn each_reason_is_told_apart() {
    let dir = dir();
    let at = |name: &str, text: &str, mode| script(dir.path(), name, text, mode);
    let error = refused(|spec| spec.program = "/no/such/program".into()).await;
    assert_eq!(error.to_string(), "program `/no/such/program` is not there");
    assert!(matches!(error, RunError::NotFound { .. }));

    let error = refused(|spec| spec.program = at("plain", "#!/bin/sh\n", 0o644)).await;
    assert!(matches!(error, RunError::NotExecutable { .. }), "{error:?}");
    let error = refused(|spec| spec.program = dir.path().to_owned()).await;
    assert!(matches!(error, RunError::NotExecutable { .. }), "{error:?}");
    let error = refused(|spec| spec.program = at("nonsense", "\x01\x02", 0o755)).await;
    assert!(matches!(error, RunError::NotExecutable { .. }), "{error:?}");
    let error = refused(|spec| spec.program = at("stray", "#!/no/such/interpreter\n", 0o755)).await;
    assert!(matches!(error, RunError::NoInterpreter { .. }), "{error:?}");

    let error = refused(|spec| spec.cwd = "/no/such/directory".into()).await;
    assert!(matches!(error, RunError::NoDirectory { .. }), "{error:?}");
    let error = refused(|spec| spec.cwd = at("file", "", 0o644)).await;
    assert!(matches!(error, RunError::NoDirectory { .. }), "{error:?}");

    let error = refused(|spec| spec.args.push("a\0b".into())).await;
    assert!(matches!(error, RunError::Spawn { .. }), "{error:?}");
    let error = refused(|spec| spec.args.push("x".repeat(64 << 20).into())).await;
    assert!(matches!(error, RunError::Spawn { .. }), "{error:?}");
}
