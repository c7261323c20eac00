//! The directory in which tokens lie: in memory, its owner's alone, and gone with the worker.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mst_model::{TokenId, VariantId};
use mst_protocol::Secret;

/// Tokens that have no place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// No directory is fit for them.
    #[error("there is no place for tokens: {}", .tried.join("; "))]
    NoPlace {
        /// What is wrong with each that was tried.
        tried: Vec<String>,
    },
    /// One can't be written or removed.
    #[error("can't {what} `{}`", .path.display())]
    Io {
        /// What failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
    let path = path.to_owned();
    move |source| PlaceError::Io { what, path, source }
}

/// A shard's directory of tokens. It is removed when it is dropped and, by a process of its own, when
/// this one is killed.
#[derive(Debug)]
pub(crate) struct TokenDir {
    path: PathBuf,
    /// Waits for this process's end.
    watcher: Option<Child>,
}

/// Removes a directory as soon as nobody holds its stdin open any more.
const WATCHER: &str = r#"trap "" HUP INT TERM; cat >/dev/null; rm -rf -- "$1""#;

impl TokenDir {
    /// A directory called `name` in the first of `places` that is fit for secrets: it can be made, it
    /// is this user's alone, and it lies in memory, unless `on_disk`.
    pub(crate) fn make(places: &[PathBuf], name: &str, on_disk: bool) -> Result<TokenDir, PlaceError> {
        let mut tried = Vec::new();
        for place in places {
            match fit(place, on_disk) {
                Ok(()) => return TokenDir::within(place, name),
                Err(why) => tried.push(format!("`{}` {why}", place.display())),
            }
        }
        if tried.is_empty() {
            tried.push("no directory was named".to_owned());
        }
        Err(PlaceError::NoPlace { tried })
    }

    fn within(place: &Path, name: &str) -> Result<TokenDir, PlaceError> {
        let path = place.join(name);
        // Of a worker of the same shard that nobody could clean up after.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &path)(error));
            }
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&path).map_err(failed("make", &path))?;
        // From here on it is removed, whatever fails.
        let mut dir = TokenDir { path, watcher: None };
        let mut watcher = Command::new("/bin/sh");
        watcher.args(["-c", WATCHER, "sh"]).arg(&dir.path).env_clear().env("PATH", "/usr/bin:/bin");
        // A group of its own: what ends the worker's does not end it.
        watcher.current_dir("/").process_group(0);
        watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        dir.watcher = Some(watcher.spawn().map_err(failed("start what watches over", &dir.path))?);
        Ok(dir)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a token in its place, in place of an older one.
    pub(crate) fn write(
        &self,
        variant: &VariantId,
        name: &TokenId,
        value: &Secret,
    ) -> Result<(), PlaceError> {
        let dir = self.path.join(variant.as_str());
        if !dir.is_dir() {
            DirBuilder::new().mode(0o700).create(&dir).map_err(failed("make", &dir))?;
        }
        // No token's name begins with a dot.
        let (new, path) = (dir.join(format!(".{name}")), dir.join(name.as_str()));
        let write = || -> io::Result<()> {
            let mut file: File =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(value.reveal().as_bytes())?;
            fs::rename(&new, &path)
        };
        write().map_err(failed("write", &path))
    }

    /// Removes a token.
    pub(crate) fn remove_one(&self, variant: &VariantId, name: &TokenId) -> Result<(), PlaceError> {
        let path = self.path.join(variant.as_str()).join(name.as_str());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Removes it.
    pub(crate) fn remove(mut self) -> Result<(), PlaceError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), PlaceError> {
        let removed = match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &self.path)(error)),
            _ => Ok(()),
        };
        if let Some(mut watcher) = self.watcher.take() {
            // Its stdin ends, by which it ends: it finds nothing to remove.
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
        removed
    }
}

impl Drop for TokenDir {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.end();
    }
}

/// Makes `place` where it is not there, and says what makes it unfit for secrets.
fn fit(place: &Path, on_disk: bool) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(place);
    made.map_err(|error| format!("can't be made: {error}"))?;
    let meta = fs::symlink_metadata(place).map_err(|error| format!("can't be looked at: {error}"))?;
    if !meta.is_dir() {
        return Err("is no directory".to_owned());
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err("belongs to somebody else".to_owned());
    }
    if meta.mode() & 0o077 != 0 {
        let alone = fs::set_permissions(place, fs::Permissions::from_mode(0o700));
        alone.map_err(|error| format!("is open to others: {error}"))?;
    }
    if !on_disk && !in_memory(place).map_err(|error| format!("can't be looked at: {error}"))? {
        return Err("lies on a disk".to_owned());
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn in_memory(path: &Path) -> io::Result<bool> {
    use rustix::fs::FsWord;
    // As wide as the system has it, which not everywhere is 64 bits.
    const TMPFS: FsWord = 0x0102_1994;
    const RAMFS: FsWord = 0x8584_58f6_u32 as FsWord;
    Ok([TMPFS, RAMFS].contains(&rustix::fs::statfs(path)?.f_type))
}

#[cfg(not(target_os = "linux"))]
fn in_memory(_path: &Path) -> io::Result<bool> {
    // What kind of file system it is can't be told here.
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> (VariantId, TokenId, Secret) {
        let secret = Secret::new("a-value-of-a-token".to_owned());
        ("v".parse().expect("a name"), "gateway".parse().expect("a name"), secret)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_lies_in_memory_for_its_owner_alone_and_goes_with_its_worker() {
        let root = tempfile::tempdir_in("/dev/shm").expect("made");
        let place = root.path().join("a/tokens");
        let dir =
            TokenDir::make(&[PathBuf::from("/proc/none"), place.clone()], "run-0", false).expect("made");
        let (variant, name, value) = names();
        dir.write(&variant, &name, &value).expect("written");
        dir.write(&variant, &name, &value).expect("written again");
        let file = place.join("run-0/v/gateway");
        assert_eq!(fs::read_to_string(&file).expect("reads"), "a-value-of-a-token");
        for (path, mode) in
            [(&place, 0o700), (&place.join("run-0"), 0o700), (&place.join("run-0/v"), 0o700), (&file, 0o600)]
        {
            assert_eq!(fs::metadata(path).expect("is there").mode() & 0o777, mode, "{}", path.display());
        }
        assert_eq!(fs::read_dir(place.join("run-0/v")).expect("lists").count(), 1);
        dir.remove_one(&variant, &name).expect("removed");
        dir.remove_one(&variant, &name).expect("is gone");
        dir.write(&variant, &name, &value).expect("written");
        drop(dir);
        assert_eq!(fs::read_dir(&place).expect("lists").count(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_open_to_others_is_closed_and_what_a_dead_worker_left_is_removed() {
        let root = tempfile::tempdir_in("/dev/shm").expect("made");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("set");
        fs::create_dir_all(root.path().join("run-0/v")).expect("made");
        fs::write(root.path().join("run-0/v/old"), "an old token").expect("written");
        let dir = TokenDir::make(&[root.path().to_owned()], "run-0", false).expect("made");
        assert_eq!(fs::metadata(root.path()).expect("is there").mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 0);
        dir.remove().expect("removed");
    }

    #[test]
    fn a_disk_is_no_place_unless_somebody_says_so() {
        let root = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("made");
        let places = [root.path().join("tokens")];
        let refused = TokenDir::make(&places, "run-0", false);
        if let Err(error) = refused {
            let words = format!("there is no place for tokens: `{}` lies on a disk", places[0].display());
            assert_eq!(error.to_string(), words);
        } else {
            eprintln!("skipped: the sources lie in memory");
        }
        drop(TokenDir::make(&places, "run-0", true).expect("made"));
        let error = TokenDir::make(&[], "run-0", true).expect_err("nowhere");
        assert_eq!(error.to_string(), "there is no place for tokens: no directory was named");
    }
}
