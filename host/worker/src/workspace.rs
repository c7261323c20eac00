//! The directory that a client works in: made fresh for a trial, restored for its judges.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use mst_model::Digest;
use mst_model::case::{CaseFile, check_path};
use mst_model::digest::Digester;
use mst_model::transcript::{FileEntry, Transcript};
use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::until::Until;

/// A trial's own directories. Dropped, they are removed as far as that goes without a fight.
pub(crate) struct Workspace {
    /// `work/` is the workspace; `tmp/` and `prompt` lie beside it, where the client's own files
    /// can't meet them.
    root: TempDir,
}

impl Workspace {
    /// Makes a workspace in `scratch` with `files` in it. Blocks.
    pub(crate) fn fresh(
        scratch: &Path,
        prompt: &str,
        files: &[CaseFile],
        until: Until,
    ) -> io::Result<Workspace> {
        let named = |path: &Path, error| said(path, error);
        let root = temp_dir(scratch).map_err(|error| named(scratch, error))?;
        let workspace = Workspace { root };
        for dir in [workspace.dir(), workspace.temp()] {
            fs::create_dir(&dir).map_err(|error| named(&dir, error))?;
        }
        let file = workspace.prompt_file();
        fs::write(&file, prompt).map_err(|error| named(&file, error))?;
        for file in files {
            until.check().map_err(io::Error::other)?;
            let placed =
                place(&workspace.dir(), &file.path, file.executable, |to| to.write_all(&file.content.0));
            placed.map_err(|error| named(Path::new(&file.path), error))?;
        }
        Ok(workspace)
    }

    /// Where the client starts.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Its TMPDIR.
    pub(crate) fn temp(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    /// The prompt.
    pub(crate) fn prompt_file(&self) -> PathBuf {
        self.root.path().join("prompt")
    }

    /// Removes it, also where the client left directories that may not be written to, as many
    /// package managers do. Blocks.
    pub(crate) fn remove(self, until: Until) -> io::Result<()> {
        remove_tree(self.root, until)
    }
}

/// Removes a directory of ours, whatever modes the programs in it left. Blocks.
pub(crate) fn remove_tree(root: TempDir, until: Until) -> io::Result<()> {
    let path = root.path().to_owned();
    if root.close().is_err() {
        open_up(&path, until)?;
        fs::remove_dir_all(&path)?;
    }
    Ok(())
}

/// Copies the files of a stored trial into the directory `into`, each held to its digest. The
/// stored directory may come from a machine that nobody vouches for: no link in it is followed.
/// Blocks.
///
/// # Errors
/// Where a file can't be copied, or is not what the transcript says.
pub(crate) fn restore(trial: &Path, transcript: &Transcript, into: &Path) -> io::Result<()> {
    let from = rustix::fs::open(trial.join("files"), OFlags::DIRECTORY | READ, MODE);
    for entry in &transcript.files {
        let from = from.as_ref().map_err(|error| said(&trial.join("files"), (*error).into()))?;
        restore_one(from, entry, into).map_err(|error| said(Path::new(&entry.path), error))?;
    }
    Ok(())
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
const MODE: rustix::fs::Mode = rustix::fs::Mode::empty();

fn restore_one(from: &rustix::fd::OwnedFd, entry: &FileEntry, into: &Path) -> io::Result<()> {
    check_path(&entry.path).map_err(io::Error::other)?;
    let mut parts: Vec<&str> = entry.path.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    let mut dir = None;
    for part in parts {
        let parent = dir.as_ref().unwrap_or(from);
        dir = Some(rustix::fs::openat(parent, part, OFlags::DIRECTORY | READ, MODE)?);
    }
    let file = File::from(rustix::fs::openat(dir.as_ref().unwrap_or(from), name, READ, MODE)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    // One byte more than there should be tells a longer file apart.
    let mut file = file.take(entry.size_bytes.saturating_add(1));
    let mut found = None;
    place(into, &entry.path, entry.executable, |to| {
        found = Some(copy(&mut file, |piece| to.write_all(piece))?);
        Ok(())
    })?;
    match found {
        Some((size, sha256)) if size == entry.size_bytes && sha256 == entry.sha256 => Ok(()),
        _ => Err(io::Error::other("it is not the file that the transcript tells of")),
    }
}

/// Hands everything that `from` holds on to `to`; the size and the digest of it.
pub(crate) fn copy(
    from: &mut impl io::Read,
    mut to: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(u64, Digest)> {
    let mut digester = Digester::default();
    let mut size = 0;
    let mut piece = [0; 32 << 10];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok((size, digester.finish())),
            Ok(read) => {
                to(&piece[..read])?;
                digester.update(&piece[..read]);
                size += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes the file `path` below `dir`, with the directories above it.
fn place(
    dir: &Path,
    path: &str,
    executable: bool,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    check_path(path).map_err(io::Error::other)?;
    let to = dir.join(path);
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let mode = if executable { 0o777 } else { 0o666 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&to)?;
    fill(&mut file)
}

fn temp_dir(scratch: &Path) -> io::Result<TempDir> {
    let mut named = tempfile::Builder::new();
    // A case may be nobody else's business on a shared machine.
    named.prefix("trial-").permissions(fs::Permissions::from_mode(0o700));
    match named.tempdir_in(scratch) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(scratch)?;
            named.tempdir_in(scratch)
        }
        made => made,
    }
}

/// Gives their owner back its rights on all directories below `root`.
fn open_up(root: &Path, until: Until) -> io::Result<()> {
    // A list instead of recursion: how deep a tree goes is the client's choice.
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        until.check().map_err(io::Error::other)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(())
}

fn said(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mst_model::Bytes;

    use super::*;

    fn until() -> Until {
        Until::after(Duration::from_secs(60))
    }

    fn file(path: &str, content: &[u8], executable: bool) -> CaseFile {
        CaseFile { path: path.to_owned(), content: Bytes(content.to_vec()), executable }
    }

    fn transcript(files: &[FileEntry]) -> Transcript {
        let text = serde_json::json!({
            "schema": Transcript::SCHEMA, "run": "r", "trial": {"case": "c", "variant": "v", "index": 0},
            "case_sha256": Digest::of(b""), "shard": 0, "attempt": 0, "client": {"name": "echo"},
            "started_at": "2026-01-01T00:00:00Z",
            "spent": {"provision_ms": 0, "client_ms": 0, "export_ms": 0},
            "outcome": {"status": "completed"}, "files": files,
        });
        serde_json::from_value(text).expect("a transcript")
    }

    fn entry(path: &str, content: &[u8], executable: bool) -> FileEntry {
        let (size_bytes, sha256) = (content.len() as u64, Digest::of(content));
        FileEntry { path: path.to_owned(), size_bytes, sha256, executable }
    }

    #[test]
    fn a_fresh_workspace_holds_the_cases_files_and_nothing_else() {
        let scratch = tempfile::tempdir().expect("made");
        let files = [file("a/b.txt", b"\xff\0", false), file("run.sh", b"", true)];
        let made = Workspace::fresh(&scratch.path().join("new"), "question", &files, until()).expect("made");
        let mode = |path: &str| made.dir().join(path).metadata().expect("is there").permissions().mode();
        assert_eq!(fs::read(made.dir().join("a/b.txt")).expect("reads"), b"\xff\0");
        assert_eq!((mode("a/b.txt") & 0o100, mode("run.sh") & 0o100), (0, 0o100));
        assert_eq!(fs::read_dir(made.dir()).expect("lists").count(), 2);
        assert_eq!(fs::read_to_string(made.prompt_file()).expect("reads"), "question");
        let root = made.root.path().to_owned();
        assert_eq!(root.metadata().expect("is there").permissions().mode() & 0o777, 0o700, "it is private");
        made.remove(until()).expect("removed");
        assert!(!root.exists());
    }

    #[test]
    fn files_that_can_not_be_placed_are_named() {
        let scratch = tempfile::tempdir().expect("made");
        let said = |files: &[CaseFile]| match Workspace::fresh(scratch.path(), "", files, until()) {
            Ok(_) => panic!("was made"),
            Err(error) => error.to_string(),
        };
        assert!(said(&[file("../x", b"", false)]).contains("`../x` is no path in a workspace"));
        assert!(said(&[file("a", b"", false), file("a", b"", false)]).starts_with("`a`: "));
        assert!(said(&[file("a", b"", false), file("a/b", b"", false)]).starts_with("`a/b`: "));
        assert_eq!(fs::read_dir(scratch.path()).expect("lists").count(), 0, "nothing is left lying");
    }

    #[test]
    fn what_may_not_be_written_to_is_removed_all_the_same() {
        let scratch = tempfile::tempdir().expect("made");
        let made = Workspace::fresh(scratch.path(), "", &[file("a/b/c", b"", false)], until()).expect("made");
        for dir in ["a/b", "a"] {
            let path = made.dir().join(dir);
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("set");
        }
        // As root there is nothing to be opened up, so that part is also asked by itself.
        open_up(made.root.path(), until()).expect("opened up");
        made.remove(until()).expect("removed");
        assert_eq!(fs::read_dir(scratch.path()).expect("lists").count(), 0);
    }

    #[test]
    fn a_stored_trial_is_restored_with_its_modes() {
        let (trial, into) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
        fs::create_dir_all(trial.path().join("files/a")).expect("made");
        fs::write(trial.path().join("files/a/run"), b"#!\xff").expect("written");
        restore(trial.path(), &transcript(&[entry("a/run", b"#!\xff", true)]), into.path())
            .expect("restored");
        let run = into.path().join("a/run");
        assert_eq!(fs::read(&run).expect("reads"), b"#!\xff");
        assert_eq!(run.metadata().expect("is there").permissions().mode() & 0o100, 0o100);
        let none = tempfile::tempdir().expect("made");
        restore(none.path(), &transcript(&[]), into.path()).expect("no files, no directory for them");
    }

    #[test]
    fn a_stored_trial_can_not_lead_anywhere_else() {
        let trial = tempfile::tempdir().expect("made");
        let files = trial.path().join("files");
        fs::create_dir_all(files.join("dir")).expect("made");
        fs::write(trial.path().join("outside"), b"x").expect("written");
        fs::write(files.join("changed"), b"y").expect("written");
        fs::write(files.join("longer"), b"xx").expect("written");
        std::os::unix::fs::symlink("../outside", files.join("link")).expect("linked");
        std::os::unix::fs::symlink("..", files.join("up")).expect("linked");
        for path in ["link", "up/outside", "../outside", "/etc/passwd", "missing", "changed", "longer", "dir"]
        {
            let into = tempfile::tempdir().expect("made");
            let refused = restore(trial.path(), &transcript(&[entry(path, b"x", false)]), into.path());
            assert!(refused.is_err(), "`{path}`");
        }
    }
}
