//! Everything that a run needs, found and checked before anything is made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mst_model::deadlines::Part;
use mst_model::eval::Eval;
use mst_model::run::{PluginUse, RunnerUse};
use mst_model::{Span, schema};
use mst_sandbox::{Cache, Limits, Sandbox, Settings};
use mst_worker::grade::Named;
use mst_worker::trial::ClientEnvironment;
use serde_json::{Map, Value};

use crate::audit::Told;
use crate::config::{self, EvalFile};
use crate::error::Failure;
use crate::judge::ComponentJudge;
use crate::lockfile::LockFile;
use crate::place;
use crate::plugins::{Plugin, Plugins};
use crate::runners::{self, Chosen};

/// What a run is made of.
pub(crate) struct Ready {
    pub(crate) file: EvalFile,
    /// Where the lock is that pins its plugins, if there is one.
    pub(crate) lock: Option<PathBuf>,
    pub(crate) dataset: Plugin,
    pub(crate) judges: Vec<Arc<Named>>,
    pub(crate) plugins: Vec<PluginUse>,
    pub(crate) runner: Chosen,
    pub(crate) sandbox: Sandbox,
    pub(crate) environment: ClientEnvironment,
    pub(crate) told: Told,
}

/// An engine with this user's cache.
pub(crate) fn sandbox() -> Result<Sandbox, Failure> {
    let cache = place::cache_dir().map_or_else(Cache::off, |dir| Cache::at(&dir));
    Sandbox::new(Settings { cache, limits: Limits::default() }).map_err(|error| Failure::from_error(&error))
}

/// `deadlines` stand in for those of the eval's file.
pub(crate) fn prepare(
    eval: &Path,
    lock: Option<&Path>,
    deadlines: &BTreeMap<Part, Span>,
    runner: impl FnOnce(&Plugins) -> Result<RunnerUse, Failure>,
    told: Told,
) -> Result<Ready, Failure> {
    let mut file = config::read(eval)?;
    for (part, span) in deadlines {
        file.eval.deadlines.set(*part, *span);
    }
    let lock = LockFile::beside(eval, lock)?;
    let lock_file = lock.file();
    let plugins = Plugins::new(lock, &file.dir)?;
    let dataset = plugins.get(&file.eval.dataset.plugin)?;
    check_options("dataset.options", &dataset, &file.eval.dataset.options)?;
    check_dirs(&dataset, &file.eval.dataset.options)?;
    let mut judge_plugins = Vec::new();
    for (at, judge) in file.eval.judges.iter().enumerate() {
        let plugin = plugins.get(&judge.plugin)?;
        check_options(&format!("judges[{at}].options"), &plugin, &judge.options)?;
        judge_plugins.push(plugin);
    }
    let runner = runners::choose(&plugins, runner(&plugins)?)?;
    let sandbox = sandbox()?;
    let mut judges = Vec::new();
    for (judge, plugin) in file.eval.judges.iter().zip(&judge_plugins) {
        judges.push(Arc::new(Named {
            name: judge.name(),
            plugin: plugin.manifest().id.clone(),
            plugin_sha256: plugin.file.digest(),
            judge: Box::new(ComponentJudge::load(&sandbox, plugin, &judge.options, told.sinks.clone())?),
        }));
    }
    let mut uses: Vec<PluginUse> = Vec::new();
    for plugin in std::iter::once(&dataset).chain(&judge_plugins).chain(&runner.plugin) {
        let manifest = plugin.manifest();
        if !uses.iter().any(|used| used.id == manifest.id) {
            let (id, version) = (manifest.id.clone(), manifest.version.clone());
            uses.push(PluginUse { id, version, sha256: plugin.file.digest() });
        }
    }
    let environment = ClientEnvironment {
        path: place::path(),
        home: place::var("HOME").unwrap_or_else(|| "/".to_owned()),
        vars: passed(&file.eval)?,
        base_dir: file.dir.clone(),
    };
    Ok(Ready { file, lock: lock_file, dataset, judges, plugins: uses, runner, sandbox, environment, told })
}

fn check_options(at: &str, plugin: &Plugin, options: &Map<String, Value>) -> Result<(), Failure> {
    let id = &plugin.manifest().id;
    let problems = schema::check(&plugin.manifest().options, &Value::Object(options.clone()))
        .map_err(|error| Failure::because(format!("the manifest of `{id}` is broken"), &error))?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::problems(format!("`{at}` does not fit the plugin `{id}`"), &problems)
        .hint(format!("`mst plugin inspect {id}` shows the options")))
}

/// Naming a path is the grant to read it; what a policy refuses, or what is more than reading, is
/// refused all the same.
fn check_dirs(plugin: &Plugin, options: &Map<String, Value>) -> Result<(), Failure> {
    for dir in &plugin.manifest().dirs {
        let named = dir.option.as_ref().is_some_and(|option| options.contains_key(option));
        if named && let Err(refusal) = plugin.granted.dir(&dir.name, dir.access) {
            let id = &plugin.manifest().id;
            return Err(Failure::new(format!("`{id}` may not see the directory `{}`: {refusal}", dir.name))
                .hint_if(refusal.command.map(|command| format!("`{command}` grants it"))));
        }
    }
    Ok(())
}

/// The values of the variables that clients are to get from this environment.
fn passed(eval: &Eval) -> Result<BTreeMap<String, String>, Failure> {
    let clients = eval.variants.iter().filter_map(|variant| eval.client_of(variant));
    let names: BTreeSet<String> = clients.flat_map(|client| client.pass_env).collect();
    let (mut vars, mut missing) = (BTreeMap::new(), Vec::new());
    for name in names {
        match place::var(&name) {
            Some(value) => drop(vars.insert(name, value)),
            None => missing.push(format!("`{name}`")),
        }
    }
    if missing.is_empty() {
        return Ok(vars);
    }
    Err(Failure::new(format!(
        "clients are to get {} from your environment, where it is not set",
        missing.join(", ")
    ))
    .hint("set it, or take it out of `pass_env`"))
}
