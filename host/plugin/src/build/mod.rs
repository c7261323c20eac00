//! From a guest's source to a plugin's file: compile, embed the manifest, check.
//!
//! The same sources and toolchain give the same bytes wherever the tree lies and whatever the
//! user's cargo configuration says. The environment comes in as a value, and only what cargo needs
//! of it goes on.

mod compile;
mod sources;
mod toolchain;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::component::{PluginFile, with_manifest};
use crate::legible::{listed, shown};
use crate::manifest::{MAX_BYTES, Manifest, ManifestError};
use crate::{OpenError, open};

pub use toolchain::Toolchain;

/// The manifest's source, beside `Cargo.toml`.
pub const MANIFEST_FILE: &str = "plugin.toml";

/// The process's environment, as its owner read it.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    vars: BTreeMap<OsString, OsString>,
}

/// What cargo and rustup need, by exact name. Flags, wrappers and profiles are not among them:
/// they would change the bytes.
const PASSED: [&str; 24] = [
    "ALL_PROXY",
    "CARGO_HOME",
    "CARGO_TERM_COLOR",
    "CARGO_TERM_PROGRESS_WHEN",
    "CARGO_TERM_QUIET",
    "CARGO_TERM_VERBOSE",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LOGNAME",
    "NO_PROXY",
    "PATH",
    "RUSTUP_AUTO_INSTALL",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "USER",
    "USERPROFILE",
    "SYSTEMROOT",
];
/// The same, by the beginning of the name.
const PASSED_PREFIXES: [&str; 5] =
    ["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRY_", "CARGO_REGISTRIES_", "CARGO_SOURCE_"];

impl Environment {
    /// From the variables that there are, as `std::env::vars_os()` lists them.
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
        Environment { vars: vars.into_iter().collect() }
    }

    fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A command that sees of the environment only what it needs.
    fn command(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let passed = |name: &OsStr| {
            name.to_str().is_some_and(|name| {
                let upper = name.to_ascii_uppercase();
                PASSED.contains(&upper.as_str())
                    || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            })
        };
        let mut command = Command::new(program);
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .env_clear()
            .envs(self.vars.iter().filter(|(name, _)| passed(name)));
        command
    }

    /// Where `name` stands on PATH.
    fn find(&self, name: &str) -> Option<PathBuf> {
        let path = self.get("PATH")?;
        std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| file.is_file())
    }

    fn cargo_home(&self) -> Option<PathBuf> {
        self.get("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(self.get("HOME")?).join(".cargo")))
    }
}

/// What a build says on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The toolchain that was chosen.
    Toolchain(&'a Toolchain),
    /// A line that cargo wrote for people.
    Cargo(&'a str),
}

/// A built plugin.
#[derive(Debug, Clone)]
pub struct Built {
    /// The component with its manifest, checked against its world.
    pub file: PluginFile,
    /// What built it, as `rustc 1.96.0 (ac68faa20 2026-05-25)`: everything that decides the bytes
    /// beside the sources.
    pub toolchain: String,
}

/// Why there is no plugin.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A directory without one of its two files.
    #[error("`{}` has no `{file}`", dir.display())]
    NoFile {
        /// Where it was looked for.
        dir: PathBuf,
        /// `Cargo.toml` or `plugin.toml`.
        file: &'static str,
    },
    /// A file that can't be read or written.
    #[error("can't {verb} `{}`", path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A manifest that is none.
    #[error("`{}` is no manifest", path.display())]
    Manifest {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<ManifestError>,
    },
    /// Nothing that compiles Rust for `wasm32-wasip2`.
    #[error("no toolchain for `wasm32-wasip2`: {why}{}", if missing.is_empty() { String::new() } else { format!("; from Debian's packages {} is missing", listed(missing.iter().map(String::as_str))) })]
    NoToolchain {
        /// What is wrong with the default one.
        why: String,
        /// What the other way lacks.
        missing: Vec<String>,
    },
    /// A program that can't be started.
    #[error("can't start `{program}`")]
    Start {
        /// Which.
        program: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A program that failed before it built anything.
    #[error("`{program}` failed ({status}): {stderr}")]
    Failed {
        /// Which, with its first arguments.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said, bounded.
        stderr: String,
    },
    /// A program whose answer is not to be read.
    #[error("`{program}` answered what can't be read: {why}")]
    Answer {
        /// Which.
        program: String,
        /// What was not understood.
        why: String,
    },
    /// A package that makes no component.
    #[error("package `{package}` is no `cdylib`")]
    NoCdylib {
        /// Which.
        package: String,
    },
    /// The guest does not compile. Cargo's own words went to the progress callback.
    #[error("`{package}` did not compile ({status})")]
    Compile {
        /// Which.
        package: String,
        /// How cargo ended.
        status: ExitStatus,
    },
    /// Cargo was content and named no component.
    #[error("cargo built `{package}` and named no `.wasm` file")]
    NoArtifact {
        /// Which.
        package: String,
    },
    /// What was built is no plugin.
    #[error("what was built is no plugin that this mst can run")]
    Open(#[source] Box<OpenError>),
}

impl BuildError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            BuildError::NoFile { .. } => {
                Some("a plugin's directory has both `Cargo.toml` and `plugin.toml`".to_owned())
            }
            BuildError::Manifest { source, .. } => source.hint(),
            BuildError::NoToolchain { .. } => Some(toolchain::BOTH_WAYS.to_owned()),
            BuildError::NoCdylib { .. } => {
                Some("in `Cargo.toml`: `[lib]` with `crate-type = [\"cdylib\"]`".to_owned())
            }
            BuildError::Failed { stderr, .. } if stderr.contains("--locked") => Some(
                "`Cargo.lock` does not fit `Cargo.toml`: run `cargo update --workspace` beside it".to_owned(),
            ),
            BuildError::Open(error) => error.hint(),
            _ => None,
        }
    }
}

/// Reads the manifest of the guest in `dir`.
pub fn manifest(dir: &Path) -> Result<Manifest, BuildError> {
    let path = file_of(dir, MANIFEST_FILE)?;
    let size = std::fs::metadata(&path).map_err(|source| io_error("read", &path, source))?.len();
    if size > MAX_BYTES as u64 {
        let source = ManifestError::TooLarge { size_bytes: usize::try_from(size).unwrap_or(usize::MAX) };
        return Err(BuildError::Manifest { path, source: source.into() });
    }
    let text = std::fs::read_to_string(&path).map_err(|source| io_error("read", &path, source))?;
    Manifest::from_toml(&text).map_err(|source| BuildError::Manifest { path, source: source.into() })
}

/// Builds the guest in `dir` (where its `Cargo.toml` and `plugin.toml` are) for `wasm32-wasip2`, in
/// release. Cargo's target directory is the guest's own. Nothing of the guest runs but what cargo
/// runs: build scripts and macros, of the guest's and its dependencies'.
pub fn build(
    dir: &Path,
    environment: &Environment,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Built, BuildError> {
    // Absolute, and without links: what a path begins with is what gets remapped.
    let dir = std::fs::canonicalize(dir).map_err(|source| io_error("read", dir, source))?;
    let cargo_toml = file_of(&dir, "Cargo.toml")?;
    // A fault here costs nobody a compile.
    let manifest = manifest(&dir)?;
    let toolchain = toolchain::find(&dir, environment)?;
    progress(Progress::Toolchain(&toolchain));
    let sources = sources::read(&cargo_toml, &dir, &toolchain, environment)?;
    let path = compile::compile(&cargo_toml, &dir, &toolchain, &sources, environment, progress)?;
    let component = std::fs::read(&path).map_err(|source| io_error("read", &path, source))?;
    let no_plugin = |error: OpenError| BuildError::Open(Box::new(error));
    let bytes = with_manifest(&component, &manifest).map_err(|error| no_plugin(error.into()))?;
    let file = open(bytes).map_err(no_plugin)?;
    Ok(Built { file, toolchain: toolchain.to_string() })
}

/// Whether a guest could be built here, and with what. `dir` is where a `rust-toolchain.toml` is
/// looked for.
pub fn toolchain(dir: &Path, environment: &Environment) -> Result<Toolchain, BuildError> {
    toolchain::find(dir, environment)
}

fn file_of(dir: &Path, file: &'static str) -> Result<PathBuf, BuildError> {
    let path = dir.join(file);
    if path.is_file() { Ok(path) } else { Err(BuildError::NoFile { dir: dir.to_owned(), file }) }
}

fn io_error(verb: &'static str, path: &Path, source: io::Error) -> BuildError {
    BuildError::Io { verb, path: path.to_owned(), source }
}

/// The command's stdout, where it ends well.
fn answer(mut command: Command) -> Result<String, BuildError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args()).take(3);
    let program = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let output = command.output().map_err(|source| BuildError::Start { program: program.clone(), source })?;
    if !output.status.success() {
        let stderr = shown(String::from_utf8_lossy(&output.stderr).trim(), 2000).replace("\\n", "\n");
        return Err(BuildError::Failed { program, status: output.status, stderr });
    }
    String::from_utf8(output.stdout).map_err(|error| BuildError::Answer { program, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cargo_needs_is_passed_on() {
        let vars = [
            ("PATH", "/bin"),
            ("HOME", "/root"),
            ("https_proxy", "x"),
            ("CARGO_NET_OFFLINE", "true"),
            ("RUSTFLAGS", "-g"),
            ("CARGO_ENCODED_RUSTFLAGS", "-g"),
            ("RUSTC_WRAPPER", "sccache"),
            ("CARGO_PROFILE_RELEASE_LTO", "off"),
            ("RUSTC", "x"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("CARGO_BUILD_TARGET_DIR", "/x"),
            ("CARGO_TARGET_DIR", "/x"),
            ("LD_PRELOAD", "x"),
        ];
        let environment = Environment::new(vars.map(|(name, value)| (name.into(), value.into())));
        let command = environment.command("cargo", Path::new("/"));
        let mut names: Vec<&OsStr> = command.get_envs().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["CARGO_NET_OFFLINE", "HOME", "PATH", "https_proxy"]);
    }

    #[test]
    fn a_directory_that_is_no_guest_says_what_is_missing() {
        let dir = tempfile::tempdir().expect("a directory");
        let build = || build(dir.path(), &Environment::default(), &mut |_| {}).expect_err("no guest");
        assert!(matches!(build(), BuildError::NoFile { file: "Cargo.toml", .. }));
        std::fs::write(dir.path().join("Cargo.toml"), "").expect("written");
        assert!(matches!(build(), BuildError::NoFile { file: "plugin.toml", .. }));
        std::fs::write(dir.path().join("plugin.toml"), "id = 1").expect("written");
        assert!(matches!(build(), BuildError::Manifest { .. }));
    }
}
