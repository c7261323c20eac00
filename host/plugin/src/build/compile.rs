//! Running cargo.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;

use super::sources::Sources;
use super::toolchain::{TARGET, Toolchain};
use super::{BuildError, Environment, Progress, io_error};

const WRAPPER: &str = include_str!("rustc-wrapper.sh");

/// The profile's settings that the bytes must not leave to chance. Optimisation, LTO and the like
/// are the guest's.
const PROFILE: [&str; 3] =
    ["profile.release.codegen-units=1", "profile.release.debug=false", "profile.release.incremental=false"];

#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Compiles the guest; the component's path.
pub(super) fn compile(
    cargo_toml: &Path,
    dir: &Path,
    toolchain: &Toolchain,
    sources: &Sources,
    environment: &Environment,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<PathBuf, BuildError> {
    let mut command = environment.command(&toolchain.cargo, dir);
    command
        .args([
            "build",
            "--release",
            "--lib",
            "--target",
            TARGET,
            "--message-format=json-render-diagnostics",
            "--manifest-path",
        ])
        .arg(cargo_toml)
        .args(&toolchain.arguments)
        .args(PROFILE.iter().flat_map(|setting| ["--config", setting]))
        .envs(toolchain.vars.iter().map(|(name, value)| (name, value)))
        // Set, if only to nothing, it stands over every other place that flags could come from.
        .env("CARGO_ENCODED_RUSTFLAGS", flags(toolchain, sources, environment))
        .env("CARGO_TARGET_DIR", &sources.target_dir)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTC_WORKSPACE_WRAPPER", "");
    match wrapper(&sources.target_dir)? {
        Some(wrapper) => {
            let roots: Vec<_> =
                sources.folders.iter().map(|(folder, _)| folder.display().to_string()).collect();
            command.env("RUSTC_WRAPPER", wrapper).env("MST_BUILD_ROOTS", roots.join("\n"));
        }
        None => {
            command.env("RUSTC_WRAPPER", "");
        }
    }
    if sources.locked {
        command.arg("--locked");
    }
    let start = |source| BuildError::Start { program: toolchain.cargo.display().to_string(), source };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(start)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Both pipes are read at once: whichever filled up would stop cargo.
    let messages = std::thread::spawn(move || {
        let mut text = Vec::new();
        match stdout {
            Some(mut stdout) => stdout.read_to_end(&mut text).map(|_| text),
            None => Ok(text),
        }
    });
    for line in stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n')) {
        let Ok(line) = line else { break };
        progress(Progress::Cargo(String::from_utf8_lossy(&line).trim_end()));
    }
    let status = child.wait().map_err(start)?;
    let package = sources.package.clone();
    if !status.success() {
        return Err(BuildError::Compile { package, status });
    }
    let messages = messages
        .join()
        .unwrap_or_else(|_| Err(std::io::Error::other("the reader ended early")))
        .map_err(start)?;
    artifact(&messages, cargo_toml).ok_or(BuildError::NoArtifact { package })
}

/// The guest's component among cargo's messages.
fn artifact(messages: &[u8], cargo_toml: &Path) -> Option<PathBuf> {
    messages
        .split(|byte| *byte == b'\n')
        // What build scripts and macros print stands there, too.
        .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
        .filter(|message| {
            message.reason == "compiler-artifact" && message.manifest_path.as_deref() == Some(cargo_toml)
        })
        .flat_map(|message| message.filenames)
        .rfind(|file| file.extension().is_some_and(|ending| ending == "wasm"))
}

/// rustc's flags: the toolchain's, and every place that could show in the bytes under a name that
/// says what is there and not where.
fn flags(toolchain: &Toolchain, sources: &Sources, environment: &Environment) -> OsString {
    let mut places: Vec<(PathBuf, String)> = Vec::new();
    places.push((sources.workspace.clone(), "/guest".to_owned()));
    places.push((sources.target_dir.clone(), "/target".to_owned()));
    places.extend(sources.folders.iter().map(|(folder, name)| (folder.clone(), format!("/source/{name}"))));
    places.extend(environment.cargo_home().map(|home| (home, "/cargo".to_owned())));
    // As the standard library that comes compiled has it.
    places.push((toolchain.std_source.clone(), format!("/rustc/{}", toolchain.commit)));
    // The last that fits is taken: the deepest.
    places.sort_by_key(|(path, _)| path.components().count());
    let mut flags: Vec<OsString> = toolchain.flags.iter().map(OsString::from).collect();
    for (path, name) in places {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(path);
        flag.push("=");
        flag.push(name);
        flags.push(flag);
    }
    flags.join(OsStr::new("\u{1f}"))
}

/// Puts rustc's wrapper beside what is built. It is a POSIX script; elsewhere bytes may depend on
/// where the sources lie.
fn wrapper(target_dir: &Path) -> Result<Option<PathBuf>, BuildError> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let dir = target_dir.join("mst-build");
    let path = dir.join("rustc-wrapper.sh");
    // Cargo looks at its time: left alone where it is what it should be.
    if std::fs::read(&path).is_ok_and(|text| text == WRAPPER.as_bytes()) {
        return Ok(Some(path));
    }
    std::fs::create_dir_all(&dir).map_err(|source| io_error("make", &dir, source))?;
    let written = || -> std::io::Result<()> {
        let temporary = dir.join(format!("rustc-wrapper.{}.tmp", std::process::id()));
        std::fs::write(&temporary, WRAPPER)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o755))?;
        }
        std::fs::rename(&temporary, &path)
    };
    written().map_err(|source| io_error("write", &path, source))?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guests_own_component_is_found_among_cargos_words() {
        let messages = concat!(
            "a build script's own line\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/dep/Cargo.toml","filenames":["/t/dep.wasm"]}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/g/Cargo.toml","filenames":["/t/g.rlib","/t/g.wasm"]}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        assert_eq!(artifact(messages.as_bytes(), Path::new("/g/Cargo.toml")), Some("/t/g.wasm".into()));
        assert_eq!(artifact(messages.as_bytes(), Path::new("/h/Cargo.toml")), None);
    }
}
