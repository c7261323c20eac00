//! mst.shard/v1's codec: the rule that holds for any bytes is the one of the crate's own tests.

#![no_main]

#[path = "../../../host/protocol/tests/protocol/any_bytes.rs"]
mod any_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_bytes::hold(bytes));
