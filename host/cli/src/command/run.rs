//! `mst run`: an eval from its file to its summary.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mst_coordinator::machines::{Keep, Staging};
use mst_coordinator::plan::Retry;
use mst_coordinator::vault::Vault;
use mst_coordinator::{Collected, Events, Options, Runner, Stop};
use mst_model::Span;
use mst_model::deadlines::Part;
use mst_model::limits::Limits;
use mst_model::run::{Policy, RunRecord, RunnerUse};
use mst_report::Summary;
use mst_store::{RunDir, RunWriter};
use mst_worker::grade::{GradeError, Grader, Surroundings};

use crate::audit::Told;
use crate::begin::{self, Begun};
use crate::error::Failure;
use crate::exit::Exit;
use crate::leave::Leave;
use crate::local::Local;
use crate::plugins::Plugins;
use crate::prepare::{Ready, prepare};
use crate::runners::{self, LOCAL, Loaded};
use crate::scratch::{self, Scratch};
use crate::show::{self, How, Progress};
use crate::tokens::Renewals;
use crate::{interrupt, pace, place, tokens};

/// How long mst waits at its end for processes of trials that it ended to be gone.
const SETTLE: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The eval: a .yaml, .json or .toml file
    #[arg(required_unless_present = "resume")]
    eval: Option<PathBuf>,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Collect what an earlier run misses, and judge it
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// With `--resume`: do again what an instrument's error kept from finishing; the attempt before
    /// is kept
    #[arg(long, requires = "resume")]
    retry_unfinished: bool,
    /// With `--resume`: say of each trial why it is reused or run again
    #[arg(long, requires = "resume")]
    explain: bool,
    /// How many trials run at a time, on each machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: u32,
    /// What trials may not exceed, over all machines: `provider:NAME=N` at a time,
    /// `server:NAME=N/min` starts a minute; in place of what the eval says
    #[arg(long, value_name = "KIND:NAME=N", value_parser = pace::limit_arg)]
    limit: Vec<pace::LimitArg>,
    /// How long a part of the work may take: `machine`, `provision`, `client`, `scoring`, `export` or
    /// `cleanup`, as `client=20m`; in place of what the eval says. It is part of what a run is
    #[arg(long, value_name = "PART=TIME", value_parser = pace::deadline_arg)]
    deadline: Vec<(Part, Span)>,
    /// Orders the cases; 0 keeps the dataset's order
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "resume")]
    seed: u64,
    /// Let tokens lie on a disk where a machine has no memory file system for them
    #[arg(long)]
    tokens_on_disk: bool,
    /// Where trials run: `local`, or a runner plugin's id
    #[arg(long, value_name = "ID", default_value = LOCAL, conflicts_with = "resume")]
    runner: String,
    /// An option of the runner; `mst plugin inspect ID` shows which there are
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, conflicts_with = "resume")]
    runner_option: Vec<(String, String)>,
    /// On how many machines
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "resume")]
    shards: u32,
    /// When a machine outlives its shard
    #[arg(long, value_enum, default_value = "never")]
    keep: KeepArg,
    /// The lock that says which plugins may be used; mst.lock beside the eval where absent
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Print events and the summary as JSON, one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum KeepArg {
    /// Never
    Never,
    /// Where the shard failed
    Failed,
    /// Always
    Always,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

pub(crate) fn run(args: RunArgs) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("mst can't start", &error))?;
    // What a client started and left behind becomes this process's child, and is ended with it.
    mst_process::adopt_orphans();
    let renewals = Renewals::default();
    let how = match (args.json, show::on_terminal()) {
        (true, _) => How::Json,
        (false, true) => How::Bar,
        (false, false) => How::Lines,
    };
    let progress = Arc::new(Progress::new(how)?);
    let leave = Leave::new(renewals.clone());
    let result = runtime.block_on(execute(args, &renewals, &leave, &progress));
    leave.hold();
    // What was said comes before why it ended.
    progress.end();
    if !renewals.end() {
        // Also beside JSON, whose last object is the summary.
        show::aside("waiting for a server that gives tokens: its answer may have the next refresh token");
        renewals.settle(None);
    }
    // A guest or a pipe that still holds a thread is not waited for; what a run that broke off had under way
    // may not have been dropped yet.
    runtime.shutdown_background();
    mst_process::kill_all();
    mst_process::settle(SETTLE);
    result
}

async fn execute(
    args: RunArgs,
    renewals: &Renewals,
    leave: &Leave,
    progress: &Arc<Progress>,
) -> Result<Exit, Failure> {
    let stop = interrupt::listen(progress.clone(), leave.clone())?;
    // What others left may take its time, and nobody who has had enough is to wait for it.
    tokio::select! {
        _ = tokio::task::spawn_blocking(scratch::sweep) => {}
        () = stop.finish.cancelled() => {}
    }
    let scratch = Scratch::new()?;
    let Started { ready, begun, on_machines, vault } =
        begin(&args, scratch.path(), &stop, renewals, progress).await?;
    let (run, record) = (&begun.run, &begun.record);
    leave.run(run.clone(), ready.lock.as_deref(), matches!(args.keep, KeepArg::Always));
    progress.run_started(record.id.as_str(), &run.path().display().to_string());
    progress.cases_resolved(record.cases.count);

    let runner = runner(&args, &ready, on_machines, run, scratch.path())?;
    let collected = collect(&args, runner, run, record, &stop, vault, progress).await?;
    if args.resume.is_none() && collected.begun == 0 && !stop.finish.is_cancelled() {
        begin::abandon(&begun, &collected)?;
    }
    let Begun { run, mut record, .. } = begun;
    record.collect = collected.collect;
    record.shards.extend(collected.shards);
    run.write_record(&record).map_err(|error| Failure::from_error(&error))?;
    if !stop.finish.is_cancelled() {
        grade(&args, &ready, &run, &record, scratch.path(), &stop, progress).await?;
    }
    // Nothing in the run came of what is still to be written.
    let audited = run.flush_calls();
    leave.hold();
    progress.end();
    let exit = finish(&run, &stop, progress, args.json)?;
    audited.map_err(|error| {
        let failure = Failure::because("the audit lacks what plugins read last", &error);
        failure.exit(Exit::Partial).hint_if(error.hint())
    })?;
    Ok(exit)
}

/// A run with everything that it needs.
struct Started {
    ready: Ready,
    begun: Begun,
    on_machines: Option<OnMachines>,
    vault: Vault,
}

/// A new run, or an earlier one taken up again; either way with everything that it needs.
async fn begin(
    args: &RunArgs,
    scratch: &Path,
    stop: &Stop,
    renewals: &Renewals,
    progress: &Arc<Progress>,
) -> Result<Started, Failure> {
    let Some(resumed) = &args.resume else {
        // clap holds that one of the two is there.
        let eval = args.eval.clone().unwrap_or_default();
        let uses = |plugins: &Plugins| {
            let options = runners::read_options(plugins, &args.runner, &args.runner_option)?;
            Ok(RunnerUse { id: args.runner.clone(), options, shards: args.shards })
        };
        let deadlines = args.deadline.iter().copied().collect();
        let ready = prepare(&eval, args.lock.as_deref(), &deadlines, uses, Told::new(progress.clone()))?;
        let on_machines = load_runner(&ready, scratch)?;
        let policy = Policy {
            seed: args.seed,
            limits: pace::limits(&Limits::default(), &args.limit),
            deadlines,
            tokens_on_disk: args.tokens_on_disk,
        };
        pace::check(&ready.file.eval, &policy.limits)?;
        let vault = sources(&ready, renewals, progress);
        try_all(&vault, stop).await?;
        let begun = begin::create(&args.runs, &ready, policy, stop, progress).await?;
        return Ok(Started { ready, begun, on_machines, vault });
    };
    let (run, record) = begin::open(&super::find_run(resumed, &args.runs)?)?;
    let eval = begin::eval_of(&record, args.eval.as_deref())?;
    let uses = record.runner.clone();
    // One that is said anew and is another is told with all that differs.
    let mut deadlines = record.policy.deadlines.clone();
    deadlines.extend(args.deadline.iter().copied());
    let told = Told::new(progress.clone());
    let ready = prepare(&eval, args.lock.as_deref(), &deadlines, |_| Ok(uses), told)?;
    let on_machines = load_runner(&ready, scratch)?;
    let vault = sources(&ready, renewals, progress);
    // Where no client will run its sources may be gone as well.
    if args.retry_unfinished || misses_any(&run, &record) {
        try_all(&vault, stop).await?;
    }
    let mut begun = begin::resume(run, record, &ready, scratch, stop, progress).await?;
    // It goes on as it was begun, but for what is no part of what it asks: what a provider admits and where
    // tokens come from may have changed, and the eval says how it is now.
    begun.record.policy.tokens_on_disk |= args.tokens_on_disk;
    begun.record.policy.limits = pace::limits(&begun.record.policy.limits, &args.limit);
    for line in pace::take_up(&mut begun.record, &ready.file.eval) {
        progress.tell(&line);
    }
    pace::check(&begun.record.eval, &begun.record.policy.limits)?;
    Ok(Started { ready, begun, on_machines, vault })
}

/// Whether a trial of a run has not finished, as far as anybody can tell before it is looked through.
fn misses_any(run: &RunWriter, record: &RunRecord) -> bool {
    let Ok(mut trials) = run.trials(&record.eval) else { return true };
    trials.any(|key| !key.and_then(|key| run.has_trial(&key)).unwrap_or(false))
}

/// Where the run's tokens come from.
fn sources(ready: &Ready, renewals: &Renewals, progress: &Arc<Progress>) -> Vault {
    let said = progress.clone();
    let say: tokens::Say = Arc::new(move |text| said.tell(text));
    tokens::vault(&ready.file.eval, &ready.file.dir, &say, renewals)
}

/// Each token is got once: what can't be had is known before anything is made.
async fn try_all(vault: &Vault, stop: &Stop) -> Result<(), Failure> {
    tokio::select! {
        tried = vault.try_all() => tried.map_err(|why| {
            Failure::new(why).hint("`on_failure: wait` lets shards wait for a token that is not there yet")
        }),
        () = stop.finish.cancelled() => {
            Err(Failure::new("interrupted while tokens were got; nothing was started").exit(Exit::Interrupted))
        }
    }
}

/// A runner that makes machines, loaded before anything of the run is made: what is wrong with it
/// must leave nothing behind.
struct OnMachines {
    loaded: Loaded,
    staging: Staging,
}

fn load_runner(ready: &Ready, scratch: &Path) -> Result<Option<OnMachines>, Failure> {
    let Some(plugin) = &ready.runner.plugin else { return Ok(None) };
    let staging = runners::staging(&ready.file.eval, &ready.file.dir)?;
    let exec = scratch.join("exec");
    let loaded = runners::load(&ready.sandbox, plugin, &ready.runner.uses, &exec, ready.told.sinks.clone())?;
    Ok(Some(OnMachines { loaded, staging }))
}

fn runner(
    args: &RunArgs,
    ready: &Ready,
    on_machines: Option<OnMachines>,
    run: &Arc<RunWriter>,
    scratch: &Path,
) -> Result<Arc<dyn Runner>, Failure> {
    let Some(OnMachines { loaded, staging }) = on_machines else {
        return Ok(Arc::new(Local {
            environment: ready.environment.clone(),
            scratch: scratch.join("trials"),
            mst: place::VERSION.to_owned(),
        }));
    };
    let keep = match args.keep {
        KeepArg::Never => Keep::Never,
        KeepArg::Failed => Keep::Failed,
        KeepArg::Always => Keep::Always,
    };
    loaded.for_coordinator(run, keep, staging)
}

async fn collect(
    args: &RunArgs,
    runner: Arc<dyn Runner>,
    run: &Arc<RunWriter>,
    record: &RunRecord,
    stop: &Stop,
    vault: Vault,
    progress: &Arc<Progress>,
) -> Result<Collected, Failure> {
    let shown = progress.clone();
    let events = Events::to(move |event| shown.collecting(event));
    let retry = Retry { unfinished: args.retry_unfinished, explain: args.explain };
    let options = Options { concurrency: args.concurrency, vault, retry };
    let collected = mst_coordinator::collect(run, record, runner, options, stop, &events).await;
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
    let shown = progress.clone();
    let grader = Grader {
        run: run.clone(),
        judges: ready.judges.clone(),
        scratch: scratch.join("grades"),
        surroundings: Surroundings { path: ready.environment.path.clone(), base_dir: ready.file.dir.clone() },
        retry: args.retry_unfinished,
        concurrency: args.concurrency,
        events: Arc::new(move |event| shown.graded(event)),
        finish: stop.finish.clone(),
        cancel: stop.cancel.clone(),
    };
    grader.grade(record).await.map_err(|error| {
        let failure =
            Failure::because("grading broke off; what was graded is kept", &error).exit(Exit::Partial);
        match &error {
            GradeError::Store(error) => failure.hint_if(error.hint()),
            GradeError::Host(_) => failure,
        }
    })
}

/// Prints the summary and says how it went.
fn finish(run: &RunDir, stop: &Stop, progress: &Progress, json: bool) -> Result<Exit, Failure> {
    // The run is there whatever becomes of its summary.
    let kept = |failure: Failure| {
        failure
            .exit(Exit::Partial)
            .hint(format!("the run is kept; `mst report {}` prints it", run.path().display()))
    };
    let summary = Summary::of(run).map_err(|error| kept(Failure::from_error(&error)))?;
    if json {
        let value = serde_json::to_value(&summary).map_err(|error| kept(Failure::from_error(&error)))?;
        let said = progress.summary(value);
        // Whoever reads goes by it that nothing comes after.
        progress.mute();
        said.map_err(|error| kept(Failure::because("can't write to stdout", &error)))?;
    } else {
        show::result(&show::summary(&summary)).map_err(kept)?;
    }
    Ok(if stop.finish.is_cancelled() { Exit::Interrupted } else { super::verdict(&summary) })
}
