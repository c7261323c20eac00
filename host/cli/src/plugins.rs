//! Which plugins there are: the first-party ones, and those that the command line allows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mst_model::PluginId;
use mst_model::schema::near;
use mst_plugin::{Granted, Manifest, PluginFile};

use crate::error::Failure;

/// The largest component that is read.
const MAX_BYTES: u64 = 256 << 20;

/// The first-party plugins, as `plugins/dist` has them.
const FIRST_PARTY: [(&str, &[u8]); 4] = [
    ("mst/dataset/jsonl", include_bytes!("../../../plugins/dist/mst.dataset.jsonl.wasm")),
    ("mst/judge/command", include_bytes!("../../../plugins/dist/mst.judge.command.wasm")),
    ("mst/judge/text", include_bytes!("../../../plugins/dist/mst.judge.text.wasm")),
    ("mst/runner/docker", include_bytes!("../../../plugins/dist/mst.runner.docker.wasm")),
];

/// A plugin and what it may do here.
#[derive(Clone)]
pub(crate) struct Plugin {
    pub(crate) file: PluginFile,
    #[expect(dead_code, reason = "the sandbox still goes by the manifest alone")]
    pub(crate) granted: Arc<Granted>,
}

impl Plugin {
    pub(crate) fn manifest(&self) -> &Manifest {
        self.file.manifest()
    }
}

/// The plugins that an eval may name.
pub(crate) struct Plugins {
    allowed: BTreeMap<PluginId, PluginFile>,
}

impl Plugins {
    /// The first-party plugins and those of the files `allowed`.
    pub(crate) fn new(allowed: &[PathBuf]) -> Result<Plugins, Failure> {
        let mut plugins = Plugins { allowed: BTreeMap::new() };
        for path in allowed {
            let file = read(path)?;
            let id = file.manifest().id.clone();
            if FIRST_PARTY.iter().any(|(known, _)| *known == id.as_str()) {
                return Err(Failure::new(format!(
                    "`{}` says that it is `{id}`, a first-party plugin",
                    path.display()
                ))
                .hint("build it with an id of your own organisation"));
            }
            if plugins.allowed.insert(id.clone(), file).is_some() {
                return Err(Failure::new(format!("two of the allowed plugins are `{id}`")));
            }
        }
        Ok(plugins)
    }

    /// The plugin of this id.
    pub(crate) fn get(&self, id: &PluginId) -> Result<Plugin, Failure> {
        let all = |file: PluginFile| {
            let granted = Arc::new(Granted::all(Arc::new(file.manifest().clone())));
            Plugin { file, granted }
        };
        if let Some(file) = self.allowed.get(id) {
            return Ok(all(file.clone()));
        }
        if let Some(file) = first_party(id.as_str()) {
            return file.map(all);
        }
        let known =
            FIRST_PARTY.iter().map(|(known, _)| *known).chain(self.allowed.keys().map(PluginId::as_str));
        let hint = match near(id.as_str(), known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "a plugin that is not mst's own must be allowed: `--allow-plugin FILE.wasm`".to_owned(),
        };
        Err(Failure::new(format!("there is no plugin `{id}`")).hint(hint))
    }
}

fn first_party(id: &str) -> Option<Result<PluginFile, Failure>> {
    let (_, bytes) = FIRST_PARTY.iter().find(|(known, _)| *known == id)?;
    Some(
        PluginFile::read(bytes.to_vec())
            .map_err(|error| Failure::because(format!("the plugin `{id}` in this mst is damaged"), &error)),
    )
}

/// The first-party runners.
pub(crate) fn first_party_runners() -> Result<Vec<PluginFile>, Failure> {
    let runners = FIRST_PARTY.iter().filter(|(id, _)| id.contains("/runner/"));
    runners.filter_map(|(id, _)| first_party(id)).collect()
}

/// The plugin of a file, or a first-party plugin by its id.
pub(crate) fn find(name: &str) -> Result<PluginFile, Failure> {
    if let Some(file) = first_party(name) {
        return file;
    }
    let path = Path::new(name);
    if name.parse::<PluginId>().is_ok() && !path.exists() {
        let known: Vec<String> = FIRST_PARTY.iter().map(|(known, _)| format!("`{known}`")).collect();
        return Err(Failure::new(format!("there is no plugin `{name}`"))
            .hint(format!("known ids are {}; a file is named by its path", known.join(", "))));
    }
    read(path)
}

/// The plugin of a file, held to its world.
pub(crate) fn read(path: &Path) -> Result<PluginFile, Failure> {
    let shown = path.display();
    let failed =
        |error: &dyn std::error::Error| Failure::because(format!("can't read the plugin `{shown}`"), error);
    let meta = fs::metadata(path).map_err(|error| failed(&error))?;
    if !meta.is_file() {
        return Err(
            Failure::new(format!("`{shown}` is no file")).hint("name a component, as acme-judge.wasm")
        );
    }
    if meta.len() > MAX_BYTES {
        return Err(Failure::new(format!(
            "`{shown}` has {} bytes; a plugin has at most {MAX_BYTES}",
            meta.len()
        )));
    }
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    let refused = |error: &dyn std::error::Error, hint: Option<String>| {
        let failure = Failure::because(format!("`{shown}` is no plugin that this mst can load"), error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    };
    mst_plugin::open(bytes).map_err(|error| refused(&error, error.hint()))
}
