//! Which program a name means.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// A name that means no program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFound {
    /// The name.
    pub name: String,
    /// Where it was looked for, in that order.
    pub tried: Vec<PathBuf>,
    /// What is there but is no executable file.
    pub unfit: Vec<PathBuf>,
}

impl std::error::Error for NotFound {}

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |paths: &[PathBuf]| {
            let paths: Vec<_> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
            paths.join(", ")
        };
        write!(f, "no program `{}`: ", self.name.escape_debug())?;
        match (&self.tried[..], &self.unfit[..]) {
            ([], _) => write!(f, "the PATH is empty"),
            (tried, []) => write!(f, "looked in {}", list(tried)),
            (_, unfit) => write!(f, "{} is there, but is no executable file", list(unfit)),
        }
    }
}

/// The absolute path of the program `name`: with a `/` in it, relative to `base`; without, the
/// first executable file of that name in the directories of `path_var`, which is a PATH. Entries
/// that are empty or relative are passed over: what they mean changes with the directory.
///
/// `base` is to be absolute. A symlink is left as it is, since many a program asks what it was
/// called by.
///
/// # Errors
/// [`NotFound`], with the places where it was looked for.
pub fn resolve_program(name: &str, path_var: &str, base: &Path) -> Result<PathBuf, NotFound> {
    let mut missed = NotFound { name: name.to_owned(), tried: Vec::new(), unfit: Vec::new() };
    if name.contains('/') {
        let path = base.join(name);
        missed.tried.extend(path.parent().map(Path::to_owned));
        return missed.take(path);
    }
    for dir in std::env::split_paths(path_var).filter(|dir| dir.is_absolute() && !name.is_empty()) {
        missed.tried.push(dir.clone());
        match missed.take(dir.join(name)) {
            Ok(path) => return Ok(path),
            Err(still) => missed = still,
        }
    }
    Err(missed)
}

impl NotFound {
    fn take(mut self, path: PathBuf) -> Result<PathBuf, NotFound> {
        if path.is_file() && access(&path, Access::EXEC_OK).is_ok() {
            return Ok(path);
        }
        if path.exists() {
            self.unfit.push(path);
        }
        Err(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(at: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(at.parent().expect("a parent")).expect("made");
        fs::write(at, "#!/bin/sh\n").expect("written");
        fs::set_permissions(at, fs::Permissions::from_mode(mode)).expect("set");
        at.to_owned()
    }

    #[test]
    fn names_are_looked_up_and_paths_are_relative_to_the_base() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |path: &str| dir.path().join(path);
        put(&at("one/agent"), 0o644);
        let second = put(&at("two/agent"), 0o755);
        let beside = put(&at("evals/agent"), 0o755);
        let path = format!(":relative:{}:{}", at("one").display(), at("two").display());
        assert_eq!(resolve_program("agent", &path, &at("evals")), Ok(second.clone()));
        assert_eq!(resolve_program("./agent", &path, &at("evals")), Ok(at("evals/./agent")));
        assert_eq!(resolve_program("../evals/agent", "", &at("evals")), Ok(at("evals/../evals/agent")));
        assert_eq!(resolve_program(&second.to_string_lossy(), "", &at("evals")), Ok(second));
        assert!(beside.exists());
    }

    #[test]
    fn a_miss_says_where_it_looked() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |path: &str| dir.path().join(path);
        put(&at("bin/agent"), 0o644);
        let said = |name: &str, path: &str| {
            let error = resolve_program(name, path, dir.path()).expect_err("refused");
            error.to_string().replace(&dir.path().display().to_string(), "DIR")
        };
        let bin = at("bin").display().to_string();
        assert_eq!(
            said("agnet", &format!("{bin}:/nowhere")),
            "no program `agnet`: looked in `DIR/bin`, `/nowhere`"
        );
        assert_eq!(
            said("agent", &bin),
            "no program `agent`: `DIR/bin/agent` is there, but is no executable file"
        );
        assert_eq!(said("./agent", &bin), "no program `./agent`: looked in `DIR`");
        assert_eq!(said("agent", ""), "no program `agent`: the PATH is empty");
        assert_eq!(said("", &bin), "no program ``: the PATH is empty");
        assert_eq!(
            said("./bin", &bin),
            "no program `./bin`: `DIR/./bin` is there, but is no executable file"
        );
    }
}
