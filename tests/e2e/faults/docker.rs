//! The same over the real Docker Engine, with fewer seeds. What it does on its own the engine
//! does; a program called `docker` before it on the PATH lets it fail after it has done it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::stage::{Fault, Ground, Play, play};
use super::{kill, seeds};
use crate::docker::{containers, image};
use crate::support::{Chance, Space, need, processes_with};

const SEEDS: u64 = 6;

#[test]
fn seeds_over_containers_lose_double_and_leave_nothing() {
    let image = need!(image());
    seeds(SEEDS, |seed| {
        let space = Space::new();
        fs::create_dir(space.path("faults")).expect("made");
        space.script("bin/docker", &engine(&space));
        let mut chance = Chance(!seed);
        let docker = Docker { image: image.clone(), shards: 1 + chance.below(2) };
        let stage = Play {
            cases: 2 + chance.below(6),
            trials: 1,
            faults: vec![
                Fault::KillWorker,
                Fault::RemoveMachine,
                Fault::CutChannel,
                Fault::KillCoordinator,
                Fault::FailCreate,
                Fault::FailDestroy,
            ],
            attempts: 3,
            after: Duration::from_millis(if chance.one_in(2) { 20 } else { 800 }),
            // Where the engine that is asked here puts that file into each container.
            asked: "/asked".to_owned(),
            load: None,
        };
        play(seed, &space, &docker, &stage);
        space.assert_tidy();
    });
}

/// A `docker` that fails as often as there are files for it, after it has made a container and
/// before it removes one; and whose containers can say on this side that they were asked.
fn engine(space: &Space) -> String {
    let (faults, asked) = (space.text("faults"), space.text("asked"));
    format!(
        r#"#!/bin/sh
real() {{ PATH=${{PATH#*:}} docker "$@"; }}
fault() {{ for fault in {faults}/$1-*; do rm -- "$fault" 2>/dev/null && {{ echo "$2" >&2; exit 1; }}; done; }}
case $1 in
  run) shift; real run --volume {asked}:/asked "$@" || exit; fault create "it is there and not well"; exit 0 ;;
  rm) fault destroy "it is protected" ;;
esac
PATH=${{PATH#*:}}
exec docker "$@"
"#
    )
}

struct Docker {
    image: String,
    shards: u64,
}

impl Ground for Docker {
    fn run(&self, space: &Space) -> Command {
        let (image, shards) = (format!("image={}", self.image), self.shards.to_string());
        let args = ["run", "eval.yaml", "--json", "--runner", "mst/runner/docker", "--shards", &shards];
        let mut command = self.about(space, &args);
        command.args(["--runner-option", &image]);
        command
    }

    fn about(&self, space: &Space, args: &[&str]) -> Command {
        let mut command = space.command(args);
        let path = std::env::var("PATH").expect("a PATH");
        command.env("PATH", format!("{}:{path}", space.text("bin")));
        command
    }

    fn machines(&self, _: &Space, run: &str) -> Vec<String> {
        if run.is_empty() { Vec::new() } else { containers(run) }
    }

    fn meet(&self, space: &Space, fault: Fault, chance: &mut Chance) {
        let mut there: Vec<String> = space.runs().iter().flat_map(|run| containers(&run.name())).collect();
        there.sort();
        match fault {
            Fault::FailCreate => space.write(&format!("faults/create-{}", chance.below(3)), ""),
            Fault::FailDestroy => space.write(&format!("faults/destroy-{}", chance.below(3)), ""),
            _ if there.is_empty() => {}
            Fault::RemoveMachine => {
                engine_does(&[
                    "rm",
                    "--force",
                    chance.pick(&there.iter().map(String::as_str).collect::<Vec<_>>()),
                ]);
            }
            Fault::KillWorker => {
                let top = engine_does(&["top", &there[0], "-eo", "pid,args"]);
                let worker = top.lines().find(|line| line.contains("mst collect --bundle"));
                let pid = worker.and_then(|line| line.split_whitespace().next()?.parse().ok());
                pid.into_iter().for_each(kill);
            }
            Fault::CutChannel => {
                let leads = |argv: &[String]| {
                    argv.iter().any(|arg| arg == "exec")
                        && argv.iter().any(|arg| arg == "collect")
                        && argv.contains(&there[0])
                };
                processes_with(leads).into_iter().for_each(kill);
            }
            other => unreachable!("{other:?} is not among the faults here"),
        }
    }

    fn heal(&self, space: &Space) {
        fs::remove_dir_all(space.path("faults")).expect("removed");
        fs::create_dir(space.path("faults")).expect("made");
    }

    fn is_busy(&self, space: &Space) -> bool {
        // Clients in containers are processes of this machine, too.
        let mut names: Vec<String> = space.runs().iter().map(|run| format!("mst-{}-", run.name())).collect();
        names.push(format!(": {};", space.dir().display()));
        let ours = |argv: &[String]| argv.iter().any(|arg| names.iter().any(|name| arg.contains(name)));
        !processes_with(ours).is_empty()
    }
}

fn engine_does(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().expect("docker starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
