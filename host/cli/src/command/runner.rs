//! `mst runner`: which runners there are.

use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use mst_model::Kind;
use mst_plugin::lock::is_own;
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
use crate::scratch::Scratch;
use crate::{place, plugins, runners, show};

#[derive(Debug, Args)]
pub(crate) struct RunnerArgs {
    #[command(subcommand)]
    command: RunnerCommand,
}

#[derive(Debug, Subcommand)]
enum RunnerCommand {
    /// List the runners that mst has, and those of the lock
    List(ListArgs),
    /// Make what a runner needs
    Setup(SetupArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    lock: super::plugin::LockArg,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SetupArgs {
    /// For which runner
    #[arg(value_enum)]
    runner: Setup,
    /// The image to put mst into
    #[arg(long, value_name = "IMAGE", default_value = "debian:bookworm-slim")]
    base: String,
    /// What the worker image is called; mst-worker:VERSION where absent
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// The engine's program
    #[arg(long, value_enum, default_value = "docker")]
    engine: Engine,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Setup {
    /// A worker image for `mst/runner/docker`
    Docker,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Engine {
    /// Docker
    Docker,
    /// Podman
    Podman,
}

/// A runner.
#[derive(Debug, Serialize)]
struct Line {
    id: String,
    description: String,
    max_shards: u32,
}

pub(crate) fn runner(args: RunnerArgs) -> Result<Exit, Failure> {
    match args.command {
        RunnerCommand::List(args) => list(args),
        RunnerCommand::Setup(args) => setup(args),
    }
}

fn list(args: ListArgs) -> Result<Exit, Failure> {
    let description = "the trials run in this process".to_owned();
    let mut lines = vec![Line { id: runners::LOCAL.to_owned(), description, max_shards: 1 }];
    for file in plugins::first_party_runners()? {
        let manifest = file.manifest();
        lines.push(Line {
            id: manifest.id.to_string(),
            description: manifest.description.clone(),
            max_shards: manifest.max_shards,
        });
    }
    let lock = args.lock.open()?;
    for pinned in lock.lock.plugins().filter(|pinned| pinned.id.kind() == Kind::Runner && !is_own(&pinned.id))
    {
        // One that can't be read is not there for a run either; which, and why, is said beside the list.
        match plugins::read(&pinned.file(lock.dir())) {
            Ok(file) => lines.push(Line {
                id: pinned.id.to_string(),
                description: file.manifest().description.clone(),
                max_shards: file.manifest().max_shards,
            }),
            Err(failure) => {
                show::aside(&format!("`{}` of the lock is left out: {}", pinned.id, failure.one_line()))
            }
        }
    }
    if args.json {
        return show::json(&lines);
    }
    let text: String = lines
        .iter()
        .map(|Line { id, description, max_shards }| {
            format!("{id:<24} up to {max_shards} shards; {description}\n")
        })
        .collect();
    show::result(&show::safe(&text))?;
    Ok(Exit::Done)
}

/// Builds the worker image from our Dockerfile, with this very executable.
fn setup(args: SetupArgs) -> Result<Exit, Failure> {
    let Setup::Docker = args.runner;
    let engine = match args.engine {
        Engine::Docker => "docker",
        Engine::Podman => "podman",
    };
    let tag = args.tag.unwrap_or_else(|| format!("mst-worker:{}", place::VERSION));
    let failed = |error: std::io::Error| Failure::because("can't stage what the image is made of", &error);
    let context = Scratch::new()?;
    let executable = std::env::current_exe().map_err(failed)?;
    std::fs::copy(executable, context.path().join("mst")).map_err(failed)?;
    std::fs::write(context.path().join("Dockerfile"), include_str!("../../assets/worker.Dockerfile"))
        .map_err(failed)?;
    let status = Command::new(engine)
        .args(["build", "--tag", &tag, "--build-arg", &format!("BASE={}", args.base)])
        .arg(context.path())
        .stdin(Stdio::null())
        // Its words are no result of ours.
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| {
            Failure::because(format!("can't start `{engine}`"), &error)
                .hint("install it, or name another by `--engine`")
        })?;
    if !status.success() {
        return Err(
            Failure::new(format!("`{engine} build` failed ({status})")).hint("its own words are above")
        );
    }
    show::result(&format!("{tag}\n"))?;
    show::aside(&format!("use it by `--runner mst/runner/docker --runner-option image={tag}`"));
    Ok(Exit::Done)
}
