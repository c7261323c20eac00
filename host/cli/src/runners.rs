//! Which runner a run uses, with which options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mst_coordinator::machines::{Keep, Machines as _, OnMachines, Staging};
use mst_coordinator::whole::{OnShards, WholeShards as _};
use mst_coordinator::{Notes, Runner, RunnerError};
use mst_model::eval::{ClientKind, Eval};
use mst_model::run::RunnerUse;
use mst_model::{Kind, PluginId, RunId, schema};
use mst_plugin::World;
use mst_sandbox::{ExecEnvironment, RunnerPlugin, RunnerSetup, Sandbox, ShardRunnerPlugin, Sinks};
use mst_store::RunWriter;
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::machines::{ComponentMachines, ComponentShards};
use crate::place;
use crate::plugins::{Plugin, Plugins};

/// The built-in runner.
pub(crate) const LOCAL: &str = "local";

/// A runner, chosen and checked; nothing is made yet.
#[derive(Clone)]
pub(crate) struct Chosen {
    pub(crate) uses: RunnerUse,
    /// None for `local`.
    pub(crate) plugin: Option<Plugin>,
}

/// Finds the runner `id` and holds the options to its manifest.
pub(crate) fn choose(plugins: &Plugins, uses: RunnerUse) -> Result<Chosen, Failure> {
    if uses.id == LOCAL {
        if uses.shards != 1 {
            return Err(Failure::new(format!("the runner `local` has one shard, not {}", uses.shards))
                .hint("more shards need a runner that makes machines, as `--runner mst/runner/docker`"));
        }
        if let Some(option) = uses.options.keys().next() {
            return Err(Failure::new(format!("the runner `local` has no option `{option}`")));
        }
        return Ok(Chosen { uses, plugin: None });
    }
    let id: PluginId = uses.id.parse().map_err(|error: mst_model::id::IdError| {
        Failure::from_error(&error).hint("a runner is `local` or a plugin's id, as `mst/runner/docker`")
    })?;
    if id.kind() != Kind::Runner {
        return Err(Failure::new(format!("`{id}` is a {}, not a runner", id.kind())));
    }
    let plugin = plugins.get(&id)?;
    let manifest = plugin.manifest();
    let most = manifest.max_shards;
    if uses.shards > most {
        return Err(Failure::new(format!("`{id}` has at most {most} shards, not {}", uses.shards)));
    }
    let options = Value::Object(uses.options.clone().into_iter().collect());
    let mut problems = schema::check(&manifest.options, &options)
        .map_err(|error| Failure::because(format!("the manifest of `{id}` is broken"), &error))?;
    for (key, option) in &uses.options {
        problems.extend(schema::with_nul(key, option));
    }
    if !problems.is_empty() {
        return Err(Failure::problems(
            format!("`--runner-option` does not fit the runner `{id}`"),
            &problems,
        )
        .hint(format!("`mst plugin inspect {id}` shows the options")));
    }
    plugin.admits(&uses.options.clone().into_iter().collect())?;
    Ok(Chosen { uses, plugin: Some(plugin) })
}

/// `key=value`s as the options that a runner's schema means: numbers and truth values where it
/// says so, paths made absolute.
pub(crate) fn read_options(
    plugins: &Plugins,
    id: &str,
    given: &[(String, String)],
) -> Result<BTreeMap<String, Value>, Failure> {
    let plugin = id.parse::<PluginId>().ok().and_then(|id| plugins.get(&id).ok());
    let mut options = BTreeMap::new();
    for (key, text) in given {
        let known = plugin.as_ref().and_then(|plugin| plugin.manifest().option(key));
        let wants =
            |name: &str| known.is_some_and(|known| known.get("type").and_then(Value::as_str) == Some(name));
        let path = known.is_some_and(|known| known.get("format").and_then(Value::as_str) == Some("path"));
        let value = if wants("integer") || wants("number") || wants("boolean") {
            // What is no number stays text, and the schema says what is wrong with it.
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        } else if path {
            let absolute = std::path::absolute(text)
                .map_err(|error| Failure::because(format!("`--runner-option {key}` is no path"), &error))?;
            Value::String(absolute.to_string_lossy().into_owned())
        } else {
            Value::String(text.clone())
        };
        if options.insert(key.clone(), value).is_some() {
            return Err(Failure::new(format!("`--runner-option {key}` is given twice")));
        }
    }
    Ok(options)
}

/// The component of a chosen runner, ready.
pub(crate) enum Loaded {
    /// It makes machines.
    Machines(ComponentMachines),
    /// It carries whole shards.
    Shards(ComponentShards),
}

pub(crate) fn load(
    sandbox: &Sandbox,
    plugin: &Plugin,
    uses: &RunnerUse,
    scratch: &Path,
    sinks: Sinks,
) -> Result<Loaded, Failure> {
    let options: Map<String, Value> = uses.options.clone().into_iter().collect();
    let names = plugin.manifest().exec.iter().flat_map(|command| command.env.iter().cloned());
    let vars = names.filter_map(|name| Some((name.clone(), place::var(&name)?))).collect();
    let environment = ExecEnvironment {
        path: place::path(),
        home: place::var("HOME").unwrap_or_else(|| "/".to_owned()),
        vars,
    };
    let permit = plugin.permit(&options)?;
    let options = Value::Object(schema::with_defaults(&plugin.manifest().options, &options));
    let setup = RunnerSetup { permit, options, environment, scratch: scratch.to_owned(), sinks };
    let loaded = match plugin.manifest().world {
        World::ShardRunner => ShardRunnerPlugin::load(sandbox, &plugin.file, setup)
            .map(|(runner, _)| Loaded::Shards(ComponentShards(Arc::new(runner)))),
        _ => RunnerPlugin::load(sandbox, &plugin.file, setup)
            .map(|(runner, _)| Loaded::Machines(ComponentMachines(Arc::new(runner)))),
    };
    loaded.map_err(|error| Failure::because(format!("the runner `{}` can't be loaded", uses.id), &error))
}

impl Loaded {
    /// Removes a machine, or what was made for a shard; done already is done.
    pub(crate) async fn destroy(
        &self,
        run: &RunId,
        name: &str,
        handle: Option<&Value>,
    ) -> Result<(), RunnerError> {
        match self {
            Loaded::Machines(machines) => machines.destroy(run, name, handle).await,
            Loaded::Shards(shards) => shards.destroy(run, name).await,
        }
    }

    /// The names that the runner knows of a run.
    pub(crate) async fn list(&self, run: &RunId) -> Result<Vec<String>, RunnerError> {
        match self {
            Loaded::Machines(machines) => machines.list(run).await,
            Loaded::Shards(shards) => shards.list(run).await,
        }
    }

    /// The runner as the coordinator knows it.
    pub(crate) fn for_coordinator(
        self,
        run: &RunWriter,
        keep: Keep,
        staging: Staging,
    ) -> Result<Arc<dyn Runner>, Failure> {
        let notes = Notes(run.ledger().map_err(|error| Failure::from_error(&error))?);
        Ok(match self {
            Loaded::Machines(machines) => {
                let mst = place::VERSION.to_owned();
                Arc::new(OnMachines::new(Arc::new(machines), notes, keep, staging, mst))
            }
            Loaded::Shards(shards) => Arc::new(OnShards::new(Arc::new(shards), notes, keep, staging)),
        })
    }
}

/// What workers on machines need: this executable, and the clients' programs.
pub(crate) fn staging(eval: &Eval, eval_dir: &Path) -> Result<Staging, Failure> {
    let executable = std::env::current_exe()
        .map_err(|error| Failure::because("mst can't find its own executable", &error))?;
    Ok(Staging::new(executable, client_files(eval, eval_dir)?))
}

/// The programs that clients name by a relative path: they go to the machines with the bundle.
fn client_files(eval: &Eval, eval_dir: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut files = BTreeMap::new();
    for variant in &eval.variants {
        let Some(client) = eval.client_of(variant) else { continue };
        if !client.pass_env.is_empty() {
            return Err(Failure::new(format!("the client of `{}` gets variables by `pass_env`", variant.id))
                .hint("that works only with the runner `local`: secrets do not go to machines this way"));
        }
        let programs = client.argv.first().into_iter().chain(client.version_argv.first());
        for program in programs.filter(|program| client.kind == ClientKind::Command && program.contains('/'))
        {
            let path = program.strip_prefix("./").unwrap_or(program);
            if path.starts_with('/') {
                continue;
            }
            mst_model::case::check_path(path).map_err(|error| {
                Failure::because(format!("the client of `{}` can't go to a machine", variant.id), &error)
                    .hint(format!(
                        "put its program below `{}`, or into the image and name it absolutely",
                        eval_dir.display()
                    ))
            })?;
            let from = eval_dir.join(path);
            if !from.is_file() {
                return Err(Failure::new(format!(
                    "the client of `{}` is no file: `{}`",
                    variant.id,
                    from.display()
                )));
            }
            files.insert(path.to_owned(), from);
        }
    }
    Ok(files.into_iter().collect())
}
