//! `mst run`: an eval from its file to its summary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;
use mst_coordinator::{Collected, Events, Stop};
use mst_model::eval::Eval;
use mst_model::run::{CaseSet, Collect, Identity, PluginUse, RunRecord, RunnerUse};
use mst_model::schema;
use mst_plugin::PluginFile;
use mst_report::Summary;
use mst_sandbox::{Cache, Limits, Sandbox, Settings};
use mst_store::{RunDir, RunWriter, new_run_id};
use mst_worker::grade::{Grader, Named, Surroundings};
use mst_worker::trial::ClientEnvironment;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::config::{self, EvalFile};
use crate::error::Failure;
use crate::exit::Exit;
use crate::judge::ComponentJudge;
use crate::local::Local;
use crate::plugins::Plugins;
use crate::show::{self, How, Progress};
use crate::{dataset, interrupt, place};

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The eval: a .yaml, .json or .toml file
    eval: PathBuf,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// How many trials run at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: u32,
    /// Let the eval use the plugin in this file; it runs sandboxed, with what its manifest asks
    /// for (`mst plugin inspect FILE` shows it)
    #[arg(long, value_name = "FILE")]
    allow_plugin: Vec<PathBuf>,
    /// Print events and the summary as JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: RunArgs) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("mst can't start", &error))?;
    // What a client started and left behind becomes this process's child, and is ended with it.
    mst_process::adopt_orphans();
    let result = runtime.block_on(execute(args));
    // A guest or a pipe that still holds a thread is not waited for.
    runtime.shutdown_background();
    result
}

/// Everything that a run needs, checked before anything is made.
struct Ready {
    file: EvalFile,
    dataset: PluginFile,
    judges: Vec<Arc<Named>>,
    plugins: Vec<PluginUse>,
    sandbox: Sandbox,
    environment: ClientEnvironment,
    path: String,
}

async fn execute(args: RunArgs) -> Result<Exit, Failure> {
    let how = match (args.json, show::on_terminal()) {
        (true, _) => How::Json,
        (false, true) => How::Bar,
        (false, false) => How::Lines,
    };
    let progress = Arc::new(Progress::new(how));
    let ready = prepare(&args, &progress)?;
    let said = progress.clone();
    let stop = interrupt::listen(move |text| said.note(text))?;

    let (run, mut record) = create(&args, &ready, &progress).await?;
    progress.run_started(record.id.as_str(), &run.path().display().to_string());
    progress.cases_resolved(record.cases.count);

    let scratch = tempfile::Builder::new()
        .prefix("mst-")
        .tempdir()
        .map_err(|error| Failure::because("can't make a directory for workspaces", &error))?;
    let collected = collect(&args, &ready, &run, &record, scratch.path(), &stop, &progress).await?;
    record.collect = collected.collect;
    record.shards = collected.shards;
    run.write_record(&record).map_err(|error| Failure::from_error(&error))?;
    if !stop.finish.is_cancelled() {
        grade(&args, &ready, &run, &record, scratch.path(), &stop, &progress).await?;
    }
    progress.end();
    finish(&run, &stop, &progress, args.json)
}

fn prepare(args: &RunArgs, progress: &Arc<Progress>) -> Result<Ready, Failure> {
    let file = config::read(&args.eval)?;
    let plugins = Plugins::new(&args.allow_plugin)?;
    let dataset = plugins.get(&file.eval.dataset.plugin)?;
    check_options("dataset.options", &dataset, &file.eval.dataset.options)?;
    let mut judge_files = Vec::new();
    for (at, judge) in file.eval.judges.iter().enumerate() {
        let plugin = plugins.get(&judge.plugin)?;
        check_options(&format!("judges[{at}].options"), &plugin, &judge.options)?;
        judge_files.push(plugin);
    }
    let cache = place::cache_dir().map_or_else(Cache::off, |dir| Cache::at(&dir));
    let sandbox = Sandbox::new(Settings { cache, limits: Limits::default() })
        .map_err(|error| Failure::from_error(&error))?;
    let mut judges = Vec::new();
    for (judge, file) in file.eval.judges.iter().zip(&judge_files) {
        judges.push(Arc::new(Named {
            name: judge.name(),
            plugin: file.manifest().id.clone(),
            plugin_sha256: file.digest(),
            judge: Box::new(ComponentJudge::load(&sandbox, file, &judge.options, progress.clone())?),
        }));
    }
    let mut uses: Vec<PluginUse> = Vec::new();
    for file in std::iter::once(&dataset).chain(&judge_files) {
        let manifest = file.manifest();
        if !uses.iter().any(|used| used.id == manifest.id) {
            let (id, version) = (manifest.id.clone(), manifest.version.clone());
            uses.push(PluginUse { id, version, sha256: file.digest() });
        }
    }
    let path = place::var("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned());
    let environment = ClientEnvironment {
        path: path.clone(),
        home: place::var("HOME").unwrap_or_else(|| "/".to_owned()),
        vars: passed(&file.eval)?,
        base_dir: file.dir.clone(),
    };
    Ok(Ready { file, dataset, judges, plugins: uses, sandbox, environment, path })
}

fn check_options(at: &str, plugin: &PluginFile, options: &Map<String, Value>) -> Result<(), Failure> {
    let id = &plugin.manifest().id;
    let problems = schema::check(&plugin.manifest().options, &Value::Object(options.clone()))
        .map_err(|error| Failure::because(format!("the manifest of `{id}` is broken"), &error))?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::problems(format!("`{at}` does not fit the plugin `{id}`"), &problems)
        .hint(format!("`mst plugin inspect {id}` shows the options")))
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

/// The run's directory with its cases and its record; nothing where the dataset can't be read.
async fn create(
    args: &RunArgs,
    ready: &Ready,
    progress: &Arc<Progress>,
) -> Result<(Arc<RunWriter>, RunRecord), Failure> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| Failure::new(format!("no random bytes: {error}")))?;
    let now = Timestamp::now();
    let id = new_run_id(now, random);
    let run = RunDir::create(&args.runs, &id).map_err(|error| {
        Failure::because(format!("can't make a run in `{}`", args.runs.display()), &error)
    })?;
    let eval = &ready.file.eval;
    let counting = progress.clone();
    let cases = dataset::resolve(
        &ready.sandbox,
        &ready.dataset,
        &eval.dataset.options,
        &ready.file.dir,
        &run,
        progress.clone(),
        move |count| counting.cases(count),
    );
    let written = match cases.await {
        Ok(cases) => record(id, now, ready, cases).and_then(|record| {
            run.write_record(&record).map_err(|error| Failure::from_error(&error))?;
            Ok(record)
        }),
        Err(failure) => Err(failure),
    };
    match written {
        Ok(record) => Ok((Arc::new(run), record)),
        Err(failure) => {
            progress.end();
            // Nothing was started: nothing is left. A directory that can't be removed does not
            // hide why.
            let _ = run.discard();
            let _ = std::fs::remove_dir(&args.runs);
            Err(failure)
        }
    }
}

fn record(id: mst_model::RunId, now: Timestamp, ready: &Ready, cases: CaseSet) -> Result<RunRecord, Failure> {
    let eval = ready.file.eval.clone();
    let identity =
        Identity::new(&eval, &cases, &ready.plugins).map_err(|error| Failure::from_error(&error))?;
    let trials = cases.count * eval.variants.len() as u64 * u64::from(eval.trials);
    Ok(RunRecord {
        schema: RunRecord::SCHEMA.to_owned(),
        id,
        created_at: now,
        mst: version()?,
        eval,
        plugins: ready.plugins.clone(),
        cases,
        identity,
        runner: RunnerUse { id: "local".to_owned(), options: BTreeMap::new(), shards: 1 },
        shards: Vec::new(),
        trials,
        collect: Collect::Running,
    })
}

fn version() -> Result<semver::Version, Failure> {
    env!("CARGO_PKG_VERSION").parse().map_err(|error: semver::Error| Failure::from_error(&error))
}

async fn collect(
    args: &RunArgs,
    ready: &Ready,
    run: &Arc<RunWriter>,
    record: &RunRecord,
    scratch: &Path,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<Collected, Failure> {
    let runner = Local {
        environment: ready.environment.clone(),
        scratch: scratch.join("trials"),
        mst: record.mst.to_string(),
    };
    let (events, mut happened) = mpsc::unbounded_channel();
    let shown = progress.clone();
    let showing = tokio::spawn(async move {
        while let Some(event) = happened.recv().await {
            shown.collecting(event);
        }
    });
    let collected =
        mst_coordinator::collect(run, record, Arc::new(runner), args.concurrency, stop, &Events(events))
            .await;
    let _ = showing.await;
    collected.map_err(|error| {
        Failure::because("the run broke off; what finished is kept", &error).exit(Exit::Partial)
    })
}

async fn grade(
    args: &RunArgs,
    ready: &Ready,
    run: &Arc<RunWriter>,
    record: &RunRecord,
    scratch: &Path,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<(), Failure> {
    progress.grading(record.trials * ready.judges.len() as u64);
    let (events, mut happened) = mpsc::unbounded_channel();
    let shown = progress.clone();
    let showing = tokio::spawn(async move {
        while let Some(event) = happened.recv().await {
            shown.graded(event);
        }
    });
    let grader = Grader {
        run: run.clone(),
        judges: ready.judges.clone(),
        scratch: scratch.join("grades"),
        surroundings: Surroundings { path: ready.path.clone(), base_dir: ready.file.dir.clone() },
        concurrency: args.concurrency,
        events,
        finish: stop.finish.clone(),
        cancel: stop.cancel.clone(),
    };
    let graded = grader.grade(record).await;
    let _ = showing.await;
    graded.map_err(|error| {
        Failure::because("grading broke off; what was graded is kept", &error).exit(Exit::Partial)
    })
}

/// Prints the summary and says how it went.
fn finish(run: &RunDir, stop: &Stop, progress: &Progress, json: bool) -> Result<Exit, Failure> {
    let summary = Summary::of(run).map_err(|error| Failure::from_error(&error))?;
    if json {
        progress.summary(&serde_json::to_value(&summary).map_err(|error| Failure::from_error(&error))?);
    } else {
        show::result(&show::summary(&summary))?;
    }
    Ok(if stop.finish.is_cancelled() { Exit::Interrupted } else { super::verdict(&summary) })
}
