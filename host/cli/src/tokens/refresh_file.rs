//! The file that a refresh token is in: held while its token is exchanged, and replaced in one step.

use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mst_coordinator::vault::Secret;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::plain::read_file;

/// How often it is looked whether a file is free.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A refresh token's file that nobody else exchanges meanwhile: of two who send the same token, a server
/// that gives another each time takes one for a thief.
pub(super) struct HeldFile {
    path: PathBuf,
    dir: PathBuf,
    /// The file itself can't be held, for another takes its place.
    _lock: Option<fs::File>,
}

impl HeldFile {
    /// Waits for the file as long as this, and as long as there is a use in it. Blocks the thread.
    pub(super) fn hold(path: &Path, time: Duration, over: impl Fn() -> bool) -> Result<HeldFile, String> {
        // Where a link leads to, the link stays.
        let path = fs::canonicalize(path)
            .map_err(|error| format!("the file `{}` can't be read: {error}", path.display()))?;
        let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
        // Where there is no such thing as a lock, all stays as it is for one who is alone.
        let Ok(lock) = fs::File::open(&dir) else { return Ok(HeldFile { path, dir, _lock: None }) };
        let until = Instant::now() + time;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(HeldFile { path, dir, _lock: Some(lock) }),
                Err(Errno::WOULDBLOCK) if over() => return Err("mst is about to end".to_owned()),
                Err(Errno::WOULDBLOCK) if Instant::now() >= until => {
                    return Err(format!(
                        "the file `{}` is being renewed by another, who took more than {} s",
                        path.display(),
                        time.as_secs_f64()
                    ));
                }
                Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN_LOOKS),
                Err(Errno::INTR) => {}
                Err(_) => return Ok(HeldFile { path, dir, _lock: None }),
            }
        }
    }

    /// Where it is, the links to it apart.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The token that is in it.
    pub(super) fn read(&self) -> Result<Secret, String> {
        read_file(&self.path)
    }

    /// Puts another into it, in one step: whenever this is cut off, one of the two stands there.
    pub(super) fn put(&self, token: &Secret) -> io::Result<()> {
        let before = fs::metadata(&self.path)?;
        // Always of one name: what a killed mst left there goes, at the latest, when the next one is put.
        let mut name = OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(".mst");
        match fs::remove_file(self.dir.join(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Readable by its owner alone until it is known who else may.
        let mut file = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(&self.dir)?;
        file.write_all(token.reveal().as_bytes())?;
        file.write_all(b"\n")?;
        let mode = mode_of(&before, |user, group| fchown(file.as_file(), user, group).is_ok());
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        fs::File::open(&self.dir)?.sync_all()
    }
}

/// The mode of a file that stands in for another, once it is given to the other's owner and group, or to
/// that group: nobody may do with it what the one before did not let them do.
fn mode_of(before: &Metadata, give: impl Fn(Option<u32>, Option<u32>) -> bool) -> u32 {
    let (user, group) = (Some(before.uid()), Some(before.gid()));
    // Only root gives files away, and nobody else to a group that is not their own.
    let is_groups = give(user, group) || give(None, group);
    before.mode() & if is_groups { 0o777 } else { 0o700 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A process that another test is about to start may have the lock for a moment after its holder.
    fn hold(path: &Path) -> HeldFile {
        HeldFile::hold(path, Duration::from_secs(10), || false).expect("it is free")
    }

    #[test]
    fn a_file_keeps_its_place_and_its_mode() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("token"), dir.path().join("link"));
        fs::write(&file, "old\n").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("set");
        symlink(&file, &link).expect("linked");
        hold(&link).put(&Secret::new("new".to_owned())).expect("put");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("reads"), "new\n");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 2);
        assert!(HeldFile::hold(&dir.path().join("none"), Duration::ZERO, || false).is_err());
    }

    #[test]
    fn a_file_opens_to_no_group_that_could_not_read_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        fs::write(&file, "old\n").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("set");
        let before = fs::metadata(&file).expect("there");
        let group = Some(before.gid());
        // As for root; for a member of the group; for somebody who only may write into the directory.
        assert_eq!(mode_of(&before, |_, _| true), 0o640);
        assert_eq!(mode_of(&before, |to, of| to.is_none() && of == group), 0o640);
        assert_eq!(mode_of(&before, |_, _| false), 0o600);
    }

    #[test]
    fn a_file_is_held_by_one_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        fs::write(&file, "old\n").expect("written");
        let one = hold(&file);
        let second = |time, over| HeldFile::hold(&file, time, move || over).map(|_| ());
        let why = second(Duration::from_millis(50), false).expect_err("it is held");
        assert!(why.ends_with("is being renewed by another, who took more than 0.05 s"), "{why}");
        let hour = Duration::from_secs(3600);
        assert_eq!(second(hour, true).expect_err("it is held"), "mst is about to end");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| second(hour, false));
            drop(one);
            waits.join().expect("it ends").expect("it is free");
        });
    }

    #[test]
    fn what_a_killed_one_left_is_gone_with_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, left) = (dir.path().join("token"), dir.path().join(".token.mst"));
        fs::write(&file, "old\n").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("set");
        fs::write(&left, "half a tok").expect("written");
        fs::set_permissions(&left, Permissions::from_mode(0o644)).expect("set");
        hold(&file).put(&Secret::new("new".to_owned())).expect("put");
        assert_eq!(fs::read_to_string(&file).expect("reads"), "new\n");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
        assert!(!left.exists());
        // What can't be written in its place does not take it away.
        fs::create_dir(&left).expect("made");
        hold(&file).put(&Secret::new("newer".to_owned())).expect_err("it is in the way");
        assert_eq!(fs::read_to_string(&file).expect("reads"), "new\n");
    }
}
