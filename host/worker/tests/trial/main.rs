//! Trials with real clients.

#![cfg(target_os = "linux")]

mod command;
mod echo;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mst_model::outcome::{Exit, Outcome, Stage, Status};
use mst_model::transcript::Transcript;
use mst_model::{Case, Digest};
use mst_worker::trial::{ClientEnvironment, TrialRunner};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A worker's surroundings, and one trial's staging directory.
struct Place {
    root: TempDir,
    vars: BTreeMap<String, String>,
    deadlines: Value,
}

impl Place {
    fn new() -> Place {
        mst_process::adopt_orphans();
        let root = tempfile::tempdir().expect("made");
        for dir in ["scratch", "evals", "into"] {
            fs::create_dir(root.path().join(dir)).expect("made");
        }
        Place { root, vars: BTreeMap::new(), deadlines: json!({}) }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn runner(&self, client: Value) -> TrialRunner {
        TrialRunner::new(
            "r1".parse().expect("a name"),
            3,
            BTreeMap::from([("arm".parse().expect("a name"), read(client))]),
            read(self.deadlines.clone()),
            ClientEnvironment {
                path: PATH.to_owned(),
                home: "/home/someone".to_owned(),
                vars: self.vars.clone(),
                base_dir: self.at("evals"),
            },
            self.at("scratch"),
        )
    }

    async fn run(&self, client: Value, case: Value) -> Transcript {
        let case: Case = read(case);
        let sha256 = case.digest().expect("digests");
        let variant = "arm".parse().expect("a name");
        let run = self.runner(client);
        let transcript =
            run.run(&case, sha256, &variant, 2, 1, &self.at("into")).await.expect("a transcript");
        assert_eq!(fs::read_dir(self.at("scratch")).expect("lists").count(), 0, "scratch is clean again");
        self.assert_whole(&transcript);
        transcript
    }

    /// A client that is a shell with `script`, asked `case`.
    async fn sh(&self, script: &str, case: Value) -> Transcript {
        self.run(json!({"kind": "command", "argv": ["sh", "-c", script]}), case).await
    }

    fn left(&self, path: &str) -> String {
        String::from_utf8(self.left_bytes(path)).expect("text")
    }

    fn left_bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.at("into").join(path)).expect("is there")
    }

    /// The staging directory holds what the transcript tells of, and nothing else.
    fn assert_whole(&self, transcript: &Transcript) {
        let mut told = BTreeMap::new();
        told.extend(transcript.report.iter().map(|it| ("report".to_owned(), it.sha256)));
        told.extend(transcript.stderr.iter().map(|it| ("stderr".to_owned(), it.sha256)));
        told.extend(transcript.files.iter().map(|it| (format!("files/{}", it.path), it.sha256)));
        let mut found = BTreeMap::new();
        digests(&self.at("into"), "", &mut found);
        assert_eq!(found, told);
    }
}

fn digests(dir: &Path, prefix: &str, found: &mut BTreeMap<String, Digest>) {
    for entry in fs::read_dir(dir).expect("lists") {
        let path = entry.expect("an entry").path();
        let name = format!("{prefix}{}", path.file_name().expect("has one").to_string_lossy());
        match path.is_dir() {
            true => digests(&path, &format!("{name}/"), found),
            false => drop(found.insert(name, Digest::of(&fs::read(&path).expect("reads")))),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("well-formed")
}

fn case() -> Value {
    json!({"id": "case/1", "prompt": [{"role": "user", "content": "2 + 2?"}]})
}

#[track_caller]
fn assert_broken(outcome: &Outcome, stage: Stage) -> String {
    assert_eq!(outcome.status, Status::Error, "{outcome:?}");
    let error = outcome.error.as_ref().expect("says why");
    assert_eq!(error.stage, stage);
    error.message.clone()
}
