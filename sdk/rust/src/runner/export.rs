//! From the author's `impl MachineRunner` to the component's exports.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::runner::bindings::exports::mst::plugin::{channel as way, machine as wire};
use crate::runner::channel::Channel;
use crate::runner::machine::read_handle;
use crate::runner::{Child, Directory, Machine, RemoteCommand, Request, process};
use crate::{Error, options};

/// Makes and removes machines. Every function stands alone: the host may call each in a new
/// instance of the plugin, in another process, days later. What must last is in the machine's
/// handle.
pub trait MachineRunner {
    /// What the user may set with `--runner-option`. The host has checked it against the
    /// manifest's schema; where the two disagree the user is told in serde's words.
    type Options: DeserializeOwned;

    /// Makes a machine of the name in the request, ready for the channel. One that has the name
    /// already is an error: the host mints each name once.
    fn create_machine(request: &Request, options: Self::Options) -> Result<Machine, Error>;

    /// Removes a machine; done already is done. `handle` is absent where `create_machine` never
    /// answered: the name alone must do. Unless you write another, the template `destroy` does it,
    /// whose command must end with code 0 where there is no such machine.
    fn destroy_machine(name: &str, handle: Option<Value>, options: Self::Options) -> Result<(), Error> {
        let _ = (handle, options);
        process::template("destroy").done(&format!("remove machine `{name}`"))?;
        Ok(())
    }

    /// The names of the machines of one run that still exist, and of no other. Unless you write
    /// another, they are what the template `list` prints, one a line.
    fn list_machines(run: &str, options: Self::Options) -> Result<Vec<String>, Error> {
        let _ = options;
        let output = process::template("list").done(&format!("list the machines of run `{run}`"))?;
        lines(&output)
    }
}

/// The lines that a program wrote to stdout, without blanks and empty ones. An error where the
/// template's bound cut some off: a machine that is not named is one that is never removed.
pub fn lines(output: &crate::Output) -> Result<Vec<String>, Error> {
    if output.cut > 0 {
        return Err(Error::failed(format!(
            "the list of machines is {} bytes longer than the plugin's manifest admits",
            output.cut
        )));
    }
    let text = output.stdout_text();
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// What [`export_runner!`](crate::export_runner) exports for a runner and its channel.
#[doc(hidden)]
pub struct Export<R, C>(PhantomData<(R, C)>);

impl<R: MachineRunner, C> wire::Guest for Export<R, C> {
    fn create_machine(request: wire::MachineRequest) -> Result<wire::Machine, Error> {
        let options = options::parse_options(&request.options)?;
        R::create_machine(&request.into(), options).map(Into::into)
    }

    fn destroy_machine(name: String, handle: Option<String>, options: String) -> Result<(), Error> {
        let handle = handle.as_deref().map(read_handle).transpose()?;
        R::destroy_machine(&name, handle, options::parse_options(&options)?)
    }

    fn list_machines(run: String, options: String) -> Result<Vec<String>, Error> {
        R::list_machines(&run, options::parse_options(&options)?)
    }
}

impl<R, C: Channel> way::Guest for Export<R, C> {
    fn run_command(machine: way::Machine, command: &RemoteCommand) -> Result<Child, Error> {
        C::run_command(&machine.try_into()?, command)
    }

    fn copy_to(machine: way::Machine, source: &Directory, target: String) -> Result<(), Error> {
        C::copy_to(&machine.try_into()?, source, &target)
    }

    fn copy_from(machine: way::Machine, source: String, target: &Directory) -> Result<(), Error> {
        C::copy_from(&machine.try_into()?, &source, target)
    }

    fn forward_port(machine: way::Machine, local: u16, port: u16) -> Result<Child, Error> {
        C::forward_port(&machine.try_into()?, local, port)
    }
}

#[doc(hidden)]
pub fn is_runner<R: MachineRunner, C: Channel>() {}

/// Makes a [`MachineRunner`](crate::runner::MachineRunner) the component's, with a
/// [`Channel`](crate::runner::channel::Channel) to its machines. Call it once in a crate.
#[macro_export]
macro_rules! export_runner {
    ($runner:ty, channel = $channel:ty) => {
        // A native linker takes no symbol like `mst:plugin/…`: there the types are only checked.
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = $crate::runner::is_runner::<$runner, $channel>;
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exported = $crate::runner::Export<$runner, $channel>;
    $crate::runner::bindings::export!(Exported with_types_in $crate::runner::bindings);
        };
    };
}
