//! The `shard` interface: the host's side of one shard, for a runner that carries it whole. The
//! runner hands on a worker that it started; what passes between that and the host it never sees.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use mst_process::Running;
use wasmtime::component::Resource;

use crate::audit::Pass;
use crate::bindings::shard_runner::mst::plugin::shard;
use crate::bindings::types;
use crate::broker::{Ambient, Call};
use crate::call::HostFault;
use crate::guest::Guest;
use crate::process::{BEARS_NONE, ChildHandle, CommandHandle, DirectoryHandle};
use crate::text::clean;

/// How a shard's worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardEnding {
    /// Each trial has an outcome.
    Complete,
    /// So many have none.
    Partial(u32),
    /// There was no conversation, and why.
    Refused(String),
}

/// Whoever speaks mst.shard/v1 with a worker.
#[async_trait]
pub trait Attach: Send + Sync {
    /// Takes a started worker, and returns when the conversation is over.
    async fn attach(&self, worker: Running) -> Result<ShardEnding, String>;
}

/// What a guest holds as `shard`.
#[expect(unreachable_pub, reason = "the bindings name it in a public place")]
pub struct ShardHandle;

/// What a call of `run-shard` is about.
pub(crate) struct Sharding {
    pub(crate) name: String,
    pub(crate) bundle: PathBuf,
    pub(crate) results: PathBuf,
    /// The worker's program, relative to the bundle.
    pub(crate) program: String,
    /// Taken by the first `attach`.
    pub(crate) attach: Option<Arc<dyn Attach>>,
}

impl Guest {
    fn sharding(&mut self, function: &'static str) -> wasmtime::Result<(Pass, &mut Sharding)> {
        let pass = self.broker.pass(Call::Shard(function))?;
        match &mut self.sharding {
            Some(sharding) => Ok((pass, sharding)),
            None => Err(HostFault("a shard outside of its call".to_owned()).into()),
        }
    }
}

impl shard::Host for Guest {}

impl shard::HostShard for Guest {
    async fn name(&mut self, _: Resource<ShardHandle>) -> wasmtime::Result<String> {
        let (pass, sharding) = self.sharding("shard.name")?;
        pass.ok();
        Ok(sharding.name.clone())
    }

    async fn run(&mut self, _: Resource<ShardHandle>) -> wasmtime::Result<String> {
        self.sharding("shard.run")?.0.ok();
        Ok(self.exec.as_ref().map(|exec| exec.run.clone()).unwrap_or_default())
    }

    async fn options(&mut self, _: Resource<ShardHandle>) -> wasmtime::Result<String> {
        self.sharding("shard.options")?.0.ok();
        Ok(self.exec.as_ref().map(|exec| exec.options.to_string()).unwrap_or_default())
    }

    async fn bundle(&mut self, _: Resource<ShardHandle>) -> wasmtime::Result<Resource<DirectoryHandle>> {
        let (pass, sharding) = self.sharding("shard.bundle")?;
        let path = sharding.bundle.clone();
        let handle = self.table.push(DirectoryHandle(path))?;
        pass.ok();
        Ok(handle)
    }

    async fn results(&mut self, _: Resource<ShardHandle>) -> wasmtime::Result<Resource<DirectoryHandle>> {
        let (pass, sharding) = self.sharding("shard.results")?;
        let path = sharding.results.clone();
        let handle = self.table.push(DirectoryHandle(path))?;
        pass.ok();
        Ok(handle)
    }

    async fn worker(
        &mut self,
        _: Resource<ShardHandle>,
        bundle: String,
        results: String,
    ) -> wasmtime::Result<Resource<CommandHandle>> {
        let (mut pass, sharding) = self.sharding("shard.worker")?;
        pass.args(|| format!("`{}` `{}`", clean(&bundle, 256, false), clean(&results, 256, false)));
        let program = format!("{bundle}/{}", sharding.program);
        let argv = [&program, "collect", "--bundle", &bundle, "--results", &results].map(str::to_owned);
        let handle = self.table.push(CommandHandle(argv.to_vec()))?;
        pass.ok();
        Ok(handle)
    }

    async fn attach(
        &mut self,
        _: Resource<ShardHandle>,
        worker: Resource<ChildHandle>,
    ) -> wasmtime::Result<Result<shard::Ending, types::Error>> {
        let (mut pass, _) = self.sharding("shard.attach")?;
        let ChildHandle { running, bears_command } = self.table.delete(worker)?;
        let attach = match self.sharding.as_mut().filter(|_| bears_command) {
            Some(sharding) => sharding.attach.take().ok_or("the shard has had its worker"),
            None => Err(BEARS_NONE),
        };
        let attach = match attach {
            Ok(attach) => attach,
            Err(why) => {
                pass.end("invalid", 0, 0);
                return Ok(Err(types::Error::Invalid(why.to_owned())));
            }
        };
        pass.leave()?;
        let (result, answer) = match attach.attach(running).await {
            Ok(ShardEnding::Complete) => ("ok", Ok(shard::Ending::Complete)),
            Ok(ShardEnding::Partial(missing)) => ("partial", Ok(shard::Ending::Partial(missing))),
            Ok(ShardEnding::Refused(why)) => ("refused", Ok(shard::Ending::Refused(why))),
            Err(why) => ("failed", Err(types::Error::Failed(why))),
        };
        pass.end(result, 0, 0);
        Ok(answer)
    }

    async fn drop(&mut self, shard: Resource<ShardHandle>) -> wasmtime::Result<()> {
        self.counted(Ambient::Drop).table.delete(shard)?;
        Ok(())
    }
}
