//! Runners that carry a whole shard.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mst_model::RunId;
use mst_plugin::PluginFile;
use wasmtime::Store;
use wasmtime::component::Resource;
use wasmtime::error::Context as _;

use crate::bindings::shard_runner::{ShardRunner, ShardRunnerPre};
use crate::cache::CacheEvent;
use crate::call::Instantiating;
use crate::engine::Sandbox;
use crate::error::LoadError;
use crate::guest::Guest;
use crate::link;
use crate::runner_call::{Around, At, GuestAnswer, RunnerCallError, RunnerSetup};
use crate::shard::{Attach, ShardHandle, Sharding};

/// A `shard-runner`, compiled and linked, with the user's options for it.
pub struct ShardRunnerPlugin {
    around: Around,
    pre: ShardRunnerPre<Guest>,
}

/// A shard for such a runner.
#[derive(Debug, Clone)]
pub struct WholeShard {
    /// The name that whatever is made for it bears.
    pub name: String,
    /// The run.
    pub run: RunId,
    /// What the worker needs.
    pub bundle: PathBuf,
    /// The worker's program, relative to the bundle.
    pub program: String,
    /// Where results go.
    pub results: PathBuf,
}

impl ShardRunnerPlugin {
    /// Makes a runner ready. None of its code runs.
    pub fn load(
        sandbox: &Sandbox,
        file: &PluginFile,
        setup: RunnerSetup,
    ) -> Result<(ShardRunnerPlugin, CacheEvent), LoadError> {
        let around = Around::new(sandbox, file, setup)?;
        let (pre, event) = sandbox.prepare(file, link::shard_runner)?;
        let pre = ShardRunnerPre::new(pre).map_err(|error| around.unlinked(&error))?;
        Ok((ShardRunnerPlugin { around, pre }, event))
    }

    /// Runs a shard, within `time`; the worker that the runner starts is handed to `attach`.
    pub async fn run(
        &self,
        shard: WholeShard,
        attach: Arc<dyn Attach>,
        time: Duration,
    ) -> Result<(), RunnerCallError> {
        let WholeShard { name, run, bundle, program, results } = shard;
        let at = At { run: &run, machine: Some(&name), function: "run-shard", time };
        let sharding = Sharding { name: name.clone(), bundle, results, program, attach: Some(attach) };
        let pre = &self.pre;
        // What it says of the ending it has from us; what counts is what was stored.
        let body = async move |store: &mut Store<Guest>| {
            let instance = pre.instantiate_async(&mut *store).await.context(Instantiating)?;
            let owned = store.data_mut().table.push(ShardHandle)?;
            let borrowed = Resource::new_borrow(owned.rep());
            instance.mst_plugin_whole_shard().call_run_shard(store, borrowed).await
        };
        self.around.enter(at, Some(sharding), body).await.map(drop)
    }

    /// Removes what was made for a shard; done already is done.
    pub async fn destroy(&self, run: &RunId, name: &str, time: Duration) -> Result<(), RunnerCallError> {
        let at = At { run, machine: Some(name), function: "destroy-machine", time };
        let options = self.around.options.to_string();
        self.enter(at, async |instance, store| {
            instance.mst_plugin_whole_shard().call_destroy_machine(store, name, &options).await
        })
        .await
    }

    /// The names of the run's shards of which something still exists.
    pub async fn list(&self, run: &RunId, time: Duration) -> Result<Vec<String>, RunnerCallError> {
        let function = "list-machines";
        let at = At { run, machine: None, function, time };
        let options = self.around.options.to_string();
        let names = self.enter(at, async |instance, store| {
            instance.mst_plugin_whole_shard().call_list_machines(store, run.as_str(), &options).await
        });
        self.around.listed(function, names.await?)
    }

    async fn enter<T>(
        &self,
        at: At<'_>,
        function: impl AsyncFnOnce(&ShardRunner, &mut Store<Guest>) -> GuestAnswer<T>,
    ) -> Result<T, RunnerCallError> {
        let pre = &self.pre;
        let body = async move |store: &mut Store<Guest>| {
            let instance = pre.instantiate_async(&mut *store).await.context(Instantiating)?;
            function(&instance, store).await
        };
        Ok(self.around.enter(at, None, body).await?.answer)
    }
}
