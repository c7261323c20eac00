//! Every function that a linker offers is called by a guest made for it, and the broker must have
//! heard of it. A function that somebody links around the broker fails here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mst_model::Digest;
use mst_model::audit::{AuditCall, Caller};
use wasmtime::Store;
use wasmtime::component::{Component, Resource};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::abi::{AbiVariant, FlatTypes, WasmType};
use wit_parser::{Function, Handle, Type, TypeDefKind};

use super::*;
use crate::audit::AuditSink;
use crate::evidence::TrialHandle;
use crate::guest::{Given, Identity, Preopen, Sinks, new_store};
use crate::process::{Exec, ExecEnvironment};
use crate::shard::ShardHandle;
use crate::{Cache, Limits, Quiet, Sandbox, Settings};

/// Resources that no guest of ours gets hold of: no stream of ours fails so, and the others only an answer or
/// a request from outside gives.
const OUT_OF_REACH: &[&str] = &[
    "error",
    "future-incoming-response",
    "future-trailers",
    "incoming-body",
    "incoming-request",
    "incoming-response",
    "response-outparam",
];

/// The functions that take one, and so are not called here: each has the door of its interface, or that of
/// `wasi:filesystem/types`, by which the functions go that are called. Guests of real components get as far as
/// an answer in the tests of requests.
const NOT_CALLED: &[(&str, &[&str])] = &[
    ("wasi:io/error", &["[method]error.to-debug-string"]),
    ("wasi:filesystem/types", &["filesystem-error-code"]),
    (
        "wasi:http/types",
        &[
            "http-error-code",
            "[method]incoming-request.method",
            "[method]incoming-request.path-with-query",
            "[method]incoming-request.scheme",
            "[method]incoming-request.authority",
            "[method]incoming-request.headers",
            "[method]incoming-request.consume",
            "[static]response-outparam.set",
            "[method]incoming-response.status",
            "[method]incoming-response.headers",
            "[method]incoming-response.consume",
            "[method]incoming-body.stream",
            "[static]incoming-body.finish",
            "[method]future-trailers.subscribe",
            "[method]future-trailers.get",
            "[method]future-incoming-response.subscribe",
            "[method]future-incoming-response.get",
        ],
    ),
];

/// What a guest gives back, beside its functions. A trial and a shard are lent: giving them back
/// calls nobody.
const DROPS: &[(&str, &[&str])] = &[
    ("wasi:io/poll", &["pollable"]),
    ("wasi:io/streams", &["input-stream", "output-stream"]),
    ("wasi:filesystem/types", &["descriptor", "directory-entry-stream"]),
    ("mst:plugin/process@0.1.0", &["child"]),
    (
        "wasi:http/types",
        &["fields", "outgoing-request", "request-options", "outgoing-response", "outgoing-body"],
    ),
];

/// What is given back without a call here: what is lent, what nobody gets hold of, terminals, which there are
/// none of, and what only holds a name of the host's.
const NOT_DROPPED: &[(&str, &[&str])] = &[
    ("wasi:io/error", &["error"]),
    ("wasi:cli/terminal-input", &["terminal-input"]),
    ("wasi:cli/terminal-output", &["terminal-output"]),
    ("mst:plugin/evidence@0.1.0", &["trial"]),
    ("mst:plugin/process@0.1.0", &["directory", "remote-command"]),
    ("mst:plugin/shard@0.1.0", &["shard"]),
    (
        "wasi:http/types",
        &[
            "future-incoming-response",
            "future-trailers",
            "incoming-body",
            "incoming-request",
            "incoming-response",
            "response-outparam",
        ],
    ),
];

struct Kept(Mutex<Vec<AuditCall>>);

impl AuditSink for Kept {
    fn append(&self, _: &Caller, calls: &[AuditCall]) -> std::io::Result<()> {
        self.0.lock().expect("locks").extend_from_slice(calls);
        Ok(())
    }
}

/// The core WebAssembly of a guest that makes one call, with what it takes.
struct Maker<'a> {
    resolve: &'a Resolve,
    imports: Vec<String>,
    body: String,
    /// The resource that `go` is given.
    given: &'static str,
}

const RETURN: u32 = 512;

impl Maker<'_> {
    fn function(&self, interface: &str, name: &str) -> (String, &Function) {
        let (wanted, _) = interface.split_once('@').unwrap_or((interface, ""));
        let id = self.resolve.interfaces.iter().find_map(|(id, _)| {
            let full = self.resolve.id_of(id)?;
            (full.split('@').next() == Some(wanted)).then_some((id, full))
        });
        let (id, full) = id.unwrap_or_else(|| panic!("no interface {interface}"));
        (
            full,
            self.resolve.interfaces[id].functions.get(name).unwrap_or_else(|| panic!("{interface} {name}")),
        )
    }

    /// A call of a function, with handles that are really there and zeros otherwise.
    fn call(&mut self, interface: &str, name: &str) {
        let (full, function) = self.function(interface, name);
        let (params, function) = (function.params.clone(), function.clone());
        let signature = self.resolve.wasm_signature(AbiVariant::GuestImport, &function);
        let word = |ty: &WasmType| match ty {
            WasmType::I64 | WasmType::PointerOrI64 => "i64",
            WasmType::F32 => "f32",
            WasmType::F64 => "f64",
            _ => "i32",
        };
        let types: Vec<&str> = signature.params.iter().map(word).collect();
        let result: Vec<&str> = signature.results.iter().map(word).collect();
        let result = result.first().map(|word| format!("(result {word})")).unwrap_or_default();
        let label = format!("$f{}", self.imports.len());
        self.imports.push(format!(
            r#"(import "{full}" "{name}" (func {label} (param {}) {result}))"#,
            types.join(" ")
        ));
        if signature.indirect_params {
            self.body += "i32.const 1024\n";
        } else {
            for param in &params {
                self.param(&param.ty);
            }
        }
        if signature.retptr {
            self.body += &format!("i32.const {RETURN}\n");
        }
        self.body += &format!("call {label}\n");
        if !result.is_empty() {
            self.body += "local.set $last\n";
            if signature.results[0] != WasmType::I32 && signature.results[0] != WasmType::Pointer {
                // Not a handle: it is of no more use.
                let last = self.body.rfind("local.set $last\n").expect("just put there");
                self.body.replace_range(last.., "drop\n");
            }
        }
    }

    fn param(&mut self, ty: &Type) {
        if let Type::Id(id) = ty
            && let TypeDefKind::Handle(Handle::Borrow(of) | Handle::Own(of)) = &self.resolve.types[*id].kind
        {
            let mut of = *of;
            while let TypeDefKind::Type(Type::Id(aliased)) = self.resolve.types[of].kind {
                of = aliased;
            }
            let name = self.resolve.types[of].name.clone().expect("a name");
            return self.handle(&name);
        }
        let mut room = [WasmType::I32; 64];
        let mut flat = FlatTypes::new(&mut room);
        assert!(self.resolve.push_flat(ty, &mut flat), "it fits");
        for ty in flat.to_vec() {
            self.body += match ty {
                WasmType::I64 | WasmType::PointerOrI64 => "i64.const 0\n",
                WasmType::F32 => "f32.const 0\n",
                WasmType::F64 => "f64.const 0\n",
                _ => "i32.const 0\n",
            };
        }
    }

    /// Leaves a handle of this resource on the stack.
    fn handle(&mut self, resource: &str) {
        let at = |offset: u32| format!("i32.const {RETURN}\ni32.load offset={offset}\n");
        match resource {
            _ if resource == self.given => self.body += "local.get $given\n",
            "descriptor" => {
                self.call("wasi:filesystem/preopens", "get-directories");
                self.body += &format!("{}i32.load\n", at(0));
            }
            "directory-entry-stream" => {
                self.call("wasi:filesystem/types", "[method]descriptor.read-directory");
                self.body += &at(4);
            }
            "input-stream" => self.got("wasi:cli/stdin", "get-stdin"),
            "output-stream" => self.got("wasi:cli/stdout", "get-stdout"),
            "pollable" => self.got("wasi:clocks/monotonic-clock", "subscribe-duration"),
            "child" => {
                let (full, _) = self.function("mst:plugin/process", "start");
                let label = format!("$f{}", self.imports.len());
                self.imports
                    .push(format!(r#"(import "{full}" "start" (func {label} (param i32 i32 i32 i32 i32)))"#));
                self.body += &format!(
                    "i32.const 4096\ni32.const 4\ni32.const 0\ni32.const 0\ni32.const {RETURN}\ncall {label}\n"
                );
                self.body += &at(4);
            }
            "fields" => self.got("wasi:http/types", "[constructor]fields"),
            "outgoing-request" => self.got("wasi:http/types", "[constructor]outgoing-request"),
            "request-options" => self.got("wasi:http/types", "[constructor]request-options"),
            "outgoing-response" => self.got("wasi:http/types", "[constructor]outgoing-response"),
            "outgoing-body" => {
                self.call("wasi:http/types", "[method]outgoing-request.body");
                self.body += &at(4);
            }
            other => panic!("nothing gives a `{other}`"),
        }
    }

    fn got(&mut self, interface: &str, name: &str) {
        self.call(interface, name);
        self.body += "local.get $last\n";
    }

    fn drop_of(&mut self, interface: &str, resource: &str) {
        self.handle(resource);
        let (wanted, _) = interface.split_once('@').unwrap_or((interface, ""));
        let full = self
            .resolve
            .interfaces
            .iter()
            .filter_map(|(id, _)| self.resolve.id_of(id))
            .find(|full| full.split('@').next() == Some(wanted))
            .expect("the interface");
        let label = format!("$f{}", self.imports.len());
        self.imports
            .push(format!(r#"(import "{full}" "[resource-drop]{resource}" (func {label} (param i32)))"#));
        self.body += &format!("call {label}\n");
    }

    /// The component, which imports as much of `imports` as it needs.
    fn component(self, imports: &[String]) -> Vec<u8> {
        let (param, given) = match self.given {
            "trial" => ("given: borrow<trial>", "use mst:plugin/evidence@0.1.0.{trial};"),
            "shard" => ("given: borrow<shard>", "use mst:plugin/shard@0.1.0.{shard};"),
            _ => ("given: u32", ""),
        };
        let core = format!(
            r#"(module {}
                (memory (export "memory") 1)
                (global $heap (mut i32) (i32.const 8192))
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                    (local $at i32)
                    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                    (global.set $heap (i32.add (local.get $at) (local.get 3)))
                    (local.get $at))
                (func (export "go") (param $given i32) (local $last i32)
                    {})
                (data (i32.const 4096) "wait"))"#,
            self.imports.join("\n"),
            self.body
        );
        let imports: String = imports.iter().map(|interface| format!("import {interface};\n")).collect();
        let world =
            format!("package test:guest;\nworld guest {{ {imports} {given} export go: func({param}); }}");
        let mut resolve = self.resolve.clone();
        let package =
            resolve.push_source("guest.wit", &world).unwrap_or_else(|error| panic!("{world}\n{error:?}"));
        let guest = resolve.select_world(&[package], Some("guest")).expect("the world");
        let mut module = wat::parse_str(&core).unwrap_or_else(|error| panic!("{error}\n{core}"));
        embed_component_metadata(&mut module, &resolve, guest, StringEncoding::UTF8).expect("embedded");
        let encoder = ComponentEncoder::default().module(&module).expect("a module").validate(true);
        { encoder }.encode().unwrap_or_else(|error| panic!("{error:?}\n{core}"))
    }
}

/// One instance of a plugin of `world`, with something of everything.
fn store(sandbox: &Sandbox, world: &str, kept: &Arc<Kept>, dir: &std::path::Path) -> Store<Guest> {
    let kind = if world.ends_with("runner") { "runner" } else { world };
    let exec = "[[exec]]\nid = 'wait'\nargv = ['sleep', '60']\ntimeout = '60s'\n";
    let manifest = mst_plugin::Manifest::from_toml(&format!(
        "id = 'test/{kind}/x'\nversion = '0.1.0'\nworld = '{world}'\ndescription = 'For tests.'\n{}\n[[dir]]\nname = 'data'\naccess = 'read-write'\n",
        if kind == "runner" { exec } else { "" },
    ));
    let manifest = Arc::new(manifest.expect("a manifest"));
    let permit = crate::Permit::new(Arc::new(mst_plugin::Granted::all(manifest.clone())));
    let plugin = Identity { manifest, permit, sha256: Digest::of(b"x"), scrubber: Default::default() };
    let sinks = Sinks { log: Arc::new(Quiet), audit: kept.clone() };
    let dirs = [Preopen { name: "data".to_owned(), path: dir.to_owned() }];
    let limits = Limits::default();
    let given = Given { limits: &limits, sinks: &sinks, about: None, dirs: &dirs, judging: None };
    let mut store = new_store(sandbox, &plugin, given).expect("a store");
    store.data_mut().exec = Some(Exec {
        environment: ExecEnvironment { path: "/usr/bin:/bin".to_owned(), ..ExecEnvironment::default() },
        options: serde_json::json!({}),
        machine: None,
        run: "run".to_owned(),
        cwd: dir.to_owned(),
    });
    store
}

/// Makes the call and gives it so much time, whatever becomes of it; the functions that the broker heard of.
async fn heard(
    sandbox: &Sandbox,
    link: Link,
    world: &str,
    given: &str,
    component: &[u8],
    time: Duration,
) -> Vec<AuditCall> {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = Arc::new(Kept(Mutex::default()));
    let mut linker = Linker::new(sandbox.engine());
    link(&mut linker).expect("linked");
    let component = Component::new(sandbox.engine(), component).expect("a component");
    let mut store = store(sandbox, world, &kept, dir.path());
    let instance = linker.instantiate_async(&mut store, &component).await.expect("an instance");
    macro_rules! go {
        ($type:ty, $value:expr) => {{
            let go = instance.get_typed_func::<($type,), ()>(&mut store, "go").expect("go");
            let _ = tokio::time::timeout(time, go.call_async(&mut store, ($value,))).await;
        }};
    }
    match given {
        "trial" => {
            let rep = store.data_mut().table.push(TrialHandle).expect("room").rep();
            go!(Resource<TrialHandle>, Resource::new_borrow(rep));
        }
        "shard" => {
            let rep = store.data_mut().table.push(ShardHandle).expect("room").rep();
            go!(Resource<ShardHandle>, Resource::new_borrow(rep));
        }
        _ => go!(u32, 0),
    }
    drop(store);
    kept.0.lock().expect("locks").clone()
}

type Link = fn(&mut Linker<Guest>) -> Result;

async fn every_function_passes(link: Link, world: &'static str, own: &'static [(&str, &[&str])]) {
    let given = match world {
        "judge" => "trial",
        "shard-runner" => "shard",
        _ => "",
    };
    let sandbox =
        Sandbox::new(Settings { cache: Cache::off(), limits: Limits::default() }).expect("an engine");
    let (resolve, _) = everything();
    let imports: Vec<String> = pairs(STANDARD)
        .chain(pairs(own))
        .map(|(interface, _)| match interface.contains('@') {
            true => interface.to_owned(),
            false => format!("{interface}@{WASI_VERSION}"),
        })
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let offered: Vec<_> = pairs(STANDARD).chain(pairs(own)).collect();
    let drops = pairs(DROPS).filter(|(interface, _)| offered.iter().any(|(known, _)| known == interface));
    let maker = || Maker { resolve: &resolve, imports: Vec::new(), body: String::new(), given };
    let mut missed = Vec::new();
    let drops: Vec<_> = drops.collect();
    let calls = offered.iter().map(|pair| (pair, false)).chain(drops.iter().map(|pair| (pair, true)));
    for ((interface, name), drops) in calls {
        if pairs(NOT_CALLED).any(|skipped| skipped == (*interface, *name)) {
            continue;
        }
        // Once with what leads there and once with the call too: the difference is the call's.
        let mut with = maker();
        let mut without = maker();
        if drops {
            with.drop_of(interface, name);
            without.handle(name);
            without.body += "drop\n";
        } else {
            with.call(interface, name);
            let (_, function) = without.function(interface, name);
            for param in function.params.clone() {
                without.param(&param.ty);
                let mut room = [WasmType::I32; 64];
                let mut flat = FlatTypes::new(&mut room);
                without.resolve.push_flat(&param.ty, &mut flat);
                without.body += &"drop\n".repeat(flat.to_vec().len());
            }
        }
        let (with, without) = (with.component(&imports), without.component(&imports));
        let count = async |component: &[u8], time: Duration| -> u64 {
            let calls = heard(&sandbox, link, world, given, component, time).await;
            // A line that says that a call begins is of the same call.
            let over = calls.iter().filter(|call| call.phase == mst_model::audit::Phase::Ended);
            over.map(|call| call.count).sum()
        };
        // Some calls wait for what never comes, and so none has long: but a busy machine may need longer for
        // one that the broker does hear of.
        let mut is_heard = false;
        for millis in [500, 10_000] {
            let time = Duration::from_millis(millis);
            is_heard = is_heard || count(&with, time).await > count(&without, time).await;
        }
        if !is_heard {
            missed.push(format!("{interface} {name}"));
        }
    }
    assert!(missed.is_empty(), "the broker never heard of {missed:#?}");
}

/// The name of a resource that a parameter holds.
fn taken<'a>(resolve: &'a Resolve, ty: &Type) -> Option<&'a str> {
    let Type::Id(id) = ty else { return None };
    let TypeDefKind::Handle(Handle::Borrow(of) | Handle::Own(of)) = &resolve.types[*id].kind else {
        return None;
    };
    let mut of = *of;
    while let TypeDefKind::Type(Type::Id(aliased)) = resolve.types[of].kind {
        of = aliased;
    }
    resolve.types[of].name.as_deref()
}

#[test]
fn what_is_not_called_and_not_given_back_here_is_what_nobody_gets_hold_of() {
    let (resolve, _) = everything();
    let lists = [STANDARD, HTTP, JUDGE, DATASET, MACHINE_RUNNER, SHARD_RUNNER];
    let maker = Maker { resolve: &resolve, imports: Vec::new(), body: String::new(), given: "" };
    let mut out_of_reach = listed(&lists);
    out_of_reach.retain(|(interface, name)| {
        let (_, function) = maker.function(interface, name);
        let mut resources = function.params.iter().filter_map(|param| taken(&resolve, &param.ty));
        resources.any(|resource| OUT_OF_REACH.contains(&resource))
    });
    assert_eq!(out_of_reach, listed(&[NOT_CALLED]));

    // Interfaces that only define a resource have no function in the lists: WASI's terminals.
    let terminals = ["wasi:cli/terminal-input", "wasi:cli/terminal-output"];
    let linked: BTreeSet<&str> =
        lists.into_iter().flatten().map(|(name, _)| *name).chain(terminals).collect();
    let mut resources = BTreeSet::new();
    for (id, interface) in resolve.interfaces.iter() {
        let Some(full) = resolve.id_of(id) else { continue };
        let plain = full.split('@').next().unwrap_or_default();
        let Some(name) = linked.iter().find(|name| **name == plain || **name == full) else { continue };
        let own = interface.types.iter().filter(|(_, ty)| resolve.types[**ty].kind == TypeDefKind::Resource);
        resources.extend(own.map(|(resource, _)| ((*name).to_owned(), resource.clone())));
    }
    assert_eq!(resources, listed(&[DROPS, NOT_DROPPED]));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_judge() {
    every_function_passes(super::super::judge, "judge", JUDGE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_dataset() {
    every_function_passes(super::super::dataset, "dataset", DATASET).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_machine_runner() {
    every_function_passes(super::super::machine_runner, "machine-runner", MACHINE_RUNNER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_shard_runner() {
    every_function_passes(super::super::shard_runner, "shard-runner", SHARD_RUNNER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_who_asks_for_http() {
    fn with_http(linker: &mut Linker<Guest>) -> Result {
        super::super::dataset(linker)?;
        super::super::http(linker)
    }
    every_function_passes(with_http, "dataset", HTTP).await;
}
