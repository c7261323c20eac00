//! The channel that is all in the manifest.

use crate::Error;
use crate::runner::channel::Channel;
use crate::runner::process::{self, Command};
use crate::runner::{Child, Directory, Machine, RemoteCommand};

/// A channel of which each step is one template:
///
/// | template | its slots | what it does |
/// |---|---|---|
/// | `exec` | `{command...}` or `{command:shell}` | is the command, as long as it lives |
/// | `copy-to` | `{source:host-dir}`, `{target:machine-path}` | makes `target` and copies what is in `source` there |
/// | `copy-from` | `{source:machine-path}`, `{target:host-dir}` | copies what is in `source` |
/// | `forward-port` | `{local:uint(1..65535)}`, `{remote:uint(1..65535)}` | forwards, as long as it lives; only with `forward_port = true` |
///
/// and beside these those that [`Machine::slot`] set, which must stand in each of them.
/// `{machine}`, `{run}` and `{option(NAME)}` are the host's to fill.
pub struct Templates;

/// [`Templates`] over `ssh`. Copies are `tar` at both ends, which keeps modes and symlinks, where
/// `scp` follows symlinks:
///
/// ```toml
/// [[exec]]
/// id = "exec"
/// argv = ["ssh", "-T", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "--", "{option(host)}", "exec {command:shell}"]
/// timeout = "7days"
/// env = ["SSH_AUTH_SOCK"]
///
/// [[exec]]
/// id = "copy-to"
/// argv = ["/bin/sh", "-c", 'from=$1; shift; {{ tar -C "$from" -cf - . && : >sent; }} | "$@" && [ -e sent ]', "sh", "{source:host-dir}",
///   "ssh", "-T", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "--", "{option(host)}",
///   "mkdir -p {target:machine-path} && exec tar -C {target:machine-path} -xopf -"]
/// timeout = "1h"
/// env = ["SSH_AUTH_SOCK"]
///
/// [[exec]]
/// id = "copy-from"
/// argv = ["/bin/sh", "-c", 'to=$1; shift; {{ "$@" && : >sent; }} | tar -C "$to" -xopf - && [ -e sent ]', "sh", "{target:host-dir}",
///   "ssh", "-T", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "--", "{option(host)}",
///   "exec tar -C {source:machine-path} -cf - ."]
/// timeout = "1h"
/// env = ["SSH_AUTH_SOCK"]
/// ```
///
/// A shell's pipe does not say how its first program ended; `sent`, in the empty directory where
/// the template starts, does.
pub type Ssh = Templates;

/// A template with the slots that all of a machine's have.
pub(super) fn template<'a>(id: &str, machine: &Machine) -> Command<'a> {
    machine.slots().fold(process::template(id), |command, (name, value)| command.slot(name, value))
}

pub(super) fn copy_to(machine: &Machine, source: &Directory, target: &str) -> Result<(), Error> {
    template("copy-to", machine)
        .directory("source", source)
        .slot("target", target)
        .done(&format!("copy to machine `{}`", machine.name))?;
    Ok(())
}

impl Channel for Templates {
    fn run_command(machine: &Machine, command: &RemoteCommand) -> Result<Child, Error> {
        template("exec", machine).command(command).start()
    }

    fn copy_to(machine: &Machine, source: &Directory, target: &str) -> Result<(), Error> {
        copy_to(machine, source, target)
    }

    fn copy_from(machine: &Machine, source: &str, target: &Directory) -> Result<(), Error> {
        template("copy-from", machine)
            .slot("source", source)
            .directory("target", target)
            .done(&format!("copy from machine `{}`", machine.name))?;
        Ok(())
    }

    fn forward_port(machine: &Machine, local: u16, port: u16) -> Result<Child, Error> {
        template("forward-port", machine)
            .slot("local", local.to_string())
            .slot("remote", port.to_string())
            .start()
    }
}
