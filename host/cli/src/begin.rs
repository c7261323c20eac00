//! A run's beginning: a new one with its cases and its record, or an earlier one taken up again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mst_coordinator::{Collected, Stop};
use mst_model::deadlines::Part;
use mst_model::eval::Eval;
use mst_model::run::{CaseSet, Collect, Identity, Policy, RunRecord, ShardEnding, ShardRecord};
use mst_model::{Denial, RunId};
use mst_store::{RunDir, RunWriter, StoreError, new_run_id};
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::exit::Exit;
use crate::prepare::Ready;
use crate::show::Progress;
use crate::{dataset, place, show};

/// How many shards an error names.
const SHOWN: usize = 5;

/// How often it is looked whether a run is free.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A run that can be collected.
pub(crate) struct Begun {
    pub(crate) run: Arc<RunWriter>,
    pub(crate) record: RunRecord,
    /// Whether the directory that it lies in was made for it.
    made_runs: bool,
}

/// A new run; nothing where the dataset can't be read.
pub(crate) async fn create(
    runs: &Path,
    ready: &Ready,
    policy: Policy,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<Begun, Failure> {
    let now = Timestamp::now();
    let id = new_run_id(now, random()?);
    let were_there = runs.exists();
    let run = make(runs, &id).inspect_err(|_| {
        if !were_there {
            let _ = std::fs::remove_dir(runs);
        }
    })?;
    let written = match first(ready, &run, stop, progress).await {
        Ok(cases) => record(id, now, ready, policy, cases).and_then(|record| {
            run.write_record(&record).map_err(|error| Failure::from_error(&error))?;
            Ok(record)
        }),
        Err(failure) => Err(failure),
    };
    match written {
        Ok(record) => Ok(Begun { run: Arc::new(run), record, made_runs: !were_there }),
        Err(failure) => {
            // Nothing was started: nothing is left but what plugins did. A directory that can't be
            // removed does not hide why.
            let failure = match run.discard() {
                Err(StoreError::HasCalls { path }) => with_calls(failure, &path),
                _ => failure,
            };
            if !were_there {
                let _ = std::fs::remove_dir(runs);
            }
            Err(failure)
        }
    }
}

/// Says beside what failed where the calls of plugins are told.
fn with_calls(mut failure: Failure, run: &Path) -> Failure {
    let calls = format!("`mst audit {}` tells what plugins did meanwhile", run.display());
    failure.hint = Some(match failure.hint {
        Some(hint) => format!("{hint}; {calls}"),
        None => calls,
    });
    failure
}

/// A run of which no worker began is none, unless a machine of it may be left: then its ledger is
/// needed, and it goes on as one that misses everything. What plugins did outside the host, or were
/// kept from, stays to be read.
pub(crate) fn abandon(begun: &Begun, collected: &Collected) -> Result<(), Failure> {
    let has_calls = match begun.run.abandon() {
        Ok(()) => false,
        Err(StoreError::HasCalls { .. }) => true,
        Err(_) => return Ok(()),
    };
    if begun.made_runs {
        let _ = begun.run.path().parent().map(std::fs::remove_dir);
    }
    let mut failure = Failure::new("no worker could be started");
    failure.causes = why_broken(&collected.shards);
    if !has_calls {
        return Err(failure.hint("nothing of the run is left; start it again once that is mended"));
    }
    let mut record = begun.record.clone();
    record.collect = collected.collect;
    record.shards.extend(collected.shards.clone());
    if let Err(error) = begun.run.write_record(&record) {
        failure.causes.push(Failure::from_error(&error).one_line());
    }
    let failure = failure.hint("nothing began; start it again once that is mended");
    Err(with_calls(failure, begun.run.path()))
}

/// Why shards broke: what their runner was denied once, with how many met it; else each for itself.
fn why_broken(shards: &[ShardRecord]) -> Vec<String> {
    let mut denied: Vec<(&Denial, u64)> = Vec::new();
    for denial in shards.iter().flat_map(|shard| &shard.denials) {
        match denied.iter_mut().find(|(known, _)| *known == denial) {
            Some((_, count)) => *count += 1,
            None => denied.push((denial, 1)),
        }
    }
    let told = |(denial, count): &(&Denial, u64)| {
        format!("{}: {}", show::counted(*count, "shard"), denial.with_grant())
    };
    let mut causes: Vec<String> = denied.iter().take(SHOWN).map(told).collect();
    let others = shards.iter().filter_map(|shard| match &shard.ending {
        Some(ShardEnding::Broken { why })
            if !shard.denials.iter().any(|denial| denial.to_string() == *why) =>
        {
            Some(format!("shard {}: {why}", shard.index))
        }
        _ => None,
    });
    causes.extend(others.clone().take(SHOWN));
    if let Some(more) = others.count().checked_sub(SHOWN).filter(|more| *more > 0) {
        causes.push(format!("and {more} more shards"));
    }
    causes
}

/// An earlier run, where it still asks the same.
pub(crate) async fn resume(
    run: RunWriter,
    record: RunRecord,
    ready: &Ready,
    scratch: &Path,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<Begun, Failure> {
    ready.told.record_in(&run)?;
    // What is resumed must be what was begun: its parts are held to each other first.
    let altered = |what: &str| {
        Failure::new(format!(
            "the run `{}` can't be resumed: its {what} was altered since it was written",
            record.id
        ))
        .hint("bring back the file as it was, or start a new run")
    };
    let eval = record.eval.digest().map_err(|error| Failure::from_error(&error))?;
    if eval != record.identity.eval {
        return Err(altered("`run.json`"));
    }
    if run.verify_cases(&record.cases).is_err() {
        return Err(altered("`cases.jsonl`"));
    }
    let differences = differences(&record, ready, scratch, stop, progress).await?;
    if !differences.is_empty() {
        let mut failure = Failure::new(format!("the run `{}` asked something else", record.id));
        failure.causes = differences;
        return Err(failure.hint("start a new run, or bring back what changed"));
    }
    Ok(Begun { run: Arc::new(run), record, made_runs: false })
}

/// Takes up the run in `path` for writing, and reads its record.
pub(crate) fn open(path: &Path) -> Result<(RunWriter, RunRecord), Failure> {
    taken_up(path, RunDir::open_write(path))
}

/// The same, once no other mst has it in hand.
pub(crate) fn open_when_free(path: &Path) -> Result<(RunWriter, RunRecord), Failure> {
    loop {
        match RunDir::open_write(path) {
            Err(StoreError::Locked { .. }) => std::thread::sleep(BETWEEN_LOOKS),
            opened => return taken_up(path, opened),
        }
    }
}

fn taken_up(path: &Path, opened: Result<RunWriter, StoreError>) -> Result<(RunWriter, RunRecord), Failure> {
    let failed = |error: &StoreError| {
        Failure::because(format!("can't take up the run `{}`", path.display()), error).hint_if(error.hint())
    };
    let run = opened.map_err(|error| failed(&error))?;
    let record = run.read_record().map_err(|error| failed(&error))?;
    Ok((run, record))
}

/// The eval's file of a recorded run, or the one that was named.
pub(crate) fn eval_of(record: &RunRecord, named: Option<&Path>) -> Result<PathBuf, Failure> {
    match (named, &record.eval_file) {
        (Some(named), _) => Ok(named.to_owned()),
        (None, Some(recorded)) if Path::new(recorded).exists() => Ok(PathBuf::from(recorded)),
        (None, Some(recorded)) => {
            Err(Failure::new(format!("the run's eval is not at `{recorded}` any more")).hint(NAME_IT))
        }
        (None, None) => Err(Failure::new("the run does not say where its eval is").hint(NAME_IT)),
    }
}

const NAME_IT: &str = "name its file too: `mst run EVAL --resume RUN`";

/// What differs between the run and what would be asked now, each with a word on what changed.
async fn differences(
    record: &RunRecord,
    ready: &Ready,
    scratch: &Path,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<Vec<String>, Failure> {
    // Resolved anew, beside the run: a dataset may have changed without its plugin or options.
    let beside = make(&scratch.join("beside"), &record.id)?;
    let cases = cases(ready, &beside, stop, progress).await?;
    let identity = Identity::new(&ready.file.eval, &cases, &ready.plugins)
        .map_err(|error| Failure::from_error(&error))?;
    let mut differences = Vec::new();
    if identity.eval != record.identity.eval {
        differences.extend(of_evals(&record.eval, &ready.file.eval)?);
    }
    if identity.cases != record.identity.cases {
        differences.push(format!("the cases changed: {} then, {} now", record.cases.count, cases.count));
    }
    for (id, then) in &record.identity.plugins {
        match identity.plugins.get(id) {
            Some(now) if now == then => {}
            Some(now) => differences.push(format!("the plugin `{id}` changed: {then} then, {now} now")),
            None => differences.push(format!("the plugin `{id}` is used no more")),
        }
    }
    for id in identity.plugins.keys().filter(|id| !record.identity.plugins.contains_key(*id)) {
        differences.push(format!("the plugin `{id}` was not used then"));
    }
    let mst = version()?;
    if record.mst != mst {
        differences.push(format!("it was begun by mst {}, this is mst {mst}", record.mst));
    }
    Ok(differences)
}

/// What two evals that do not ask the same differ in.
fn of_evals(then: &Eval, now: &Eval) -> Result<Vec<String>, Failure> {
    let parts = |eval: &Eval| match serde_json::to_value(eval) {
        Ok(Value::Object(parts)) => Ok(parts),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(Failure::from_error(&error)),
    };
    let (was, is) = (parts(then)?, parts(now)?);
    // What does not make another run of it is not named.
    let paces = ["limits", "capacity", "tokens", "deadlines"];
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let changed =
        keys.into_iter().filter(|key| !paces.contains(&key.as_str()) && was.get(*key) != is.get(*key));
    let changed: Vec<String> = changed.map(|key| format!("`{key}`")).collect();
    let mut differences = Vec::new();
    if !changed.is_empty() {
        differences.push(format!("the eval changed in {}", changed.join(", ")));
    }
    for part in Part::ALL {
        let (then, now) = (then.deadlines.of(part), now.deadlines.of(part));
        if then != now {
            differences.push(format!("the deadline of `{part}` changed: {then} then, {now} now"));
        }
    }
    Ok(differences)
}

/// What comes first in a run: its audit, and its cases.
async fn first(
    ready: &Ready,
    run: &RunWriter,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<CaseSet, Failure> {
    ready.told.record_in(run)?;
    cases(ready, run, stop, progress).await
}

/// The cases, unless somebody stops it: a dataset may have no end.
async fn cases(
    ready: &Ready,
    run: &RunWriter,
    stop: &Stop,
    progress: &Arc<Progress>,
) -> Result<CaseSet, Failure> {
    let counting = progress.clone();
    let dataset = &ready.file.eval.dataset;
    let counted = move |count| counting.cases(count);
    let (sandbox, plugin, dir) = (&ready.sandbox, &ready.dataset, &ready.file.dir);
    tokio::select! {
        cases = dataset::resolve(sandbox, plugin, dataset, dir, run, &ready.told.sinks, counted) => cases,
        () = stop.finish.cancelled() => {
            Err(Failure::new("interrupted while the cases were read; nothing was started").exit(Exit::Interrupted))
        }
    }
}

fn make(runs: &Path, id: &RunId) -> Result<RunWriter, Failure> {
    RunDir::create(runs, id)
        .map_err(|error| Failure::because(format!("can't make a run in `{}`", runs.display()), &error))
}

fn random() -> Result<[u8; 4], Failure> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| Failure::new(format!("no random bytes: {error}")))?;
    Ok(random)
}

fn record(
    id: RunId,
    now: Timestamp,
    ready: &Ready,
    policy: Policy,
    cases: CaseSet,
) -> Result<RunRecord, Failure> {
    let eval = ready.file.eval.clone();
    let identity =
        Identity::new(&eval, &cases, &ready.plugins).map_err(|error| Failure::from_error(&error))?;
    let trials = cases.count * eval.variants.len() as u64 * u64::from(eval.trials);
    Ok(RunRecord {
        schema: RunRecord::SCHEMA.to_owned(),
        id,
        created_at: now,
        mst: version()?,
        // One that no text can say is named anew by whoever resumes the run.
        eval_file: ready.file.path.to_str().map(str::to_owned),
        eval,
        plugins: ready.plugins.clone(),
        cases,
        identity,
        runner: ready.runner.uses.clone(),
        policy,
        shards: Vec::new(),
        trials,
        collect: Collect::Running,
    })
}

fn version() -> Result<semver::Version, Failure> {
    place::VERSION.parse().map_err(|error: semver::Error| Failure::from_error(&error))
}
