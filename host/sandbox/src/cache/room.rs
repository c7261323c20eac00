//! Room in the cache: where entries take more than they may, those go that were not used for longest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What all entries may take together, in bytes: some hundred components.
pub(super) const ROOM: u64 = 512 << 20;

/// How exactly it is kept when an entry was used: a hit mostly writes nothing.
const USED: Duration = Duration::from_secs(3600);

/// A file that is half-written for so long has nobody any more who writes it.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// How entries' names end.
pub(super) const ENTRY: &str = ".cwasm";

/// How the names of files begin that are being written.
pub(super) const HALF_WRITTEN: &str = ".tmp";

/// An entry was used.
pub(super) fn used(entry: &File) {
    let now = SystemTime::now();
    let since = entry.metadata().and_then(|meta| meta.modified());
    if since.is_ok_and(|since| now.duration_since(since).is_ok_and(|age| age > USED)) {
        // One that seems older than it is goes sooner, and is made again.
        let _ = entry.set_modified(now);
    }
}

/// Removes entries until all take `room` at most, and what was left half-written; not `new`, which has just
/// come. What can't be removed stays.
pub(super) fn make(dir: &Path, room: u64, new: &Path) {
    let Ok(listed) = fs::read_dir(dir) else { return };
    let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for file in listed.flatten() {
        let (name, path) = (file.file_name(), file.path());
        // Of the file itself: a link is none of this cache's.
        let Some(meta) = file.metadata().ok().filter(fs::Metadata::is_file) else { continue };
        let Ok(modified) = meta.modified() else { continue };
        let name = name.to_string_lossy();
        if name.ends_with(ENTRY) {
            entries.push((modified, meta.len(), path));
        } else if name.starts_with(HALF_WRITTEN) && modified.elapsed().is_ok_and(|age| age > LEFT) {
            let _ = fs::remove_file(path);
        }
    }
    entries.sort();
    let mut taken: u64 = entries.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in entries.iter().filter(|(_, _, path)| path != new) {
        if taken <= room {
            return;
        }
        // Whoever has it open still reads it whole.
        if fs::remove_file(path).is_ok() {
            taken -= size;
        }
    }
}
