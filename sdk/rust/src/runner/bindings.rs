//! The world `machine-runner` as wit-bindgen binds it: for who needs what the SDK keeps them
//! from, such as a test that must send the host something wrong. Everybody else uses the parent
//! module.
#![expect(missing_docs, reason = "the bindings bear the WIT's comments, and not every item there has one")]

wit_bindgen::generate!({
    world: "mst:plugin/machine-runner@0.1.0",
    path: "../../wit",
    // See `judge::bindings`.
    pub_export_macro: true,
    with: {
        "mst:plugin/log@0.1.0": crate::bindings::mst::plugin::log,
        "mst:plugin/types@0.1.0/error": crate::Error,
        "mst:plugin/commands@0.1.0/exit-status": crate::ExitStatus,
        "mst:plugin/commands@0.1.0/output": crate::Output,
        "mst:plugin/machine@0.1.0/image": crate::runner::Image,
    },
});
