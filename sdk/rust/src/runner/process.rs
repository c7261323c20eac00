//! The manifest's `[[exec]]` templates: all that a runner can have run on the user's computer.
//!
//! A runner names a template and fills its slots. `{machine}`, `{run}` and `{option(NAME)}` are
//! the host's to fill. What passes through the stdin and stdout of a started program is the
//! host's too, and never comes in here.
//!
//! ```no_run
//! # fn example() -> Result<(), mst_sdk::Error> {
//! use mst_sdk::runner::process;
//!
//! let made = process::template("create").slot("memory", "2g").done("make the machine")?;
//! let id = made.stdout_text().trim().to_owned();
//! # Ok(()) }
//! ```

use crate::runner::bindings::mst::plugin::process as host;
use crate::runner::failure;
use crate::{Error, Output};

pub use crate::runner::failure::explain;
pub use host::{Child, Directory, RemoteCommand};

/// The manifest's `[[exec]]` template of this id.
pub fn template<'a>(id: impl Into<String>) -> Command<'a> {
    Command { template: id.into(), slots: Vec::new(), stdin: None }
}

/// A command that is being made ready.
#[must_use = "nothing runs before `run`, `done` or `start`"]
pub struct Command<'a> {
    template: String,
    slots: Vec<host::Slot<'a>>,
    stdin: Option<Vec<u8>>,
}

impl<'a> Command<'a> {
    /// Fills a slot with one value.
    pub fn slot(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fill(name, host::Value::Text(value.into()))
    }

    /// Fills a slot where there is a value for it. Without one its `[...]` group is left out.
    pub fn maybe(self, name: impl Into<String>, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.slot(name, value),
            None => self,
        }
    }

    /// Fills a slot that takes several arguments.
    pub fn items<T: Into<String>>(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.fill(name, host::Value::Items(values.into_iter().map(Into::into).collect()))
    }

    /// Fills a `host-dir` slot.
    pub fn directory(self, name: impl Into<String>, directory: &'a Directory) -> Self {
        self.fill(name, host::Value::Directory(directory))
    }

    /// Fills `{command...}` or `{command:shell}`.
    pub fn command(self, command: &'a RemoteCommand) -> Self {
        self.fill("command", host::Value::Command(command))
    }

    /// Gives the program this input; an error unless the template says `stdin = "plugin"`.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs it to its end. A program that fails is an [`Output`], not an error.
    pub fn run(self) -> Result<Output, Error> {
        run(&self.template, &self.slots, self.stdin.as_deref())
    }

    /// Runs it to its end, which must be code 0. `doing` is for the person at the terminal, as in
    /// "can't `doing`: what the program wrote"; see [`explain`].
    pub fn done(self, doing: &str) -> Result<Output, Error> {
        let output = self.run().map_err(|error| {
            match error.map_text(|why| format!("can't {doing}: {why}")) {
                // The program is not there, which says nothing about what it was to look for.
                Error::NotFound(text) => Error::Failed(text),
                other => other,
            }
        })?;
        if output.success() { Ok(output) } else { Err(failure::explain(&output, doing)) }
    }

    /// Starts it for the host, which owns its stdin, stdout and stderr.
    pub fn start(self) -> Result<Child, Error> {
        host::start(&self.template, &self.slots)
    }

    fn fill(mut self, name: impl Into<String>, value: host::Value<'a>) -> Self {
        self.slots.push(host::Slot { name: name.into(), value });
        self
    }
}

#[cfg(target_arch = "wasm32")]
use host::run;

// The bindings panic without a host, and a unit test of a runner runs templates.
#[cfg(not(target_arch = "wasm32"))]
fn run(template: &str, slots: &[host::Slot<'_>], stdin: Option<&[u8]>) -> Result<Output, Error> {
    #[cfg(feature = "testing")]
    if let Some(answer) = crate::runner::testing::answer(template, slots, stdin) {
        return answer;
    }
    let _ = (slots, stdin);
    Err(Error::failed(format!("template `{template}` needs a host; see `mst_sdk::runner::testing`")))
}
