//! `mst machines`: what runs left behind, and its removal.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use mst_coordinator::RunnerError;
use mst_model::ledger::{LedgerEntry, LedgerEvent, MachineState, MachineStatus};
use mst_model::run::RunRecord;
use mst_model::{Denial, RunId};
use mst_plugin::lock::is_own;
use mst_store::{RunDir, RunWriter};
use serde::Serialize;

use crate::audit::Told;
use crate::error::Failure;
use crate::exit::Exit;
use crate::lockfile::LockFile;
use crate::plugins::{Plugin, Plugins};
use crate::prepare::sandbox;
use crate::runners::Loaded;
use crate::scratch::{self, Scratch};
use crate::show::{self, How, Progress};
use crate::{begin, leave, runners};

#[derive(Debug, Args)]
pub(crate) struct MachinesArgs {
    #[command(subcommand)]
    command: MachinesCommand,
}

#[derive(Debug, Subcommand)]
enum MachinesCommand {
    /// List the machines that are there, or may be
    List(ListArgs),
    /// Remove a run's machines, and no other's
    Reap(ReapArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Of this run; of all where absent
    run: Option<String>,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ReapArgs {
    /// The run: its name, or its directory
    run: String,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// The lock that pins the run's runner; mst.lock beside the run's eval where absent
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Wait until no other mst has the run in hand, and look again for a machine whose making was cut
    /// off
    #[arg(long)]
    wait: bool,
    /// For a run that was left at once: outlive its terminal, and spare machines that were kept
    #[arg(long, hide = true)]
    left_behind: bool,
}

/// How many machines that are nobody's here are told by their names.
const MOST_STRANGERS: usize = 8;

/// What there is to say of a machine whose removal was said to be done.
const STILL_LISTED: &str = "the runner says that it is gone, and lists it still";

/// How long the making of a machine that was cut off may take to come to something.
const LATE: Duration = Duration::from_secs(10);

pub(crate) fn machines(args: MachinesArgs) -> Result<Exit, Failure> {
    match args.command {
        MachinesCommand::List(args) => list(args),
        MachinesCommand::Reap(args) => reap(args),
    }
}

/// A machine that is left.
#[derive(Debug, Serialize)]
struct Left {
    run: String,
    machine: String,
    shard: u32,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

fn list(args: ListArgs) -> Result<Exit, Failure> {
    let paths = match &args.run {
        Some(run) => vec![super::find_run(run, &args.runs)?],
        None => all_runs(&args.runs)?,
    };
    let (mut left, mut unread) = (Vec::new(), 0);
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // One run that can't be read does not hide the machines of the others.
        match RunDir::at(&path).machines() {
            Ok(states) => {
                left.extend(
                    states.into_iter().filter(MachineState::may_exist).map(|state| row(&name, state)),
                );
            }
            Err(error) => {
                unread += 1;
                let message = format!("the machines of `{}` can't be read", path.display());
                show::failure(&Failure::because(message, &error));
            }
        }
    }
    let exit = if unread == 0 { Exit::Done } else { Exit::Partial };
    if args.json {
        show::json(&left)?;
        return Ok(exit);
    }
    let mut text = String::new();
    for Left { run, machine, shard, status, why } in &left {
        let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let line = format!("{run}  shard {shard}  {machine}  {status}{why}");
        // A runner's words, out of a file: one line, and nothing but text.
        text.push_str(&format!("{}\n", mst_sandbox::clean(&line, usize::MAX, false)));
    }
    if left.is_empty() {
        show::aside("no machines are left");
    } else {
        show::aside("`mst machines reap RUN` removes a run's machines");
    }
    show::result(&text)?;
    Ok(exit)
}

fn row(run: &str, state: MachineState) -> Left {
    let (status, why) = match (state.status, state.destroy_failed) {
        (_, Some(why)) => ("could not be removed", Some(why)),
        (MachineStatus::Intended, None) => ("may be there", None),
        (MachineStatus::Kept { why }, None) => ("kept", Some(why)),
        (MachineStatus::Created | MachineStatus::Destroyed, None) => ("is there", None),
    };
    Left { run: run.to_owned(), machine: state.machine, shard: state.shard, status, why }
}

fn all_runs(runs: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::because(format!("can't read `{}`", runs.display()), &error)
            .hint("`--runs DIR` says where runs are kept")
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(runs).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let named =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<RunId>().is_ok());
        if named && (path.join("run.json").is_file() || path.join("machines.jsonl").is_file()) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn reap(args: ReapArgs) -> Result<Exit, Failure> {
    let own_session = |error| Failure::because("can't outlive the terminal", &error);
    if args.left_behind && !leave::into_own_session().map_err(own_session)? {
        return Ok(Exit::Done);
    }
    let progress = Arc::new(Progress::new(How::Lines)?);
    let reaped = reap_run(&args, &progress);
    progress.end();
    reaped
}

fn reap_run(args: &ReapArgs, progress: &Arc<Progress>) -> Result<Exit, Failure> {
    let path = super::find_run(&args.run, &args.runs)?;
    let (run, record) = if args.wait { begin::open_when_free(&path)? } else { begin::open(&path)? };
    let told = Told::new(progress.clone());
    told.record_in(&run)?;
    // The lock that the run used; where the run does not say, the one that is here.
    let eval = record.eval_file.as_ref().map(PathBuf::from).unwrap_or_default();
    let eval_dir = eval.parent().unwrap_or(Path::new(""));
    let plugins = Plugins::new(LockFile::beside(&eval, args.lock.as_deref())?, eval_dir)?;
    let chosen = runners::choose(&plugins, record.runner.clone())?;
    let Some(plugin) = chosen.plugin else {
        progress.note("a run on `local` makes no machines");
        return Ok(Exit::Done);
    };
    check_used(&record, &plugin)?;
    scratch::sweep();
    let scratch = Scratch::new()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::because("mst can't start", &error))?;
    let runner = runners::load(&sandbox()?, &plugin, &record.runner, scratch.path(), told.sinks)?;
    let states = run.machines().map_err(|error| Failure::from_error(&error))?;
    let cut_off = states.iter().any(|state| state.status == MachineStatus::Intended);
    let mut failed = runtime.block_on(reap_all(&run, &record, &runner, args.left_behind, progress))?;
    if args.wait && cut_off {
        std::thread::sleep(LATE);
        failed = runtime.block_on(reap_all(&run, &record, &runner, args.left_behind, progress))?;
    }
    runtime.shutdown_background();
    run.flush_calls().map_err(|error| Failure::from_error(&error))?;
    if failed == 0 { Ok(Exit::Done) } else { Ok(Exit::Partial) }
}

/// A run says by itself where its lock is: what a lock there says is held to what the run used.
/// mst's own runners come with mst, and one that was begun by an earlier mst is still theirs.
fn check_used(record: &RunRecord, plugin: &Plugin) -> Result<(), Failure> {
    let id = &plugin.manifest().id;
    if is_own(id) {
        return Ok(());
    }
    let found = plugin.file.digest();
    let used = record.plugins.iter().find(|used| used.id == *id).map(|used| used.sha256);
    if used == Some(found) {
        return Ok(());
    }
    let mut failure =
        Failure::new(format!("the plugin `{id}` is not the one that the run `{}` used", record.id));
    failure.causes = vec![
        match used {
            Some(used) => format!("the run used {used}"),
            None => "the run says of no such plugin that it used it".to_owned(),
        },
        format!("the lock pins {found}"),
    ];
    Err(failure.hint("`--lock FILE` names a lock that pins the one that the run used"))
}

/// Removes every machine of the run that its ledger or its runner knows; says how many stayed.
async fn reap_all(
    run: &RunWriter,
    record: &RunRecord,
    machines: &Loaded,
    spare_kept: bool,
    progress: &Progress,
) -> Result<usize, Failure> {
    let states = run.machines().map_err(|error| Failure::from_error(&error))?;
    // The runner may know of one that the ledger lost with its last line; the ledger knows of
    // those that the runner can't list. A name that no ledger line has is not ours.
    let mut denials: Vec<Denial> = Vec::new();
    let mut denied = |error: &RunnerError| {
        let new: Vec<Denial> =
            error.denials.iter().filter(|denial| !denials.contains(denial)).cloned().collect();
        denials.extend(new);
    };
    let listed = machines.list(&record.id).await.unwrap_or_else(|error| {
        progress.note(&format!("the runner can't list its machines: {error}"));
        denied(&error);
        Vec::new()
    });
    let in_ledger: HashSet<&str> = states.iter().map(|state| &*state.machine).collect();
    let strangers: Vec<&String> = listed.iter().filter(|name| !in_ledger.contains(name.as_str())).collect();
    for name in strangers.iter().take(MOST_STRANGERS) {
        progress.note(&format!(
            "{}: the runner lists it, the run's ledger does not: left alone",
            mst_sandbox::clean(name, 64, false)
        ));
    }
    if strangers.len() > MOST_STRANGERS {
        let more = strangers.len() - MOST_STRANGERS;
        progress.note(&format!("and {more} more that the runner lists and the ledger does not: left alone"));
    }
    // A ledger that came from elsewhere, or was written to, must not name what is nobody's here.
    let ours = format!("mst-{}-", record.id.as_str().chars().take(40).collect::<String>());
    // Also one that the ledger takes for gone and the runner still sees.
    let is_left = |state: &&MachineState| {
        let spared = spare_kept && matches!(state.status, MachineStatus::Kept { .. });
        !spared && (state.may_exist() || listed.contains(&state.machine))
    };
    let (known, foreign): (Vec<&MachineState>, Vec<_>) =
        states.iter().filter(is_left).partition(|state| state.machine.starts_with(&ours));
    for state in &foreign {
        progress.note(&format!("{}: not a name that this run gave: left alone", state.machine));
    }
    let ledger = run.ledger().map_err(|error| Failure::from_error(&error))?;
    let mut failed = foreign.len();
    let tell = |state: &MachineState, event: LedgerEvent| {
        let entry =
            LedgerEntry { at: Timestamp::now(), machine: state.machine.clone(), shard: state.shard, event };
        ledger.append(&entry).map_err(|error| Failure::from_error(&error))
    };
    let mut gone = Vec::new();
    for state in known {
        let handle = state.made.as_ref().map(|made| &made.handle);
        match machines.destroy(&record.id, &state.machine, handle).await {
            Ok(()) => {
                tell(state, LedgerEvent::Destroyed)?;
                gone.push(state);
            }
            Err(error) => {
                denied(&error);
                failed += 1;
                progress.note(&format!("{}: could not be removed: {error}", state.machine));
                tell(state, LedgerEvent::DestroyFailed { why: error.to_string() })?;
            }
        }
    }
    // A runner's word that a machine is gone is held to its own list.
    let still = match gone.is_empty() {
        true => Vec::new(),
        false => machines.list(&record.id).await.unwrap_or_else(|error| {
            denied(&error);
            progress.note(&format!("whether they are gone can't be looked at: {error}"));
            Vec::new()
        }),
    };
    for state in gone {
        if !still.contains(&state.machine) {
            progress.note(&format!("{}: removed", state.machine));
            continue;
        }
        failed += 1;
        progress.note(&format!("{}: could not be removed: {STILL_LISTED}", state.machine));
        // It is there, whatever was said.
        tell(state, LedgerEvent::Intent)?;
        tell(state, LedgerEvent::DestroyFailed { why: STILL_LISTED.to_owned() })?;
    }
    for command in denials.iter().filter_map(|denial| denial.grant.as_ref()) {
        progress.note(&format!("`{command}` would grant what was denied"));
    }
    Ok(failed)
}
