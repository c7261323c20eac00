//! Runners that make machines. Every call is answered by a new instance: what must last is in the
//! machine's handle, and the handle is the host's to keep.

use std::path::Path;
use std::time::Duration;

use mst_model::RunId;
use mst_model::machine::{Image, Machine};
use mst_plugin::PluginFile;
use mst_process::Running;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::Resource;
use wasmtime::error::Context as _;

use crate::bindings::machine_runner::exports::mst::plugin::{channel, machine};
use crate::bindings::machine_runner::{MachineRunner, MachineRunnerPre};
use crate::cache::CacheEvent;
use crate::call::Instantiating;
use crate::engine::Sandbox;
use crate::error::LoadError;
use crate::guest::Guest;
use crate::link;
use crate::process::{BEARS_NONE, ChildHandle, CommandHandle, DirectoryHandle};
use crate::runner_call::{Around, At, Entered, GuestAnswer, RunnerCallError, RunnerSetup};
use crate::text::clean;

const MAX_HANDLE_BYTES: usize = 16 << 10;
const MAX_ROOT_BYTES: usize = 256;

/// A `machine-runner`, compiled and linked, with the user's options for it.
pub struct RunnerPlugin {
    around: Around,
    pre: MachineRunnerPre<Guest>,
}

/// What a shard needs a machine for.
#[derive(Debug, Clone)]
pub struct MachineRequest {
    /// The machine's name.
    pub name: String,
    /// The run.
    pub run: RunId,
    /// Which shard, from 0.
    pub shard: u32,
    /// Of how many.
    pub shards: u32,
}

type Result<T> = std::result::Result<T, RunnerCallError>;

impl RunnerPlugin {
    /// Makes a runner ready. None of its code runs.
    pub fn load(
        sandbox: &Sandbox,
        file: &PluginFile,
        setup: RunnerSetup,
    ) -> std::result::Result<(RunnerPlugin, CacheEvent), LoadError> {
        let around = Around::new(sandbox, file, setup)?;
        let (pre, event) = sandbox.prepare(file, link::machine_runner)?;
        let pre = MachineRunnerPre::new(pre).map_err(|error| around.unlinked(&error))?;
        Ok((RunnerPlugin { around, pre }, event))
    }

    /// Makes a machine, within `time`.
    pub async fn create(&self, request: &MachineRequest, time: Duration) -> Result<Machine> {
        let asked = machine::MachineRequest {
            name: request.name.clone(),
            run: request.run.to_string(),
            shard: request.shard,
            shards: request.shards,
            work: machine::Work::Collect,
            options: self.around.options.to_string(),
        };
        let function = "create-machine";
        let call = self.call(&request.run, Some(&request.name), function, time);
        let made = call.run(async |instance, store| {
            instance.mst_plugin_machine().call_create_machine(store, &asked).await
        });
        let made = made.await?;
        checked(made, &request.name).map_err(|what| self.wrong(function, what))
    }

    /// Removes a machine; done already is done.
    pub async fn destroy(
        &self,
        run: &RunId,
        name: &str,
        handle: Option<&Value>,
        time: Duration,
    ) -> Result<()> {
        let (handle, options) = (handle.map(Value::to_string), self.around.options.to_string());
        self.call(run, Some(name), "destroy-machine", time)
            .run(async |instance, store| {
                instance
                    .mst_plugin_machine()
                    .call_destroy_machine(store, name, handle.as_ref(), &options)
                    .await
            })
            .await
    }

    /// The names of the run's machines that still exist.
    pub async fn list(&self, run: &RunId, time: Duration) -> Result<Vec<String>> {
        let options = self.around.options.to_string();
        let function = "list-machines";
        let names = self
            .call(run, None, function, time)
            .run(async |instance, store| {
                instance.mst_plugin_machine().call_list_machines(store, run.as_str(), &options).await
            })
            .await?;
        self.around.listed(function, names)
    }

    /// Starts a command on a machine. Its stdin and stdout are the host's, and never were the
    /// guest's.
    pub async fn run_command(
        &self,
        run: &RunId,
        machine: &Machine,
        argv: &[String],
        time: Duration,
    ) -> Result<Running> {
        let record = record(machine);
        self.call(run, Some(&machine.name), "run-command", time)
            .run_and_take(async |instance, store| {
                let owned = store.data_mut().table.push(CommandHandle(argv.to_vec()))?;
                let borrowed = Resource::new_borrow(owned.rep());
                instance.mst_plugin_channel().call_run_command(store, &record, borrowed).await
            })
            .await
    }

    /// Copies a directory's content to a machine.
    pub async fn copy_to(
        &self,
        run: &RunId,
        machine: &Machine,
        from: &Path,
        to: &str,
        time: Duration,
    ) -> Result<()> {
        let record = record(machine);
        self.call(run, Some(&machine.name), "copy-to", time)
            .run(async |instance, store| {
                let owned = store.data_mut().table.push(DirectoryHandle(from.to_owned()))?;
                let borrowed = Resource::new_borrow(owned.rep());
                instance.mst_plugin_channel().call_copy_to(store, &record, borrowed, to).await
            })
            .await
    }

    /// Copies a directory's content from a machine.
    pub async fn copy_from(
        &self,
        run: &RunId,
        machine: &Machine,
        from: &str,
        to: &Path,
        time: Duration,
    ) -> Result<()> {
        let record = record(machine);
        self.call(run, Some(&machine.name), "copy-from", time)
            .run(async |instance, store| {
                let owned = store.data_mut().table.push(DirectoryHandle(to.to_owned()))?;
                let borrowed = Resource::new_borrow(owned.rep());
                instance.mst_plugin_channel().call_copy_from(store, &record, from, borrowed).await
            })
            .await
    }

    fn call<'a>(
        &'a self,
        run: &'a RunId,
        machine: Option<&'a str>,
        function: &'static str,
        time: Duration,
    ) -> Call<'a> {
        Call { runner: self, at: At { run, machine, function, time } }
    }

    fn wrong(&self, function: &'static str, what: String) -> RunnerCallError {
        self.around.wrong(function, what)
    }
}

/// One call, in a new instance.
struct Call<'a> {
    runner: &'a RunnerPlugin,
    at: At<'a>,
}

impl Call<'_> {
    async fn run<T>(
        self,
        function: impl AsyncFnOnce(&MachineRunner, &mut Store<Guest>) -> GuestAnswer<T>,
    ) -> Result<T> {
        Ok(self.enter(function).await?.answer)
    }

    /// For a function that gives a child: takes it out of the instance, which then ends.
    async fn run_and_take(
        self,
        function: impl AsyncFnOnce(&MachineRunner, &mut Store<Guest>) -> GuestAnswer<Resource<ChildHandle>>,
    ) -> Result<Running> {
        let (runner, name) = (self.runner, self.at.function);
        let Entered { answer: child, mut store, cwd } = self.enter(function).await?;
        match store.data_mut().table.delete(child) {
            Ok(ChildHandle { bears_command: false, .. }) => Err(runner.wrong(name, BEARS_NONE.to_owned())),
            Ok(ChildHandle { running, .. }) => {
                // It stands there; it goes with the rest of the scratch directory.
                let _ = cwd.keep();
                Ok(running)
            }
            Err(error) => Err(runner.wrong(name, format!("a child that it does not have: {error}"))),
        }
    }

    async fn enter<T>(
        self,
        function: impl AsyncFnOnce(&MachineRunner, &mut Store<Guest>) -> GuestAnswer<T>,
    ) -> Result<Entered<T>> {
        let pre = &self.runner.pre;
        let body = async move |store: &mut Store<Guest>| {
            let instance = pre.instantiate_async(&mut *store).await.context(Instantiating)?;
            function(&instance, store).await
        };
        self.runner.around.enter(self.at, None, body).await
    }
}

/// A machine as a guest sees it.
fn record(machine: &Machine) -> channel::Machine {
    channel::Machine {
        name: machine.name.clone(),
        handle: machine.handle.to_string(),
        root: machine.root.clone(),
        image: machine
            .image
            .as_ref()
            .map(|image| machine::Image { reference: image.reference.clone(), digest: image.digest.clone() }),
    }
}

/// A guest's machine as the host's own, or what is wrong with it.
fn checked(made: machine::Machine, name: &str) -> std::result::Result<Machine, String> {
    if made.name != name {
        return Err(format!(
            "a machine called `{}`, where `{name}` was asked for",
            clean(&made.name, 64, false)
        ));
    }
    if made.handle.len() > MAX_HANDLE_BYTES {
        return Err(format!(
            "a handle of {} bytes, where at most {MAX_HANDLE_BYTES} are admitted",
            made.handle.len()
        ));
    }
    let handle =
        serde_json::from_str(&made.handle).map_err(|error| format!("a handle that is no JSON: {error}"))?;
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"._-/".contains(&c);
    let whole = made.root.starts_with('/') && made.root.len() > 1 && made.root.len() <= MAX_ROOT_BYTES;
    if !whole
        || !made.root.bytes().all(plain)
        || made.root.split('/').skip(1).any(|part| matches!(part, "" | "." | ".."))
    {
        return Err(format!(
            "a root `{}`, where an absolute path of plain characters is admitted",
            clean(&made.root, 128, false)
        ));
    }
    let image = made.image.map(|image| Image {
        reference: clean(&image.reference, 512, false),
        digest: clean(&image.digest, 128, false),
    });
    Ok(Machine { name: made.name, handle, root: made.root, image })
}
