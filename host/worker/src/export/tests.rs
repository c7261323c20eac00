use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use mst_model::Digest;
use mst_protocol::Secret;
use tempfile::TempDir;

use super::*;

struct Left {
    from: TempDir,
    into: TempDir,
    scrubber: Scrubber,
    bounds: Bounds,
}

impl Left {
    fn new(files: &[&str]) -> Left {
        let made = || tempfile::tempdir().expect("made");
        let scrubber = Scrubber::default();
        let left = Left { from: made(), into: made(), scrubber, bounds: Bounds::default() };
        for path in files {
            let path = left.from.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, "12345678").expect("written");
        }
        left
    }

    fn at(&self, path: &str) -> PathBuf {
        self.from.path().join(path)
    }

    fn keep(&self) -> Exported {
        let until = Until::after(Duration::from_secs(60));
        let into = self.into.path().join("files");
        export(self.from.path(), &into, &self.scrubber, self.bounds, until).expect("kept")
    }

    /// The paths that were kept, and each omission as `PATH: WHY`.
    fn kept(&self) -> (Vec<String>, Vec<String>) {
        let Exported { files, omitted, .. } = self.keep();
        for file in &files {
            let bytes = fs::read(self.into.path().join("files").join(&file.path)).expect("is there");
            assert_eq!((file.size_bytes, file.sha256), (bytes.len() as u64, Digest::of(&bytes)));
        }
        let omitted = omitted.into_iter().map(|omitted| format!("{}: {}", omitted.path, omitted.why));
        (files.into_iter().map(|file| file.path).collect(), omitted.collect())
    }
}

#[test]
fn files_are_kept_in_the_order_of_their_paths_and_with_their_exec_bit() {
    let left = Left::new(&["b", "a/x", "a.txt", "a/.hidden", "vendor.txt"]);
    fs::set_permissions(left.at("b"), fs::Permissions::from_mode(0o755)).expect("set");
    fs::create_dir(left.at("empty")).expect("made");
    let kept = left.keep();
    let files: Vec<_> = kept.files.iter().map(|file| (file.path.as_str(), file.executable)).collect();
    assert_eq!(
        files,
        [("a.txt", false), ("a/.hidden", false), ("a/x", false), ("b", true), ("vendor.txt", false)]
    );
    assert!(kept.omitted.is_empty());
}

#[test]
fn some_names_are_never_kept() {
    let left = Left::new(&[
        ".env",
        ".env.local",
        ".env.example",
        ".env.sample",
        ".envrc",
        "a/.env",
        "node_modules/x",
        "a/vendor/x",
        ".git/config",
        "__pycache__/x",
        ".venv/x",
        ".next/x",
        ".cache/x",
    ]);
    let (kept, omitted) = left.kept();
    assert_eq!(kept, [".env.example", ".env.sample", ".envrc"]);
    assert_eq!(
        omitted,
        [
            ".cache: directories of this name are not kept",
            ".env: files of this name may hold secrets",
            ".env.local: files of this name may hold secrets",
            ".git: directories of this name are not kept",
            ".next: directories of this name are not kept",
            ".venv: directories of this name are not kept",
            "__pycache__: directories of this name are not kept",
            "a/.env: files of this name may hold secrets",
            "a/vendor: directories of this name are not kept",
            "node_modules: directories of this name are not kept",
        ]
    );
    let left = Left::new(&["vendor"]);
    assert_eq!(left.kept().0, ["vendor"], "a file of that name is a file");
}

#[test]
fn what_is_no_plain_file_is_neither_followed_nor_opened() {
    let left = Left::new(&["a"]);
    let outside = Left::new(&["secret"]);
    symlink(outside.at("secret"), left.at("absolute")).expect("linked");
    symlink("../secret", left.at("up")).expect("linked");
    symlink("a", left.at("inside")).expect("linked");
    symlink(outside.from.path(), left.at("dir")).expect("linked");
    symlink("loop", left.at("loop")).expect("linked");
    let mkfifo = std::process::Command::new("mkfifo").arg(left.at("fifo")).status();
    assert!(mkfifo.expect("runs").success());
    let _socket = std::os::unix::net::UnixListener::bind(left.at("socket")).expect("bound");
    let (kept, omitted) = left.kept();
    assert_eq!(kept, ["a"]);
    assert_eq!(
        omitted,
        [
            "absolute: it is a symbolic link",
            "dir: it is a symbolic link",
            "fifo: it is a FIFO",
            "inside: it is a symbolic link",
            "loop: it is a symbolic link",
            "socket: it is a socket",
            "up: it is a symbolic link",
        ]
    );
}

#[test]
fn names_that_are_no_workspace_paths_are_listed_as_far_as_they_can_be_written() {
    let left = Left::new(&["a", "b\\c", "d\ne"]);
    let name = left.from.path().join(std::ffi::OsStr::from_bytes(b"\xff.txt"));
    // Some file systems refuse such a name.
    let refused = fs::write(name, "").is_err();
    let (kept, omitted) = left.kept();
    assert_eq!(kept, ["a"]);
    assert!(omitted[0].starts_with("b\\\\c: "), "{omitted:?}");
    assert!(omitted[1].starts_with("d\\ne: "), "{omitted:?}");
    assert!(refused || omitted[2] == "\u{fffd}.txt: its name is no UTF-8", "{omitted:?}");
}

#[test]
fn bounds_cut_off_the_same_files_every_time() {
    let mut left = Left::new(&["a", "b", "c", "d/e"]);
    left.bounds.files = 2;
    assert_eq!(
        left.kept(),
        (
            vec!["a".to_owned(), "b".to_owned()],
            vec!["c: there are more than 2 files".to_owned(), "d/e: there are more than 2 files".to_owned()]
        )
    );

    let mut left = Left::new(&["a", "b"]);
    fs::write(left.at("big"), "123456789").expect("written");
    left.bounds.file_bytes = 8;
    assert_eq!(
        left.kept(),
        (vec!["a".to_owned(), "b".to_owned()], vec!["big: it is larger than 8 bytes".to_owned()])
    );

    let mut left = Left::new(&["a", "b", "c"]);
    fs::write(left.at("d"), "1").expect("written");
    left.bounds.total_bytes = 17;
    assert_eq!(
        left.kept(),
        (
            vec!["a".to_owned(), "b".to_owned(), "d".to_owned()],
            vec!["c: with it, the files would be larger than 17 bytes together".to_owned()]
        )
    );

    let mut left = Left::new(&["a", "b/c/d/e"]);
    left.bounds.depth = 2;
    assert_eq!(
        left.kept(),
        (vec!["a".to_owned()], vec!["b/c: it is more than 2 directories deep".to_owned()])
    );

    let mut left = Left::new(&["a", "b", "c"]);
    left.bounds.entries = 2;
    let (kept, omitted) = left.kept();
    assert_eq!((kept.len(), &omitted[..]), (2, &[".: it has more than 2 entries".to_owned()][..]));
}

#[test]
fn the_list_of_omissions_is_bounded_too() {
    let mut left = Left::new(&["a", "b", "c", "d", "e"]);
    left.bounds.files = 0;
    left.bounds.omitted = 2;
    let (_, omitted) = left.kept();
    assert_eq!(omitted[2..], [".: and 3 more".to_owned()]);
}

#[test]
fn a_workspace_that_the_client_removed_left_nothing() {
    let left = Left::new(&[]);
    fs::remove_dir(left.from.path()).expect("removed");
    let (kept, omitted) = left.kept();
    assert!(kept.is_empty());
    assert!(omitted[0].starts_with(".: the workspace is no directory any more: "), "{omitted:?}");
    symlink("/etc", left.from.path()).expect("linked");
    assert!(left.kept().0.is_empty(), "nor does a link in its place lead anywhere");
    fs::remove_file(left.from.path()).expect("removed");
}

#[test]
fn there_is_a_deadline() {
    let left = Left::new(&["a"]);
    let late =
        export(left.from.path(), left.into.path(), &left.scrubber, left.bounds, Until::after(Duration::ZERO));
    assert!(matches!(late, Err(ExportError::Late(_))));
}

#[test]
fn tokens_are_taken_out_on_the_way_and_stand_in_no_name() {
    let mut left = Left::new(&["b", "secret-8", "c/secret-8/d/one", "c/secret-8/d/two"]);
    fs::write(left.at("a"), "it is secret-8\n").expect("written");
    let link = std::os::unix::fs::symlink("a", left.at("secret-8-link"));
    link.expect("linked");
    let token = |name: &str| (name.parse().expect("a name"), Secret::new("secret-8".to_owned()));
    left.scrubber = Scrubber::new(vec![token("gateway")]);
    let (kept, omitted) = left.kept();
    assert_eq!(kept, ["a", "b"]);
    assert_eq!(
        omitted,
        [
            "c/[token gateway]/d/one: a token stands in its name",
            "c/[token gateway]/d/two: a token stands in its name",
            "[token gateway]: a token stands in its name",
            "[token gateway]-link: it is a symbolic link",
        ]
    );
    let into = left.into.path().join("files");
    assert_eq!(fs::read_to_string(into.join("a")).expect("reads"), "it is [token gateway]\n");
    let listed = fs::read_dir(into).expect("lists").map(|entry| entry.expect("reads").file_name());
    assert_eq!(listed.collect::<BTreeSet<_>>(), ["a", "b"].map(Into::into).into(), "no directory either");
    left.into = tempfile::tempdir().expect("made");
    let scrubbed = left.keep().scrubbed;
    assert_eq!((scrubbed.len(), scrubbed[0].entry.as_str(), scrubbed[0].times), (1, "files/a", 1));
    // What stands in their place counts as what it is.
    left.into = tempfile::tempdir().expect("made");
    left.bounds.file_bytes = 20;
    let (kept, omitted) = left.kept();
    assert_eq!(kept, ["b"]);
    assert_eq!(omitted[0], "a: it is larger than 20 bytes");
}
