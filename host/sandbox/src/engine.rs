//! The engine: how components are compiled, and the clock that interrupts them.

use std::sync::Arc;
use std::time::Duration;

use mst_plugin::PluginFile;
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime::{Config, Engine, WasmBacktraceDetails};

use crate::cache::{Cache, CacheEvent};
use crate::error::LoadError;
use crate::guest::Guest;
use crate::limits::Limits;

/// How often a guest that computes gives way.
const TICK: Duration = Duration::from_millis(10);

/// How deep a guest's calls may go.
pub(crate) const WASM_STACK_BYTES: usize = 512 << 10;

/// How a sandbox is set up.
#[derive(Debug)]
pub struct Settings {
    /// Where compiled components are kept.
    pub cache: Cache,
    /// What an instance may use, where a call does not say otherwise.
    pub limits: Limits,
}

/// The engine that all plugins of a process share.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    cache: Cache,
    limits: Limits,
}

impl Sandbox {
    /// Starts an engine and its epoch thread.
    pub fn new(settings: Settings) -> Result<Sandbox, LoadError> {
        let mut config = Config::new();
        config.epoch_interruption(true);
        config.wasm_component_model(true);
        config.max_wasm_stack(WASM_STACK_BYTES);
        // Else an environment variable decides.
        config.wasm_backtrace_details(WasmBacktraceDetails::Disable);
        config.async_stack_size(1 << 20);
        let engine = Engine::new(&config).map_err(|error| LoadError::Engine(format!("{error:#}")))?;
        let weak = engine.weak();
        std::thread::Builder::new()
            .name("mst-epoch".to_owned())
            .spawn(move || {
                while let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    std::thread::sleep(TICK);
                }
            })
            .map_err(|error| LoadError::Engine(format!("its epoch thread does not start: {error}")))?;
        Ok(Sandbox { inner: Arc::new(Inner { engine, cache: settings.cache, limits: settings.limits }) })
    }

    /// What an instance may use, where a call does not say otherwise.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Compiles a plugin, or finds it compiled, and links it.
    pub(crate) fn prepare(
        &self,
        file: &PluginFile,
        link: impl FnOnce(&mut Linker<Guest>) -> wasmtime::Result<()>,
    ) -> Result<(InstancePre<Guest>, CacheEvent), LoadError> {
        let plugin = || file.manifest().id.clone();
        let (component, event) = self.compile(file)?;
        let mut linker = Linker::new(self.engine());
        let asks_http = !file.manifest().http.is_empty();
        link(&mut linker)
            .and_then(|()| if asks_http { crate::link::http(&mut linker) } else { Ok(()) })
            .and_then(|()| linker.instantiate_pre(&component))
            .map(|pre| (pre, event))
            .map_err(|error| LoadError::Link { plugin: plugin(), what: format!("{error:#}") })
    }

    fn compile(&self, file: &PluginFile) -> Result<(Component, CacheEvent), LoadError> {
        self.inner.cache.component(self.engine(), file.digest(), file.bytes()).map_err(|error| {
            LoadError::Compile { plugin: file.manifest().id.clone(), what: format!("{error:#}") }
        })
    }
}
