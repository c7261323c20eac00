//! What stands around a guest in these tests.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mst_model::PluginId;
use mst_model::grade::Verdict;
use mst_plugin::PluginFile;
use mst_sandbox::{
    Cache, CallError, Command, Entry, Evidence, JudgeError, JudgePlugin, Limits, LogLine, LogSink, Output,
    Part, Permit, Sandbox, Settings, Sinks, Workspace, WorkspaceError,
};
use serde_json::{Value, json};

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn sandbox(limits: Limits) -> Sandbox {
    Sandbox::new(Settings { cache: Cache::off(), limits }).expect("an engine")
}

pub(crate) fn load(sandbox: &Sandbox, file: &PluginFile) -> JudgePlugin {
    JudgePlugin::load(sandbox, file, &Permit::all(file)).unwrap_or_else(|error| panic!("{error}")).0
}

/// A trial with a report.
pub(crate) struct Trial {
    pub(crate) report: Vec<u8>,
    pub(crate) expected: Value,
    /// Every read fails.
    pub(crate) broken: bool,
}

impl Trial {
    pub(crate) fn new(report: &str) -> Trial {
        Trial { report: report.as_bytes().to_vec(), expected: json!("yes"), broken: false }
    }
}

impl Evidence for Trial {
    fn trial(&self) -> String {
        "case/variant/0".to_owned()
    }

    fn case_json(&self) -> String {
        json!({
            "id": "case", "prompt": [{"role": "user", "content": "Yes?"}],
            "expected": self.expected, "tags": [], "metadata": {},
        })
        .to_string()
    }

    fn variant(&self) -> String {
        "variant".to_owned()
    }

    fn index(&self) -> u32 {
        0
    }

    fn outcome_json(&self) -> String {
        json!({"status": "completed"}).to_string()
    }

    fn entries(&self) -> Vec<Entry> {
        vec![Entry { name: "report".to_owned(), size_bytes: self.report.len() as u64 }]
    }

    fn read(&self, name: &str, offset: u64, limit: u32) -> io::Result<Option<Part>> {
        if self.broken {
            return Err(io::Error::other("the disk is gone"));
        }
        if name != "report" {
            return Ok(None);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.report.len());
        let to = from.saturating_add(limit as usize).min(self.report.len());
        let bytes = self.report[from..to].to_vec();
        Ok(Some(Part { bytes, rest: (self.report.len() - to) as u64 }))
    }
}

/// A workspace whose commands never end, and which counts those that are under way.
#[derive(Default)]
pub(crate) struct Endless {
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) started: Arc<tokio::sync::Notify>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Workspace for Endless {
    async fn run(&self, _: Command) -> Result<Output, WorkspaceError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(self.running.clone());
        self.started.notify_one();
        pending::<()>().await;
        drop(running);
        Err(WorkspaceError::Failed("pending is over".to_owned()))
    }
}

/// Keeps what was said.
#[derive(Default)]
pub(crate) struct Heard {
    lines: Mutex<Vec<LogLine>>,
    pub(crate) steps: AtomicUsize,
}

impl Heard {
    pub(crate) fn lines(&self) -> Vec<LogLine> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LogSink for Heard {
    fn line(&self, line: LogLine) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn progress(&self, _: &PluginId, _: String, _: Option<f32>) {
        self.steps.fetch_add(1, Ordering::SeqCst);
    }
}

/// One call, with a trial that reported `yes`.
pub(crate) async fn judge(
    plugin: &JudgePlugin,
    options: Value,
    time: Duration,
    heard: &Arc<Heard>,
) -> Result<Verdict, JudgeError> {
    let sinks = Sinks::unrecorded(heard.clone());
    let trial = Arc::new(Trial::new("yes"));
    plugin.judge(trial, Arc::new(Endless::default()), &options.into(), time, &sinks).await
}

/// The error of one call of a judge of [`crate::wat`].
pub(crate) async fn error_of(limits: Limits, file: &PluginFile) -> CallError {
    let plugin = load(&sandbox(limits), file);
    match judge(&plugin, json!({}), LONG, &Arc::default()).await {
        Err(JudgeError::Call(error)) => error,
        Err(JudgeError::Load(error)) => panic!("{error}"),
        Ok(verdict) => panic!("{verdict:?}"),
    }
}
