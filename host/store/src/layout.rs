//! Where things lie in a run directory. A worker's results have less of it, and flatter.

use std::path::{Path, PathBuf};

use mst_model::{JudgeId, TrialKey};

use crate::name;

pub(crate) const TRANSCRIPT: &str = "transcript.json";
pub(crate) const REPORT: &str = "report";
pub(crate) const STDERR: &str = "stderr";
pub(crate) const FILES: &str = "files";

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    /// A trial is one directory deep: making directories is most of what a small trial costs.
    flat: bool,
}

impl Layout {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Layout {
        Layout { root: root.into(), flat: false }
    }

    pub(crate) fn of_results(root: impl Into<PathBuf>) -> Layout {
        Layout { root: root.into(), flat: true }
    }

    pub(crate) fn run_json(&self) -> PathBuf {
        self.root.join("run.json")
    }

    pub(crate) fn cases(&self) -> PathBuf {
        self.root.join("cases.jsonl")
    }

    pub(crate) fn machines(&self) -> PathBuf {
        self.root.join("machines.jsonl")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(crate) fn trial(&self, key: &TrialKey) -> PathBuf {
        if self.flat {
            // A variant and an index hold no dot, so that this too means one trial.
            let (case, variant) = (name::escape(&key.case), name::component(key.variant.as_str()));
            return self.root.join("trials").join(format!("{case}.{variant}.{}", key.index));
        }
        let mut path = self.under("trials", key);
        path.push(key.index.to_string());
        path
    }

    pub(crate) fn grade(&self, judge: &JudgeId, key: &TrialKey) -> PathBuf {
        let mut path = self.under(Path::new("grades").join(name::component(judge.as_str())), key);
        path.push(format!("{}.json", key.index));
        path
    }

    fn under(&self, folder: impl AsRef<Path>, key: &TrialKey) -> PathBuf {
        let mut path = self.root.join(folder);
        path.push(name::escape(&key.case));
        path.push(name::component(key.variant.as_str()));
        path
    }
}
