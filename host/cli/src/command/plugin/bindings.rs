//! What `--bind` says: where a directory is, and where a secret comes from.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use mst_plugin::{Access, Capability, Dir, Key, Pinned, Policy, Request, Source};

use crate::error::Failure;
use crate::lockfile::LockFile;
use crate::place;

/// What `--bind` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binding {
    key: Key,
    to: Bound,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Bound {
    Dir(PathBuf),
    Secret(Source),
}

impl FromStr for Binding {
    type Err = String;

    fn from_str(text: &str) -> Result<Binding, String> {
        let (key, value) =
            text.split_once('=').ok_or("write it as `dir:NAME=PATH` or `secret:NAME=env:VARIABLE`")?;
        let key: Key = key.parse().map_err(|error: mst_plugin::request::NoKey| error.to_string())?;
        let to = match key.capability() {
            Capability::Dir if !value.is_empty() => Bound::Dir(PathBuf::from(value)),
            Capability::Dir => return Err("a path is at least one character".to_owned()),
            Capability::Secret => {
                Bound::Secret(value.parse().map_err(|error: mst_plugin::grant::NoSource| error.to_string())?)
            }
            other => {
                return Err(format!("only `dir` and `secret` are bound to something, and not `{other}`"));
            }
        };
        Ok(Binding { key, to })
    }
}

pub(super) fn bind(
    pinned: &mut Pinned,
    bindings: &[Binding],
    lock: &LockFile,
    policy: &Policy,
) -> Result<(), Failure> {
    for Binding { key, to } in bindings {
        let asked = pinned.asked(key).map_err(|error| Failure::from_error(&error).hint(error.hint()))?;
        let request = asked.request.clone();
        let name = key.name().to_owned();
        match to {
            Bound::Dir(path) => {
                if let Request::Dir(Dir { option: Some(option), .. }) = &request {
                    return Err(Failure::new(format!(
                        "`{key}` can't be bound: the option `{option}` names it"
                    ))
                    .hint(format!("set `{option}` in the plugin's options")));
                }
                if !path.is_dir() {
                    return Err(Failure::new(format!(
                        "`{key}` can't be bound: `{}` is no directory",
                        path.display()
                    )));
                }
                let relative = lock.relative(path)?;
                if matches!(request, Request::Dir(Dir { access: Access::ReadWrite, .. })) {
                    check_writable(key, path, lock, policy)?;
                }
                pinned.bindings.dirs.insert(name, relative);
            }
            Bound::Secret(Source::File(path)) => {
                pinned.bindings.secrets.insert(name, Source::File(lock.relative(path)?));
            }
            Bound::Secret(source) => {
                if let Some(rule) = policy.refuses_source(source) {
                    return Err(Failure::new(format!("`{key}` can't be bound: {rule}"))
                        .hint("whoever keeps the policy can change it"));
                }
                pinned.bindings.secrets.insert(name, source.clone());
            }
        }
    }
    Ok(())
}

/// A plugin that may write to the lock, beside an eval or to a policy may grant itself anything; one that may
/// write to mst's cache of compiled plugins may run anything.
fn check_writable(key: &Key, path: &Path, lock: &LockFile, policy: &Policy) -> Result<(), Failure> {
    let real = |path: &Path| std::fs::canonicalize(if path == Path::new("") { Path::new(".") } else { path });
    let bound =
        real(path).map_err(|error| Failure::because(format!("can't find `{}`", path.display()), &error))?;
    // What a link names is as much the file as the link is.
    let holds = |file: &Path| {
        let places = [file.parent().unwrap_or(Path::new("")), file];
        places.into_iter().filter_map(|place| real(place).ok()).any(|place| place.starts_with(&bound))
    };
    let what = if holds(lock.path()) {
        format!("the lock `{}` and the eval beside it", lock.path().display())
    } else if let Some(file) = policy.files().find(|file| holds(Path::new(file))) {
        format!("the policy `{file}`")
    } else if let Some(cache) = place::cache_dir().filter(|cache| {
        // As much of it as is there already.
        let there = cache.ancestors().find_map(|place| real(place).ok());
        there.is_some_and(|there| there.starts_with(&bound))
            || real(cache).is_ok_and(|cache| bound.starts_with(cache))
    }) {
        format!("mst's cache of compiled plugins, `{}`", cache.display())
    } else {
        return Ok(());
    };
    Err(Failure::new(format!(
        "`{key}` can't be bound to `{}`: the plugin could write {what}",
        path.display()
    ))
    .hint("bind a directory of its own"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_are_read_where_they_are_written() {
        for good in ["dir:data=x", "secret:key=env:KEY", "secret:key=command:pass show a=b"] {
            good.parse::<Binding>().expect(good);
        }
        for bad in ["dir:data", "dir:data=", "secret:key=KEY", "exec:x=y", "x=y", "secret:key=env:A-B"] {
            assert!(bad.parse::<Binding>().is_err(), "`{bad}`");
        }
    }
}
