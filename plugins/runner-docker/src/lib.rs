//! `mst/runner/docker`: a container for each shard.
//!
//! For: making, finding and removing containers by the CLI of docker or podman; the way into them
//! is the SDK's [`ContainerCli`]. Not for: choosing what stands in a command line. All but the
//! user are put there by the host, the engine's program too, from the user's own options, so that
//! a container is open to what its user named and to nothing else.

mod options;

use mst_sdk::log;
use mst_sdk::runner::channel::ContainerCli;
use mst_sdk::runner::process;
use mst_sdk::runner::{Error, Machine, MachineRunner, Output, Request, lines};
use serde_json::Value;

pub use options::Options;

/// The host's directory in a container. No mount may lie on it: an engine copies past mounts.
const ROOT: &str = "/var/lib/mst";
/// Where the template `create` puts memory for tokens.
const TOKENS: &str = "/run/mst";

/// The runner.
pub struct Docker;

impl MachineRunner for Docker {
    type Options = Options;

    fn create_machine(request: &Request, options: Options) -> Result<Machine, Error> {
        let user = options.user.clone().or(image_user(&options.image)?);
        done("create", "start the container")?;
        let container = done("container", "look at the container")?;
        let text = container.stdout_text();
        let Some((id, image)) = text.trim().split_once(' ') else {
            return Err(Error::failed(format!("the engine describes the container as `{}`", text.trim())));
        };
        let machine = Machine::new(request, ROOT).with("id", id).image(options.image, digest(image));
        match user {
            Some(user) => run_as(machine, &user),
            None => Ok(machine),
        }
    }

    fn destroy_machine(name: &str, _: Option<Value>, _: Options) -> Result<(), Error> {
        let doing = format!("remove container `{name}`");
        let found = process::template("label").run()?;
        if is_gone(&found) {
            return Ok(());
        }
        // Somebody else may have taken the name.
        let label = found.stdout_text();
        match found.success() {
            true if label.trim() == name => {}
            true => {
                return Err(Error::failed(format!(
                    "can't {doing}: it has not the label `mst.machine={name}`, so it is not ours"
                )));
            }
            false => return Err(process::explain(&found, &doing)),
        }
        let output = process::template("destroy").run()?;
        match output.success() || is_gone(&output) {
            true => Ok(()),
            false => Err(process::explain(&output, &doing)),
        }
    }

    fn list_machines(run: &str, _: Options) -> Result<Vec<String>, Error> {
        lines(&done("list", &format!("list the containers of run `{run}`"))?)
    }
}

mst_sdk::export_runner!(Docker, channel = ContainerCli);

/// Whether a container is not there, or will not be in a moment. Some engines end with code 0 then,
/// and some don't.
fn is_gone(output: &Output) -> bool {
    let stderr = output.stderr_text().to_lowercase();
    let words = ["no such container", "no container with name or id", "already in progress"];
    words.iter().any(|words| stderr.contains(words))
}

fn done(id: &str, doing: &str) -> Result<Output, Error> {
    process::template(id).done(doing)
}

/// Whom the image runs as, where that is somebody else than root. Pulls it where it is not here.
fn image_user(image: &str) -> Result<Option<String>, Error> {
    let look = || done("image", &format!("find the image `{image}`"));
    let found = match look() {
        Err(Error::NotFound(_)) => {
            log::progress(format!("pulling the image `{image}`"), None);
            done("pull", &format!("pull the image `{image}`"))?;
            look()?
        }
        other => other?,
    };
    Ok(Some(found.stdout_text().trim().to_owned()).filter(|user| !user.is_empty()))
}

/// Has the machine's commands run as `user`, and gives them its directories.
fn run_as(machine: Machine, user: &str) -> Result<Machine, Error> {
    let id = |which: &str| {
        let command = process::template("id").slot("user", user).slot("which", which);
        let output = command.done(&format!("find the user `{user}` in the image"))?;
        let number = output.stdout_text().trim().parse::<u32>();
        number.map_err(|_| Error::failed(format!("`id {which}` in the image told no number")))
    };
    let (uid, gid) = (id("-u")?, id("-g")?);
    if uid == 0 {
        return Ok(machine);
    }
    let machine = ContainerCli::run_as(machine, user, &format!("{uid}:{gid}"));
    ContainerCli::make_dir(&machine, ROOT)?;
    ContainerCli::own(&machine, TOKENS)?;
    Ok(machine)
}

/// An image's id in one form: docker writes `sha256:` before it, podman doesn't.
fn digest(id: &str) -> String {
    if id.contains(':') { id.to_owned() } else { format!("sha256:{id}") }
}

#[cfg(test)]
mod tests;
