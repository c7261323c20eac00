//! Walks over a trial's directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{Result, StoreError};

/// Calls `file` with every file under `root`: its path relative to `root`, with `/`, and its
/// path. Anything but files and directories is refused, a symbolic link above all: what a worker
/// sends must not make a reader open what lies elsewhere.
pub(crate) fn files(root: &Path, mut file: impl FnMut(&str, &Path) -> Result<()>) -> Result<()> {
    // A list instead of recursion: how deep a tree goes is its maker's choice.
    let mut folders = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let list = |error| StoreError::io("list", &folder)(error);
        for entry in fs::read_dir(&folder).map_err(list)? {
            let entry = entry.map_err(list)?;
            let path = entry.path();
            let kind = entry.file_type().map_err(StoreError::io("read", &path))?;
            let Ok(name) = entry.file_name().into_string() else {
                return Err(StoreError::Unlisted { path });
            };
            let relative = format!("{prefix}{name}");
            if kind.is_dir() {
                folders.push((path, format!("{relative}/")));
            } else if kind.is_file() {
                file(&relative, &path)?;
            } else {
                return Err(StoreError::NotPlain { path });
            }
        }
    }
    Ok(())
}

/// The bytes of every file under `root` reach the disk.
pub(crate) fn sync(root: &Path) -> Result<()> {
    files(root, |_, path| {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        // An empty file has no bytes to lose, and many a `stderr` is empty.
        match file.metadata().map_err(StoreError::io("read", path))?.len() {
            0 => Ok(()),
            _ => crate::atomic::sync(&file, path),
        }
    })
}

/// Copies what lies in `from` into the empty directory `to`.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut made: Option<PathBuf> = None;
    files(from, |relative, path| {
        let target = to.join(relative);
        if let Some(parent) = target.parent()
            && made.as_deref() != Some(parent)
        {
            fs::create_dir_all(parent).map_err(StoreError::io("make directory", parent))?;
            made = Some(parent.to_owned());
        }
        fs::copy(path, &target).map_err(StoreError::io("copy", path))?;
        Ok(())
    })
}
