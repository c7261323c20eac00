//! The AOT cache: compiled components, kept between processes.
//!
//! An entry is native code that the host will run, so it is trusted only as far as a MAC under a
//! key that this user alone can read. The MAC covers the component's digest and the engine's
//! compatibility hash, so that an entry under a wrong name is as bad as a damaged one. Any doubt
//! is a miss: the component is compiled again and the entry replaced, by rename. Entries that were not
//! used for longest make room for others.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use mst_model::Digest;
use sha2::Sha256;
use wasmtime::Engine;
use wasmtime::component::Component;

mod room;

const MAC_BYTES: usize = 32;
const KEY_BYTES: usize = 32;

/// The largest entry that is read, in bytes: native code is a few times its component.
const MAX_ENTRY: usize = 1 << 30;

/// How a component came to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheEvent {
    /// It was there, whole and ours.
    Hit,
    /// It was not there, or there was some doubt; it was compiled.
    Miss,
    /// There is no cache: none was asked for, or its directory can't be used.
    Off,
}

/// A directory of compiled components.
#[derive(Debug)]
pub struct Cache {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    dir: PathBuf,
    key: [u8; KEY_BYTES],
    /// What its entries may take, in bytes.
    room: u64,
}

impl Cache {
    /// No cache.
    pub fn off() -> Cache {
        Cache { open: None }
    }

    /// The cache in `dir`, which is made where it is missing. A directory that can't be used is
    /// no error: there is no cache then.
    pub fn at(dir: &Path) -> Cache {
        let open = local_key(dir).map(|key| Open { dir: dir.to_owned(), key, room: room::ROOM });
        Cache { open: open.ok() }
    }

    /// The component of `bytes`, from the cache or compiled.
    pub(crate) fn component(
        &self,
        engine: &Engine,
        digest: Digest,
        bytes: &[u8],
    ) -> wasmtime::Result<(Component, CacheEvent)> {
        let Some(open) = &self.open else {
            return Ok((Component::new(engine, bytes)?, CacheEvent::Off));
        };
        let label = Label::of(engine, digest);
        if let Some(component) = open.load(engine, &label) {
            return Ok((component, CacheEvent::Hit));
        }
        let component = Component::new(engine, bytes)?;
        // A cache that can't be written costs time and nothing else.
        if let Ok(code) = component.serialize() {
            let _ = open.store(&label, &code);
        }
        Ok((component, CacheEvent::Miss))
    }
}

/// What an entry is for: the component, and the engine that compiled it.
struct Label {
    component: Digest,
    engine: Digest,
}

impl Label {
    fn of(engine: &Engine, component: Digest) -> Label {
        let mut hasher = Collect(Vec::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Label { component, engine: Digest::of(&hasher.0) }
    }

    fn file_name(&self) -> String {
        format!("{}-{}{}", self.component.hex(), &self.engine.hex()[..16], room::ENTRY)
    }
}

/// Collects what a value feeds its hasher: std's own hashes are too short to be an identity.
struct Collect(Vec<u8>);

impl Hasher for Collect {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("only what is written matters")
    }
}

impl Open {
    fn mac(&self, label: &Label, code: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(b"mst.cwasm/v1\0");
        mac.update(label.component.as_bytes());
        mac.update(label.engine.as_bytes());
        mac.update(code);
        Some(mac)
    }

    fn load(&self, engine: &Engine, label: &Label) -> Option<Component> {
        let mut file = open_plain(&self.dir.join(label.file_name())).ok()?;
        let size = usize::try_from(file.metadata().ok()?.len()).ok().filter(|size| *size <= MAX_ENTRY)?;
        let mut entry = Vec::with_capacity(size);
        file.read_to_end(&mut entry).ok()?;
        room::used(&file);
        let (mac, code) = entry.split_at_checked(MAC_BYTES)?;
        self.mac(label, code)?.verify_slice(mac).ok()?;
        #[expect(
            unsafe_code,
            reason = "the MAC says that this user's mst wrote these bytes, for this engine"
        )]
        let component = unsafe { Component::deserialize(engine, code) };
        component.ok()
    }

    fn store(&self, label: &Label, code: &[u8]) -> io::Result<()> {
        let mac = self.mac(label, code).ok_or(io::ErrorKind::InvalidInput)?;
        let mut file = tempfile::Builder::new().prefix(room::HALF_WRITTEN).tempfile_in(&self.dir)?;
        file.write_all(&mac.finalize().into_bytes())?;
        file.write_all(code)?;
        let entry = self.dir.join(label.file_name());
        file.persist(&entry)?;
        room::make(&self.dir, self.room, &entry);
        Ok(())
    }
}

/// This user's key, made where it is missing. One that others can read or that is not ours is
/// refused.
fn local_key(dir: &Path) -> io::Result<[u8; KEY_BYTES]> {
    make_dir(dir)?;
    let path = dir.join("key");
    if !path.exists() {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        // Made with mode 0600 by tempfile; the first of two processes wins.
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&key)?;
        file.as_file().sync_data()?;
        match file.persist_noclobber(&path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(error.error),
            _ => {}
        }
    }
    let file = open_plain(&path)?;
    if !ours_alone(&file.metadata()?) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the key is not this user's alone"));
    }
    let mut key = Vec::new();
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut key)?;
    key.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the key has a wrong size"))
}

/// Opens a file and nothing else: no link is followed, and no pipe waited for.
fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"))
    }
}

#[cfg(unix)]
fn make_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    // Nobody else has any business there. One that is there already stays as it is: whoever can
    // write to it can cost time, and the MAC sees to the rest.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn make_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

#[cfg(unix)]
fn ours_alone(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    meta.mode() & 0o077 == 0 && meta.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn ours_alone(_: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests;
