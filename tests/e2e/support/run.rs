//! A run's directory, read by nothing of mst's own: what these tests believe must not come from
//! the code that they test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use memchr::memmem;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// As mst writes digests.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Everything below `dir`, in the order of the paths. What goes away meanwhile is not there.
pub(crate) fn tree(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Every file below `dir`; a link is one.
pub(crate) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = tree(dir);
    found.retain(|path| path.symlink_metadata().is_ok_and(|meta| !meta.is_dir()));
    found
}

/// A run's directory.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    dir: PathBuf,
}

impl Run {
    pub(crate) fn at(dir: PathBuf) -> Run {
        Run { dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn name(&self) -> String {
        self.dir.file_name().expect("a name").to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn record(&self) -> Value {
        json(&self.dir.join("run.json"))
    }

    /// The cases, without their digests.
    pub(crate) fn cases(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join("cases.jsonl")).expect("reads");
        text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["case"].clone()).collect()
    }

    /// Of the trial `CASE/VARIANT/N`. The names stand here as directories do.
    pub(crate) fn transcript(&self, trial: &str) -> Value {
        json(&self.dir.join("trials").join(trial).join("transcript.json"))
    }

    pub(crate) fn report(&self, trial: &str) -> Vec<u8> {
        fs::read(self.dir.join("trials").join(trial).join("report")).expect("a report")
    }

    pub(crate) fn report_text(&self, trial: &str) -> String {
        String::from_utf8(self.report(trial)).expect("UTF-8")
    }

    /// What `judge` said of a trial: a verdict, or an error.
    pub(crate) fn grade(&self, judge: &str, trial: &str) -> Value {
        json(&self.dir.join("grades").join(judge).join(format!("{}.json", trial.replace('/', "."))))["result"]
            .clone()
    }

    /// Every judge that the eval has let every trial pass: an exit of 0 does not say so.
    #[track_caller]
    pub(crate) fn assert_passed(&self) {
        let judges = self.record()["eval"]["judges"].as_array().expect("judges").len();
        let grades = files_below(&self.dir.join("grades"));
        for path in &grades {
            let result = &json(path)["result"];
            assert_eq!(result["verdict"]["finding"], "pass", "{}: {result}", path.display());
        }
        assert_eq!(grades.len(), judges * self.trials(), "each trial is graded by each judge: {grades:#?}");
        assert!(!grades.is_empty(), "there is something to pass");
    }

    /// The lines of the audit.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.join("audit.jsonl")).expect("an audit");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The transcripts that are in their place.
    pub(crate) fn all_trials(&self) -> Vec<Value> {
        files_below(&self.dir.join("trials"))
            .iter()
            .filter(|path| is_transcript(path))
            .map(|path| json(path))
            .collect()
    }

    /// How many trials are in their place.
    pub(crate) fn trials(&self) -> usize {
        files_below(&self.dir.join("trials")).iter().filter(|path| path.ends_with("transcript.json")).count()
    }

    /// Every file that has its name is whole: records parse, what a transcript lists is there byte
    /// for byte, nothing else is there, and nothing half-made lies outside of `tmp/`.
    pub(crate) fn assert_whole(&self) {
        for name in ["run.json", "cases.jsonl"] {
            let path = self.dir.join(name);
            if !path.exists() {
                continue;
            }
            let text = fs::read_to_string(&path).expect("reads");
            if name == "run.json" {
                serde_json::from_str::<Value>(&text).expect("run.json is JSON");
                continue;
            }
            assert!(text.is_empty() || text.ends_with('\n'), "cases.jsonl ends with a line");
            for line in text.lines() {
                let value: Value = serde_json::from_str(line).expect("each case is JSON");
                let start = line.find("\"case\":").expect("a case") + "\"case\":".len();
                assert_eq!(value["sha256"], sha256(&line.as_bytes()[start..line.len() - 1]), "{line}");
            }
        }
        let trials = files_below(&self.dir.join("trials"));
        let mut listed: BTreeMap<PathBuf, (String, u64)> = BTreeMap::new();
        for path in trials.iter().filter(|path| is_transcript(path)) {
            let transcript = json(path);
            let dir = path.parent().expect("a parent");
            for name in ["report", "stderr"] {
                if let Some(stream) = transcript.get(name) {
                    listed.insert(dir.join(name), said(stream));
                }
            }
            for file in transcript["files"].as_array().into_iter().flatten() {
                let path = file["path"].as_str().expect("a path");
                listed.insert(dir.join("files").join(path), said(file));
            }
        }
        for path in trials.iter().filter(|path| !is_transcript(path)) {
            let (digest, size) =
                listed.remove(path).unwrap_or_else(|| panic!("{} is in no transcript", path.display()));
            let bytes = fs::read(path).expect("reads");
            assert_eq!((sha256(&bytes), bytes.len() as u64), (digest, size), "{}", path.display());
        }
        assert!(listed.is_empty(), "{listed:?} are not there");
        for path in files_below(&self.dir.join("grades")) {
            assert!(json(&path).get("result").is_some(), "{}", path.display());
        }
        for entry in fs::read_dir(&self.dir).expect("lists") {
            let name = entry.expect("an entry").file_name();
            let known = [
                "run.json",
                "cases.jsonl",
                "machines.jsonl",
                "audit.jsonl",
                "reap.log",
                "trials",
                "grades",
                "lock",
                "tmp",
            ];
            assert!(known.iter().any(|known| name == *known), "{name:?} is in the run");
        }
    }
}

fn is_transcript(path: &Path) -> bool {
    path.ends_with("transcript.json") && !path.components().any(|part| part.as_os_str() == "files")
}

fn said(stream: &Value) -> (String, u64) {
    let digest = stream["sha256"].as_str().expect("a digest").to_owned();
    (digest, stream["size_bytes"].as_u64().expect("a size"))
}

fn json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether a text stands anywhere in these bytes, which may be those of an executable.
pub(crate) fn holds(bytes: &[u8], text: &str) -> bool {
    memmem::find(bytes, text.as_bytes()).is_some()
}
