//! Which policies bind here: the system's, the user's, the project's. Each is held where it is
//! there; one that can't be read lets nothing start.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mst_plugin::Policy;
use mst_plugin::policy::MAX_BYTES;

use crate::error::Failure;
use crate::place;

/// The system's.
const SYSTEM: &str = "/etc/mst/policy.toml";
/// The user's, below the directory for configuration.
const USER: &str = "mst/policy.toml";
/// The project's, beside its lock and beside its eval.
const PROJECT: &str = "mst.policy.toml";

/// All policies that bind where this lock is, and `here`: in the eval's directory, or where nobody
/// names an eval in the one that mst is in. A lock that is named elsewhere leads past no policy.
pub(crate) fn found(lock_dir: &Path, here: &Path) -> Result<Policy, Failure> {
    let user = place::config_dir().map(|dir| dir.join(USER));
    let beside_eval = Some(here).filter(|here| !is_same(lock_dir, here)).map(|here| here.join(PROJECT));
    let paths = [Some(PathBuf::from(SYSTEM)), user, Some(lock_dir.join(PROJECT)), beside_eval];
    let mut policy = Policy::default();
    for path in paths.into_iter().flatten() {
        // Only where nothing has the name is there none: a link that leads nowhere is one that
        // somebody took away.
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, &error)),
            Ok(_) => {
                let text = read(&path).map_err(|error| unreadable(&path, &error))?;
                add(&mut policy, &path, &text)?;
            }
        }
    }
    Ok(policy)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |dir: &Path| fs::canonicalize(if dir == Path::new("") { Path::new(".") } else { dir }).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// As much as shows whether it is too long.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The policy of one file, as if it were the only one.
pub(crate) fn of(path: &Path) -> Result<Policy, Failure> {
    let text = read(path).map_err(|error| unreadable(path, &error))?;
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
