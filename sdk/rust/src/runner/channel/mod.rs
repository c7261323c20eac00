//! Ways to a machine.
//!
//! Most are a matter of the manifest: [`Templates`] runs `exec`, `copy-to` and `copy-from`, and
//! what these are stands in `plugin.toml`. A way that needs more implements [`Channel`].

mod below;
mod container;
mod templates;

use crate::Error;
use crate::runner::{Child, Directory, Machine, RemoteCommand};

pub use below::Below;
pub use container::ContainerCli;
pub use templates::{Ssh, Templates};

/// A way to a machine. What the host puts there lies below the machine's `root`.
pub trait Channel {
    /// Starts a command on the machine, with its stdin, stdout and stderr led to the child's. The
    /// child ends when the command does, with the command's own code, and takes the command with
    /// it where it is killed, as far as that can be had.
    fn run_command(machine: &Machine, command: &RemoteCommand) -> Result<Child, Error>;

    /// Copies the directory's content into `target`, an absolute path on the machine, made with
    /// the directories above it where it is missing. Modes and symlinks stay what they are.
    fn copy_to(machine: &Machine, source: &Directory, target: &str) -> Result<(), Error>;

    /// Copies the content of `source`, a directory on the machine, into the directory `target`.
    /// Modes and symlinks stay what they are.
    fn copy_from(machine: &Machine, source: &str, target: &Directory) -> Result<(), Error>;

    /// A local port that leads to `port` on the machine for as long as the child lives. The host
    /// asks only where the manifest says `forward_port = true`; none of this version does.
    fn forward_port(machine: &Machine, local: u16, port: u16) -> Result<Child, Error> {
        let _ = (local, port);
        Err(Error::invalid(format!("no port of machine `{}` can be forwarded", machine.name)))
    }
}
