//! Where things are on this machine. All reading of the environment is here.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// This mst's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where compiled components are kept: `MST_CACHE_DIR`, else the user's cache directory.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    if let Some(dir) = var("MST_CACHE_DIR") {
        return Some(PathBuf::from(dir).join("components"));
    }
    let base = var("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = base.or_else(|| {
        let home = PathBuf::from(var("HOME")?);
        home.is_absolute().then(|| home.join(".cache"))
    })?;
    Some(base.join("mst").join("components"))
}

/// Where the user's configuration is.
pub(crate) fn config_dir() -> Option<PathBuf> {
    let named = var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    named.or_else(|| {
        let home = PathBuf::from(var("HOME")?);
        home.is_absolute().then(|| home.join(".config"))
    })
}

/// Where programs are looked for.
pub(crate) fn path() -> String {
    var("PATH").unwrap_or_else(|| "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned())
}

/// The authorities whose certificates servers may show, as a PEM file; those that browsers trust where
/// none is named.
pub(crate) fn authorities() -> Option<String> {
    var("SSL_CERT_FILE")
}

/// Where a worker may keep tokens, the best first: each is looked at before it is used.
pub(crate) fn token_places() -> Vec<PathBuf> {
    let runtime = var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let user = rustix::process::geteuid().as_raw();
    [Some(PathBuf::from("/run/mst/tokens")), runtime.map(|dir| dir.join("mst/tokens"))]
        .into_iter()
        .flatten()
        // One part only: whoever else may write there must not be able to put another in its place.
        .chain([PathBuf::from(format!("/dev/shm/mst-tokens-{user}"))])
        .collect()
}

/// The whole environment.
pub(crate) fn vars() -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os()
}

/// A variable of the environment; none where it is unset, empty or no UTF-8.
pub(crate) fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
