//! The worker knows a judge as a trait, the sandbox knows a trial as one; here they meet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mst_model::grade::Verdict;
use mst_model::schema::with_defaults;
use mst_sandbox::{
    Command, Ended, Entry, Evidence, JudgeError, JudgeOptions, JudgePlugin, Output, Part, Sandbox, Sinks,
    Workspace, WorkspaceError,
};
use mst_worker::grade::{self, GradeWorkspace, Judge, NoVerdict, StoredTrial};
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::machines::denied;
use crate::plugins::Plugin;

/// A judge that is a component.
pub(crate) struct ComponentJudge {
    plugin: JudgePlugin,
    options: JudgeOptions,
    sinks: Sinks,
}

impl ComponentJudge {
    pub(crate) fn load(
        sandbox: &Sandbox,
        plugin: &Plugin,
        options: &Map<String, Value>,
        sinks: Sinks,
    ) -> Result<ComponentJudge, Failure> {
        let (loaded, _) =
            JudgePlugin::load(sandbox, &plugin.file, &plugin.permit(options)?).map_err(|error| {
                Failure::because(format!("the judge `{}` can't be loaded", plugin.manifest().id), &error)
            })?;
        let options = Value::Object(with_defaults(&plugin.manifest().options, options));
        Ok(ComponentJudge { plugin: loaded, options: options.into(), sinks })
    }
}

#[async_trait]
impl Judge for ComponentJudge {
    async fn judge(
        &self,
        trial: Arc<StoredTrial>,
        workspace: Arc<GradeWorkspace>,
        time: Duration,
    ) -> Result<Verdict, NoVerdict> {
        let evidence = Arc::new(Seen(trial));
        let workspace = Arc::new(Restored(workspace));
        let judged = self.plugin.judge(evidence, workspace, &self.options, time, &self.sinks).await;
        judged.map_err(|error| {
            let denial = match &error {
                JudgeError::Call(error) => denied(error),
                JudgeError::Load(_) => None,
            };
            let message = match &denial {
                Some(denial) => denial.to_string(),
                None => Failure::from_error(&error).one_line(),
            };
            NoVerdict { message, denial }
        })
    }
}

/// A stored trial, as the sandbox shows it to a guest.
struct Seen(Arc<StoredTrial>);

impl Evidence for Seen {
    fn trial(&self) -> String {
        self.0.key().to_string()
    }

    fn case_json(&self) -> String {
        self.0.case_json()
    }

    fn variant(&self) -> String {
        self.0.key().variant.to_string()
    }

    fn index(&self) -> u32 {
        self.0.key().index
    }

    fn outcome_json(&self) -> String {
        self.0.outcome_json()
    }

    fn entries(&self) -> Vec<Entry> {
        self.0.entries().into_iter().map(|(name, size_bytes)| Entry { name, size_bytes }).collect()
    }

    fn read(&self, name: &str, offset: u64, limit: u32) -> io::Result<Option<Part>> {
        Ok(self.0.read(name, offset, limit)?.map(|(bytes, rest)| Part { bytes, rest }))
    }
}

/// A restored workspace, as the sandbox reaches it.
struct Restored(Arc<GradeWorkspace>);

#[async_trait]
impl Workspace for Restored {
    async fn run(&self, command: Command) -> Result<Output, WorkspaceError> {
        let Command { argv, stdin, time, max_output_bytes } = command;
        let finished = self.0.run(grade::Command { argv, stdin, time, max_output_bytes }).await;
        let finished = finished.map_err(|error| match error {
            grade::WorkspaceError::NotFound(what) => WorkspaceError::NotFound(what),
            other => WorkspaceError::Failed(other.to_string()),
        })?;
        Ok(Output {
            ended: match finished.exit {
                _ if finished.timed_out => Ended::TimedOut,
                mst_process::Exit::Code(code) => Ended::Code(code),
                mst_process::Exit::Signal(signal) => Ended::Signal(signal),
            },
            cut_bytes: finished.stdout.cut + finished.stderr.cut,
            stdout: finished.stdout.bytes,
            stderr: finished.stderr.bytes,
        })
    }
}
