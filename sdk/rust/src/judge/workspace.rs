//! The trial's workspace, restored on the machine that grades, for judges that must build or
//! run something.
//!
//! A trial has one: what one run leaves there, the judge's next run finds. A judge runs only
//! what its manifest names in `[[workspace]]` and the user has granted.
//!
//! ```no_run
//! # fn example() -> Result<(), mst_sdk::judge::Error> {
//! use mst_sdk::judge::workspace;
//!
//! let output = workspace::template("test").slot("suite", "unit").run()?;
//! # Ok(()) }
//! ```

use crate::judge::bindings::mst::plugin::workspace as host;
use crate::{Error, Output};

/// One run of the manifest's `[[workspace]]` template of this id.
pub fn template(id: impl Into<String>) -> Run {
    Run { template: id.into(), slots: Vec::new(), stdin: None }
}

/// A run that is being made ready.
#[must_use = "nothing runs before `run`"]
pub struct Run {
    template: String,
    slots: Vec<host::Slot>,
    stdin: Option<Vec<u8>>,
}

impl Run {
    /// Fills a slot with one value. `option(NAME)` slots are the host's to fill, and naming
    /// one is an error.
    pub fn slot(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.slots(name, [value])
    }

    /// Fills a slot that takes several arguments.
    pub fn slots<T: Into<String>>(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.slots.push(host::Slot { name: name.into(), values });
        self
    }

    /// Gives the program this input; an error unless the template says `stdin = "plugin"`.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs it to its end. A program that fails is an [`Output`], not an error.
    pub fn run(self) -> Result<Output, Error> {
        host::run(&self.template, &self.slots, self.stdin.as_deref())
    }
}
