use std::fs;

use super::*;

#[test]
fn a_path_leads_out_where_it_goes_up_further_than_down() {
    for path in ["/", "/etc/passwd", "..", "a/../..", "./..", "a/b/../../../c", "../data"] {
        assert!(leads_out(path), "{path}");
    }
    for path in ["", ".", "a", "a/..", "a/../b", "a//b/./..", "..a", "a/...", "...", "a/b/../.."] {
        assert!(!leads_out(path), "{path}");
    }
}

#[test]
fn a_place_is_as_it_was_said() {
    let root = Place { dir: "d".to_owned(), path: String::new() };
    let at = |from: &Place, path: &str| from.join(path).map(|place| place.path);
    assert_eq!(at(&root, "./a//b/."), Some("a/b".to_owned()));
    assert_eq!(at(&root, "link/../b"), Some("link/../b".to_owned()));
    let sub = root.join("a/b").expect("short");
    assert_eq!(at(&sub, "../c"), Some("a/b/../c".to_owned()));
    assert_eq!(at(&sub, ""), Some("a/b".to_owned()));
    assert_eq!(at(&root, &"x".repeat(MAX_PATH)).map(|path| path.len()), Some(MAX_PATH));
    assert_eq!(at(&root, &"x".repeat(MAX_PATH + 1)), None);
    assert_eq!(at(&sub, &"x".repeat(MAX_PATH)), None);
}

#[cfg(unix)]
#[test]
fn what_a_link_leads_to_is_told_from_what_the_system_refuses() {
    use std::os::unix::fs::symlink;

    let dir = tempfile::tempdir().expect("makes");
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("sub")).expect("makes");
    fs::create_dir(dir.path().join("outside")).expect("makes");
    fs::write(root.join("inside"), "").expect("writes");
    for (to, link) in [
        ("../outside", "out"),
        ("/etc/passwd", "absolute"),
        ("../nothing", "nowhere"),
        ("inside", "in"),
        ("in", "twice"),
    ] {
        symlink(to, root.join(link)).expect("links");
    }
    symlink("loop", root.join("loop")).expect("links");
    let says = |path: &str| [Links::Followed, Links::Taken].map(|links| a_link_leads_out(&root, path, links));
    for path in ["out", "absolute", "nowhere"] {
        assert_eq!(says(path), [true, false], "{path}");
    }
    // Whatever stands behind it.
    for path in ["out/secret", "out/../inside", "out/nothing", "sub/../out/x", "twice/../out/.."] {
        assert_eq!(says(path), [path != "twice/../out/.."; 2], "{path}");
    }
    for path in [".", "inside", "in", "twice", "sub", "sub/../inside", "nothing", "loop", "inside/x"] {
        assert_eq!(says(path), [false; 2], "{path}");
    }
    // Nothing can be said of what is not there.
    assert!(!a_link_leads_out(&dir.path().join("gone"), "out", Links::Followed));
}
