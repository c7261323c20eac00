//! What the sandbox costs over wasmtime used bare: the same component, engine and evidence, with
//! wasmtime's own bindings and no bound, log or broker. And what a pool of instances would save.

mod common;
#[path = "common/plugin.rs"]
mod plugin_file;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{ms, of, row, times, us};
use mst_model::audit::{Asks, AuditCall, Caller, Decision, Phase};
use mst_plugin::PluginFile;
use mst_sandbox::{
    AuditSink, Cache, CacheEvent, Command, Entry, Evidence, JudgeOptions, JudgePlugin, Limits, Output, Part,
    Permit, Quiet, Sandbox, Settings, Sinks, Workspace, WorkspaceError,
};
use mst_store::{AuditLog, RunDir};
use plugin_file::shipped;
use serde_json::json;
use wasmtime::component::{Component, HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Config, Engine, PoolingAllocationConfig, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

const CALLS: u32 = 4000;
const AT_A_TIME: u32 = 50;

const CASE: &str = r#"{"id":"case","prompt":[{"role":"user","content":"Say yes."}],"expected":"yes","tags":[],"metadata":{}}"#;
const REPORT: &str = "yes";

/// A file that is given a byte at a time, so that who reads it calls the host as often.
const FILE: &str = "files/slow";
const READS: u32 = 200;

/// What is given of an entry from `offset` on, and how much comes after that.
fn part(name: &str, offset: u64) -> (Vec<u8>, u64) {
    if name != FILE {
        return (REPORT.as_bytes().to_vec(), 0);
    }
    let rest = u64::from(READS) - 1 - offset;
    (vec![if rest == 0 { b'!' } else { b'.' }], rest)
}

#[allow(missing_docs, clippy::allow_attributes, reason = "generated")]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "judge",
        imports: { default: async | trappable },
        exports: { default: async },
        with: { "mst:plugin/evidence.trial": super::Trial },
    });
}

use bindings::mst::plugin::{commands, evidence, log, types, workspace};

/// What a bare guest holds as `trial`.
pub struct Trial;

struct Bare {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
}

impl WasiView for Bare {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl log::Host for Bare {
    async fn write(&mut self, _: log::Level, _: String) -> wasmtime::Result<()> {
        Ok(())
    }

    async fn progress(&mut self, _: String, _: Option<f32>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl types::Host for Bare {}
impl commands::Host for Bare {}
impl evidence::Host for Bare {}

impl workspace::Host for Bare {
    async fn run(
        &mut self,
        _: String,
        _: Vec<workspace::Slot>,
        _: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<commands::Output, types::Error>> {
        Ok(Err(types::Error::Failed("there is none".to_owned())))
    }
}

impl evidence::HostTrial for Bare {
    async fn eval_case(&mut self, _: Resource<Trial>) -> wasmtime::Result<String> {
        Ok(CASE.to_owned())
    }

    async fn variant_id(&mut self, _: Resource<Trial>) -> wasmtime::Result<String> {
        Ok("only".to_owned())
    }

    async fn trial_index(&mut self, _: Resource<Trial>) -> wasmtime::Result<u32> {
        Ok(0)
    }

    async fn outcome(&mut self, _: Resource<Trial>) -> wasmtime::Result<String> {
        Ok(r#"{"status":"completed"}"#.to_owned())
    }

    async fn report(&mut self, _: Resource<Trial>) -> wasmtime::Result<Option<String>> {
        Ok(Some(REPORT.to_owned()))
    }

    async fn entries(&mut self, _: Resource<Trial>) -> wasmtime::Result<Vec<evidence::Entry>> {
        let entries = [("report", REPORT.len() as u64), (FILE, u64::from(READS))];
        Ok(entries.map(|(name, size)| evidence::Entry { name: name.to_owned(), size }).to_vec())
    }

    async fn read(
        &mut self,
        _: Resource<Trial>,
        name: String,
        offset: u64,
        _: u32,
    ) -> wasmtime::Result<Result<evidence::Content, types::Error>> {
        let (bytes, rest) = part(&name, offset);
        Ok(Ok(evidence::Content { bytes, rest }))
    }

    async fn drop(&mut self, trial: Resource<Trial>) -> wasmtime::Result<()> {
        self.table.delete(trial)?;
        Ok(())
    }
}

/// wasmtime and a component, ready to make instances.
struct Ready {
    how: How,
    engine: Engine,
    pre: bindings::JudgePre<Bare>,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Plain,
    /// Interrupted by a clock, as the sandbox is.
    Interrupted,
    /// That, and within bounds of the sandbox's kinds.
    Bounded,
    Pooled,
}

fn config(how: How) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(matches!(how, How::Interrupted | How::Bounded));
    if how == How::Pooled {
        let mut pool = PoolingAllocationConfig::default();
        // As many as a run's concurrency admits, each within the sandbox's limits.
        pool.total_component_instances(64).total_core_instances(64 * 8).total_memories(64 * 2);
        pool.total_tables(64 * 8).total_stacks(64).max_memory_size(256 << 20);
        pool.max_component_instance_size(4 << 20).max_core_instance_size(4 << 20).table_elements(100_000);
        config.allocation_strategy(pool);
    }
    config
}

fn bare(component: &[u8], how: How) -> Ready {
    let engine = Engine::new(&config(how)).expect("an engine");
    let component = Component::new(&engine, component).expect("compiled");
    let mut linker = Linker::new(&engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("WASI");
    bindings::Judge::add_to_linker::<_, HasSelf<_>>(&mut linker, |bare| bare).expect("linked");
    let pre = bindings::JudgePre::new(linker.instantiate_pre(&component).expect("linked")).expect("a judge");
    Ready { how, engine, pre }
}

impl Ready {
    fn store(&self) -> Store<Bare> {
        let limits = StoreLimitsBuilder::new().memory_size(256 << 20).table_elements(100_000).build();
        let bare = Bare { wasi: WasiCtx::builder().build(), table: ResourceTable::new(), limits };
        let mut store = Store::new(&self.engine, bare);
        store.set_epoch_deadline(1);
        if self.how == How::Bounded {
            store.limiter(|bare| &mut bare.limits);
            store.set_hostcall_fuel(64 << 20);
            store.set_max_component_handles(1000);
            store.epoch_deadline_async_yield_and_update(1);
        }
        store
    }

    async fn instance(&self) {
        let mut store = self.store();
        self.pre.instantiate_async(&mut store).await.expect("an instance");
    }

    async fn call(&self, options: &str) {
        let mut store = self.store();
        let judge = self.pre.instantiate_async(&mut store).await.expect("an instance");
        let owned = store.data_mut().table.push(Trial).expect("room");
        let borrowed = Resource::new_borrow(owned.rep());
        let grading = judge.mst_plugin_grading();
        let verdict = grading.call_judge(&mut store, borrowed, &options.to_owned()).await.expect("no trap");
        let verdict = verdict.expect("a verdict");
        assert!(matches!(verdict.finding, bindings::exports::mst::plugin::grading::Finding::Pass));
    }
}

/// The same trial, as the sandbox sees it.
struct Seen;

impl Evidence for Seen {
    fn trial(&self) -> String {
        "case/only/0".to_owned()
    }

    fn case_json(&self) -> String {
        CASE.to_owned()
    }

    fn variant(&self) -> String {
        "only".to_owned()
    }

    fn index(&self) -> u32 {
        0
    }

    fn outcome_json(&self) -> String {
        r#"{"status":"completed"}"#.to_owned()
    }

    fn entries(&self) -> Vec<Entry> {
        let entries = [("report", REPORT.len() as u64), (FILE, u64::from(READS))];
        entries.map(|(name, size_bytes)| Entry { name: name.to_owned(), size_bytes }).to_vec()
    }

    fn read(&self, name: &str, offset: u64, _: u32) -> io::Result<Option<Part>> {
        let (bytes, rest) = part(name, offset);
        Ok(Some(Part { bytes, rest }))
    }
}

struct Nowhere;

#[async_trait::async_trait]
impl Workspace for Nowhere {
    async fn run(&self, _: Command) -> Result<Output, WorkspaceError> {
        Err(WorkspaceError::Failed("there is none".to_owned()))
    }
}

async fn judged(judge: &JudgePlugin, options: &JudgeOptions, sinks: &Sinks) {
    let verdict =
        judge.judge(Arc::new(Seen), Arc::new(Nowhere), options, Duration::from_secs(30), sinks).await;
    assert!(matches!(verdict.expect("a verdict").finding, mst_model::grade::Finding::Pass));
}

/// The audit as a run has it, counted.
struct ToFile {
    log: AuditLog,
    calls: AtomicU64,
}

impl AuditSink for ToFile {
    fn append(&self, by: &Caller, calls: &[AuditCall]) -> io::Result<()> {
        self.calls.fetch_add(calls.iter().map(|call| call.count).sum(), Ordering::Relaxed);
        self.log.append(by, calls).map_err(io::Error::other)
    }

    fn keep(&self, by: &Arc<Caller>, calls: Vec<AuditCall>) -> io::Result<()> {
        self.calls.fetch_add(calls.iter().map(|call| call.count).sum(), Ordering::Relaxed);
        self.log.keep(by, calls).map_err(io::Error::other)
    }
}

fn sandbox(cache: Cache) -> Sandbox {
    Sandbox::new(Settings { cache, limits: Limits::default() }).expect("an engine")
}

/// The line of a command that is about to be run.
fn begun() -> AuditCall {
    AuditCall {
        at: jiff::Timestamp::now(),
        within: "create-machine".into(),
        call: "process.run".into(),
        phase: Phase::Begun,
        asks: Some(Asks { request: "exec:create".to_owned(), access: None }),
        decision: Decision::Allowed,
        rule: "`exec:create` is granted".into(),
        grant: None,
        args: "create".to_owned(),
        result: "".into(),
        bytes_in: 0,
        bytes_out: 0,
        duration_ns: 0,
        count: 1,
        counts: Default::default(),
    }
}

/// Loads in a new engine, from the cache, and makes the first call.
fn load_and_call(
    runtime: &tokio::runtime::Runtime,
    cache: &Path,
    file: &PluginFile,
    options: &JudgeOptions,
) -> Duration {
    let sandbox = sandbox(Cache::at(cache));
    let sinks = Sinks::unrecorded(Arc::new(Quiet));
    let started = Instant::now();
    let (judge, event) = JudgePlugin::load(&sandbox, file, &Permit::all(file)).expect("loaded");
    runtime.block_on(judged(&judge, options, &sinks));
    let time = started.elapsed();
    assert_eq!(event, CacheEvent::Hit);
    time
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let file = shipped("mst.judge.text.wasm");
    let options = json!({"mode": "exact"});
    let text = options.to_string();
    let slow = json!({"mode": "contains", "against": FILE, "value": "!"});
    let slow_text = slow.to_string();
    let (options, slow) = (JudgeOptions::from(options), JudgeOptions::from(slow));
    let timed = |call: &dyn Fn()| {
        let started = Instant::now();
        call();
        started.elapsed()
    };
    println!(
        "sandbox: mst/judge/text ({} KiB); {CALLS} calls, one at a time; a call's share of the median turn of \
         {AT_A_TIME}",
        file.bytes().len() >> 10
    );

    let [plain, interrupted, bounded, pooled] =
        [How::Plain, How::Interrupted, How::Bounded, How::Pooled].map(|how| bare(file.bytes(), how));
    let sinks = Sinks::unrecorded(Arc::new(Quiet));
    let (judge, _) = JudgePlugin::load(&sandbox(Cache::off()), &file, &Permit::all(&file)).expect("loaded");
    let runs = tempfile::tempdir().expect("a directory");
    let run = RunDir::create(runs.path(), &"20261130-015240-k3f9".parse().expect("a run")).expect("a run");
    let to_file = Arc::new(ToFile { log: run.audit_log().expect("an audit"), calls: AtomicU64::new(0) });
    let audited = Sinks { log: Arc::new(Quiet), audit: to_file.clone() };
    // As a run writes it: before it stores what came of the call.
    let written = || to_file.log.flush().expect("written");
    // In turns, so that what else the machine does falls on all of them alike; but many at a time,
    // so that none of them finds another's code in the processor's caches. A turn is timed as a whole: some
    // of its calls do work that others left to them.
    let ways: [&dyn Fn(); 11] = [
        &|| runtime.block_on(plain.instance()),
        &|| runtime.block_on(pooled.instance()),
        &|| runtime.block_on(plain.call(&text)),
        &|| runtime.block_on(interrupted.call(&text)),
        &|| runtime.block_on(bounded.call(&text)),
        &|| runtime.block_on(pooled.call(&text)),
        &|| runtime.block_on(judged(&judge, &options, &sinks)),
        &|| {
            runtime.block_on(judged(&judge, &options, &audited));
            written();
        },
        &|| runtime.block_on(judged(&judge, &options, &audited)),
        &|| runtime.block_on(bounded.call(&slow_text)),
        &|| runtime.block_on(judged(&judge, &slow, &audited)),
    ];
    let mut times_of = ways.map(|_| Vec::new());
    for _ in 0..CALLS / AT_A_TIME {
        for (way, times) in ways.iter().zip(&mut times_of) {
            way();
            written();
            times.push(timed(&|| {
                (0..AT_A_TIME).for_each(|_| way());
                written();
            }));
        }
    }
    let [
        plain_instance,
        pooled_instance,
        plain_call,
        interrupted_call,
        bounded_call,
        pooled_call,
        sandboxed,
        recorded,
        recorded_together,
        bounded_slow,
        recorded_slow,
    ] = times_of.map(|times| common::median(times) / AT_A_TIME);
    println!("\n  a fresh instance and its first call");
    row("baseline: bare wasmtime", us(plain_call), "");
    row("bare wasmtime, interruptible", us(interrupted_call), &times(interrupted_call, plain_call));
    row("bare wasmtime, interruptible and bounded", us(bounded_call), &times(bounded_call, plain_call));
    row("sandbox, its audit dropped", us(sandboxed), &times(sandboxed, plain_call));
    row(
        &format!("sandbox, its audit on, written for {AT_A_TIME} calls at once"),
        us(recorded_together),
        &format!("{}, goal ≤ 1.2 ×", times(recorded_together, plain_call)),
    );
    row("… and with a write of its own, for one verdict alone", us(recorded), &times(recorded, plain_call));
    println!("\n  {READS} more calls of the host by one instance");
    let more = |slow: Duration, quick: Duration| slow.saturating_sub(quick) / READS;
    let (bare_read, recorded_read) =
        (more(bounded_slow, bounded_call), more(recorded_slow, recorded_together));
    row("baseline: bare wasmtime, a call", us(bare_read), "");
    row("sandbox, its audit in a file, a call", us(recorded_read), "");
    row("broker and audit, a call", us(recorded_read.saturating_sub(bare_read)), "goal < 5 µs");
    // As before a command or a request: the line is with the system before anything is done.
    let line = begun();
    let by = Caller { plugin: file.manifest().id.clone(), sha256: file.digest(), about: None };
    let at_once = || to_file.log.append(&by, std::slice::from_ref(&line)).expect("written");
    let at_once = common::median((0..CALLS).map(|_| timed(&at_once)).collect());
    row("the line that is written before a call leaves the host", us(at_once), "goal < 5 µs");
    // Each way was taken once more for every turn; a call that begins or is over is one line or is counted.
    let heard = to_file.calls.load(Ordering::Relaxed) / u64::from(CALLS + CALLS / AT_A_TIME);
    assert!(heard > u64::from(READS), "the audit has every call: {heard}");
    println!("\n  instances on demand or from a pool, bare");
    row("instance alone, on demand", us(plain_instance), "");
    row("instance alone, pooled", us(pooled_instance), &times(pooled_instance, plain_instance));
    row("instance and call, on demand", us(plain_call), "");
    row("instance and call, pooled", us(pooled_call), &times(pooled_call, plain_call));
    let engine = |how: How| of(21, || timed(&|| drop(Engine::new(&config(how)).expect("an engine"))));
    row("the engine itself, on demand", us(engine(How::Plain)), "once a process");
    row("the engine itself, pooled", us(engine(How::Pooled)), "once a process");

    println!("\n  making a plugin ready");
    let cache = tempfile::tempdir().expect("a directory");
    let engine = Engine::new(&config(How::Plain)).expect("an engine");
    let compiled = of(5, || timed(&|| drop(Component::new(&engine, file.bytes()).expect("compiled"))));
    row("baseline: bare wasmtime compiles it", ms(compiled), "");
    let ready = of(5, || {
        timed(&|| {
            drop(JudgePlugin::load(&sandbox(Cache::off()), &file, &Permit::all(&file)).expect("loaded"))
        })
    });
    row("sandbox: compile and link", ms(ready), "");
    JudgePlugin::load(&sandbox(Cache::at(cache.path())), &file, &Permit::all(&file)).expect("loaded");
    let code = plain_code(&engine, file.bytes());
    #[allow(unsafe_code, clippy::allow_attributes, reason = "these bytes were made here, a line above")]
    let load = || unsafe { Component::deserialize(&engine, &code) }.expect("loaded");
    row(
        "baseline: bare wasmtime loads it",
        ms(of(101, || timed(&|| drop(load())))),
        &format!("{} KiB of code", code.len() >> 10),
    );
    let from_cache = of(101, || load_and_call(&runtime, cache.path(), &file, &options));
    row("sandbox: load from the cache and first call", ms(from_cache), "goal ≤ 2 ms");
}

fn plain_code(engine: &Engine, component: &[u8]) -> Vec<u8> {
    Component::new(engine, component).expect("compiled").serialize().expect("serialized")
}
