//! The page that a reviewer reads before a plugin runs: all that it is and may do, made from its
//! bytes alone.

use std::fmt;

use mst_model::{Digest, Kind, PluginId, Span};
use serde::Serialize;
use serde_json::Value;

use crate::component::{Extern, PluginFile};
use crate::legible::shown;
use crate::manifest::Manifest;
use crate::request::{Access, Stdin};
use crate::risk;
use crate::template::Place;
use crate::world::World;

/// A plugin on a page. As JSON it is what `mst plugin inspect --json` writes; `Display` is what a
/// person reads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page {
    /// Who it is.
    pub id: PluginId,
    /// Its version.
    pub version: semver::Version,
    /// What it implements.
    pub world: World,
    /// The version of `mst:plugin` that it was built for.
    pub contract: semver::Version,
    /// What it says of itself.
    pub description: String,
    /// Its license, where it names one.
    pub license: Option<String>,
    /// Its address, where it names one.
    pub homepage: Option<String>,
    /// What a grant is bound to.
    pub digest: Digest,
    /// The component's size.
    pub size_bytes: u64,
    /// The most shards that a run may ask it for; of a runner.
    pub max_shards: Option<u32>,
    /// Whether it leads local ports to a machine's; of a `machine-runner`.
    pub forward_port: Option<bool>,
    /// Every directory that it asks for.
    pub dirs: Vec<DirLine>,
    /// Every command that it asks for.
    pub commands: Vec<CommandLine>,
    /// The JSON Schema of its options.
    pub options: Value,
    /// Every interface that it imports, with the functions used.
    pub imports: Vec<Extern>,
    /// Every interface that it exports.
    pub exports: Vec<Extern>,
}

/// A directory on the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirLine {
    /// What the plugin calls it.
    pub name: String,
    /// What it may do there.
    pub access: Access,
    /// The option that names it.
    pub option: Option<String>,
    /// What to know about it.
    pub risks: Vec<String>,
}

/// A command on the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommandLine {
    /// What the plugin calls it.
    pub id: String,
    /// `exec` on the host, `workspace` in a copy of a trial's workspace.
    pub place: &'static str,
    /// As in the manifest.
    pub argv: Vec<String>,
    /// How long it may take.
    pub timeout: Span,
    /// What its stdin is.
    pub stdin: Stdin,
    /// The most bytes of each of its streams that are kept.
    pub max_output_bytes: u64,
    /// The environment variables that it gets.
    pub env: Vec<String>,
    /// What to know about it.
    pub risks: Vec<String>,
}

impl Page {
    /// The page of a component.
    pub fn of(file: &PluginFile) -> Page {
        let manifest = file.manifest();
        let dirs = manifest.dirs.iter().map(|dir| DirLine {
            name: dir.name.clone(),
            access: dir.access,
            option: dir.option.clone(),
            risks: risk::of_dir(manifest.id.kind(), dir),
        });
        Page {
            id: manifest.id.clone(),
            version: manifest.version.clone(),
            world: manifest.world,
            contract: manifest.contract.clone(),
            description: manifest.description.clone(),
            license: manifest.license.clone(),
            homepage: manifest.homepage.clone(),
            digest: file.digest(),
            size_bytes: file.bytes().len() as u64,
            max_shards: (manifest.world.kind() == Kind::Runner).then_some(manifest.max_shards),
            forward_port: (manifest.world == World::MachineRunner).then_some(manifest.forward_port),
            dirs: dirs.collect(),
            commands: commands(manifest),
            options: manifest.options.clone(),
            imports: file.imports().to_vec(),
            exports: file.exports().to_vec(),
        }
    }
}

fn commands(manifest: &Manifest) -> Vec<CommandLine> {
    let exec = manifest.exec.iter().map(|command| ("exec", Place::Exec, command));
    let workspace = manifest.workspace.iter().map(|command| ("workspace", Place::Workspace, command));
    exec.chain(workspace)
        .map(|(place, at, command)| CommandLine {
            id: command.id.clone(),
            place,
            argv: command.template.argv().into_iter().map(str::to_owned).collect(),
            timeout: command.timeout,
            stdin: command.stdin,
            max_output_bytes: command.max_output_bytes,
            env: command.env.clone(),
            risks: risk::of_command(manifest, at, command),
        })
        .collect()
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.id, self.version)?;
        writeln!(f, "{}\n", shown(&self.description, 500))?;
        writeln!(f, "world     {}, of mst:plugin@{}", self.world, self.contract)?;
        writeln!(f, "file      {}, {} bytes", self.digest, self.size_bytes)?;
        if let Some(license) = &self.license {
            writeln!(f, "license   {}", shown(license, 100))?;
        }
        if let Some(homepage) = &self.homepage {
            writeln!(f, "homepage  {}", shown(homepage, 300))?;
        }
        if let Some(most) = self.max_shards {
            writeln!(f, "shards    at most {most}")?;
        }
        if let Some(can) = self.forward_port {
            writeln!(f, "ports     {}", if can { "leads local ports to a machine's" } else { "none" })?;
        }
        self.requests(f)?;
        self.options(f)?;
        externs(f, "Imports", &self.imports)?;
        externs(f, "Exports", &self.exports)
    }
}

impl Page {
    fn requests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dirs.is_empty() && self.commands.is_empty() {
            return writeln!(f, "\nAsks for nothing: no command, no directory, no network.");
        }
        writeln!(f, "\nAsks for")?;
        for dir in &self.dirs {
            writeln!(f, "  dir `{}`, {}", dir.name, dir.access)?;
            risks(f, &dir.risks)?;
        }
        // What all commands get is said once: a reviewer who reads it at each sees nothing else.
        let shared = match self.commands.as_slice() {
            [first, second, rest @ ..] => {
                let same = second.env == first.env && rest.iter().all(|command| command.env == first.env);
                Some(&first.env).filter(|env| same && !env.is_empty())
            }
            _ => None,
        };
        let shared = shared.map(|env| risk::of_environment(env));
        if let Some(shared) = &shared {
            writeln!(f, "  for every command below")?;
            writeln!(f, "      ! {shared}")?;
        }
        for command in &self.commands {
            let place = match command.place {
                "exec" => "on this machine, as you",
                _ => "in a copy of the trial's workspace, on the machine that grades",
            };
            writeln!(f, "  {} `{}`, {place}", command.place, command.id)?;
            writeln!(
                f,
                "      {}",
                command.argv.iter().map(|element| word(element)).collect::<Vec<_>>().join(" ")
            )?;
            writeln!(
                f,
                "      at most {}, and {} of each output",
                command.timeout,
                bytes(command.max_output_bytes)
            )?;
            let own = command.risks.iter().filter(|risk| Some(*risk) != shared.as_ref());
            own.into_iter().try_for_each(|risk| writeln!(f, "      ! {risk}"))?;
        }
        Ok(())
    }

    fn options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties =
            self.options.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty());
        let Some(properties) = properties else { return writeln!(f, "\nOptions\n  none") };
        writeln!(f, "\nOptions")?;
        let required: Vec<&str> = self
            .options
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let rows = properties.iter().map(|(name, schema)| {
            let mut kind = match schema.get("type") {
                Some(Value::String(kind)) => kind.clone(),
                Some(Value::Array(kinds)) => {
                    kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
                }
                Some(other) => other.to_string(),
                None => "any".to_owned(),
            };
            if let Some(format) = schema.get("format").and_then(Value::as_str) {
                kind = format!("{kind}, {format}");
            }
            if required.contains(&name.as_str()) {
                kind += ", required";
            }
            let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
            [shown(name, 64), shown(&kind, 64), shown(&about, 200)]
        });
        aligned(f, rows.collect())
    }
}

fn externs(f: &mut fmt::Formatter<'_>, title: &str, list: &[Extern]) -> fmt::Result {
    writeln!(f, "\n{title}")?;
    let rows = list.iter().map(|item| {
        // `trial.read` is how WIT's tools spell `trial.read`.
        let plain = |function: &String| function.rsplit(']').next().unwrap_or_default().to_owned();
        let functions: Vec<String> = item.functions.iter().map(plain).collect();
        [shown(&item.name, 120), shown(&functions.join(", "), 2000)]
    });
    aligned(f, rows.collect())
}

fn aligned<const N: usize>(f: &mut fmt::Formatter<'_>, rows: Vec<[String; N]>) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn risks(f: &mut fmt::Formatter<'_>, risks: &[String]) -> fmt::Result {
    risks.iter().try_for_each(|risk| writeln!(f, "      ! {risk}"))
}

/// An element of an argv so that a reader sees where it begins and ends.
fn word(element: &str) -> String {
    let plain = !element.is_empty()
        && !element.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '`'));
    let text = shown(element, crate::template::Template::MAX_BYTES);
    if plain { text } else { format!("'{}'", text.replace('\'', r"\'")) }
}

fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 && count % (1 << 20) == 0 => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count % (1 << 10) == 0 => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{tests::judge_manifest, with_manifest};
    use crate::world::tests::component_of;

    fn page(world: &str, manifest: &Manifest) -> Page {
        let bytes = with_manifest(&component_of(world, None), manifest).expect("embedded");
        Page::of(&crate::open(bytes).expect("a plugin"))
    }

    const RUNNER: &str = r#"
        id = "acme/runner/box"
        version = "1.2.0"
        world = "machine-runner"
        description = "Machines in boxes."
        license = "Apache-2.0"
        homepage = "https://acme.example/box"
        max_shards = 8
        [options]
        type = "object"
        additionalProperties = false
        required = ["image"]
        [options.properties.image]
        type = "string"
        description = "What the machines are made of."
        [options.properties.engine]
        type = "string"
        default = "docker"
        [options.properties.keys]
        type = "string"
        format = "path"
        [[dir]]
        name = "keys"
        access = "read"
        option = "keys"
        [[dir]]
        name = "state"
        access = "read-write"
        [[exec]]
        id = "create"
        argv = ["docker", "run", "--volume=/:/host", "--security-opt=no-new-privileges", "--name", "{machine}", "[--memory={memory:quantity}]", "{image:oci-ref}", "sleep", "infinity"]
        timeout = "2m"
        env = ["DOCKER_HOST"]
        [[exec]]
        id = "own"
        argv = ["{option(engine)}", "exec", "{machine}", "{command...}"]
        timeout = "1h"
        [[exec]]
        id = "sh"
        argv = ["sudo", "/bin/bash", "-c", "echo \"{what:text(/.*/)}\"", ""]
        timeout = "10s"
        stdin = "plugin"
        max_output_bytes = 4096
        [[exec]]
        id = "send"
        argv = ["{with:enum(nc|socat|sudo)}", "{host:ident}", "{port:uint(1..65535)}"]
        timeout = "10s"
        stdin = "plugin"
    "#;

    /// The digest changes with wit-component; the rest is what a reviewer reads.
    fn text(page: &Page) -> String {
        page.to_string()
            .replace(&page.digest.to_string(), "sha256:…")
            .replace(&format!("{} bytes", page.size_bytes), "N bytes")
    }

    #[test]
    fn a_runners_page() {
        let page = page("machine-runner", &Manifest::from_toml(RUNNER).expect("valid"));
        insta::assert_snapshot!(text(&page), @r#"
        acme/runner/box 1.2.0
        Machines in boxes.

        world     machine-runner, of mst:plugin@0.1.0
        file      sha256:…, N bytes
        license   Apache-2.0
        homepage  https://acme.example/box
        shards    at most 8
        ports     none

        Asks for
          dir `keys`, read
              ! reads the path in your option `keys`
          dir `state`, read-write
              ! reads, changes and removes files in a directory that you name
          exec `create`, on this machine, as you
              docker run --volume=/:/host --security-opt=no-new-privileges --name {machine} [--memory={memory:quantity}] {image:oci-ref} sleep infinity
              at most 2m, and 1 MiB of each output
              ! opens the container to this machine: `--volume`
              ! an image of the plugin's choice: `image`
              ! your environment's `DOCKER_HOST`
          exec `own`, on this machine, as you
              {option(engine)} exec {machine} {command...}
              at most 1h, and 1 MiB of each output
              ! the user's own command, run as you: your option `engine`, which is `docker` where you set none
          exec `sh`, on this machine, as you
              sudo /bin/bash -c 'echo "{what:text(/.*/)}"' ''
              at most 10s, and 4 KiB of each output
              ! a shell among the arguments: what follows it may be a program
              ! more rights than yours: `sudo`
              ! free stdin from the plugin into a program that may run what it reads: as good as any command at all
              ! free text from the plugin, in the arguments of a shell: `what`
          exec `send`, on this machine, as you
              {with:enum(nc|socat|sudo)} {host:ident} {port:uint(1..65535)}
              at most 10s, and 1 MiB of each output
              ! more rights than yours: `sudo`
              ! free stdin from the plugin into a program

        Options
          engine  string
          image   string, required  What the machines are made of.
          keys    string, path

        Imports
          mst:plugin/log@0.1.0       write, progress
          mst:plugin/types@0.1.0
          mst:plugin/commands@0.1.0
          mst:plugin/process@0.1.0   child.kill, run, start

        Exports
          mst:plugin/machine@0.1.0  create-machine, destroy-machine, list-machines
          mst:plugin/channel@0.1.0  run-command, copy-to, copy-from, forward-port
        "#);
    }

    #[test]
    fn a_judge_that_asks_for_nothing() {
        insta::assert_snapshot!(text(&page("judge", &judge_manifest())), @r"
        acme/judge/tone 1.0.0
        Grades tone.

        world     judge, of mst:plugin@0.1.0
        file      sha256:…, N bytes

        Asks for nothing: no command, no directory, no network.

        Options
          none

        Imports
          mst:plugin/log@0.1.0        write, progress
          mst:plugin/types@0.1.0
          mst:plugin/evidence@0.1.0   trial.eval-case, trial.variant-id, trial.trial-index, trial.outcome, trial.report, trial.entries, trial.read
          mst:plugin/commands@0.1.0
          mst:plugin/workspace@0.1.0  run

        Exports
          mst:plugin/grading@0.1.0  judge
        ");
    }

    #[test]
    fn an_environment_that_all_commands_get_is_said_once() {
        let with = |first: &str, second: &str| {
            let manifest = format!(
                "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
                 [[exec]]\nid='s'\nargv=['x']\ntimeout='1s'\nenv={first}\n\
                 [[exec]]\nid='t'\nargv=['y']\ntimeout='1s'\nenv={second}"
            );
            let page = page("machine-runner", &Manifest::from_toml(&manifest).expect("valid"));
            let text = page.to_string();
            let text = text.split_once("Asks for\n").expect("it asks").1;
            text.split_once("\n\n").expect("more follows").0.to_owned()
        };
        insta::assert_snapshot!(with("['A', 'B']", "['A', 'B']"), @r"
          for every command below
              ! your environment's `A`, `B`
          exec `s`, on this machine, as you
              x
              at most 1s, and 1 MiB of each output
          exec `t`, on this machine, as you
              y
              at most 1s, and 1 MiB of each output
        ");
        assert!(!with("['A', 'B']", "['A']").contains("every command"));
        assert!(!with("[]", "[]").contains("every command"));
    }

    #[test]
    fn what_a_judges_command_is_worth_stopping_at() {
        let manifest = |argv: &str| {
            Manifest::from_toml(&format!(
                "id='a/judge/b'\nversion='1.0.0'\nworld='judge'\ndescription='d'\n\
                 [options]\ntype='object'\n[options.properties.command]\ntype='array'\n\
                 [[workspace]]\nid='t'\nargv={argv}\ntimeout='1s'"
            ))
            .expect("valid")
        };
        let risks = |argv: &str| commands(&manifest(argv)).remove(0).risks;
        assert_eq!(
            risks("['{option(command)}']"),
            ["the user's own command, run as you: your option `command`"]
        );
        assert_eq!(
            risks("['./test.sh']"),
            ["a program out of the workspace: `./test.sh` may have been written by what is being evaluated"]
        );
        assert_eq!(risks("['cargo', 'test']"), [""; 0]);
        assert_eq!(
            risks("['/usr/bin/python3.12', '-c', 'x']"),
            ["an interpreter: `python` can run programs from its arguments"]
        );
    }

    #[test]
    fn the_json_has_all_of_it() {
        let page = page("machine-runner", &Manifest::from_toml(RUNNER).expect("valid"));
        let json = serde_json::to_value(&page).expect("JSON");
        for key in [
            "id",
            "version",
            "world",
            "contract",
            "digest",
            "size_bytes",
            "dirs",
            "commands",
            "options",
            "imports",
            "exports",
        ] {
            assert!(json.get(key).is_some_and(|value| !value.is_null()), "`{key}`");
        }
        assert_eq!(json["commands"][0]["timeout"], "2m");
    }
}
