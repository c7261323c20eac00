//! The `workspace` interface: a judge's commands in the restored workspace of a trial.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mst_plugin::{HostValues, Stdin};

use crate::bindings::{commands, types, workspace};
use crate::broker::Call;
use crate::call::HostFault;
use crate::guest::Guest;
use crate::process::{self, Shown};

/// A command, filled and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// What it reads; nothing where absent.
    pub stdin: Option<Vec<u8>>,
    /// After this it and all that it started are killed.
    pub time: Duration,
    /// Bytes of each stream that are kept.
    pub max_output_bytes: u64,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Its time was over.
    TimedOut,
}

/// What a command left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub ended: Ended,
    /// The first bytes of its stdout.
    pub stdout: Vec<u8>,
    /// The first bytes of its stderr.
    pub stderr: Vec<u8>,
    /// Bytes of both that were dropped.
    pub cut_bytes: u64,
}

/// A command that could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkspaceError {
    /// Its program is not there.
    #[error("{0}")]
    NotFound(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// The restored workspace of one trial. Dropping the future of a run ends the command and all
/// that it started.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// Runs a command there.
    async fn run(&self, command: Command) -> Result<Output, WorkspaceError>;
}

impl commands::Host for Guest {}

impl workspace::Host for Guest {
    async fn run(
        &mut self,
        template: String,
        slots: Vec<workspace::Slot>,
        stdin: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<commands::Output, types::Error>> {
        let mut pass = self.broker.pass(Call::Workspace { template: &template })?;
        pass.args(|| {
            let slots = slots.iter().map(|slot| (slot.name.as_str(), Shown::Values(&slot.values)));
            process::args_in_words(&template, slots, stdin.as_deref())
        });
        let given = stdin.as_ref().map_or(0, Vec::len) as u64;
        let Some(judging) = &self.judging else {
            return Err(HostFault("workspace outside of a judge's call".to_owned()).into());
        };
        let manifest = self.manifest.clone();
        let Some(command) = manifest.workspace(&template) else {
            return Err(HostFault("the broker admitted an unknown template".to_owned()).into());
        };
        if stdin.is_some() && command.stdin == Stdin::None {
            pass.end("invalid", 0, given);
            return Ok(Err(types::Error::Invalid(format!("template `{template}` takes no stdin"))));
        }
        let slots: Vec<(String, Vec<String>)> =
            slots.into_iter().map(|slot| (slot.name, slot.values)).collect();
        let argv = match command.template.fill(&slots, &judging.options, &HostValues::default()) {
            Ok(argv) => argv,
            Err(error) => {
                pass.end("invalid", 0, given);
                return Ok(Err(types::Error::Invalid(format!("template `{template}`: {error}"))));
            }
        };
        let workspace: Arc<dyn Workspace> = judging.workspace.clone();
        let command =
            Command { argv, stdin, time: command.timeout.0, max_output_bytes: command.max_output_bytes };
        pass.leave()?;
        let answer = match workspace.run(command).await {
            Ok(output) => Ok(commands::Output {
                status: match output.ended {
                    Ended::Code(code) => commands::ExitStatus::Code(code),
                    Ended::Signal(signal) => commands::ExitStatus::Signal(signal),
                    Ended::TimedOut => commands::ExitStatus::TimedOut,
                },
                stdout: output.stdout,
                stderr: output.stderr,
                cut: output.cut_bytes,
            }),
            Err(WorkspaceError::NotFound(what)) => Err(types::Error::NotFound(what)),
            Err(WorkspaceError::Failed(what)) => Err(types::Error::Failed(what)),
        };
        process::end(pass, &answer, given);
        Ok(answer)
    }
}
