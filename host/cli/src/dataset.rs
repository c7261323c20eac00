//! A dataset's cases, paged out of its plugin into the run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mst_model::eval::DatasetUse;
use mst_model::run::CaseSet;
use mst_model::schema::with_defaults;
use mst_plugin::Manifest;
use mst_sandbox::{DatasetPlugin, Sandbox, Sinks};
use mst_store::RunWriter;
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::plugins::Plugin;

/// How many cases a page has.
const PAGE: u32 = 256;

/// What a dataset may come to. One without end ends at one of them.
struct Bounds {
    cases: u64,
    bytes: u64,
    time: Duration,
}

impl Bounds {
    fn of(dataset: &DatasetUse) -> Bounds {
        Bounds { cases: dataset.max_cases, bytes: 16 << 30, time: Duration::from_secs(60 * 60) }
    }

    /// Which of them is exceeded, and what there is to do about it.
    fn exceeded(&self, cases: u64, bytes: u64, time: Duration) -> Option<(String, &'static str)> {
        if cases > self.cases {
            let what = format!("it gives more than {} cases, its limit", self.cases);
            return Some((what, "`max_cases` in the eval's `dataset` admits more"));
        }
        if bytes > self.bytes {
            let what = format!("its cases take more than {} GiB, its limit", self.bytes >> 30);
            return Some((what, "split the dataset"));
        }
        if time > self.time {
            let what = format!("it has not ended after {} minutes, its limit", self.time.as_secs() / 60);
            return Some((what, "split the dataset"));
        }
        None
    }
}

/// Resolves the dataset into the run's `cases.jsonl`.
pub(crate) async fn resolve(
    sandbox: &Sandbox,
    plugin: &Plugin,
    dataset: &DatasetUse,
    eval_dir: &Path,
    run: &RunWriter,
    sinks: &Sinks,
    counted: impl Fn(u64),
) -> Result<CaseSet, Failure> {
    let id = &plugin.manifest().id;
    let failed =
        |error: &dyn std::error::Error| Failure::because(format!("the dataset `{id}` can't be read"), error);
    let (loaded, _) = DatasetPlugin::load(sandbox, &plugin.file, &plugin.permit(&dataset.options)?)
        .map_err(|error| failed(&error))?;
    // The guest sees these directories and nothing else, and only as long as it is read.
    let staged = run.scratch("data").map_err(|error| failed(&error))?;
    let (options, dirs) = bind_dirs(plugin.manifest(), &dataset.options, eval_dir, staged.path())?;
    let mut cursor = loaded.open(&options, &dirs, sinks).await.map_err(|error| failed(&error))?;
    let mut cases = run.write_cases().map_err(|error| failed(&error))?;
    let (bounds, began) = (Bounds::of(dataset), Instant::now());
    loop {
        let page = cursor.next(PAGE).await.map_err(|error| failed(&error))?;
        if page.is_empty() {
            break;
        }
        for case in &page {
            cases.push(case).map_err(|error| failed(&error))?;
            if let Some((what, hint)) = bounds.exceeded(cases.count(), cases.bytes(), began.elapsed()) {
                let mut failure = Failure::new(format!("the dataset `{id}` can't be read"));
                failure.causes.push(what);
                return Err(failure.hint(hint));
            }
        }
        counted(cases.count());
    }
    if cases.count() == 0 {
        return Err(Failure::new(format!("the dataset `{id}` has no cases")).hint("look at its options"));
    }
    cases.finish().map_err(|error| failed(&error))
}

/// Binds each `dir` of the manifest to what the user's option names. The option then holds the
/// path that the guest sees.
fn bind_dirs(
    manifest: &Manifest,
    options: &Map<String, Value>,
    eval_dir: &Path,
    staged: &Path,
) -> Result<(Value, Vec<(String, PathBuf)>), Failure> {
    let mut options = with_defaults(&manifest.options, options);
    let mut dirs = Vec::new();
    for dir in &manifest.dirs {
        let Some(option) = &dir.option else { continue };
        let Some(named) = options.get(option).and_then(Value::as_str).map(str::to_owned) else { continue };
        let failed = |error: io::Error| {
            Failure::because(
                format!("the option `{option}` of `{}` names `{named}`, which can't be read", manifest.id),
                &error,
            )
            .hint(format!("paths are relative to the eval's file, in `{}`", eval_dir.display()))
        };
        let path = fs::canonicalize(eval_dir.join(&named)).map_err(failed)?;
        let guest = format!("/{}", dir.name);
        if fs::metadata(&path).map_err(failed)?.is_dir() {
            dirs.push((dir.name.clone(), path));
            options.insert(option.clone(), Value::String(guest));
        } else {
            let name = Path::new(&named).file_name().and_then(|name| name.to_str()).unwrap_or("data");
            let alone = staged.join(&dir.name);
            let source = open(&path).map_err(failed)?;
            stage_alone(&path, source, &alone, name).map_err(|error| {
                Failure::because(format!("can't put `{named}` into the run's directory"), &error)
            })?;
            dirs.push((dir.name.clone(), alone));
            options.insert(option.clone(), Value::String(format!("{guest}/{name}")));
        }
    }
    Ok((Value::Object(options), dirs))
}

/// A file of the user's. Opened before it is linked: a link to one that this user may not read
/// would fail only in the guest.
fn open(path: &Path) -> io::Result<fs::File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is neither a file nor a directory"));
    }
    fs::File::open(path)
}

/// Puts a file into a directory of its own, so that naming it grants it and nothing beside it.
fn stage_alone(path: &Path, mut source: fs::File, dir: &Path, name: &str) -> io::Result<()> {
    fs::create_dir(dir)?;
    let to = dir.join(name);
    // A hard link costs nothing; across file systems, or where the kernel protects links to
    // another's files, it is a copy.
    match fs::hard_link(path, &to) {
        Ok(()) => Ok(()),
        Err(_) => io::copy(&mut source, &mut fs::File::create_new(&to)?).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_without_end_ends_at_a_bound_that_is_named() {
        let bounds = Bounds { cases: 10, bytes: 2 << 30, time: Duration::from_secs(120) };
        let said = |cases, bytes, seconds| {
            bounds.exceeded(cases, bytes, Duration::from_secs(seconds)).map(|(what, _)| what)
        };
        assert_eq!(said(10, 2 << 30, 120), None);
        assert_eq!(said(11, 0, 0).as_deref(), Some("it gives more than 10 cases, its limit"));
        assert_eq!(said(1, (2 << 30) + 1, 0).as_deref(), Some("its cases take more than 2 GiB, its limit"));
        assert_eq!(said(1, 1, 121).as_deref(), Some("it has not ended after 2 minutes, its limit"));
    }
}
