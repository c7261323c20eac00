//! What the host keeps for one instance of a plugin.

use std::path::PathBuf;
use std::sync::Arc;

use mst_model::PluginId;
use mst_plugin::Manifest;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::broker::Broker;
use crate::engine::Sandbox;
use crate::error::LoadError;
use crate::evidence::Evidence;
use crate::limits::{Limits, Meter};
use crate::log::{Lines, LogSink, Printed};
use crate::process::Exec;
use crate::shard::Sharding;
use crate::workspace::Workspace;

/// The data of a store: one instance of one plugin.
pub(crate) struct Guest {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) broker: Broker,
    pub(crate) lines: Arc<Lines>,
    pub(crate) meter: Meter,
    pub(crate) table: ResourceTable,
    pub(crate) judging: Option<Judging>,
    pub(crate) exec: Option<Exec>,
    pub(crate) sharding: Option<Sharding>,
    printed: [Printed; 2],
    wasi: WasiCtx,
}

impl Guest {
    /// Ends a call: what stands on stdout and stderr without a newline is a line too, and the
    /// next call may say its full number.
    pub(crate) fn end_call(&self, max_lines: u32) {
        for printed in &self.printed {
            printed.end_line();
        }
        self.lines.end_call(max_lines);
    }
}

/// What a judge's call is about.
pub(crate) struct Judging {
    pub(crate) evidence: Arc<dyn Evidence>,
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) options: Value,
}

/// A directory that a guest sees read-only.
#[derive(Debug, Clone)]
pub(crate) struct Preopen {
    /// The `dir`'s name in the manifest; the guest sees `/NAME`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// A store for one new instance.
pub(crate) fn new_store(
    sandbox: &Sandbox,
    manifest: &Arc<Manifest>,
    limits: &Limits,
    sink: &Arc<dyn LogSink>,
    preopens: &[Preopen],
    judging: Option<Judging>,
) -> Result<Store<Guest>, LoadError> {
    let id: &PluginId = &manifest.id;
    let lines = Lines::new(id.clone(), sink.clone(), limits.log_lines);
    let printed = [Printed::new(&lines, false), Printed::new(&lines, true)];
    let mut wasi = WasiCtxBuilder::new();
    wasi.stdout(printed[0].clone()).stderr(printed[1].clone());
    for preopen in preopens {
        wasi.preopened_dir(&preopen.path, format!("/{}", preopen.name), FsPerms::ReadOnly).map_err(
            |error| LoadError::Dir {
                plugin: id.clone(),
                name: preopen.name.clone(),
                what: error.to_string(),
            },
        )?;
    }
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.handles);
    let guest = Guest {
        manifest: manifest.clone(),
        broker: Broker::new(manifest.clone()),
        lines,
        meter: Meter::new(limits),
        table,
        judging,
        exec: None,
        sharding: None,
        printed,
        wasi: wasi.build(),
    };
    let mut store = Store::new(sandbox.engine(), guest);
    store.limiter(|guest| &mut guest.meter);
    store.set_hostcall_fuel(limits.call_bytes);
    store.set_max_component_handles(limits.handles);
    // A guest that computes gives way at every tick of the epoch thread, so that the timeout
    // around its call is looked at.
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    Ok(store)
}
