//! `mst.lock`: which plugins an eval may use, which bytes each of them is, and what a person
//! granted it. It lies beside the eval and is committed with it.
//!
//! Of each plugin it holds the whole text of every request, with a word on whether it is granted,
//! so that who reviews a change of the file reads there what widens. What was granted is bound to
//! the component's digest. `host/docs/decisions/0005` says why it looks as it does.

mod diff;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mst_model::{Digest, Kind, PluginId};

pub use diff::{Change, Diff, Wider};

use crate::component::PluginFile;
use crate::grant::{Bindings, Granted};
use crate::legible::shown;
use crate::manifest::ManifestError;
use crate::request::{Capability, Dir, Key, Request};
use crate::world::World;

/// Its name.
pub const FILE: &str = "mst.lock";
/// The name and version of its format.
pub const SCHEMA: &str = "mst.lock/v1";
/// The largest that is read, in bytes.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The organisation whose plugins are built into mst. Nobody else's plugin may bear its name, and
/// no lock says what one of them is.
const OWN: &str = "mst/";

/// Whether only a plugin that is built into mst may bear this id.
pub fn is_own(id: &PluginId) -> bool {
    id.as_str().starts_with(OWN)
}

/// The plugins that may be used here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lock {
    plugins: BTreeMap<PluginId, Pinned>,
}

/// A plugin that may be used here, as it was when somebody looked at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pinned {
    /// Who it is.
    pub id: PluginId,
    /// Its version.
    pub version: semver::Version,
    /// Its file: relative to the lock's directory, or absolute.
    pub source: PathBuf,
    /// Which bytes.
    pub sha256: Digest,
    /// What it implements.
    pub world: World,
    /// The most shards that a run may ask it for; of a runner. None in a lock that does not say it.
    pub max_shards: Option<u32>,
    /// Whether it leads local ports to a machine's; of a `machine-runner`.
    pub forward_port: Option<bool>,
    /// What it asks for, by key.
    pub requests: BTreeMap<Key, Asked>,
    /// What its names are bound to. Relative paths are relative to the lock's directory.
    pub bindings: Bindings,
}

/// A request, and whether it is granted.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The whole of it.
    pub request: Request,
    /// Whether it is granted.
    pub granted: bool,
}

/// Why a text is no lock, or a plugin not the one that is pinned.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Too much of it.
    #[error("it has {size_bytes} bytes; at most {MAX_BYTES} are admitted")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
    },
    /// No TOML. The source says line and column.
    #[error("it is no TOML")]
    Toml(#[source] Box<toml::de::Error>),
    /// Something in it that TOML can't say.
    #[error("it can't be written as TOML")]
    Write(#[source] Box<toml::ser::Error>),
    /// Another format than this version of mst reads.
    #[error("its format is `{found}`, and this mst reads `{SCHEMA}`")]
    Format {
        /// What it says.
        found: String,
        /// Whether it is a later version of ours.
        newer: bool,
    },
    /// A field that is wrong.
    #[error(transparent)]
    Field(Box<ManifestError>),
    /// An entry for a plugin of mst's own. `add` writes none: policies and people take such an id
    /// for mst's word.
    #[error(
        "it has an entry for `{0}`: ids that begin with `{OWN}` are of mst's own plugins, which no lock pins"
    )]
    Own(PluginId),
    /// Two entries for one plugin, or for one request of it.
    #[error("`{0}` stands twice")]
    Twice(String),
    /// The file is another one than was looked at.
    #[error(
        "the plugin `{id}` is not the one that was granted: its file has {found}, and the lock pins {pinned}"
    )]
    Digest {
        /// Which.
        id: PluginId,
        /// The file's.
        found: Digest,
        /// The lock's.
        pinned: Digest,
    },
    /// The lock says another id of these bytes than they say themselves.
    #[error("the lock calls the plugin `{pinned}`, and its file says that it is `{found}`")]
    Id {
        /// The lock's word.
        pinned: PluginId,
        /// The file's word.
        found: PluginId,
    },
}

impl LockError {
    /// What to do about it, where this page knows.
    pub fn hint(&self) -> Option<String> {
        match self {
            LockError::Format { newer: true, .. } => Some("upgrade mst".to_owned()),
            LockError::Own(_) => Some("take the entry out".to_owned()),
            LockError::Format { newer: false, .. }
            | LockError::TooLarge { .. }
            | LockError::Toml(_)
            | LockError::Twice(_) => {
                Some("`mst plugin add` writes it; bring back the one that was committed".to_owned())
            }
            LockError::Field(error) => error.hint().or_else(|| {
                Some("`mst plugin add` writes it; bring back the one that was committed".to_owned())
            }),
            _ => None,
        }
    }
}

impl Lock {
    /// Reads one. What it does not know it refuses.
    pub fn from_toml(text: &str) -> Result<Lock, LockError> {
        text::read(text)
    }

    /// Its text: the same for equal locks, whatever order they were made in.
    pub fn to_toml(&self) -> Result<String, LockError> {
        text::write(self)
    }

    /// All plugins, by their ids.
    pub fn plugins(&self) -> impl Iterator<Item = &Pinned> {
        self.plugins.values()
    }

    /// The plugin of this id.
    pub fn get(&self, id: &PluginId) -> Option<&Pinned> {
        self.plugins.get(id)
    }

    /// Puts a plugin in, in place of the one that has its id.
    pub fn put(&mut self, plugin: Pinned) {
        self.plugins.insert(plugin.id.clone(), plugin);
    }

    /// Takes a plugin out.
    pub fn remove(&mut self, id: &PluginId) -> Option<Pinned> {
        self.plugins.remove(id)
    }
}

impl Pinned {
    /// A plugin of which nothing is granted.
    pub fn new(file: &PluginFile, source: PathBuf) -> Pinned {
        let manifest = file.manifest();
        let asked = |request: Request| (request.key(), Asked { request, granted: false });
        Pinned {
            id: manifest.id.clone(),
            version: manifest.version.clone(),
            source,
            sha256: file.digest(),
            world: manifest.world,
            max_shards: (manifest.world.kind() == Kind::Runner).then_some(manifest.max_shards),
            forward_port: (manifest.world == World::MachineRunner).then_some(manifest.forward_port),
            requests: manifest.requests().into_iter().map(asked).collect(),
            bindings: Bindings::default(),
        }
    }

    /// With the grants and bindings of an earlier one, as far as they reach. What they do not
    /// reach is the diff.
    pub fn taking_over(mut self, earlier: &Pinned) -> (Pinned, Diff) {
        let diff = Diff::of(earlier, &self);
        for asked in self.requests.values_mut() {
            asked.granted = earlier.grants(&asked.request);
        }
        let mut bindings = earlier.bindings.clone();
        // One that an option names now is no more where the earlier one was bound.
        bindings.dirs.retain(|name, _| {
            let asked = self.requests.get(&Key::new(Capability::Dir, name));
            asked.is_some_and(|asked| matches!(asked.request, Request::Dir(Dir { option: None, .. })))
        });
        bindings.secrets.retain(|name, _| self.requests.contains_key(&Key::new(Capability::Secret, name)));
        self.bindings = bindings;
        (self, diff)
    }

    /// Whether this request is within one that is granted.
    fn grants(&self, request: &Request) -> bool {
        self.requests.values().any(|asked| asked.granted && request.is_within(&asked.request))
    }

    /// What a request still needs to know before it can be granted: where a `dir` is that no
    /// option names, where a secret's value comes from.
    pub fn unbound(&self, key: &Key) -> bool {
        match self.requests.get(key).map(|asked| &asked.request) {
            Some(Request::Dir(Dir { option: None, name, .. })) => !self.bindings.dirs.contains_key(name),
            Some(Request::Secret(secret)) => !self.bindings.secrets.contains_key(&secret.name),
            _ => false,
        }
    }

    /// Its file, seen from the lock's directory.
    pub fn file(&self, lock_dir: &Path) -> PathBuf {
        lock_dir.join(&self.source)
    }

    /// Holds a file to what is pinned.
    pub fn check(&self, file: &PluginFile) -> Result<(), LockError> {
        if file.digest() != self.sha256 {
            return Err(LockError::Digest { id: self.id.clone(), found: file.digest(), pinned: self.sha256 });
        }
        if file.manifest().id != self.id {
            return Err(LockError::Id { pinned: self.id.clone(), found: file.manifest().id.clone() });
        }
        Ok(())
    }

    /// What the plugin of this file may do here. A request is granted where what the file asks for
    /// is within what the lock says was granted, so that the lock's text counts and not its word.
    pub fn granted(&self, file: &PluginFile, lock_dir: &Path) -> Result<Granted, LockError> {
        self.check(file)?;
        let keys = file.manifest().requests().into_iter().filter(|request| self.grants(request));
        let keys: Vec<Key> = keys.map(|request| request.key()).collect();
        Ok(Granted::only(Arc::new(file.manifest().clone()), keys).bound(self.bindings.seen_from(lock_dir)))
    }
}

/// A key that a plugin does not ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{id}` does not ask for `{key}`")]
pub struct NotAsked {
    /// The plugin.
    pub id: PluginId,
    /// What was named.
    pub key: Key,
    /// What it asks for.
    pub known: Vec<Key>,
}

impl NotAsked {
    /// The key that was probably meant, or all of them.
    pub fn hint(&self) -> String {
        let known: Vec<String> = self.known.iter().map(ToString::to_string).collect();
        match mst_model::schema::near(&self.key.to_string(), known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "it asks for nothing".to_owned(),
            None => format!("it asks for {}", crate::legible::listed(known.iter().map(String::as_str))),
        }
    }
}

impl Pinned {
    /// A request of the plugin's, to be changed.
    pub fn asked(&mut self, key: &Key) -> Result<&mut Asked, NotAsked> {
        let known: Vec<Key> = self.requests.keys().cloned().collect();
        let id = self.id.clone();
        self.requests.get_mut(key).ok_or_else(|| NotAsked { id, key: key.clone(), known })
    }
}

fn field(error: ManifestError) -> LockError {
    LockError::Field(Box::new(error))
}

fn format_of(found: &str) -> LockError {
    let version = found.strip_prefix("mst.lock/v").and_then(|version| version.parse::<u32>().ok());
    LockError::Format { found: shown(found, 64), newer: version.is_some_and(|version| version > 1) }
}

#[cfg(test)]
mod tests;
