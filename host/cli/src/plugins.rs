//! Which plugins there are: the first-party ones, and those that the lock pins.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mst_model::PluginId;
use mst_model::schema::{near, with_defaults};
use mst_plugin::lock::is_own;
use mst_plugin::{Granted, Key, LockError, Manifest, PluginFile, Policy};

use mst_sandbox::{Permit, Trust};
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::lockfile::LockFile;
use crate::place;
use crate::policies;
use crate::secrets::Sources;

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
    pub(crate) granted: Arc<Granted>,
    policy: Arc<Policy>,
    /// The lock's directory, whether or not there is a lock: where commands run that print secrets.
    dir: PathBuf,
}

impl Plugin {
    pub(crate) fn manifest(&self) -> &Manifest {
        self.file.manifest()
    }

    /// Whether the policies admit the programs that the user chose by these options.
    pub(crate) fn admits(&self, options: &Map<String, Value>) -> Result<(), Failure> {
        let manifest = self.manifest();
        let options = Value::Object(with_defaults(&manifest.options, options));
        match self.policy.refuses_choice(&manifest.requests(), &options) {
            None => Ok(()),
            Some((option, program, rule)) => Err(Failure::new(format!(
                "`{}` can't run `{}`, which its option `{option}` says: {rule}",
                manifest.id,
                mst_sandbox::clean(program, 120, false)
            ))
            .hint("set the option to a program that is admitted; whoever keeps the policy can change it")),
        }
    }

    /// What it has here, with these options: what it was granted, with the values of the variables that it
    /// may read, the sources of its secrets, and whom it believes.
    pub(crate) fn permit(&self, options: &Map<String, Value>) -> Result<Permit, Failure> {
        self.admits(options)?;
        let names = self.granted.env_names();
        let variables = names.filter_map(|name| Some((name.to_owned(), place::var(name)?))).collect();
        let trust = if self.manifest().http.is_empty() { None } else { Some(trust()?) };
        let secrets = Arc::new(Sources::new(self.dir.clone()));
        Ok(Permit { variables, secrets, trust, ..Permit::new(self.granted.clone()) })
    }
}

/// The plugins that an eval may name.
pub(crate) struct Plugins {
    lock: LockFile,
    policy: Arc<Policy>,
}

impl Plugins {
    /// The first-party plugins and those of the lock, as far as the policies here admit them.
    /// `eval_dir` is where the eval is, which the lock need not be beside.
    pub(crate) fn new(lock: LockFile, eval_dir: &Path) -> Result<Plugins, Failure> {
        let policy = Arc::new(policies::found(lock.dir(), eval_dir)?);
        Ok(Plugins { lock, policy })
    }

    /// The plugin of this id.
    pub(crate) fn get(&self, id: &PluginId) -> Result<Plugin, Failure> {
        let (file, granted) = match first_party(id.as_str()) {
            Some(file) => {
                let file = file?;
                let granted = Granted::all(Arc::new(file.manifest().clone()));
                (file, granted)
            }
            None => self.pinned(id)?,
        };
        if let Some(rule) = self.policy.refuses_plugin(id) {
            return Err(Failure::new(rule).hint("whoever keeps the policy can change it"));
        }
        let mut refused = self.policy.refused_sources(granted.bindings());
        refused.extend(self.policy.refused(file.manifest()));
        self.check_granted(&file, &granted, &refused)?;
        let dir = std::env::current_dir()
            .map_err(|error| Failure::because("can't find the current directory", &error))?
            .join(self.lock.dir());
        let policy = self.policy.clone();
        Ok(Plugin { file, granted: Arc::new(granted.refused(refused)), policy, dir })
    }

    /// What was granted and is refused by a policy since is said before anything starts. What naming
    /// it grants counts only where it is named.
    fn check_granted(
        &self,
        file: &PluginFile,
        granted: &Granted,
        refused: &BTreeMap<Key, String>,
    ) -> Result<(), Failure> {
        let by_use = |key: &Key| {
            let mut requests = file.manifest().requests().into_iter();
            requests.any(|request| request.key() == *key && request.is_granted_by_use())
        };
        let both: Vec<(&Key, &String)> =
            refused.iter().filter(|(key, _)| granted.has(key) && !by_use(key)).collect();
        if both.is_empty() {
            return Ok(());
        }
        let id = &file.manifest().id;
        let mut failure = Failure::new(format!("`{id}` was granted what a policy refuses"));
        failure.causes = both.iter().map(|(key, rule)| format!("`{key}`: {rule}")).collect();
        Err(if is_own(id) {
            failure.hint("whoever keeps the policy can change it")
        } else {
            let keys: Vec<String> = both.iter().map(|(key, _)| key.quoted()).collect();
            failure.hint(format!(
                "`mst plugin revoke {id} {}{}` takes it back; whoever keeps the policy can change it",
                keys.join(" "),
                lock_argument(&self.lock)
            ))
        })
    }

    /// What the lock pins, where the file still is that.
    fn pinned(&self, id: &PluginId) -> Result<(PluginFile, Granted), Failure> {
        // What bears an id of mst's own and is not built in is none, whatever made the lock.
        let pinned = self.lock.lock.get(id).filter(|_| !is_own(id));
        let Some(pinned) = pinned else { return Err(self.unknown(id)) };
        let path = pinned.file(self.lock.dir());
        let file = read(&path)?;
        let granted =
            pinned.granted(&file, self.lock.dir()).map_err(|error| changed(&error, &path, &self.lock))?;
        Ok((
            file,
            match self.lock.argument() {
                Some(lock) => granted.in_lock(lock.to_owned()),
                None => granted,
            },
        ))
    }

    fn unknown(&self, id: &PluginId) -> Failure {
        let pinned = self.lock.lock.plugins().map(|plugin| plugin.id.as_str());
        let known = FIRST_PARTY.iter().map(|(known, _)| *known).chain(pinned);
        let hint = match near(id.as_str(), known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "a plugin that is not mst's own is added first: `mst plugin add FILE.wasm{}`",
                lock_argument(&self.lock)
            ),
        };
        Failure::new(format!("there is no plugin `{id}`")).hint(hint)
    }
}

/// ` --lock PATH`, where a command has to say it.
pub(crate) fn lock_argument(lock: &LockFile) -> String {
    lock.argument().map(|path| format!(" --lock {}", path.display())).unwrap_or_default()
}

/// What to tell of a file that is another one than was pinned.
pub(crate) fn changed(error: &LockError, path: &Path, lock: &LockFile) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        LockError::Digest { id, found, pinned } => {
            let mut failure = Failure::new(format!("the plugin `{id}` is not the one that was granted"));
            failure.causes = vec![
                format!("`{}` has {found}", path.display()),
                format!("`{}` pins {pinned}", lock.path().display()),
            ];
            failure.hint(format!(
                "bring back the file; or `mst plugin add {}{}` shows what the new one asks for, and pins it",
                path.display(),
                lock_argument(lock)
            ))
        }
        _ => failure.hint_if(error.hint()),
    }
}

/// A first-party plugin, where the id is one's.
pub(crate) fn first_party(id: &str) -> Option<Result<PluginFile, Failure>> {
    let (_, bytes) = FIRST_PARTY.iter().find(|(known, _)| *known == id)?;
    Some(
        PluginFile::read(bytes.to_vec())
            .map_err(|error| Failure::because(format!("the plugin `{id}` in this mst is damaged"), &error)),
    )
}

/// Whether this file is one of mst's own, byte for byte, whatever it says that it is.
pub(crate) fn is_built_in(file: &PluginFile) -> bool {
    let bytes = FIRST_PARTY.iter().find(|(id, _)| *id == file.manifest().id.as_str());
    bytes.is_some_and(|(_, bytes)| *bytes == file.bytes())
}

/// All first-party plugins.
pub(crate) fn all_first_party() -> Result<Vec<PluginFile>, Failure> {
    FIRST_PARTY.iter().filter_map(|(id, _)| first_party(id)).collect()
}

/// The first-party runners.
pub(crate) fn first_party_runners() -> Result<Vec<PluginFile>, Failure> {
    let runners = FIRST_PARTY.iter().filter(|(id, _)| id.contains("/runner/"));
    runners.filter_map(|(id, _)| first_party(id)).collect()
}

/// The plugin of a file, or by its id a first-party plugin or one of the lock.
pub(crate) fn find(name: &str, lock: &LockFile) -> Result<PluginFile, Failure> {
    if let Some(file) = first_party(name) {
        return file;
    }
    let path = Path::new(name);
    if !path.exists()
        && let Ok(id) = name.parse::<PluginId>()
    {
        if let Some(pinned) = lock.lock.get(&id).filter(|_| !is_own(&id)) {
            return read(&pinned.file(lock.dir()));
        }
        let pinned = lock.lock.plugins().map(|plugin| plugin.id.as_str());
        let known: Vec<String> = FIRST_PARTY
            .iter()
            .map(|(known, _)| *known)
            .chain(pinned)
            .map(|known| format!("`{known}`"))
            .collect();
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

/// Whose certificates servers may show to plugins: `SSL_CERT_FILE`'s, else those that browsers trust.
fn trust() -> Result<Trust, Failure> {
    let Some(path) = place::authorities() else {
        return Trust::public().map_err(|error| Failure::from_error(&error));
    };
    let failed = |error: &dyn std::error::Error| {
        Failure::because(format!("`SSL_CERT_FILE` names `{path}`, which can't be used"), error)
            .hint("it must be a PEM file of the authorities that plugins are to believe; unset it to believe those that browsers do")
    };
    let pem = fs::read(&path).map_err(|error| failed(&error))?;
    Trust::of_pem(&pem).map_err(|error| failed(&error))
}
