//! `test/runner/machine`: a `machine-runner` on the bare bindings. Each machine is a directory on this
//! computer. What it is told to do wrong it does for shard 0, and for the whole run where it lists machines.

mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "machine-runner" });
}
mod made;

use bindings::exports::mst::plugin::{channel, machine};
use bindings::mst::plugin::commands::ExitStatus;
use bindings::mst::plugin::process::{self, Child, Directory, RemoteCommand, Slot, Value};
use bindings::mst::plugin::types::Error;

struct Machines;

/// A number that the host never gave out.
const NUMBER: u32 = 4242;

fn option(options: &str, name: &str) -> Option<String> {
    let options: serde_json::Value = serde_json::from_str(options).ok()?;
    Some(options.get(name)?.as_str()?.to_owned())
}

fn run(template: &str, slots: &[Slot<'_>]) -> Result<String, Error> {
    let output = process::run(template, slots, None)?;
    match output.status {
        ExitStatus::Code(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        status => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(Error::Failed(format!("`{template}`: {status:?}: {stderr}")))
        }
    }
}

fn text<'a>(name: &str, value: &str) -> Slot<'a> {
    Slot { name: name.to_owned(), value: Value::Text(value.to_owned()) }
}

fn directory<'a>(name: &str, directory: &'a Directory) -> Slot<'a> {
    Slot { name: name.to_owned(), value: Value::Directory(directory) }
}

fn worker(command: &RemoteCommand) -> Result<Child, Error> {
    process::start("exec", &[Slot { name: "command".to_owned(), value: Value::Command(command) }])
}

/// What it does wrong on this machine. It stands in the handle, as all that must last.
fn behaviour(machine: &channel::Machine) -> String {
    option(&machine.handle, "behaviour").unwrap_or_default()
}

impl machine::Guest for Machines {
    fn create_machine(request: machine::MachineRequest) -> Result<machine::Machine, Error> {
        let base =
            option(&request.options, "base").ok_or_else(|| Error::Invalid("`base` is missing".to_owned()))?;
        let asked = option(&request.options, "behaviour").unwrap_or_default();
        let behaviour = if request.shard == 0 { &*asked } else { "good" };
        run("create", &[])?;
        match behaviour {
            "create-loops" => loop {
                std::hint::black_box(());
            },
            "create-crashes" => std::process::abort(),
            // It has the name, and the host is told that it is none.
            "create-fails" => return Err(Error::Failed(made::WICKED.to_owned())),
            _ => {}
        }
        Ok(made::machine(behaviour, &request, &base))
    }

    fn destroy_machine(name: String, _handle: Option<String>, options: String) -> Result<(), Error> {
        let is_first = name.rsplit('-').nth(1) == Some("0");
        match option(&options, "behaviour").as_deref() {
            Some("destroy-fails") if is_first => Err(Error::Unavailable(made::WICKED.to_owned())),
            Some("destroy-crashes") if is_first => std::process::abort(),
            Some("destroy-lies") if is_first => Ok(()),
            _ => run("destroy", &[]).map(drop),
        }
    }

    fn list_machines(_run: String, options: String) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = run("list", &[])?.lines().map(str::to_owned).collect();
        match option(&options, "behaviour").as_deref() {
            Some("list-others") => names = run("list-all", &[])?.lines().map(str::to_owned).collect(),
            Some("list-escapes") => names.push(made::WICKED.to_owned()),
            Some("list-many") => names.extend((0..1000).map(|n| format!("mst-nobodys-{n}"))),
            Some("list-flood") => names.extend((0..100_000).map(|n| n.to_string())),
            Some("list-huge") => names.extend((0..150).map(|_| "x".repeat(1 << 20))),
            Some("list-crashes") => std::process::abort(),
            _ => {}
        }
        Ok(names)
    }
}

impl channel::Guest for Machines {
    fn run_command(machine: channel::Machine, command: &RemoteCommand) -> Result<Child, Error> {
        match &*behaviour(&machine) {
            "child-forged" => Ok(unsafe { Child::from_handle(NUMBER) }),
            "child-idle" => process::start("idle", &[]),
            "child-ended" => {
                let child = worker(command)?;
                child.kill();
                Ok(child)
            }
            // Two of the host's command, and one that is not: one is handed on.
            "child-of-three" => {
                let (first, idle) = (worker(command)?, process::start("idle", &[])?);
                std::mem::forget((first, idle));
                worker(command)
            }
            "command-forged" => {
                let forged = unsafe { RemoteCommand::from_handle(NUMBER) };
                worker(&forged)
            }
            // The same child for the host and for itself.
            "child-given-twice" => {
                let child = worker(command)?;
                let number = child.handle();
                std::mem::forget(child);
                drop(unsafe { Child::from_handle(number) });
                Ok(unsafe { Child::from_handle(number) })
            }
            _ => worker(command),
        }
    }

    fn copy_to(machine: channel::Machine, source: &Directory, target: String) -> Result<(), Error> {
        let forged;
        let source = match &*behaviour(&machine) {
            "directory-forged" => {
                forged = unsafe { Directory::from_handle(NUMBER) };
                &forged
            }
            _ => source,
        };
        run("copy-to", &[directory("source", source), text("target", &target)]).map(drop)
    }

    fn copy_from(_machine: channel::Machine, source: String, target: &Directory) -> Result<(), Error> {
        run("copy-from", &[text("source", &source), directory("target", target)]).map(drop)
    }

    fn forward_port(_machine: channel::Machine, _local: u16, _port: u16) -> Result<Child, Error> {
        Err(Error::Invalid("it forwards no port".to_owned()))
    }
}

bindings::export!(Machines with_types_in bindings);
