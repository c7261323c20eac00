//! Trials on their way to their place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mst_model::transcript::Transcript;
use mst_model::{Digest, TrialKey};
use tempfile::TempDir;

use crate::layout::{Layout, TRANSCRIPT};
use crate::{Result, StoreError, json, tree, trial};

/// A directory in `tmp/` in which a trial is put together. Dropped before
/// [`commit`](TrialStage::commit), it is removed.
#[derive(Debug)]
pub struct TrialStage {
    layout: Layout,
    temp: TempDir,
}

/// A trial that is in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its directory.
    pub dir: PathBuf,
    /// Of its `transcript.json`.
    pub size_bytes: u64,
    /// Of its `transcript.json`.
    pub sha256: Digest,
}

impl TrialStage {
    /// An empty directory under `root/tmp/`; `root` is a run's directory or a worker's results.
    pub fn begin(root: &Path) -> Result<TrialStage> {
        TrialStage::within(Layout::new(root))
    }

    fn within(layout: Layout) -> Result<TrialStage> {
        let temp = temp_dir(&layout)?;
        Ok(TrialStage { layout, temp })
    }

    /// The directory. What lies in it at [`commit`](TrialStage::commit) is the trial.
    pub fn dir(&self) -> &Path {
        self.temp.path()
    }

    /// Writes `transcript` beside what is in the directory, syncs it all, and renames it to the
    /// place of the transcript's trial. A finished trial there is not replaced; what is no
    /// finished trial is.
    pub fn commit(self, transcript: &Transcript) -> Result<Committed> {
        let path = self.dir().join(TRANSCRIPT);
        let bytes = json::line(&path, transcript)?;
        fs::write(&path, &bytes).map_err(StoreError::io("write", &path))?;
        tree::sync(self.dir())?;
        let to = self.layout.trial(&transcript.trial);
        let dir = self.place(&transcript.trial, to)?;
        Ok(Committed { dir, size_bytes: bytes.len() as u64, sha256: Digest::of(&bytes) })
    }

    fn place(self, key: &TrialKey, to: PathBuf) -> Result<PathBuf> {
        let to = place(&self.layout, self.temp.path(), key, to)?;
        // It is not there any more; there is nothing to remove.
        let _ = self.temp.keep();
        Ok(to)
    }
}

/// Where a worker leaves trials until the coordinator fetches them: the `trials/` and `tmp/` of
/// a run directory and nothing else. One process at a time works in it.
#[derive(Debug, Clone)]
pub struct ResultsDir {
    layout: Layout,
}

impl ResultsDir {
    /// Opens `root`, makes what is not there and removes the leftovers of a killed worker.
    pub fn open(root: &Path) -> Result<ResultsDir> {
        let layout = Layout::of_results(root);
        fs::create_dir_all(root).map_err(StoreError::io("make directory", root))?;
        clear_tmp(&layout)?;
        Ok(ResultsDir { layout })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// Begins a trial.
    pub fn stage(&self) -> Result<TrialStage> {
        TrialStage::within(self.layout.clone())
    }

    /// Where the trial is, or will be.
    pub fn trial_dir(&self, key: &TrialKey) -> PathBuf {
        self.layout.trial(key)
    }

    /// The trial's transcript and the digest of its file; none where it has not finished.
    pub fn transcript(&self, key: &TrialKey) -> Result<Option<(Transcript, Digest)>> {
        trial::read_for(&self.trial_dir(key), key)
    }
}

/// An empty `tmp/`.
pub(crate) fn clear_tmp(layout: &Layout) -> Result<()> {
    let tmp = layout.tmp();
    match fs::remove_dir_all(&tmp) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::io("remove", &tmp)(error));
        }
        _ => {}
    }
    fs::create_dir(&tmp).map_err(StoreError::io("make directory", &tmp))
}

/// Moves the trial in `from`, a directory of `key`'s own, into the layout: by renaming it, or
/// by way of a copy in `tmp/` where it lies on another file system. Its files must be synced.
pub(crate) fn adopt(layout: &Layout, key: &TrialKey, attempt: u32, from: &Path) -> Result<PathBuf> {
    match place(layout, from, key, layout.attempt(key, attempt)) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::CrossesDevices => {
            adopt_copy(layout, key, attempt, from)
        }
        placed => placed,
    }
}

fn adopt_copy(layout: &Layout, key: &TrialKey, attempt: u32, from: &Path) -> Result<PathBuf> {
    let stage = TrialStage { layout: layout.clone(), temp: temp_dir(layout)? };
    tree::copy(from, stage.dir())?;
    tree::sync(stage.dir())?;
    let to = stage.place(key, layout.attempt(key, attempt))?;
    // The trial is safe; what it was copied from is its maker's to remove if it can't be here.
    let _ = fs::remove_dir_all(from);
    Ok(to)
}

fn place(layout: &Layout, from: &Path, key: &TrialKey, to: PathBuf) -> Result<PathBuf> {
    let rename = || fs::rename(from, &to);
    // A rename replaces no directory that holds anything, so a finished trial is safe whoever
    // comes second; and the directories above are mostly there, so they are made when asked for.
    let mut outcome = rename();
    if let Err(error) = &outcome
        && error.kind() == io::ErrorKind::NotFound
        && let Some(parent) = to.parent()
    {
        fs::create_dir_all(parent).map_err(StoreError::io("make directory", parent))?;
        outcome = rename();
    }
    if let Err(error) = &outcome
        && matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
    {
        if to.join(TRANSCRIPT).exists() {
            return Err(StoreError::TrialExists { trial: key.clone(), path: to });
        }
        // Not of our making, unless a power cut came between a directory and its contents.
        let aside = temp_dir(layout)?;
        let old = aside.path().join("old");
        fs::rename(&to, &old).map_err(StoreError::io("move away", &to))?;
        outcome = rename();
    }
    match outcome {
        Ok(()) => Ok(to),
        Err(error) => Err(StoreError::io("move a trial to", &to)(error)),
    }
}

fn temp_dir(layout: &Layout) -> Result<TempDir> {
    let tmp = layout.tmp();
    let mut builder = tempfile::Builder::new();
    builder.prefix("trial-");
    // The lib.rs of this crate says why not 0700.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let made = match builder.tempdir_in(&tmp) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(&tmp).map_err(StoreError::io("make directory", &tmp))?;
            builder.tempdir_in(&tmp)
        }
        made => made,
    };
    made.map_err(StoreError::io("make a directory in", &tmp))
}
