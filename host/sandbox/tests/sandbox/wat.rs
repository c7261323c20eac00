//! Guests as WAT: one core module, turned into a component by what turns Rust's into one.

use mst_plugin::PluginFile;
use wasm_encoder::{ComponentSection as _, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The interfaces of WASI that guests here use, as much of them as they use.
const WASI: &str = r#"
package wasi:cli@0.2.6 {
    interface exit { exit: func(status: result); }
}
package wasi:io@0.2.6 {
    interface poll { resource pollable { block: func(); } }
}
package wasi:clocks@0.2.6 {
    interface monotonic-clock {
        use wasi:io/poll@0.2.6.{pollable};
        subscribe-duration: func(nanoseconds: u64) -> pollable;
    }
}
"#;

/// Imports by the names that bodies use.
const IMPORTS: &str = r#"
    (import "wasi:cli/exit@0.2.6" "exit" (func $exit (param i32)))
    (import "wasi:clocks/monotonic-clock@0.2.6" "subscribe-duration" (func $subscribe (param i64) (result i32)))
    (import "wasi:io/poll@0.2.6" "[method]pollable.block" (func $block (param i32)))
    (import "mst:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))
"#;

/// A judge's imports beyond these.
const JUDGE_IMPORTS: &str = r#"
    (import "mst:plugin/workspace@0.1.0" "run" (func $run (param i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "mst:plugin/evidence@0.1.0" "[method]trial.read" (func $read (param i32 i32 i32 i64 i32 i32)))
    (import "mst:plugin/evidence@0.1.0" "[resource-drop]trial" (func $give_back (param i32)))
"#;

/// Memory and what the host allocates in it. From 1024 to 4096 there are zeros: an answer of
/// zeros is `ok`, and a verdict of zeros a pass without a reason.
const MEMORY: &str = r#"
    (memory $memory (export "memory") 4)
    (global $heap (mut i32) (i32.const 8192))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
        (global.set $heap (i32.add (local.get $at) (local.get 3)))
        (local.get $at))
    (data (i32.const 4096) "nowhere\00wait")
"#;

/// A judge whose `judge` has this body; it begins with a verdict of zeros as its answer and may
/// return another pointer. `more` are further definitions.
pub(crate) fn judge(body: &str, more: &str) -> PluginFile {
    let core = format!(
        r#"(module {IMPORTS} {JUDGE_IMPORTS} {MEMORY} {more}
            (func $judge (export "mst:plugin/grading@0.1.0#judge") (param $trial i32) (param $options i32) (param $length i32) (result i32)
                {body}
                (call $give_back (local.get $trial))
                (i32.const 1024)))"#
    );
    component("judge", &core, "[[workspace]]\nid = 'wait'\nargv = ['wait']\ntimeout = '10m'\n")
}

/// A dataset whose `next` has this body, and answers with an empty page. `$new` makes a cursor.
pub(crate) fn dataset(body: &str, more: &str) -> PluginFile {
    let core = format!(
        r#"(module {IMPORTS}
            (import "[export]mst:plugin/cases@0.1.0" "[resource-new]cursor" (func $new (param i32) (result i32)))
            {MEMORY} {more}
            (func (export "mst:plugin/cases@0.1.0#open") (param i32 i32) (result i32)
                (i32.store (i32.const 1028) (call $new (i32.const 7)))
                (i32.const 1024))
            (func (export "mst:plugin/cases@0.1.0#[method]cursor.next") (param $self i32) (param $limit i32) (result i32)
                {body}
                (i32.const 2048)))"#
    );
    component("dataset", &core, "")
}

fn component(world: &str, core: &str, templates: &str) -> PluginFile {
    let mut resolve = Resolve::default();
    let mut contract = String::from("package mst:plugin@0.1.0;\n");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).expect("wit/") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("read");
        contract += text.strip_prefix("package mst:plugin@0.1.0;").expect("each begins so");
    }
    contract += &format!(
        "world guest {{ include {world}; import wasi:cli/exit@0.2.6; import wasi:clocks/monotonic-clock@0.2.6; }}\n{WASI}"
    );
    let package = resolve.push_source("guest.wit", &contract).unwrap_or_else(|error| panic!("{error:?}"));
    let guest = resolve.select_world(&[package], Some("guest")).expect("the world");
    let mut module = wat::parse_str(core).unwrap_or_else(|error| panic!("{error}"));
    embed_component_metadata(&mut module, &resolve, guest, StringEncoding::UTF8).expect("embedded");
    let encoder = ComponentEncoder::default().module(&module).expect("a module").validate(true);
    let component = { encoder }.encode().unwrap_or_else(|error| panic!("{error:?}"));
    plugin(component, world, templates)
}

/// The component with a manifest: `test/WORLD/wat`.
pub(crate) fn plugin(mut component: Vec<u8>, world: &str, templates: &str) -> PluginFile {
    let manifest = mst_plugin::Manifest::from_toml(&format!(
        "id = 'test/{world}/wat'\nversion = '0.1.0'\nworld = '{world}'\ndescription = 'For tests.'\n{templates}"
    ));
    let manifest = manifest.expect("a manifest").to_json().to_string();
    CustomSection { name: "mst:manifest".into(), data: manifest.as_bytes().into() }
        .append_to_component(&mut component);
    PluginFile::read(component).expect("a plugin")
}
