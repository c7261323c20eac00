//! Links in what is copied to machines and back: those inside stay what they are, and one that
//! leads out is refused, in either direction.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Refuses a directory with a link that leads out of it, or may.
pub(crate) fn stay_inside(root: &Path) -> io::Result<()> {
    // Each with its depth below the root. Links are looked at and never followed, so that every
    // directory here is a real one.
    let mut dirs = vec![(root.to_owned(), 0)];
    while let Some((dir, depth)) = dirs.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                dirs.push((entry.path(), depth + 1));
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path())?;
                if !is_inside(&target, depth) {
                    return Err(refused(root, &entry.path(), &target));
                }
            }
        }
    }
    Ok(())
}

/// Whether the target of a link, `depth` directories below the root, lies in it. Where every link
/// goes up no further than to the root, and then only down, none leads out, whatever others it
/// passes on its way. One that goes down and up again may: `a/..` is elsewhere where `a` is a link.
fn is_inside(target: &Path, depth: usize) -> bool {
    let (mut up, mut down) = (0, false);
    for part in target.components() {
        match part {
            Component::ParentDir if down => return false,
            Component::ParentDir => up += 1,
            Component::Normal(_) => down = true,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    up <= depth
}

fn refused(root: &Path, link: &Path, target: &Path) -> io::Error {
    let link: PathBuf = link.strip_prefix(root).unwrap_or(link).to_owned();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!(
            "the link `{}` leads out of its directory, or may: to `{}`",
            link.to_string_lossy().escape_debug(),
            target.to_string_lossy().escape_debug()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_that_stay_inside_are_let_be_and_others_are_refused() {
        for (at, target, inside) in [
            ("link", "a/b/file", true),
            ("link", "not-there", true),
            ("link", ".", true),
            ("a/link", "..", true),
            ("a/b/link", "../../a/./b/file", true),
            ("link", "..", false),
            ("a/link", "../..", false),
            ("a/b/link", "../../../x", false),
            ("link", "/etc/passwd", false),
            ("link", "a/../../x", false),
            // `a/up` is the root: one more up is out of it.
            ("link", "a/up/..", false),
        ] {
            let root = tempfile::tempdir().expect("made");
            std::fs::create_dir_all(root.path().join("a/b")).expect("made");
            std::fs::write(root.path().join("a/b/file"), "").expect("written");
            symlink("..", root.path().join("a/up")).expect("linked");
            symlink(target, root.path().join(at)).expect("linked");
            let looked = stay_inside(root.path());
            assert_eq!(looked.is_ok(), inside, "{at} to {target}: {looked:?}");
            if let Err(error) = looked {
                assert!(error.to_string().contains(&format!("`{at}`")), "{error}");
            }
        }
    }
}
