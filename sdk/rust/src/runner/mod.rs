//! Runners that make machines; the host does everything else.
//!
//! Implement [`MachineRunner`], of which only `create_machine` has to be written, choose a
//! [`channel`], call [`export_runner!`](crate::export_runner). What a runner can have run on the
//! user's computer are the `[[exec]]` templates of its manifest, see [`process`]. It arranges, and
//! the host connects: tokens, bundles and transcripts never enter the plugin.
//!
//! A whole runner, for an engine that is called `box`:
//!
//! ```
//! use mst_sdk::runner::channel::ContainerCli;
//! use mst_sdk::runner::{Error, Machine, MachineRunner, Request, process};
//!
//! #[derive(serde::Deserialize)]
//! struct Options {
//!     image: String,
//! }
//!
//! /// Machines in boxes.
//! struct Boxes;
//!
//! impl MachineRunner for Boxes {
//!     type Options = Options;
//!
//!     fn create_machine(request: &Request, options: Options) -> Result<Machine, Error> {
//!         let made = process::template("create").done("make the box")?;
//!         Ok(Machine::new(request, "/var/lib/mst").image(options.image, made.stdout_text().trim()))
//!     }
//! }
//!
//! mst_sdk::export_runner!(Boxes, channel = ContainerCli);
//! ```
//!
//! and its `plugin.toml`:
//!
//! ```toml
//! id = "acme/runner/box"
//! version = "0.1.0"
//! world = "machine-runner"
//! description = "Machines in boxes."
//! max_shards = 16
//!
//! [options]
//! type = "object"
//! additionalProperties = false
//! required = ["image"]
//! properties.image = { type = "string", pattern = "^[a-z0-9]", description = "What a box is made from." }
//!
//! [[exec]]
//! id = "create"
//! argv = ["box", "new", "--name={machine}", "--label=mst.run={run}", "{option(image)}"]
//! timeout = "5m"
//!
//! [[exec]]
//! id = "destroy"
//! argv = ["box", "rm", "--force", "{machine}"]
//! timeout = "1m"
//!
//! [[exec]]
//! id = "list"
//! argv = ["box", "ls", "--names-only", "--label=mst.run={run}"]
//! timeout = "1m"
//!
//! [[exec]]
//! id = "exec"
//! argv = ["box", "exec", "--interactive", "{machine}", "{command...}"]
//! timeout = "7days"
//!
//! [[exec]]
//! id = "make-dir"
//! argv = ["box", "exec", "{machine}", "mkdir", "-p", "{target:machine-path}"]
//! timeout = "1m"
//!
//! [[exec]]
//! id = "copy-to"
//! argv = ["box", "cp", "{source:host-dir}/.", "{machine}:{target:machine-path}"]
//! timeout = "1h"
//!
//! [[exec]]
//! id = "copy-from"
//! argv = ["box", "cp", "{machine}:{source:machine-path}/.", "{target:host-dir}"]
//! timeout = "1h"
//! ```

pub mod bindings;
pub mod channel;
mod export;
mod failure;
mod machine;
pub mod process;
#[cfg(feature = "testing")]
pub mod testing;

pub use crate::{Error, ExitStatus, Output};
pub use channel::Channel;
#[doc(hidden)]
pub use export::{Export, is_runner};
pub use export::{MachineRunner, lines};
pub use machine::{Image, Machine, Request, Work};
pub use process::{Child, Directory, RemoteCommand};
