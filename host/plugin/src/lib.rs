//! What a plugin is on disk.
//!
//! For: the manifest and its command templates, the component file that carries it, the check of
//! a component against its world, the build from source to component, the listing of a
//! distribution, and the page that a reviewer reads.
//! Not for: running anything that stands in a plugin. Whatever is here works on bytes, so that a
//! plugin can be listed, inspected and granted before any of its code runs.
//! Must never know: wasmtime, a terminal, the process's own environment (`build` is handed one).
//!
//! Architecture invariant: a plugin's file was written by a stranger. Every text out of it that
//! reaches an error or a page is bounded, and escaped where it could deceive a reader.

pub mod build;
pub mod component;
mod contract;
pub mod dist;
pub mod grant;
pub mod inspect;
mod legible;
pub mod lock;
pub mod manifest;
pub mod policy;
pub mod request;
mod risk;
mod signature;
pub mod template;
pub mod world;

pub use component::{FileError, PluginFile};
pub use grant::{Admitted, Bindings, Granted, Refusal, Source};
pub use inspect::Page;
pub use lock::{Diff, Lock, LockError, Pinned};
pub use manifest::{Manifest, ManifestError};
pub use policy::Policy;
pub use request::{
    Access, Capability, CommandTemplate, Destination, Dir, Http, Key, Method, Request, Secret, SecretVar,
    Stdin,
};
pub use template::{FillError, HostValues, Template, TemplateError};
pub use world::{World, WorldError};

/// Why a file is no plugin that this version of mst can run.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] FileError),
    /// What the component imports or exports.
    #[error(transparent)]
    World(#[from] WorldError),
}

impl OpenError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenError::File(error) => error.hint(),
            OpenError::World(error) => error.hint(),
        }
    }
}

/// Reads a component file and checks it against the world that its manifest names. This is the
/// door for every plugin, built in or not; it executes nothing of it.
pub fn open(bytes: Vec<u8>) -> Result<PluginFile, OpenError> {
    let file = PluginFile::read(bytes)?;
    world::check(&file)?;
    Ok(file)
}
