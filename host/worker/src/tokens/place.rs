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
    /// Held as long as this process lives: who can take it has found what nobody needs any more.
    _lock: File,
    /// Waits for this process's end.
    watcher: Option<Child>,
}

/// In a directory of tokens, the file that its worker holds. No variant's name begins with a dot.
const LOCK: &str = ".lock";

/// Removes a directory as soon as nobody holds its stdin open any more.
const WATCHER: &str = r#"trap "" HUP INT TERM; cat >/dev/null; rm -rf -- "$1""#;

impl TokenDir {
    /// A directory called `name-…`, and as no other is, in the first of `places` that is fit for secrets: it can be made, it
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
        sweep(place);
        // Another worker of the shard may still be at its end, or what watches over it: neither is to
        // find this one's tokens by their own name.
        let made = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(place);
        let made = made.map_err(failed("make a directory in", place))?;
        let lock = hold(made.path()).map_err(failed("lock", made.path()))?;
        // From here on it is removed, whatever fails.
        let mut dir = TokenDir { path: made.keep(), _lock: lock, watcher: None };
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
        // Clients can write here: what one has put in a token's place, or in its directory's, is
        // neither followed nor in the way.
        let fresh = || -> io::Result<()> {
            match fs::symlink_metadata(&dir) {
                Ok(meta) if meta.is_dir() => fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)),
                _ => {
                    clear(&dir)?;
                    DirBuilder::new().recursive(true).mode(0o700).create(&dir)
                }
            }
        };
        fresh().map_err(failed("make", &dir))?;
        // No token's name begins with a dot.
        let (new, path) = (dir.join(format!(".{name}")), dir.join(name.as_str()));
        let write = || -> io::Result<()> {
            clear(&new)?;
            let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(value.reveal().as_bytes())?;
            if path.is_dir() {
                clear(&path)?;
            }
            fs::rename(&new, &path)
        };
        write().map_err(failed("write", &path))
    }

    /// Whether a token lies in its place, as it was put there.
    pub(crate) fn holds(&self, variant: &VariantId, name: &TokenId, value: &Secret) -> bool {
        let dir = self.path.join(variant.as_str());
        let path = dir.join(name.as_str());
        let value = value.reveal().as_bytes();
        // Looked at before it is read: it may be a pipe by now, or as long as a disk.
        fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir())
            && fs::symlink_metadata(&path)
                .is_ok_and(|meta| meta.is_file() && meta.len() == value.len() as u64)
            && fs::read(&path).is_ok_and(|bytes| bytes == value)
    }

    /// Removes a token.
    pub(crate) fn remove_one(&self, variant: &VariantId, name: &TokenId) -> Result<(), PlaceError> {
        let path = self.path.join(variant.as_str()).join(name.as_str());
        clear(&path).map_err(failed("remove", &path))
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

/// Removes whatever is there, and nothing that it leads to.
fn clear(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes the lock of a directory of tokens.
fn hold(dir: &Path) -> io::Result<File> {
    // It gets its name only when it is held: a lock that can be taken is nobody's.
    let unnamed = dir.join(".new");
    let lock = File::create_new(&unnamed)?;
    lock.lock()?;
    fs::rename(unnamed, dir.join(LOCK))?;
    Ok(lock)
}

/// Removes what workers left that are gone, and what watched over them. What can't be removed stays:
/// it keeps no other worker from its work.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let dir = entry.path();
        // Clients can write there: to open a FIFO would take for ever.
        let left = entry.file_type().is_ok_and(|kind| kind.is_dir())
            && fs::symlink_metadata(dir.join(LOCK)).is_ok_and(|meta| meta.is_file())
            && File::open(dir.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if left {
            let _ = fs::remove_dir_all(&dir);
        }
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
    // One that was there is somebody's, who may have meant it so: `/run` is not ours to close.
    if meta.mode() & 0o077 != 0 {
        return Err("is open to others (its mode is to be 0700)".to_owned());
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
        let own = dir.path().to_owned();
        assert_eq!(own.parent(), Some(&*place));
        let file = own.join("v/gateway");
        assert_eq!(fs::read_to_string(&file).expect("reads"), "a-value-of-a-token");
        for (path, mode) in [(&place, 0o700), (&own, 0o700), (&own.join("v"), 0o700), (&file, 0o600)] {
            assert_eq!(fs::metadata(path).expect("is there").mode() & 0o777, mode, "{}", path.display());
        }
        assert_eq!(fs::read_dir(own.join("v")).expect("lists").count(), 1);
        dir.remove_one(&variant, &name).expect("removed");
        dir.remove_one(&variant, &name).expect("is gone");
        dir.write(&variant, &name, &value).expect("written");
        drop(dir);
        assert_eq!(fs::read_dir(&place).expect("lists").count(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_open_to_others_stays_so_and_holds_no_token() {
        let root = tempfile::tempdir_in("/dev/shm").expect("made");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("set");
        let (open, closed) = (root.path().to_owned(), root.path().join("closed"));
        let dir = TokenDir::make(&[open.clone(), closed.clone()], "run-0", false).expect("made");
        assert_eq!(dir.path().parent(), Some(&*closed));
        assert_eq!(fs::metadata(&open).expect("is there").mode() & 0o777, 0o755);
        let error = TokenDir::make(std::slice::from_ref(&open), "run-0", false).expect_err("is open");
        let says = format!("`{}` is open to others (its mode is to be 0700)", open.display());
        assert!(error.to_string().ends_with(&says), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_workers_tokens_are_safe_from_the_end_of_another_of_the_same_shard() {
        let root = tempfile::tempdir_in("/dev/shm").expect("made");
        let make = || TokenDir::make(&[root.path().join("tokens")], "run-0", false).expect("made");
        let (variant, name, value) = names();
        let one = make();
        one.write(&variant, &name, &value).expect("written");
        let mut other = make();
        other.write(&variant, &name, &value).expect("written");
        assert!(one.holds(&variant, &name, &value), "the second has left it alone");
        drop(one);
        assert!(other.holds(&variant, &name, &value), "and so has the end of the first");
        // As where it is killed, and what watches over it, too.
        let left = other.path().to_owned();
        let mut watcher = other.watcher.take().expect("is there");
        watcher.kill().expect("killed");
        watcher.wait().expect("ended");
        let TokenDir { path, watcher: none, _lock } = &mut other;
        assert!(none.is_none());
        *path = root.path().join("elsewhere");
        *_lock = File::open("/dev/null").expect("opens");
        // A process that another test is about to start may have the lock for a moment.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while left.exists() && std::time::Instant::now() < until {
            drop(make());
        }
        assert!(!left.exists());
    }

    #[test]
    fn what_a_client_put_in_a_tokens_place_is_not_followed_and_not_in_the_way() {
        let root = tempfile::tempdir().expect("made");
        let dir = TokenDir::make(&[root.path().join("tokens")], "run-0", true).expect("made");
        let (variant, name, value) = names();
        let (own, token) = (dir.path().join("v"), dir.path().join("v/gateway"));
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("made");
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).expect("linked");
        let spoilers: [&dyn Fn(); 6] = [
            &|| fs::remove_dir_all(dir.path()).expect("removed"),
            &|| fs::write(&token, "another value      ").expect("written"),
            &|| {
                fs::remove_file(&token).expect("removed");
                fs::create_dir_all(token.join("full")).expect("made");
            },
            &|| {
                fs::remove_file(&token).expect("removed");
                link(&elsewhere.join("followed"), &token);
                link(&elsewhere.join("followed"), &own.join(".gateway"));
            },
            &|| {
                fs::remove_dir_all(&own).expect("removed");
                link(&elsewhere, &own);
            },
            &|| {
                fs::remove_dir_all(&own).expect("removed");
                fs::write(&own, "").expect("written");
            },
        ];
        dir.write(&variant, &name, &value).expect("written");
        for (number, spoil) in spoilers.iter().enumerate() {
            assert!(dir.holds(&variant, &name, &value), "before {number}");
            spoil();
            assert!(!dir.holds(&variant, &name, &value), "after {number}");
            dir.write(&variant, &name, &value).expect("written again");
        }
        assert!(dir.holds(&variant, &name, &value));
        assert_eq!(fs::read_dir(&elsewhere).expect("lists").count(), 0);
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
