//! Containers, by their engine's CLI.

use crate::Error;
use crate::runner::channel::{Channel, Templates, templates};
use crate::runner::{Child, Directory, Machine, RemoteCommand};

/// The way into a container by the CLI of docker, podman or one like them. The engine copies by
/// itself, so that the image needs no `tar`; a `mkdir` it needs.
///
/// | template | its slots | as |
/// |---|---|---|
/// | `exec` | `{command...}`, and `[--user={user:…}]` where the handle has a `user` | `docker exec --interactive {machine} {command...}` |
/// | `make-dir` | `{target:machine-path}` | `docker exec --user=0 {machine} mkdir -p {target:machine-path}` |
/// | `copy-to` | `{source:host-dir}`, `{target:machine-path}` | `docker cp {source:host-dir}/. {machine}:{target:machine-path}` |
/// | `copy-from` | `{source:machine-path}`, `{target:host-dir}` | `docker cp {machine}:{source:machine-path}/. {target:host-dir}` |
/// | `own` | `{owner:…}`, `{target:machine-path}`; where the handle has an `owner` | `docker exec --user=0 {machine} chown -hR {owner:…} {target:machine-path}` |
///
/// and beside these those that [`Machine::slot`] set, which must stand in each of them.
///
/// Where commands are not to run as root, [`ContainerCli::run_as`] says as whom: an engine copies
/// as root, so what was copied is given to them.
///
/// A killed `docker exec` leaves the command in the container running, with its stdin at an end:
/// a command that reads its stdin, as mst's worker does, ends there, and any other with the
/// container.
pub struct ContainerCli;

impl ContainerCli {
    /// The machine with its commands run as `user`, as the engine reads it, and what is copied
    /// there given to `owner`, as `uid:gid`. Both are kept in the handle.
    pub fn run_as(machine: Machine, user: &str, owner: &str) -> Machine {
        machine.with("user", user).with("owner", owner)
    }

    /// Makes a directory in the container, by `make-dir`, and gives it to whom the commands run
    /// as, by `own`.
    pub fn make_dir(machine: &Machine, target: &str) -> Result<(), Error> {
        templates::template("make-dir", machine)
            .slot("target", target)
            .done(&format!("make `{target}` on machine `{}`", machine.name))?;
        ContainerCli::own(machine, target)
    }

    /// Gives what is there to whom the commands run as, by `own`; nothing where that is root.
    pub fn own(machine: &Machine, target: &str) -> Result<(), Error> {
        if let Some(owner) = machine.text("owner") {
            templates::template("own", machine)
                .slot("owner", owner)
                .slot("target", target)
                .done(&format!("give `{target}` on machine `{}` to `{owner}`", machine.name))?;
        }
        Ok(())
    }
}

impl Channel for ContainerCli {
    fn run_command(machine: &Machine, command: &RemoteCommand) -> Result<Child, Error> {
        templates::template("exec", machine).maybe("user", machine.text("user")).command(command).start()
    }

    fn copy_to(machine: &Machine, source: &Directory, target: &str) -> Result<(), Error> {
        ContainerCli::make_dir(machine, target)?;
        templates::copy_to(machine, source, target)?;
        ContainerCli::own(machine, target)
    }

    fn copy_from(machine: &Machine, source: &str, target: &Directory) -> Result<(), Error> {
        Templates::copy_from(machine, source, target)
    }
}
