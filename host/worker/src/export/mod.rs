//! Keeping what a client left in its workspace.
//!
//! Only plain files are kept. Whatever else is there, is too much, or can't be read is listed
//! with the reason, so that nobody takes a file for missing that was merely not kept.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mst_model::case::check_path;
use mst_model::transcript::{FileEntry, Omitted, Scrubbed};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use crate::tokens::Scrubber;
use crate::until::{Late, Until};
use crate::workspace;

/// Directories that are built from other things, or are history, and that grow without bound.
const LEFT_OUT: [&str; 7] = ["node_modules", "vendor", ".venv", ".git", ".next", ".cache", "__pycache__"];

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    files: usize,
    file_bytes: u64,
    total_bytes: u64,
    /// Entries of one directory that are looked at.
    entries: usize,
    /// Directories in one another; each holds a descriptor open.
    depth: usize,
    /// Omissions that are listed one by one.
    omitted: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            files: 10_000,
            file_bytes: 64 << 20,
            total_bytes: 256 << 20,
            entries: 100_000,
            depth: 64,
            omitted: 1_000,
        }
    }
}

/// What was kept and what was not.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    pub(crate) files: Vec<FileEntry>,
    pub(crate) omitted: Vec<Omitted>,
    /// What was taken out of the files.
    pub(crate) scrubbed: Vec<Scrubbed>,
}

/// A workspace that could not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// There was no time.
    #[error(transparent)]
    Late(#[from] Late),
    /// Where it was to go.
    #[error("can't write `{}`", path.display())]
    Staging { path: PathBuf, source: io::Error },
}

/// Copies what is kept of `from` into `into`, which is made when there is something, without the
/// tokens that stand in it: none is written first and taken out then. Blocks.
///
/// The client's processes are gone by now, as far as anybody can tell. Should one be left and
/// move things about, it can spoil its own export and reach nothing else: every step is taken
/// from an open directory, by one name, without following a link.
pub(crate) fn export(
    from: &Path,
    into: &Path,
    scrubber: &Scrubber,
    bounds: Bounds,
    until: Until,
) -> Result<Exported, ExportError> {
    let exported = Exported::default();
    let mut keeper = Keeper { into, scrubber, bounds, until, exported, bytes: 0, not_listed: 0 };
    match rustix::fs::open(from, OFlags::DIRECTORY | READ, Mode::empty()) {
        Ok(root) => keeper.directory(&root, "", 0)?,
        Err(error) => keeper.omit(".", format!("the workspace is no directory any more: {error}")),
    }
    let Keeper { mut exported, not_listed, .. } = keeper;
    if not_listed > 0 {
        exported.omitted.push(Omitted { path: ".".to_owned(), why: format!("and {not_listed} more") });
    }
    exported.files.sort_by(|one, other| one.path.cmp(&other.path));
    exported.scrubbed.sort_by(|one, other| one.entry.cmp(&other.entry));
    Ok(exported)
}

/// Removes the directories above `file`, which was removed, that hold nothing any more, as far as
/// `root`, which stays.
fn remove_emptied(file: &Path, root: &Path) {
    let above = file.ancestors().skip(1).take_while(|dir| *dir != root);
    for dir in above {
        // One that holds something stays, and so do those above it.
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

/// Without waiting: to open a FIFO that nobody writes to would take for ever.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

struct Keeper<'a> {
    into: &'a Path,
    scrubber: &'a Scrubber,
    bounds: Bounds,
    until: Until,
    exported: Exported,
    bytes: u64,
    not_listed: u64,
}

impl Keeper<'_> {
    fn omit(&mut self, path: &str, why: impl Into<String>) {
        if self.exported.omitted.len() < self.bounds.omitted {
            let path = self.scrubber.name(path).unwrap_or_else(|| path.to_owned());
            self.exported.omitted.push(Omitted { path, why: why.into() });
        } else {
            self.not_listed += 1;
        }
    }

    fn directory(&mut self, dir: &OwnedFd, path: &str, depth: usize) -> Result<(), ExportError> {
        let names = match self.names(dir, path) {
            Ok(names) => names,
            Err(error) => {
                self.omit(if path.is_empty() { "." } else { path }, format!("it can't be listed: {error}"));
                return Ok(());
            }
        };
        for name in names {
            self.until.check()?;
            let shown = name.to_string_lossy();
            let path = if path.is_empty() { shown.clone().into_owned() } else { format!("{path}/{shown}") };
            if name.to_str().is_err() {
                self.omit(&path, "its name is no UTF-8");
            } else if let Err(refused) = check_path(&path) {
                let path = path.escape_debug().to_string();
                self.omit(&path, refused.to_string());
            } else {
                self.entry(dir, &name, path, depth)?;
            }
        }
        Ok(())
    }

    /// In the order of the names, so that what a bound cuts off is the same every time.
    fn names(&mut self, dir: &OwnedFd, path: &str) -> io::Result<Vec<CString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(dir)? {
            let name = entry?.file_name().to_owned();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if names.len() == self.bounds.entries {
                let why = format!("it has more than {} entries", self.bounds.entries);
                self.omit(if path.is_empty() { "." } else { path }, why);
                break;
            }
            names.push(name);
        }
        names.sort_unstable();
        Ok(names)
    }

    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &CString,
        path: String,
        depth: usize,
    ) -> Result<(), ExportError> {
        let kind = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(error) => {
                self.omit(&path, format!("it can't be looked at: {error}"));
                return Ok(());
            }
        };
        let last = name.to_str().unwrap_or_default();
        match kind {
            FileType::Directory if LEFT_OUT.contains(&last) => {
                self.omit(&path, "directories of this name are not kept")
            }
            FileType::Directory if depth + 1 == self.bounds.depth => {
                self.omit(&path, format!("it is more than {} directories deep", self.bounds.depth));
            }
            FileType::Directory => match openat(dir, name, OFlags::DIRECTORY | READ, Mode::empty()) {
                Ok(inner) => self.directory(&inner, &path, depth + 1)?,
                Err(error) => self.omit(&path, format!("it can't be opened: {error}")),
            },
            FileType::RegularFile if may_hold_secrets(last) => {
                self.omit(&path, "files of this name may hold secrets")
            }
            FileType::RegularFile => self.file(dir, name, path)?,
            FileType::Symlink => self.omit(&path, "it is a symbolic link"),
            FileType::Fifo => self.omit(&path, "it is a FIFO"),
            FileType::Socket => self.omit(&path, "it is a socket"),
            _ => self.omit(&path, "it is no plain file"),
        }
        Ok(())
    }

    fn file(&mut self, dir: &OwnedFd, name: &CString, path: String) -> Result<(), ExportError> {
        if self.exported.files.len() == self.bounds.files {
            self.omit(&path, format!("there are more than {} files", self.bounds.files));
            return Ok(());
        }
        if self.scrubber.name(&path).is_some() {
            self.omit(&path, "a token stands in its name");
            return Ok(());
        }
        let opened = openat(dir, name, READ, Mode::empty()).map(File::from);
        let looked = opened.map_err(io::Error::from).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = match looked {
            Ok((metadata, file)) if metadata.is_file() => (metadata, file),
            Ok(_) => {
                self.omit(&path, "it is no plain file");
                return Ok(());
            }
            Err(error) => {
                self.omit(&path, format!("it can't be opened: {error}"));
                return Ok(());
            }
        };
        let room = self.bounds.file_bytes.min(self.bounds.total_bytes - self.bytes);
        if metadata.len() > room {
            let why = self.too_large(metadata.len());
            self.omit(&path, why);
            return Ok(());
        }
        let to = self.into.join(&path);
        let staging = |source| ExportError::Staging { path: to.clone(), source };
        let mut target = create(&to).map_err(staging)?;
        // It may have grown since, so it is read to one byte more than there is room for; and it may
        // grow by what stands in place of tokens.
        let mut written = Ok(());
        let mut late = Ok(());
        let mut clean = self.scrubber.reader(file.take(room + 1));
        let copied = workspace::copy(&mut clean.by_ref().take(room + 1), |piece| {
            late = self.until.check();
            written = target.write_all(piece);
            match (&written, &late) {
                (Ok(()), Ok(())) => Ok(()),
                _ => Err(io::ErrorKind::Other.into()),
            }
        });
        written.map_err(staging)?;
        late?;
        let why = match copied {
            Ok((size_bytes, sha256)) if size_bytes <= room && clean.source().limit() > 0 => {
                self.bytes += size_bytes;
                self.exported.scrubbed.extend(clean.scrubbed(&format!("files/{path}")));
                let executable = metadata.mode() & 0o100 != 0;
                self.exported.files.push(FileEntry { path, size_bytes, sha256, executable });
                return Ok(());
            }
            Ok((size_bytes, _)) => self.too_large(size_bytes.max(room + 1 - clean.source().limit())),
            Err(error) => format!("it can't be read: {error}"),
        };
        fs::remove_file(&to).map_err(staging)?;
        remove_emptied(&to, self.into);
        self.omit(&path, why);
        Ok(())
    }

    fn too_large(&self, size: u64) -> String {
        if size > self.bounds.file_bytes {
            format!("it is larger than {} bytes", self.bounds.file_bytes)
        } else {
            format!("with it, the files would be larger than {} bytes together", self.bounds.total_bytes)
        }
    }
}

/// `.env` and its kin hold the settings of one machine, secrets among them; the examples that
/// projects keep beside them do not.
fn may_hold_secrets(name: &str) -> bool {
    match name.strip_prefix(".env") {
        Some(".example" | ".sample") => false,
        Some(rest) => rest.is_empty() || rest.starts_with('.'),
        None => false,
    }
}

/// Makes the file, and the directories above it where they are not there.
fn create(path: &Path) -> io::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).open(path);
    match (create(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(parent)?;
            create()
        }
        (made, _) => made,
    }
}

#[cfg(test)]
mod tests;
