//! The world `dataset` as wit-bindgen binds it: for who needs what the SDK keeps them from,
//! such as a test that must send the host something wrong. Everybody else uses the parent
//! module.
#![expect(missing_docs, reason = "the bindings bear the WIT's comments, and not every item there has one")]

wit_bindgen::generate!({
    world: "mst:plugin/dataset@0.1.0",
    path: "../../wit",
    // See `judge::bindings`.
    pub_export_macro: true,
    with: {
        "mst:plugin/log@0.1.0": crate::bindings::mst::plugin::log,
        "mst:plugin/types@0.1.0/error": crate::Error,
    },
});
