//! The file that a refresh token is in.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use mst_coordinator::vault::Secret;

/// Puts a refresh token into the file that had the one before, in one step: whenever this is cut off,
/// one of the two stands there.
pub(super) fn put(path: &Path, token: &Secret) -> io::Result<()> {
    // Where a link leads to, the link stays.
    let path = fs::canonicalize(path)?;
    let before = fs::metadata(&path)?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    // Readable by its owner alone until it is known who else may.
    let mut file = tempfile::Builder::new().prefix(".mst-").tempfile_in(dir)?;
    file.write_all(token.reveal().as_bytes())?;
    file.write_all(b"\n")?;
    let mode = mode_of(&before, |user, group| fchown(file.as_file(), user, group).is_ok());
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    fs::File::open(dir)?.sync_all()
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

    #[test]
    fn a_file_keeps_its_place_and_its_mode() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("token"), dir.path().join("link"));
        fs::write(&file, "old\n").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("set");
        symlink(&file, &link).expect("linked");
        put(&link, &Secret::new("new".to_owned())).expect("put");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("reads"), "new\n");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 2);
        assert!(put(&dir.path().join("none"), &Secret::new("new".to_owned())).is_err());
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
}
