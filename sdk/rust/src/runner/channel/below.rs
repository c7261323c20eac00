//! For machines that are a directory on a host which others use too.

use std::marker::PhantomData;

use crate::Error;
use crate::runner::channel::Channel;
use crate::runner::{Child, Directory, Machine, RemoteCommand};

/// Another channel, given paths as they lie below the machine's `root`: `/bundle` for
/// `ROOT/bundle`. So its templates can begin every path with words that are not the plugin's, as
/// in `{option(base)}/{machine}{target:machine-path}`, and whoever reads the manifest sees that a
/// copy can't leave the machine's directory.
pub struct Below<C>(PhantomData<C>);

impl<C: Channel> Channel for Below<C> {
    fn run_command(machine: &Machine, command: &RemoteCommand) -> Result<Child, Error> {
        C::run_command(machine, command)
    }

    fn copy_to(machine: &Machine, source: &Directory, target: &str) -> Result<(), Error> {
        C::copy_to(machine, source, below(machine, target)?)
    }

    fn copy_from(machine: &Machine, source: &str, target: &Directory) -> Result<(), Error> {
        C::copy_from(machine, below(machine, source)?, target)
    }

    fn forward_port(machine: &Machine, local: u16, port: u16) -> Result<Child, Error> {
        C::forward_port(machine, local, port)
    }
}

fn below<'p>(machine: &Machine, path: &'p str) -> Result<&'p str, Error> {
    match path.strip_prefix(machine.root.trim_end_matches('/')) {
        Some("") => Ok("/"),
        Some(rest) if rest.starts_with('/') => Ok(rest),
        _ => Err(Error::invalid(format!(
            "`{path}` is not below `{}`, the root of machine `{}`",
            machine.root, machine.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_root() {
        let machine =
            Machine { name: "m".into(), handle: serde_json::json!({}), root: "/b/m".into(), image: None };
        assert_eq!(below(&machine, "/b/m/x/y"), Ok("/x/y"));
        assert_eq!(below(&machine, "/b/m"), Ok("/"));
        for out in ["/b/mm", "/b", "/x", "x", ""] {
            assert!(below(&machine, out).is_err(), "{out}");
        }
    }
}
