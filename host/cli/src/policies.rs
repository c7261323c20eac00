//! Which policies bind here: the system's, the user's, the project's. Each is held where it is
//! there; one that can't be read lets nothing start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mst_plugin::Policy;

use crate::error::Failure;
use crate::place;

/// The system's.
const SYSTEM: &str = "/etc/mst/policy.toml";
/// The user's, below the directory for configuration.
const USER: &str = "mst/policy.toml";
/// The project's, beside its lock.
const PROJECT: &str = "mst.policy.toml";

/// All policies that bind where this lock is.
pub(crate) fn found(lock_dir: &Path) -> Result<Policy, Failure> {
    let user = place::config_dir().map(|dir| dir.join(USER));
    let paths = [Some(PathBuf::from(SYSTEM)), user, Some(lock_dir.join(PROJECT))];
    let mut policy = Policy::default();
    for path in paths.into_iter().flatten() {
        match fs::read_to_string(&path) {
            Ok(text) => add(&mut policy, &path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(policy)
}

/// The policy of one file, as if it were the only one.
pub(crate) fn of(path: &Path) -> Result<Policy, Failure> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let mut policy = Policy::default();
    add(&mut policy, path, &text)?;
    Ok(policy)
}

fn add(policy: &mut Policy, path: &Path, text: &str) -> Result<(), Failure> {
    policy
        .add(&path.display().to_string(), text)
        .map_err(|error| unreadable(path, &error).hint_if(error.hint()))
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::because(format!("can't read the policy `{}`", path.display()), error)
}
