//! Where the sources of a guest lie, so that the place can be taken out of the bytes.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::toolchain::{TARGET, Toolchain};
use super::{BuildError, Environment, answer};

pub(super) struct Sources {
    /// The guest's name.
    pub(super) package: String,
    /// Every package that is a folder and not of a registry: its folder, and what it is called
    /// where its folder is not to show.
    pub(super) folders: Vec<(PathBuf, String)>,
    /// Where the workspace's `Cargo.toml` is.
    pub(super) workspace: PathBuf,
    /// Whether there is a lock file that is to stay as it is.
    pub(super) locked: bool,
    /// Where cargo builds.
    pub(super) target_dir: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    crate_types: Vec<String>,
}

pub(super) fn read(
    cargo_toml: &Path,
    dir: &Path,
    toolchain: &Toolchain,
    environment: &Environment,
) -> Result<Sources, BuildError> {
    let cargo = |arguments: &[&str]| {
        let mut command = environment.command(&toolchain.cargo, dir);
        command.args(arguments).arg("--manifest-path").arg(cargo_toml);
        command.envs(toolchain.vars.iter().map(|(name, value)| (name, value)));
        command
    };
    // Which lock file counts only cargo knows: a guest may be a member of a workspace.
    let workspace = answer(cargo(&["locate-project", "--workspace", "--message-format=plain"]))?;
    let locked = Path::new(workspace.trim_end()).with_file_name("Cargo.lock").is_file();
    let mut command = cargo(&["metadata", "--format-version=1", "--filter-platform", TARGET]);
    if locked {
        command.arg("--locked");
    }
    let metadata: Metadata = serde_json::from_str(&answer(command)?).map_err(|error| BuildError::Answer {
        program: "cargo metadata".to_owned(),
        why: error.to_string(),
    })?;
    let own = metadata.packages.iter().find(|package| package.manifest_path == cargo_toml);
    let Some(own) = own else {
        return Err(BuildError::Answer {
            program: "cargo metadata".to_owned(),
            why: format!("`{}` is no package", cargo_toml.display()),
        });
    };
    if !own.targets.iter().any(|target| target.crate_types.iter().any(|kind| kind == "cdylib")) {
        return Err(BuildError::NoCdylib { package: own.name.clone() });
    }
    let package = own.name.clone();
    let folders = metadata.packages.iter().filter(|package| package.source.is_none()).filter_map(|package| {
        Some((package.manifest_path.parent()?.to_owned(), format!("{}-{}", package.name, package.version)))
    });
    Ok(Sources {
        package,
        folders: folders.collect(),
        workspace: metadata.workspace_root,
        locked,
        target_dir: metadata.target_directory,
    })
}
