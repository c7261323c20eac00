//! The coordinator knows a runner as a trait, the sandbox has it as a component; here they meet.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mst_coordinator::RunnerError;
use mst_coordinator::machines::{MachineSpec, Machines, Started};
use mst_coordinator::whole::{Attachment, Spoken, WholeShards, WholeSpec};
use mst_model::machine::Machine;
use mst_model::{Denial, RunId};
use mst_process::{Cause, Exit, Running};
use mst_sandbox::{
    Attach, CallError, MachineRequest, RunnerCallError, RunnerPlugin, ShardEnding, ShardRunnerPlugin,
    WholeShard,
};
use serde_json::Value;

use crate::error::Failure;

/// How long each call to a runner may take. Making a machine is also bound by the eval's
/// deadline for machines.
pub(crate) const CREATE: Duration = Duration::from_secs(600);
pub(crate) const COPY: Duration = Duration::from_secs(600);
pub(crate) const DESTROY: Duration = Duration::from_secs(120);
/// A whole shard; its trials have deadlines of their own.
pub(crate) const SHARD: Duration = Duration::from_secs(7 * 24 * 3600);
pub(crate) const CALL: Duration = Duration::from_secs(30);

/// A runner that is a component.
pub(crate) struct ComponentMachines(pub(crate) Arc<RunnerPlugin>);

fn said(error: RunnerCallError) -> RunnerError {
    let denial = match &error {
        RunnerCallError::Call(error) => denied(error),
        RunnerCallError::Load(_) => None,
    };
    match denial {
        Some(denial) => RunnerError { message: denial.to_string(), denials: vec![denial] },
        None => RunnerError::new(Failure::from_error(&error).one_line()),
    }
}

/// What a plugin was denied, where that is why its call gave no answer.
pub(crate) fn denied(error: &CallError) -> Option<Denial> {
    let CallError::Denied { plugin, denial } = error else { return None };
    let mst_sandbox::Denial { call, rule, grant } = denial.clone();
    Some(Denial { plugin: plugin.clone(), call, rule, grant })
}

#[async_trait]
impl Machines for ComponentMachines {
    async fn create(&self, spec: &MachineSpec) -> Result<Machine, RunnerError> {
        let MachineSpec { name, run, shard, shards } = spec.clone();
        self.0.create(&MachineRequest { name, run, shard, shards }, CREATE).await.map_err(said)
    }

    async fn destroy(&self, run: &RunId, name: &str, handle: Option<&Value>) -> Result<(), RunnerError> {
        self.0.destroy(run, name, handle, DESTROY).await.map_err(said)
    }

    async fn list(&self, run: &RunId) -> Result<Vec<String>, RunnerError> {
        self.0.list(run, CALL).await.map_err(said)
    }

    async fn start(&self, run: &RunId, machine: &Machine, argv: &[String]) -> Result<Started, RunnerError> {
        started(self.0.run_command(run, machine, argv, CALL).await.map_err(said)?)
    }

    async fn copy_to(
        &self,
        run: &RunId,
        machine: &Machine,
        from: &Path,
        to: &str,
    ) -> Result<(), RunnerError> {
        self.0.copy_to(run, machine, from, to, COPY).await.map_err(said)
    }

    async fn copy_from(
        &self,
        run: &RunId,
        machine: &Machine,
        from: &str,
        to: &Path,
    ) -> Result<(), RunnerError> {
        self.0.copy_from(run, machine, from, to, COPY).await.map_err(said)
    }
}

/// A runner that carries whole shards, and is a component.
pub(crate) struct ComponentShards(pub(crate) Arc<ShardRunnerPlugin>);

#[async_trait]
impl WholeShards for ComponentShards {
    async fn run(&self, spec: WholeSpec, attach: Attachment) -> Result<(), RunnerError> {
        let WholeSpec { name, run, bundle, program, results } = spec;
        let shard = WholeShard { name, run, bundle, program, results };
        let attach = Arc::new(Once(Mutex::new(Some(attach))));
        self.0.run(shard, attach, SHARD).await.map_err(said)
    }

    async fn destroy(&self, run: &RunId, name: &str) -> Result<(), RunnerError> {
        self.0.destroy(run, name, DESTROY).await.map_err(said)
    }

    async fn list(&self, run: &RunId) -> Result<Vec<String>, RunnerError> {
        self.0.list(run, CALL).await.map_err(said)
    }
}

/// The coordinator's attachment, as the sandbox calls it.
struct Once(Mutex<Option<Attachment>>);

#[async_trait]
impl Attach for Once {
    async fn attach(&self, worker: Running) -> Result<ShardEnding, String> {
        let attach = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let attach = attach.ok_or("the shard has had its worker")?;
        let started = started(worker).map_err(|error| error.to_string())?;
        Ok(match attach(started).await? {
            Spoken::Complete => ShardEnding::Complete,
            Spoken::Partial => ShardEnding::Partial(0),
        })
    }
}

fn started(mut running: Running) -> Result<Started, RunnerError> {
    let (Some(to), Some(from)) = (running.take_stdin(), running.take_stdout()) else {
        return Err(RunnerError::new("the runner handed on a child without stdin and stdout".to_owned()));
    };
    Ok(Started { from: Box::new(from), to: Box::new(to), ended: Box::pin(ended(running)) })
}

/// How a command on a machine ended, with the last that it wrote to stderr where it failed.
async fn ended(mut running: Running) -> Result<(), String> {
    let ended = running.wait().await.map_err(|error| error.to_string())?;
    let how = match ended.exit {
        _ if ended.cause == Cause::TimeUp => "its template's time was over".to_owned(),
        Exit::Code(0) => return Ok(()),
        Exit::Code(code) => format!("it ended with code {code}"),
        Exit::Signal(signal) => format!("signal {signal} ended it"),
    };
    let tail = running.stderr().bytes();
    let tail = mst_sandbox::clean(&String::from_utf8_lossy(&tail), 2048, true);
    Err(match tail.trim() {
        "" => how,
        tail => format!("{how}: {tail}"),
    })
}
