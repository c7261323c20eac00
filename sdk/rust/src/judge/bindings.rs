//! The world `judge` as wit-bindgen binds it: for who needs what the SDK keeps them from,
//! such as a test that must send the host something wrong. Everybody else uses the parent
//! module.
#![expect(missing_docs, reason = "the bindings bear the WIT's comments, and not every item there has one")]

wit_bindgen::generate!({
    world: "mst:plugin/judge@0.1.0",
    path: "../../wit",
    // With a public macro the exports' type section is emitted where the macro is called, so
    // that this crate can bind several worlds and a plugin bears only its own.
    pub_export_macro: true,
    with: {
        "mst:plugin/log@0.1.0": crate::bindings::mst::plugin::log,
        "mst:plugin/types@0.1.0/error": crate::Error,
        "mst:plugin/commands@0.1.0/exit-status": crate::ExitStatus,
        "mst:plugin/commands@0.1.0/output": crate::Output,
        "mst:plugin/evidence@0.1.0/entry": crate::judge::Entry,
        "mst:plugin/evidence@0.1.0/content": crate::judge::Content,
        "mst:plugin/grading@0.1.0/citation": crate::judge::Citation,
        "mst:plugin/grading@0.1.0/measure": crate::judge::Measure,
        "mst:plugin/grading@0.1.0/usage": crate::judge::Usage,
        "mst:plugin/grading@0.1.0/finding": crate::judge::Finding,
        "mst:plugin/grading@0.1.0/verdict": crate::judge::Verdict,
    },
});
