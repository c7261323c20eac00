//! What the host keeps for one instance of a plugin.

use std::path::PathBuf;
use std::sync::Arc;

use mst_model::audit::Caller;
use mst_model::{Digest, PluginId};
use mst_plugin::{Access, Manifest, PluginFile};
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::cli::WasiCliCtxView;
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView};

use crate::audit::{AuditSink, Unrecorded};
use crate::broker::{Ambient, Broker, Call};
use crate::call::HostFault;
use crate::engine::Sandbox;
use crate::error::LoadError;
use crate::evidence::Evidence;
use crate::files::{Files, Opened};
use crate::http::Outgoing;
use crate::limits::{Limits, Meter};
use crate::log::{Lines, LogSink, Printed};
use crate::permit::Permit;
use crate::process::Exec;
use crate::secret::Scrubber;
use crate::shard::Sharding;
use crate::variables::Variables;
use crate::workspace::Workspace;

/// Which plugin an instance is of, and what that may do here.
pub(crate) struct Identity {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) permit: Permit,
    pub(crate) sha256: Digest,
    /// All instances' together: what one had put in, another may be told by whoever kept it.
    pub(crate) scrubber: Scrubber,
}

impl Identity {
    pub(crate) fn of(file: &PluginFile, permit: &Permit) -> Identity {
        let manifest = permit.granted.manifest().clone();
        Identity { manifest, permit: permit.clone(), sha256: file.digest(), scrubber: Scrubber::default() }
    }

    pub(crate) fn id(&self) -> &PluginId {
        &self.manifest.id
    }
}

/// Where what a plugin says and does is told.
#[derive(Clone)]
pub struct Sinks {
    /// Its lines.
    pub log: Arc<dyn LogSink>,
    /// Its calls.
    pub audit: Arc<dyn AuditSink>,
}

impl Sinks {
    /// For whoever keeps no record: tests, and measurements.
    pub fn unrecorded(log: Arc<dyn LogSink>) -> Sinks {
        Sinks { log, audit: Arc::new(Unrecorded) }
    }
}

/// The data of a store: one instance of one plugin.
pub(crate) struct Guest {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) broker: Arc<Broker>,
    pub(crate) permit: Permit,
    pub(crate) scrubber: Scrubber,
    pub(crate) lines: Arc<Lines>,
    pub(crate) meter: Meter,
    pub(crate) table: ResourceTable,
    pub(crate) judging: Option<Judging>,
    pub(crate) exec: Option<Exec>,
    pub(crate) sharding: Option<Sharding>,
    opened: Opened,
    printed: [Printed; 2],
    wasi: WasiCtx,
    http: WasiHttpCtx,
    outgoing: Outgoing,
}

impl Guest {
    /// Tells the broker of a call that is only counted.
    pub(crate) fn counted(&mut self, which: Ambient) -> &mut Guest {
        // Never refused.
        let _ = self.broker.pass(Call::Ambient(which));
        self
    }

    /// The door of `wasi:filesystem`.
    pub(crate) fn files(&mut self) -> Files<'_> {
        let wasi = WasiFilesystemCtxView { ctx: self.wasi.filesystem(), table: &mut self.table };
        Files { wasi, broker: &self.broker, opened: &mut self.opened }
    }

    /// The door of `wasi:http`. What goes out of it the broker hears of in [`Outgoing`].
    pub(crate) fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Guest { outgoing, table, http, .. } = self.counted(Ambient::HttpTypes);
        WasiHttpCtxView { hooks: outgoing, table, ctx: http }
    }

    /// The door of `wasi:cli/environment`.
    pub(crate) fn variables(&mut self) -> Variables<'_> {
        let Guest { broker, wasi, table, .. } = self;
        Variables { wasi: WasiCliCtxView { ctx: wasi.cli(), table }, broker }
    }

    /// Ends a call: what stands on stdout and stderr without a newline is a line too, the next call
    /// may say its full number, and the audit has what was called.
    pub(crate) fn end_call(&self, max_lines: u32) -> Result<(), HostFault> {
        for printed in &self.printed {
            printed.end_line();
        }
        self.lines.end_call(max_lines);
        self.broker.record.end_call()
    }
}

/// What a judge's call is about.
pub(crate) struct Judging {
    pub(crate) evidence: Arc<dyn Evidence>,
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) options: Arc<Value>,
}

/// A directory that a guest sees.
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

/// What a new instance is given.
pub(crate) struct Given<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) sinks: &'a Sinks,
    /// What it is for: a trial, a machine.
    pub(crate) about: Option<String>,
    /// The directories that options name; those that are bound it has in any case.
    pub(crate) dirs: &'a [Preopen],
    pub(crate) judging: Option<Judging>,
}

/// A store for one new instance.
pub(crate) fn new_store(
    sandbox: &Sandbox,
    plugin: &Identity,
    given: Given<'_>,
) -> Result<Store<Guest>, LoadError> {
    let Given { limits, sinks, about, dirs, judging } = given;
    let id = plugin.id();
    let lines = Lines::new(id.clone(), sinks.log.clone(), limits.log_lines);
    let printed = [Printed::new(&lines, false), Printed::new(&lines, true)];
    let mut wasi = WasiCtxBuilder::new();
    wasi.stdout(printed[0].clone()).stderr(printed[1].clone());
    let granted = &plugin.permit.granted;
    for (name, value) in &plugin.permit.variables {
        if granted.env(name).is_ok() {
            wasi.env(name, value);
        }
    }
    let bound =
        granted.bound_dirs().map(|(dir, path)| Preopen { name: dir.name.clone(), path: path.to_owned() });
    let dirs: Vec<Preopen> = dirs.iter().cloned().chain(bound).collect();
    for dir in &dirs {
        let perms = match granted.dir(&dir.name, Access::ReadWrite) {
            Ok(_) => FsPerms::ReadWrite,
            Err(_) => FsPerms::ReadOnly,
        };
        wasi.preopened_dir(&dir.path, format!("/{}", dir.name), perms).map_err(|error| LoadError::Dir {
            plugin: id.clone(),
            name: dir.name.clone(),
            what: error.to_string(),
        })?;
    }
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.handles);
    let by = Caller { plugin: id.clone(), sha256: plugin.sha256, about };
    let names = dirs.iter().map(|dir| dir.name.clone()).collect();
    let broker = Arc::new(Broker::new(granted.clone(), names, sinks.audit.clone(), by));
    let scrubber = plugin.scrubber.clone();
    let outgoing = Outgoing {
        broker: broker.clone(),
        permit: plugin.permit.clone(),
        scrubber: scrubber.clone(),
        bounds: limits.into(),
    };
    let guest = Guest {
        manifest: plugin.manifest.clone(),
        broker,
        permit: plugin.permit.clone(),
        scrubber,
        lines,
        meter: Meter::new(limits),
        table,
        judging,
        exec: None,
        sharding: None,
        opened: Opened::nothing_yet(&dirs),
        printed,
        wasi: wasi.build(),
        http: WasiHttpCtx::new(),
        outgoing,
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
