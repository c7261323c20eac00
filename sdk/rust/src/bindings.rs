//! The interfaces that every world imports, bound once, so that `mst_sdk::log` is the same
//! whichever world's feature is on. A world's own interfaces are bound in its module.

wit_bindgen::generate!({
    inline: "
        package mst:sdk;
        world every-plugin {
            import mst:plugin/log@0.1.0;
        }
    ",
    path: "../../wit",
    generate_all,
});
