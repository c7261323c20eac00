//! What compiles Rust for `wasm32-wasip2` here.
//!
//! Where rustup's target is installed it is taken. Where it can't be, Debian has a compiler
//! together with the standard library's source that fits it, and the default toolchain lends its
//! linker: rustup's has `wasm-component-ld` and `wasm-ld`, Debian's has neither.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{BuildError, Environment, answer};

pub(super) const TARGET: &str = "wasm32-wasip2";

pub(super) const BOTH_WAYS: &str = "run `rustup target add wasm32-wasip2`; or on Debian \
     `apt-get install --no-install-recommends rustc-web cargo-web rust-web-src wasi-libc`, beside a rustup toolchain";

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_SOURCE: &str = "/usr/lib/rustlib/src/rust";
const DEBIAN_LIBC: &str = "/usr/lib/wasm32-wasi";

/// A compiler with what it needs to make a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    pub(super) cargo: PathBuf,
    /// What rustc says of itself, as `rustc 1.96.0 (…)`.
    rustc: String,
    /// The compiler that lent its linker, where that is another.
    linker: Option<String>,
    /// Flags for rustc.
    pub(super) flags: Vec<String>,
    /// Arguments for `cargo build`.
    pub(super) arguments: Vec<&'static str>,
    /// Variables for cargo, over those of the environment.
    pub(super) vars: Vec<(&'static str, OsString)>,
    /// Where the standard library's source is, where it is there.
    pub(super) std_source: PathBuf,
    /// The compiler's commit, or its release where it names none.
    pub(super) commit: String,
}

impl fmt::Display for Toolchain {
    /// What decides the bytes beside the sources.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rustc)?;
        match &self.linker {
            Some(linker) => write!(f, ", std from source, linker of {linker}"),
            None => Ok(()),
        }
    }
}

/// What `rustc -vV` says.
struct Version {
    line: String,
    host: String,
    commit: String,
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let commit = field("commit-hash").filter(|hash| *hash != "unknown").or_else(|| field("release"))?;
        let line = text.lines().next().filter(|line| line.starts_with("rustc "))?;
        Some(Version { line: line.to_owned(), host: field("host")?.to_owned(), commit: commit.to_owned() })
    }
}

fn version(dir: &Path, rustc: &str, environment: &Environment) -> Result<Version, BuildError> {
    let mut command = environment.command(rustc, dir);
    command.arg("-vV");
    let text = answer(command)?;
    Version::parse(&text).ok_or_else(|| BuildError::Answer {
        program: format!("{rustc} -vV"),
        why: "it names no version and host".to_owned(),
    })
}

pub(super) fn find(dir: &Path, environment: &Environment) -> Result<Toolchain, BuildError> {
    let default = default_sysroot(dir, environment);
    if let Ok(sysroot) = &default
        && sysroot.join("lib/rustlib").join(TARGET).is_dir()
    {
        return with_target(dir, sysroot, environment);
    }
    let why = match &default {
        Ok(sysroot) => format!("the default one (`{}`) does not have that target", sysroot.display()),
        Err(error) => error.to_string(),
    };
    debian(dir, default.ok(), environment)?.map_err(|missing| BuildError::NoToolchain { why, missing })
}

fn default_sysroot(dir: &Path, environment: &Environment) -> Result<PathBuf, BuildError> {
    let mut command = environment.command("rustc", dir);
    command.args(["--print", "sysroot"]);
    Ok(PathBuf::from(answer(command)?.trim_end()))
}

fn with_target(dir: &Path, sysroot: &Path, environment: &Environment) -> Result<Toolchain, BuildError> {
    let version = version(dir, "rustc", environment)?;
    Ok(Toolchain {
        cargo: "cargo".into(),
        rustc: version.line,
        linker: None,
        flags: Vec::new(),
        arguments: Vec::new(),
        vars: vec![("RUSTC", "rustc".into())],
        std_source: sysroot.join("lib/rustlib/src/rust"),
        commit: version.commit,
    })
}

/// Debian's compiler, or what of it is missing.
fn debian(
    dir: &Path,
    default: Option<PathBuf>,
    environment: &Environment,
) -> Result<Result<Toolchain, Vec<String>>, BuildError> {
    let std = format!("{DEBIAN_SOURCE}/library/std/Cargo.toml");
    let libc = format!("{DEBIAN_LIBC}/libc.a");
    let files = [DEBIAN_RUSTC, DEBIAN_CARGO, &std, &libc];
    let mut missing: Vec<String> =
        files.into_iter().filter(|file| !Path::new(file).is_file()).map(str::to_owned).collect();
    let lender = match &default {
        Some(_) => Some(version(dir, "rustc", environment)?),
        None => None,
    };
    let tools = match (&default, &lender) {
        (Some(sysroot), Some(lender)) => Some(sysroot.join("lib/rustlib").join(&lender.host).join("bin")),
        _ => None,
    };
    let tool = |inside: &str, name: &str| {
        let own = tools.as_ref().map(|tools| tools.join(inside).join(name)).filter(|file| file.is_file());
        own.or_else(|| environment.find(name))
    };
    let component_ld = tool("", "wasm-component-ld");
    let wasm_ld = tool("gcc-ld", "wasm-ld");
    for (found, name) in [(&component_ld, "wasm-component-ld"), (&wasm_ld, "wasm-ld")] {
        if found.is_none() {
            missing.push(name.to_owned());
        }
    }
    let (Some(component_ld), Some(wasm_ld), true) = (component_ld, wasm_ld, missing.is_empty()) else {
        return Ok(Err(missing));
    };
    let version = version(dir, DEBIAN_RUSTC, environment)?;
    // wasm-component-ld looks for wasm-ld on PATH.
    let dirs = wasm_ld.parent().map(Path::to_owned).into_iter();
    let path = environment.get("PATH").map(std::env::split_paths).into_iter().flatten();
    let path = std::env::join_paths(dirs.chain(path))
        .map_err(|error| BuildError::Answer { program: "PATH".to_owned(), why: error.to_string() })?;
    Ok(Ok(Toolchain {
        cargo: DEBIAN_CARGO.into(),
        rustc: version.line,
        linker: Some(lender.map_or_else(|| component_ld.display().to_string(), |lender| lender.line)),
        flags: ["-Clink-self-contained=no".to_owned(), format!("-L{DEBIAN_LIBC}")].into(),
        arguments: vec!["-Zbuild-std=std,panic_abort"],
        vars: vec![
            ("RUSTC", DEBIAN_RUSTC.into()),
            // For -Zbuild-std.
            ("RUSTC_BOOTSTRAP", "1".into()),
            ("PATH", path),
            ("CARGO_TARGET_WASM32_WASIP2_LINKER", component_ld.into()),
        ],
        std_source: DEBIAN_SOURCE.into(),
        commit: version.commit,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustcs_own_words_are_read() {
        let text = "rustc 1.96.0 (ac68faa20 2026-05-25)\nbinary: rustc\ncommit-hash: ac68\nhost: x86_64-unknown-linux-gnu\nrelease: 1.96.0\n";
        let version = Version::parse(text).expect("read");
        assert_eq!((version.host.as_str(), version.commit.as_str()), ("x86_64-unknown-linux-gnu", "ac68"));
        let unknown = Version::parse(&text.replace("ac68\n", "unknown\n")).expect("read");
        assert_eq!(unknown.commit, "1.96.0");
        assert!(Version::parse("sh: rustc: not found").is_none());
    }

    #[test]
    fn without_any_compiler_both_ways_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let vars = [("PATH".into(), dir.path().as_os_str().to_owned())];
        let error = find(dir.path(), &Environment::new(vars)).expect_err("nothing on PATH");
        assert!(error.to_string().contains("`wasm-component-ld`"), "{error}");
        let hint = error.hint().expect("a hint");
        assert!(
            hint.contains("rustup target add wasm32-wasip2") && hint.contains("apt-get install"),
            "{hint}"
        );
    }
}
