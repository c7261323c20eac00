//! What each world's linker offers, held against a list: whoever links one thing more has to write
//! it down here, where a reviewer sees it.
//!
//! wasmtime can't list a linker. It can be asked for one name at a time, since it refuses to
//! define one twice; so what is asked for is all that there could be: every function of the
//! contract, and of every WASI 0.2 package that wasmtime implements.

use std::collections::BTreeSet;
use std::path::PathBuf;

use wasmtime::Engine;
use wit_parser::{PackageId, Resolve};

use super::*;

mod brokered;

/// The version under which wasmtime's WASI stands in a linker. A component may ask for an older
/// one and gets this.
const WASI_VERSION: &str = "0.2.12";

/// Every world has these: what a language's standard library needs to run at all.
const STANDARD: &[(&str, &[&str])] = &[
    ("wasi:cli/environment", &["get-environment", "get-arguments", "initial-cwd"]),
    ("wasi:cli/exit", &["exit", "exit-with-code"]),
    ("wasi:cli/stderr", &["get-stderr"]),
    ("wasi:cli/stdin", &["get-stdin"]),
    ("wasi:cli/stdout", &["get-stdout"]),
    ("wasi:cli/terminal-stderr", &["get-terminal-stderr"]),
    ("wasi:cli/terminal-stdin", &["get-terminal-stdin"]),
    ("wasi:cli/terminal-stdout", &["get-terminal-stdout"]),
    ("wasi:clocks/monotonic-clock", &["now", "resolution", "subscribe-instant", "subscribe-duration"]),
    ("wasi:clocks/wall-clock", &["now", "resolution"]),
    ("wasi:filesystem/preopens", &["get-directories"]),
    (
        "wasi:filesystem/types",
        &[
            "[method]descriptor.read-via-stream",
            "[method]descriptor.write-via-stream",
            "[method]descriptor.append-via-stream",
            "[method]descriptor.advise",
            "[method]descriptor.sync-data",
            "[method]descriptor.get-flags",
            "[method]descriptor.get-type",
            "[method]descriptor.set-size",
            "[method]descriptor.set-times",
            "[method]descriptor.read",
            "[method]descriptor.write",
            "[method]descriptor.read-directory",
            "[method]descriptor.sync",
            "[method]descriptor.create-directory-at",
            "[method]descriptor.stat",
            "[method]descriptor.stat-at",
            "[method]descriptor.set-times-at",
            "[method]descriptor.link-at",
            "[method]descriptor.open-at",
            "[method]descriptor.readlink-at",
            "[method]descriptor.remove-directory-at",
            "[method]descriptor.rename-at",
            "[method]descriptor.symlink-at",
            "[method]descriptor.unlink-file-at",
            "[method]descriptor.is-same-object",
            "[method]descriptor.metadata-hash",
            "[method]descriptor.metadata-hash-at",
            "[method]directory-entry-stream.read-directory-entry",
            "filesystem-error-code",
        ],
    ),
    ("wasi:io/error", &["[method]error.to-debug-string"]),
    ("wasi:io/poll", &["[method]pollable.ready", "[method]pollable.block", "poll"]),
    (
        "wasi:io/streams",
        &[
            "[method]input-stream.read",
            "[method]input-stream.blocking-read",
            "[method]input-stream.skip",
            "[method]input-stream.blocking-skip",
            "[method]input-stream.subscribe",
            "[method]output-stream.check-write",
            "[method]output-stream.write",
            "[method]output-stream.blocking-write-and-flush",
            "[method]output-stream.flush",
            "[method]output-stream.blocking-flush",
            "[method]output-stream.subscribe",
            "[method]output-stream.write-zeroes",
            "[method]output-stream.blocking-write-zeroes-and-flush",
            "[method]output-stream.splice",
            "[method]output-stream.blocking-splice",
        ],
    ),
    ("wasi:random/insecure-seed", &["insecure-seed"]),
    ("wasi:random/insecure", &["get-insecure-random-bytes", "get-insecure-random-u64"]),
    ("wasi:random/random", &["get-random-bytes", "get-random-u64"]),
];

/// And none has these.
const NEVER: &[(&str, &[&str])] = &[
    ("wasi:cli/run", &["run"]),
    ("wasi:clocks/timezone", &["display", "utc-offset"]),
    ("wasi:sockets/instance-network", &["instance-network"]),
    ("wasi:sockets/ip-name-lookup", &["resolve-addresses"]),
    ("wasi:sockets/network", &["network-error-code"]),
    ("wasi:sockets/tcp-create-socket", &["create-tcp-socket"]),
    ("wasi:sockets/tcp", &["[method]tcp-socket.start-connect", "[method]tcp-socket.start-bind"]),
    ("wasi:sockets/udp-create-socket", &["create-udp-socket"]),
    ("wasi:sockets/udp", &["[method]udp-socket.start-bind", "[method]udp-socket.stream"]),
    ("wasi:http/types", &["[constructor]fields", "[constructor]outgoing-request"]),
    ("wasi:http/outgoing-handler", &["handle"]),
    ("wasi:http/incoming-handler", &["handle"]),
    ("wasi:config/store", &["get", "get-all"]),
    ("wasi:keyvalue/store", &["open"]),
    ("wasi:nn/graph", &["load"]),
    ("wasi:tls/types", &["[constructor]client-handshake"]),
];

/// What a judge has beyond it.
const JUDGE: &[(&str, &[&str])] = &[
    (
        "mst:plugin/evidence@0.1.0",
        &[
            "[method]trial.entries",
            "[method]trial.eval-case",
            "[method]trial.outcome",
            "[method]trial.read",
            "[method]trial.report",
            "[method]trial.trial-index",
            "[method]trial.variant-id",
        ],
    ),
    ("mst:plugin/log@0.1.0", &["progress", "write"]),
    ("mst:plugin/workspace@0.1.0", &["run"]),
];

/// What a dataset has beyond it.
const DATASET: &[(&str, &[&str])] = &[("mst:plugin/log@0.1.0", &["progress", "write"])];

/// What a runner that makes machines has beyond it.
const MACHINE_RUNNER: &[(&str, &[&str])] = &[
    ("mst:plugin/log@0.1.0", &["progress", "write"]),
    ("mst:plugin/process@0.1.0", &["[method]child.kill", "run", "start"]),
];

/// What a runner that carries a whole shard has beyond it.
const SHARD_RUNNER: &[(&str, &[&str])] = &[
    ("mst:plugin/log@0.1.0", &["progress", "write"]),
    ("mst:plugin/process@0.1.0", &["[method]child.kill", "run", "start"]),
    (
        "mst:plugin/shard@0.1.0",
        &[
            "[method]shard.attach",
            "[method]shard.bundle",
            "[method]shard.name",
            "[method]shard.options",
            "[method]shard.results",
            "[method]shard.run",
            "[method]shard.worker",
        ],
    ),
];

/// What one of a manifest with `[[http]]` has beyond its world.
const HTTP: &[(&str, &[&str])] = &[
    ("wasi:http/outgoing-handler", &["handle"]),
    (
        "wasi:http/types",
        &[
            "[constructor]fields",
            "[static]fields.from-list",
            "[method]fields.get",
            "[method]fields.has",
            "[method]fields.set",
            "[method]fields.delete",
            "[method]fields.append",
            "[method]fields.entries",
            "[method]fields.clone",
            "[method]incoming-request.method",
            "[method]incoming-request.path-with-query",
            "[method]incoming-request.scheme",
            "[method]incoming-request.authority",
            "[method]incoming-request.headers",
            "[method]incoming-request.consume",
            "[constructor]outgoing-request",
            "[method]outgoing-request.body",
            "[method]outgoing-request.method",
            "[method]outgoing-request.set-method",
            "[method]outgoing-request.path-with-query",
            "[method]outgoing-request.set-path-with-query",
            "[method]outgoing-request.scheme",
            "[method]outgoing-request.set-scheme",
            "[method]outgoing-request.authority",
            "[method]outgoing-request.set-authority",
            "[method]outgoing-request.headers",
            "[constructor]request-options",
            "[method]request-options.connect-timeout",
            "[method]request-options.set-connect-timeout",
            "[method]request-options.first-byte-timeout",
            "[method]request-options.set-first-byte-timeout",
            "[method]request-options.between-bytes-timeout",
            "[method]request-options.set-between-bytes-timeout",
            "[static]response-outparam.set",
            "[method]incoming-response.status",
            "[method]incoming-response.headers",
            "[method]incoming-response.consume",
            "[method]incoming-body.stream",
            "[static]incoming-body.finish",
            "[method]future-trailers.subscribe",
            "[method]future-trailers.get",
            "[constructor]outgoing-response",
            "[method]outgoing-response.status-code",
            "[method]outgoing-response.set-status-code",
            "[method]outgoing-response.headers",
            "[method]outgoing-response.body",
            "[method]outgoing-body.write",
            "[static]outgoing-body.finish",
            "[method]future-incoming-response.subscribe",
            "[method]future-incoming-response.get",
            "http-error-code",
        ],
    ),
];

fn linker(link: fn(&mut Linker<Guest>) -> Result) -> Linker<Guest> {
    let mut linker = Linker::new(&Engine::default());
    link(&mut linker).expect("linked");
    linker
}

/// Whether the linker has this function. It has it afterwards in any case.
fn has(linker: &mut Linker<Guest>, interface: &str, function: &str) -> bool {
    let mut instance = linker.instance(interface).expect("an instance");
    match instance.func_new(function, |_, _, _, _| Ok(())) {
        Ok(()) => false,
        Err(error) => {
            assert!(error.to_string().contains("defined twice"), "{interface} {function}: {error:#}");
            true
        }
    }
}

/// The file or directory `path` of one of the packages that this one is built with.
fn in_package(name: &str, path: &str) -> PathBuf {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .exec()
        .expect("cargo metadata works");
    let package = metadata.packages.iter().find(|package| package.name.as_str() == name);
    let manifest = &package.unwrap_or_else(|| panic!("no package {name}")).manifest_path;
    PathBuf::from(manifest).with_file_name(path)
}

/// The contract, and WASI as wasmtime has it.
fn everything() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    resolve.push_dir(in_package("wasmtime-wasi", "src").join("p2/wit")).expect("WASI parses");
    let http = std::fs::read_to_string(in_package("wasmtime-wasi-http", "wit").join("deps/http.wit"));
    resolve.push_source("http.wit", &http.expect("reads")).expect("wasi:http parses");
    let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");
    let (package, _) = resolve.push_dir(contract).expect("the contract parses");
    (resolve, package)
}

/// Every function of every interface that there is, of the contract's worlds' exports too, that the linker
/// offers. WASI's are named without a version, as in the lists above.
fn offered(linker: &mut Linker<Guest>) -> BTreeSet<(String, String)> {
    let (resolve, package) = everything();
    let contract = resolve.packages[package].interfaces.len();
    assert!(
        contract > 5 && resolve.interfaces.len() > contract + 25,
        "{} interfaces",
        resolve.interfaces.len()
    );
    let mut offered = BTreeSet::new();
    for (id, interface) in resolve.interfaces.iter() {
        let Some(name) = resolve.id_of(id) else { continue };
        let listed = match name.split_once('@') {
            Some((plain, WASI_VERSION)) => plain,
            _ => &name,
        };
        for function in interface.functions.keys().filter(|function| has(linker, &name, function)) {
            offered.insert((listed.to_owned(), function.clone()));
        }
    }
    offered
}

fn pairs<'a>(list: &'a [(&str, &[&'a str])]) -> impl Iterator<Item = (&'a str, &'a str)> {
    list.iter().flat_map(|(interface, functions)| functions.iter().map(move |name| (*interface, *name)))
}

fn listed(lists: &[&[(&str, &[&str])]]) -> BTreeSet<(String, String)> {
    lists.iter().flat_map(|list| pairs(list)).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

#[track_caller]
fn offers(link: fn(&mut Linker<Guest>) -> Result, lists: &[&[(&str, &[&str])]]) {
    // Asked for a function, a linker has it: each question is to a new one.
    assert_eq!(
        offered(&mut linker(link)),
        listed(lists),
        "what is offered differs from the list in this file"
    );
    let (mut linker, listed) = (linker(link), listed(lists));
    for (interface, function) in pairs(NEVER) {
        let name = format!("{interface}@{WASI_VERSION}");
        let is_own = listed.contains(&(interface.to_owned(), function.to_owned()));
        assert!(is_own || !has(&mut linker, &name, function), "`{name}` `{function}` is offered");
    }
}

#[test]
fn a_judge_can_import_this_and_no_more() {
    offers(super::judge, &[STANDARD, JUDGE]);
}

#[test]
fn a_dataset_can_import_this_and_no_more() {
    offers(super::dataset, &[STANDARD, DATASET]);
}

#[test]
fn a_machine_runner_can_import_this_and_no_more() {
    offers(super::machine_runner, &[STANDARD, MACHINE_RUNNER]);
}

#[test]
fn a_shard_runner_can_import_this_and_no_more() {
    offers(super::shard_runner, &[STANDARD, SHARD_RUNNER]);
}

#[test]
fn who_asks_for_http_can_send_requests_and_serves_none() {
    offers(super::http, &[HTTP]);
}

/// A component that asks for `interface` does not get as far as an instance.
#[test]
fn sockets_and_http_fail_at_load() {
    type Link = fn(&mut Linker<Guest>) -> Result;
    for link in [super::judge as Link, super::dataset, super::machine_runner, super::shard_runner] {
        let linker = linker(link);
        let asks = |interface: &str, function: &str| {
            let text = format!(
                r#"(component (import "{interface}" (instance (export "{function}" (func (result u64))))))"#
            );
            let component =
                wasmtime::component::Component::new(linker.engine(), wat::parse_str(&text).expect("WAT"));
            linker.instantiate_pre(&component.expect("a component")).map(drop)
        };
        // Any older version of WASI 0.2 is found under the linker's own.
        for version in ["0.2.0", "0.2.3", "0.2.6", WASI_VERSION] {
            asks(&format!("wasi:clocks/monotonic-clock@{version}"), "now").expect("the clock is there");
            for interface in
                ["wasi:sockets/tcp", "wasi:sockets/udp", "wasi:http/outgoing-handler", "wasi:tls/types"]
            {
                let error = asks(&format!("{interface}@{version}"), "now").expect_err("refused");
                assert!(format!("{error:#}").contains("not found in the linker"), "{error:#}");
            }
        }
    }
}
