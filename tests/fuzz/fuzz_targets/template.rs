//! Command templates: the rule that holds for any template and any values is the one of the crate's
//! own tests.

#![no_main]

#[path = "../../../host/plugin/tests/template/any_fill.rs"]
mod any_fill;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    any_fill::hold(bytes);
});
