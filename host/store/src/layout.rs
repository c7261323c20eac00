//! Where things lie in a run directory. A worker's results have less of it, and flatter.

use std::path::PathBuf;

use mst_model::{CaseId, JudgeId, TrialKey};

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

    pub(crate) fn audit(&self) -> PathBuf {
        self.root.join("audit.jsonl")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(crate) fn trials(&self) -> PathBuf {
        self.root.join("trials")
    }

    /// Where the trials of a case lie in a run.
    pub(crate) fn case(&self, case: &CaseId) -> PathBuf {
        self.trials().join(name::escape(case))
    }

    pub(crate) fn trial(&self, key: &TrialKey) -> PathBuf {
        if self.flat {
            return self.trials().join(one_name(key));
        }
        self.case(&key.case).join(name::component(key.variant.as_str())).join(key.index.to_string())
    }

    /// Of a run: an attempt at a trial. The first lies where the trial does, each later one beside it.
    pub(crate) fn attempt(&self, key: &TrialKey, attempt: u32) -> PathBuf {
        match attempt {
            0 => self.trial(key),
            _ => self.trial(key).with_file_name(format!("{}.{attempt}", key.index)),
        }
    }

    /// Grades that others stand in for: of an attempt before, or errors of the judge's.
    pub(crate) fn earlier_grade(&self, judge: &JudgeId, key: &TrialKey, number: u32) -> PathBuf {
        let judge = name::component(judge.as_str());
        let name = format!("{}.{number}.json", one_name(key));
        self.root.join("grades").join(judge).join("earlier").join(name)
    }

    pub(crate) fn grade(&self, judge: &JudgeId, key: &TrialKey) -> PathBuf {
        let judge = name::component(judge.as_str());
        self.root.join("grades").join(judge).join(format!("{}.json", one_name(key)))
    }
}

/// A trial's own name in one directory. A variant and an index hold no dot, so that no two trials
/// have one.
fn one_name(key: &TrialKey) -> String {
    format!("{}.{}.{}", name::escape(&key.case), name::component(key.variant.as_str()), key.index)
}
