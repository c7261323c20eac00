//! Components, changed byte by byte or written by hand: what no tool of ours would write.

use serde_json::{Value, json};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::repository;

const SECTION: &str = "mst:manifest";

/// A first-party plugin's file.
pub(crate) fn first_party(name: &str) -> Vec<u8> {
    std::fs::read(repository().join("plugins/dist").join(name)).expect("it is committed")
}

/// With its imports and exports of `mst:plugin` in another version, as long as `0.1.0`.
pub(crate) fn of_contract(bytes: &[u8], version: &str) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let prefix = b"mst:plugin/";
    let mut at = 0;
    while let Some(found) = out[at..].windows(prefix.len()).position(|window| window == prefix) {
        at += found + prefix.len();
        let end =
            at + out[at..].iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'-').count();
        if out[end..].starts_with(b"@0.1.0") {
            out[end + 1..end + 6].copy_from_slice(version.as_bytes());
        }
    }
    out
}

/// `test/judge/start`: a judge whose core module does this as soon as there is an instance of it, before any
/// function of it is called.
pub(crate) fn judge_that_starts_with(body: &str) -> Vec<u8> {
    let core = format!(
        r#"(module
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "mst:plugin/grading@0.1.0#judge") (param i32 i32 i32) (result i32) unreachable)
            (func $start {body})
            (start $start))"#
    );
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(repository().join("wit")).expect("the contract parses");
    let judge = resolve.select_world(&[package], Some("judge")).expect("the world");
    let mut module = wat::parse_str(core).expect("a module");
    embed_component_metadata(&mut module, &resolve, judge, StringEncoding::UTF8).expect("embedded");
    let mut encoder = ComponentEncoder::default().module(&module).expect("a module").validate(true);
    let manifest = json!({
        "schema": "mst.manifest/v1",
        "contract": "mst:plugin@0.1.0",
        "id": "test/judge/start",
        "version": "0.1.0",
        "world": "judge",
        "description": "For tests.",
    });
    with_manifest(&encoder.encode().expect("a component"), &manifest)
}

/// The manifest in a component.
pub(crate) fn manifest(bytes: &[u8]) -> Value {
    let mut found = None;
    sections(bytes, |name, data, _| {
        if name == Some(SECTION) {
            found = Some(serde_json::from_slice(data).expect("JSON"));
        }
    });
    found.expect("a manifest")
}

/// Without its manifest.
pub(crate) fn without_manifest(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes[..8].to_vec();
    sections(bytes, |name, _, whole| {
        if name != Some(SECTION) {
            out.extend_from_slice(whole);
        }
    });
    out
}

/// With this manifest in place of its own.
pub(crate) fn with_manifest(bytes: &[u8], manifest: &Value) -> Vec<u8> {
    let mut out = without_manifest(bytes);
    let data = manifest.to_string();
    let mut body = leb(SECTION.len());
    body.extend_from_slice(SECTION.as_bytes());
    body.extend_from_slice(data.as_bytes());
    out.push(0);
    out.extend(leb(body.len()));
    out.extend(body);
    out
}

/// Calls `each` with a custom section's name, its data, and the whole section.
fn sections<'a>(bytes: &'a [u8], mut each: impl FnMut(Option<&'a str>, &'a [u8], &'a [u8])) {
    let mut at = 8;
    while at < bytes.len() {
        let (size, body) = unleb(bytes, at + 1);
        let (whole, data) = (&bytes[at..body + size], &bytes[body..body + size]);
        if bytes[at] == 0 {
            let (length, from) = unleb(data, 0);
            each(std::str::from_utf8(&data[from..from + length]).ok(), &data[from + length..], whole);
        } else {
            each(None, data, whole);
        }
        at = body + size;
    }
}

/// Reads an unsigned LEB128: the number, and where it ends.
fn unleb(bytes: &[u8], mut at: usize) -> (usize, usize) {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return (value, at);
        }
    }
}

fn leb(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}
