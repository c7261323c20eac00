//! `plugins/dist/`: built plugins with a list of what they are and what built them.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use mst_model::{Digest, PluginId};
use serde::{Deserialize, Serialize};

use crate::component::PluginFile;
use crate::legible::shown;
use crate::{OpenError, open};

/// The list's file name.
pub const LIST: &str = "dist.json";
/// The name and version of its JSON.
pub const SCHEMA: &str = "mst.dist/v1";

/// `dist.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dist {
    /// `mst.dist/v1`.
    pub schema: String,
    /// One entry a file, in the order of their ids.
    pub plugins: Vec<Entry>,
}

/// One built plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its file beside the list.
    pub file: String,
    /// Who it is.
    pub id: PluginId,
    /// Its version.
    pub version: semver::Version,
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// The file's size.
    pub size_bytes: u64,
    /// What built it: where it is the same, the same sources give the same bytes.
    pub toolchain: String,
}

/// Why a directory is no distribution.
#[derive(Debug, thiserror::Error)]
pub enum DistError {
    /// A file that can't be read.
    #[error("can't read `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A list that is none.
    #[error("`{}` is no list of plugins", path.display())]
    List {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Another format.
    #[error("the list's format is `{0}`, and this mst reads `{SCHEMA}`")]
    Format(String),
    /// A file's name with a path in it.
    #[error("`{0}` is no file's name: a name that ends in `.wasm`, without a path")]
    FileName(String),
    /// Two entries for one file or one plugin.
    #[error("`{0}` stands twice in the list")]
    Twice(String),
    /// A component that the list does not have.
    #[error("`{0}` is not in the list")]
    NotListed(String),
    /// A file that is not what the list says.
    #[error("`{file}`: its {what} is `{found}`, and the list says `{listed}`")]
    Differs {
        /// Which file.
        file: String,
        /// What differs.
        what: &'static str,
        /// What the file has.
        found: String,
        /// What the list has.
        listed: String,
    },
    /// A file that is no plugin.
    #[error("`{file}` is no plugin")]
    Open {
        /// Which file.
        file: String,
        /// Why.
        #[source]
        source: Box<OpenError>,
    },
}

impl Entry {
    /// The entry for a built plugin. The file's name is `file_name`'s.
    pub fn of(file: &PluginFile, toolchain: &str) -> Entry {
        let manifest = file.manifest();
        Entry {
            file: file_name(&manifest.id),
            id: manifest.id.clone(),
            version: manifest.version.clone(),
            sha256: file.digest(),
            size_bytes: file.bytes().len() as u64,
            toolchain: toolchain.to_owned(),
        }
    }

    /// Holds a file's bytes to the entry.
    pub fn open(&self, bytes: Vec<u8>) -> Result<PluginFile, DistError> {
        let differs = |what, found: String, listed: String| {
            if found == listed {
                Ok(())
            } else {
                Err(DistError::Differs { file: self.file.clone(), what, found, listed })
            }
        };
        differs("digest", Digest::of(&bytes).to_string(), self.sha256.to_string())?;
        differs("size in bytes", bytes.len().to_string(), self.size_bytes.to_string())?;
        let file = open(bytes)
            .map_err(|source| DistError::Open { file: self.file.clone(), source: Box::new(source) })?;
        differs("id", file.manifest().id.to_string(), self.id.to_string())?;
        differs("version", file.manifest().version.to_string(), self.version.to_string())?;
        Ok(file)
    }
}

/// `mst.judge.text.wasm` for `mst/judge/text`: no two ids have one name.
pub fn file_name(id: &PluginId) -> String {
    format!("{}.wasm", id.as_str().replace('/', "."))
}

impl Dist {
    /// A list of these entries.
    pub fn new(mut plugins: Vec<Entry>) -> Dist {
        plugins.sort_by(|a, b| a.id.cmp(&b.id));
        Dist { schema: SCHEMA.to_owned(), plugins }
    }

    /// Reads `dist.json`'s text; `path` is for messages.
    pub fn from_json(text: &[u8], path: &Path) -> Result<Dist, DistError> {
        let no_list = |source| DistError::List { path: path.to_owned(), source };
        let value = mst_model::strict_json::from_slice(text).map_err(no_list)?;
        if let Some(schema) =
            value.get("schema").and_then(serde_json::Value::as_str).filter(|schema| *schema != SCHEMA)
        {
            return Err(DistError::Format(shown(schema, 64)));
        }
        let dist: Dist = serde_json::from_value(value).map_err(no_list)?;
        let mut seen = BTreeSet::new();
        for entry in &dist.plugins {
            if !entry.file.ends_with(".wasm")
                || entry.file.starts_with('.')
                || entry.file.contains(['/', '\\', '\0'])
            {
                return Err(DistError::FileName(shown(&entry.file, 120)));
            }
            for name in [entry.file.as_str(), entry.id.as_str()] {
                if !seen.insert(name) {
                    return Err(DistError::Twice(shown(name, 120)));
                }
            }
        }
        Ok(dist)
    }

    /// Its text: pretty, with a newline at the end, and the same for equal lists.
    pub fn to_json(&self) -> String {
        // A list of strings and numbers has no way to fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Reads a distribution and holds every file to the list and to its world. No component stands
/// there unlisted.
pub fn verify(dir: &Path) -> Result<Vec<(Entry, PluginFile)>, DistError> {
    let read = |path: PathBuf| std::fs::read(&path).map_err(|source| DistError::Read { path, source });
    let path = dir.join(LIST);
    let dist = Dist::from_json(&read(path.clone())?, &path)?;
    let no_dir = |source| DistError::Read { path: dir.to_owned(), source };
    for file in std::fs::read_dir(dir).map_err(no_dir)? {
        let name = file.map_err(no_dir)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".wasm") && dist.plugins.iter().all(|entry| entry.file != name) {
            return Err(DistError::NotListed(shown(&name, 120)));
        }
    }
    let opened = |entry: Entry| {
        let file = entry.open(read(dir.join(&entry.file))?)?;
        Ok((entry, file))
    };
    dist.plugins.into_iter().map(opened).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{tests::judge_manifest, with_manifest};
    use crate::world::tests::component_of;

    fn written(edit: impl FnOnce(&mut Dist)) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().expect("a directory");
        let bytes = with_manifest(&component_of("judge", None), &judge_manifest()).expect("embedded");
        let file = open(bytes.clone()).expect("a plugin");
        let mut dist = Dist::new(vec![Entry::of(&file, "rustc 1.0.0")]);
        let name = dist.plugins[0].file.clone();
        edit(&mut dist);
        std::fs::write(dir.path().join(&name), bytes).expect("written");
        std::fs::write(dir.path().join(LIST), dist.to_json()).expect("written");
        (dir, name)
    }

    #[test]
    fn what_was_written_is_verified() {
        let (dir, name) = written(|_| {});
        assert_eq!(name, "acme.judge.tone.wasm");
        let found = verify(dir.path()).expect("verified");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.toolchain, "rustc 1.0.0");
    }

    #[test]
    fn each_difference_is_found() {
        let of = |edit: &dyn Fn(&mut Dist)| verify(written(edit).0.path()).expect_err("differs").to_string();
        assert!(of(&|dist| dist.plugins[0].size_bytes += 1).contains("size in bytes"));
        assert!(of(&|dist| dist.plugins[0].sha256 = Digest::of(b"x")).contains("digest"));
        assert!(of(&|dist| dist.plugins[0].version.major += 1).contains("version"));
        assert!(
            of(&|dist| dist.plugins[0].id = "acme/judge/other".parse().expect("an id")).contains("its id")
        );
        assert!(of(&|dist| dist.plugins.clear()).contains("not in the list"));
        assert!(of(&|dist| dist.plugins[0].file = "../x.wasm".into()).contains("no file's name"));
        assert!(of(&|dist| dist.plugins.push(dist.plugins[0].clone())).contains("stands twice"));
        assert!(of(&|dist| dist.schema = "mst.dist/v2".into()).contains("mst.dist/v2"));
        let (dir, name) = written(|_| {});
        let path = dir.path().join(name);
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[100] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        assert!(matches!(verify(dir.path()), Err(DistError::Differs { what: "digest", .. })));
        std::fs::remove_file(&path).expect("removed");
        assert!(matches!(verify(dir.path()), Err(DistError::Read { .. })));
    }
}
