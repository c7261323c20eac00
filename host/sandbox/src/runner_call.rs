//! One call to a runner, of either world: a new instance, its programs' directory, its bounds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mst_model::{Kind, RunId};
use mst_plugin::PluginFile;
use serde_json::Value;
use tempfile::TempDir;
use wasmtime::Store;

use crate::bindings::types;
use crate::call::call;
use crate::engine::Sandbox;
use crate::error::{CallError, LoadError};
use crate::guest::{Given, Guest, Identity, Sinks, new_store};
use crate::permit::Permit;
use crate::process::{Exec, ExecEnvironment};
use crate::shard::Sharding;

/// How many machines of one run there can be.
const MAX_MACHINES: usize = 100_000;

/// A call to a runner that gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RunnerCallError {
    /// An instance could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The runner gave no answer, or none that counts.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// What a function of a guest's gives.
pub(crate) type GuestAnswer<T> = wasmtime::Result<Result<T, types::Error>>;

/// What a runner is set up with.
pub struct RunnerSetup {
    /// What it has here.
    pub permit: Permit,
    /// The user's options, checked against the manifest's schema.
    pub options: Value,
    /// What its programs find around them.
    pub environment: ExecEnvironment,
    /// Where its programs start, each call's in an empty directory of their own.
    pub scratch: PathBuf,
    /// Where its lines and its calls go.
    pub sinks: Sinks,
}

/// What every call to a runner has around it.
pub(crate) struct Around {
    pub(crate) plugin: Identity,
    pub(crate) options: Value,
    sandbox: Sandbox,
    environment: ExecEnvironment,
    scratch: PathBuf,
    sinks: Sinks,
}

/// Which call.
pub(crate) struct At<'a> {
    pub(crate) run: &'a RunId,
    /// For `{machine}`.
    pub(crate) machine: Option<&'a str>,
    pub(crate) function: &'static str,
    pub(crate) time: Duration,
}

/// A call that was answered. The instance ends with its store.
pub(crate) struct Entered<T> {
    pub(crate) answer: T,
    pub(crate) store: Store<Guest>,
    pub(crate) cwd: TempDir,
}

impl Around {
    pub(crate) fn new(sandbox: &Sandbox, file: &PluginFile, setup: RunnerSetup) -> Result<Around, LoadError> {
        let plugin = Identity::of(file, &setup.permit);
        let kind = plugin.id().kind();
        if kind != Kind::Runner {
            return Err(LoadError::Kind { plugin: plugin.id().clone(), is: kind, wanted: Kind::Runner });
        }
        let RunnerSetup { options, environment, scratch, sinks, .. } = setup;
        Ok(Around { plugin, options, sandbox: sandbox.clone(), environment, scratch, sinks })
    }

    /// An answer that doesn't count, and why.
    pub(crate) fn wrong(&self, function: &'static str, what: String) -> RunnerCallError {
        CallError::Answer { plugin: self.plugin.id().clone(), function, what }.into()
    }

    /// The names that a runner of either world lists, held to their bound.
    pub(crate) fn listed(
        &self,
        function: &'static str,
        names: Vec<String>,
    ) -> Result<Vec<String>, RunnerCallError> {
        if names.len() > MAX_MACHINES {
            let many = names.len();
            let what = format!("{many} machines, where at most {MAX_MACHINES} are admitted");
            return Err(self.wrong(function, what));
        }
        Ok(names)
    }

    pub(crate) fn unlinked(&self, error: &wasmtime::Error) -> LoadError {
        LoadError::Link { plugin: self.plugin.id().clone(), what: format!("{error:#}") }
    }

    /// Runs `body` on a new store.
    pub(crate) async fn enter<T>(
        &self,
        at: At<'_>,
        sharding: Option<Sharding>,
        body: impl AsyncFnOnce(&mut Store<Guest>) -> GuestAnswer<T>,
    ) -> Result<Entered<T>, RunnerCallError> {
        let mut limits = self.sandbox.limits().clone();
        limits.call_time = at.time;
        let about = Some(at.machine.map_or_else(|| at.run.to_string(), str::to_owned));
        let given = Given { limits: &limits, sinks: &self.sinks, about, dirs: &[], judging: None };
        let mut store = new_store(&self.sandbox, &self.plugin, given)?;
        let cwd = own_directory(&self.scratch).map_err(|error| CallError::Host {
            plugin: self.plugin.id().clone(),
            function: at.function,
            what: format!("no directory for its programs: {error}"),
        })?;
        let guest = store.data_mut();
        guest.exec = Some(Exec {
            environment: self.environment.clone(),
            options: self.options.clone(),
            machine: at.machine.map(str::to_owned),
            run: at.run.to_string(),
            cwd: cwd.path().to_owned(),
        });
        guest.sharding = sharding;
        let answer = call(&mut store, &limits, at.function, body).await?;
        Ok(Entered { answer, store, cwd })
    }
}

fn own_directory(scratch: &Path) -> std::io::Result<TempDir> {
    std::fs::create_dir_all(scratch)?;
    tempfile::Builder::new().prefix("exec-").tempdir_in(scratch)
}
