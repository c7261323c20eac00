//! First-party plugins, for the benches that run them.

use std::path::Path;

use mst_plugin::PluginFile;

/// A first-party plugin, as shipped.
pub(crate) fn shipped(name: &str) -> PluginFile {
    // Above the crate, whichever has this bench.
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|dir| dir.join("plugins/dist"));
    let path = above.find(|dir| dir.is_dir()).expect("it is committed").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    mst_plugin::open(bytes).unwrap_or_else(|error| panic!("{error}"))
}
