//! A closed place: directories of its own, and an environment with nothing in it but what is
//! said here.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Output, Run};

/// The repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A working directory with a home and a place for temporary files beside it.
pub(crate) struct Space {
    root: TempDir,
}

impl Space {
    pub(crate) fn new() -> Space {
        let root = tempfile::Builder::new().prefix("mst-e2e-").tempdir().expect("a directory");
        for dir in ["work", "home", "tmp"] {
            fs::create_dir(root.path().join(dir)).expect("a directory");
        }
        Space { root }
    }

    /// Where mst is started.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// mst's TMPDIR: what it makes for a while is there, and nowhere else.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir().join(name)
    }

    /// The absolute path as text, for evals.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, bytes).expect("written");
    }

    /// A file that can be executed.
    pub(crate) fn script(&self, name: &str, text: &str) {
        self.write(name, text);
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("set");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("reads")
    }

    /// mst with these arguments, not started yet.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.any_command(env!("CARGO_BIN_EXE_mst"), args)
    }

    /// Any program in the same place.
    pub(crate) fn any_command<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.dir())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path().join("home"))
            .env("TMPDIR", self.tmp())
            // Shared by all tests: compiling the same few components again in each would be most
            // of the suite's time.
            .env("MST_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/e2e/cache"))
            .stdin(Stdio::null());
        command
    }

    /// Runs mst to its end.
    pub(crate) fn mst<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.finish(self.command(args))
    }

    /// Adds a plugin to the lock beside `eval.yaml`, with all that it asks for.
    #[track_caller]
    pub(crate) fn add(&self, file: &Path) {
        let args = ["plugin".as_ref(), "add".as_ref(), file.as_os_str(), "--grant".as_ref(), "all".as_ref()];
        self.mst(args).exits(0);
    }

    /// Runs a command of this place to its end.
    pub(crate) fn finish(&self, mut command: Command) -> Output {
        Output::of(command.output().expect("it starts"), self.root.path())
    }

    /// Makes text from this place the same in each run of the test.
    pub(crate) fn normal(&self, text: &str) -> String {
        super::output::normal(text, self.root.path())
    }

    /// All runs in `runs`, oldest name first.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = fs::read_dir(self.path("runs"))
            .into_iter()
            .flatten()
            .map(|entry| Run::at(entry.expect("an entry").path()))
            .collect();
        runs.sort_by(|one, other| one.dir().cmp(other.dir()));
        runs
    }

    /// The only run.
    pub(crate) fn run(&self) -> Run {
        let mut runs = self.runs();
        assert_eq!(runs.len(), 1, "there is one run");
        runs.remove(0)
    }

    /// Nothing of mst's is left in its TMPDIR.
    pub(crate) fn assert_tidy(&self) {
        let entries = fs::read_dir(self.tmp()).expect("lists").flatten();
        let left: Vec<_> = entries
            .map(|entry| entry.path())
            .flat_map(|path| [vec![path.clone()], super::run::tree(&path)].concat())
            .collect();
        assert!(left.is_empty(), "left: {left:#?}");
    }
}
