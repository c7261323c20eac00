//! Where a path leads that a guest names.

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use wasmtime_wasi::p2::bindings::filesystem::types::PathFlags;

#[derive(Clone)]
pub(super) struct Place {
    /// The directory's name in the manifest.
    pub(super) dir: String,
    /// The path below it as it was said, but for what means nothing (`./`, `//`). A `..` stays: where it
    /// leads depends on the link before it.
    pub(super) path: String,
}

/// What becomes of a link at the end of a path.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Links {
    Followed,
    Taken,
}

impl From<PathFlags> for Links {
    fn from(flags: PathFlags) -> Links {
        if flags.contains(PathFlags::SYMLINK_FOLLOW) { Links::Followed } else { Links::Taken }
    }
}

/// The longest path, in bytes: what systems admit. It bounds what is remembered of an open directory.
pub(super) const MAX_PATH: usize = 4096;

impl Place {
    /// The place of a path from here; none where it is too long.
    pub(super) fn join(&self, path: &str) -> Option<Place> {
        if path.len() > MAX_PATH {
            return None;
        }
        let parts = self.path.split('/').chain(path.split('/')).filter(|part| !matches!(*part, "" | "."));
        let path = parts.collect::<Vec<_>>().join("/");
        (path.len() <= MAX_PATH).then(|| Place { dir: self.dir.clone(), path })
    }
}

/// Whether `path`, which was not permitted below `root`, leads out by a link. Where that can't be said it was
/// the system that did not permit it. What keeps a guest inside is wasmtime; this says only what to call it.
pub(super) fn a_link_leads_out(root: &Path, path: &str, links: Links) -> bool {
    let found = Dir::open_ambient_dir(root, ambient_authority()).and_then(|root| match links {
        Links::Followed => root.metadata(path),
        Links::Taken => root.symlink_metadata(path),
    });
    // cap-std's own refusal, and none of the system's.
    found
        .is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none())
}

/// Whether a path leads out of the directory that it begins in, whatever stands there.
pub(super) fn leads_out(path: &str) -> bool {
    let mut depth = 0i64;
    path.starts_with('/')
        || path.split('/').any(|part| {
            depth += match part {
                "" | "." => 0,
                ".." => -1,
                _ => 1,
            };
            depth < 0
        })
}

#[cfg(test)]
mod tests;
