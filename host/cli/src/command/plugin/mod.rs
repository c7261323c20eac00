//! `mst plugin`: building plugins, looking into them, and what they may do here.

mod ask;
mod bindings;
mod grants;

pub(crate) use grants::LockArg;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mst_plugin::build::{Built, Environment, Progress as BuildProgress};
use mst_plugin::dist::{self, Dist, Entry};
use mst_plugin::{Page, PluginFile, Policy};
use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;
use crate::lockfile::LockFile;
use crate::{place, plugins, policies, show};

#[derive(Debug, Args)]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Compile a plugin and put its manifest into it
    Build(BuildArgs),
    /// Print all that a plugin is and may do; none of its code runs
    Inspect(InspectArgs),
    /// Let evals use a plugin, after a look at all that it asks for
    Add(grants::AddArgs),
    /// Grant a plugin what it asks for
    Grant(grants::GrantArgs),
    /// Take back what was granted to a plugin, or the plugin itself
    Revoke(grants::RevokeArgs),
    /// List the plugins that evals can use
    List(grants::ListArgs),
    /// Say what a run used of what a plugin may do, and what it could do without
    Tighten(super::tighten::TightenArgs),
    /// Build the plugins of a folder into its `dist`
    #[command(hide = true)]
    Dist(DistArgs),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// The plugin's directory, with its Cargo.toml and plugin.toml
    dir: PathBuf,
    /// The file to write; ORG.KIND.NAME.wasm here where absent
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print what was built as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct InspectArgs {
    /// A plugin's file, or the id of a first-party plugin or of one in the lock
    plugin: String,
    #[command(flatten)]
    lock: grants::LockArg,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// Print it as Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Say what this policy would refuse, in place of those that bind here; `mst schema policy` says how one
    /// is written
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct DistArgs {
    /// The folder with a plugin in each folder
    dir: PathBuf,
    /// Write nothing: compare with the `dist` that is there
    #[arg(long)]
    check: bool,
}

pub(crate) fn plugin(args: PluginArgs) -> Result<Exit, Failure> {
    match args.command {
        PluginCommand::Build(args) => build(args),
        PluginCommand::Inspect(args) => inspect(args),
        PluginCommand::Add(args) => grants::add(args),
        PluginCommand::Grant(args) => grants::grant(args),
        PluginCommand::Revoke(args) => grants::revoke(args),
        PluginCommand::List(args) => grants::list(args),
        PluginCommand::Tighten(args) => super::tighten::tighten(args),
        PluginCommand::Dist(args) => dist(args),
    }
}

fn inspect(args: InspectArgs) -> Result<Exit, Failure> {
    let lock = args.lock.open()?;
    let file = plugins::find(&args.plugin, &lock)?;
    let policy = match &args.policy {
        Some(path) => policies::of(path)?,
        None => policies::found(lock.dir(), Path::new(""))?,
    };
    let page = page(&file, &lock, &policy);
    if args.json {
        return show::json(&page);
    }
    show::result(&if args.markdown { page.markdown() } else { page.to_string() })?;
    Ok(Exit::Done)
}

/// The page of a file, with what was said of it here.
fn page(file: &PluginFile, lock: &LockFile, policy: &Policy) -> Page {
    let manifest = file.manifest();
    let pinned = lock.lock.get(&manifest.id);
    let sources = pinned.map(|pinned| policy.refused_sources(&pinned.bindings)).unwrap_or_default();
    let mut page = Page::of(file).held_to(policy, &sources);
    if plugins::is_built_in(file) {
        page = page.of_own();
    }
    if let Some(pinned) = pinned {
        page = match pinned.granted(file, lock.dir()) {
            Ok(granted) => page.with_grants(&granted),
            // Another file of the plugin: what was granted is not granted to it.
            Err(_) => page.with_pinned(pinned.sha256),
        };
    }
    page
}

/// What `build` prints.
#[derive(Debug, Serialize)]
struct Report {
    id: String,
    version: String,
    world: String,
    file: PathBuf,
    size_bytes: u64,
    sha256: String,
    toolchain: String,
}

fn build(args: BuildArgs) -> Result<Exit, Failure> {
    let built = compile(&args.dir)?;
    let manifest = built.file.manifest();
    let output = args.output.unwrap_or_else(|| PathBuf::from(dist::file_name(&manifest.id)));
    write(&output, built.file.bytes())?;
    let report = Report {
        id: manifest.id.to_string(),
        version: manifest.version.to_string(),
        world: manifest.world.to_string(),
        file: output,
        size_bytes: built.file.bytes().len() as u64,
        sha256: built.file.digest().to_string(),
        toolchain: built.toolchain,
    };
    if args.json {
        return show::json(&report);
    }
    let Report { id, version, world, file, size_bytes, sha256, toolchain } = report;
    let file = file.display();
    show::result(&format!(
        "plugin   {id} {version}\nworld    {world}\nfile     {file}\nsize     {size_bytes} bytes\ndigest   {sha256}\nbuilt by {toolchain}\n"
    ))?;
    Ok(Exit::Done)
}

/// Builds a guest, with cargo's words on stderr.
fn compile(dir: &Path) -> Result<Built, Failure> {
    let environment = Environment::new(place::vars());
    let mut say = |progress: BuildProgress<'_>| match progress {
        BuildProgress::Toolchain(toolchain) => show::aside(&format!("building with {toolchain}")),
        BuildProgress::Cargo(line) => show::aside(line),
        _ => {}
    };
    mst_plugin::build::build(dir, &environment, &mut say).map_err(|error| {
        let failure = Failure::because(format!("can't build the plugin in `{}`", dir.display()), &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    mst_store::atomic::write(path, bytes).map_err(|error| Failure::from_error(&error))
}

/// Builds every guest below `dir` into `dir/dist`, or compares with what is there.
fn dist(args: DistArgs) -> Result<Exit, Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::because(format!("can't read `{}`", args.dir.display()), error)
    };
    let mut guests: Vec<PathBuf> = std::fs::read_dir(&args.dir)
        .map_err(|error| failed(&error))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(mst_plugin::build::MANIFEST_FILE).is_file())
        .collect();
    guests.sort();
    let built = guests.iter().map(|guest| compile(guest)).collect::<Result<Vec<_>, _>>()?;
    let folder = args.dir.join("dist");
    if args.check {
        return check(&folder, &built);
    }
    std::fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
    for built in &built {
        write(&folder.join(dist::file_name(&built.file.manifest().id)), built.file.bytes())?;
    }
    let entries = built.iter().map(|built| Entry::of(&built.file, &built.toolchain)).collect();
    write(&folder.join(dist::LIST), Dist::new(entries).to_json().as_bytes())?;
    dist::verify(&folder).map_err(|error| Failure::from_error(&error))?;
    Ok(Exit::Done)
}

/// Byte for byte where the toolchain is the recorded one. With another, other bytes are no fault:
/// then only that it builds is checked here, and the tests run on what was built.
fn check(folder: &Path, built: &[Built]) -> Result<Exit, Failure> {
    let listed = dist::verify(folder).map_err(|error| Failure::from_error(&error))?;
    let mut faults = Vec::new();
    for built in built {
        let id = &built.file.manifest().id;
        match listed.iter().find(|(entry, _)| entry.id == *id) {
            None => faults.push(format!("`{id}` is not in `{}`", folder.display())),
            Some((entry, _)) if entry.toolchain != built.toolchain => show::aside(&format!(
                "{id}: not compared: `dist` was built by {}, this is {}",
                entry.toolchain, built.toolchain
            )),
            Some((entry, _)) if entry.sha256 != built.file.digest() => {
                faults.push(format!("`{id}` builds to {}, `dist` has {}", built.file.digest(), entry.sha256));
            }
            Some(_) => show::aside(&format!("{id}: the same, byte for byte")),
        }
    }
    for (entry, _) in &listed {
        if built.iter().all(|built| built.file.manifest().id != entry.id) {
            faults.push(format!("`{}` has no source", entry.id));
        }
    }
    if faults.is_empty() {
        return Ok(Exit::Done);
    }
    let mut failure = Failure::new(format!("`{}` is not what its sources build", folder.display()));
    failure.causes = faults;
    Err(failure.hint("run `mst plugin dist` on the folder of the plugins, and commit what it writes"))
}

#[cfg(test)]
mod tests {
    use mst_sandbox::{Limits, MAX_LEFT};

    use super::*;
    use crate::machines::{CALL, COPY, CREATE, DESTROY, SHARD};

    #[test]
    fn a_page_says_the_bounds_that_calls_have() {
        let limits = Limits::default();
        let calls = |file: &PluginFile| {
            let text = Page::of(file).to_string();
            let calls = text.split_once("  calls     ").expect("said").1;
            let calls = calls.split_once("\n\n").expect("more follows").0;
            calls.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let of = |id: &str| calls(&plugins::first_party(id).expect("there").expect("whole"));
        let call = CALL.as_secs();
        assert_eq!((limits.call_time, CREATE), (CALL, COPY));
        let thousands = |count: u32| format!("{},{:03}", count / 1000, count % 1000);
        let left = thousands(MAX_LEFT);
        let (memory, lines) = (limits.memory_bytes >> 20, thousands(limits.log_lines));
        let most =
            format!("{memory} MiB of memory, {left} calls to mst and {lines} lines on your terminal each");
        assert_eq!(of("mst/dataset/jsonl"), format!("{call}s each; {most}"));
        let (create, destroy) = (CREATE.as_secs() / 60, DESTROY.as_secs() / 60);
        assert_eq!(
            of("mst/runner/docker"),
            format!("{call}s each, making and copying {create}m, removing {destroy}m; {most}")
        );
        // The manifest's 30m are longer than any call in which it could be run.
        let docker = Page::of(&plugins::first_party("mst/runner/docker").expect("there").expect("whole"));
        assert!(docker.to_string().contains(&format!("exec:pull (at most {create}m, as no call is longer)")));
        assert_eq!(SHARD.as_secs(), 7 * 24 * 3600, "as the page of a shard-runner says");
        assert!(of("mst/judge/text").contains("(or else 3m)"));
    }
}
