//! The channel into a container, through the component `mst/runner/docker` as shipped: how fast a
//! directory is copied beside `tar` through `docker exec`, and how soon a command has run beside a
//! bare `docker exec`. Each pair is measured in turns, in the same container.

mod common;
#[path = "common/plugin.rs"]
mod plugin_file;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{median, ms, row, times};
use mst_model::RunId;
use mst_model::machine::Machine;
use mst_sandbox::{
    Cache, ExecEnvironment, Limits, MachineRequest, Permit, Quiet, RunnerPlugin, RunnerSetup, Sandbox,
    Settings, Sinks,
};
use plugin_file::shipped;
use serde_json::json;

const TIME: Duration = Duration::from_secs(600);
const COPIES: usize = 5;
const COMMANDS: usize = 30;

/// What is copied: how many files, of how many bytes.
const TREES: [(&str, usize, usize); 2] =
    [("16 files, 256 MiB", 16, 16 << 20), ("5,000 files, 10 MiB", 5000, 2048)];

fn main() {
    let image = std::env::var("MST_TEST_IMAGE").unwrap_or_else(|_| "mst-worker-test:latest".to_owned());
    let there = Command::new("docker").args(["image", "inspect", &image]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        return println!("skipped: no Docker Engine with the image `{image}` (`.ci/docker` makes it)");
    }
    let root = tempfile::tempdir().expect("a directory");
    let sandbox =
        Sandbox::new(Settings { cache: Cache::at(&root.path().join("cache")), limits: Limits::default() });
    let file = shipped("mst.runner.docker.wasm");
    let setup = RunnerSetup {
        permit: Permit::all(&file),
        options: json!({ "engine": "docker", "image": image }),
        environment: ExecEnvironment {
            path: std::env::var("PATH").expect("a PATH"),
            home: root.path().to_string_lossy().into_owned(),
            vars: BTreeMap::new(),
        },
        scratch: root.path().join("exec"),
        sinks: Sinks::unrecorded(Arc::new(Quiet)),
    };
    let (runner, _) = RunnerPlugin::load(&sandbox.expect("an engine"), &file, setup).expect("loaded");
    let run: RunId = "20261130-015240-k3f9".parse().expect("a run's name");
    let name = format!("mst-bench-{}", std::process::id());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let request = MachineRequest { name: name.clone(), run: run.clone(), shard: 0, shards: 1 };
        let machine = runner.create(&request, TIME).await.expect("a machine");
        let bench = Bench { runner: &runner, run: &run, machine: &machine };
        println!("channel: a container of `{image}`, medians of {COPIES} copies and {COMMANDS} commands");
        for (what, files, size) in TREES {
            println!("\n  {what}");
            bench.copies(root.path(), files, size).await;
        }
        println!("\n  a command");
        bench.commands().await;
        runner.destroy(&run, &name, Some(&machine.handle), TIME).await.expect("removed");
    });
}

struct Bench<'a> {
    runner: &'a RunnerPlugin,
    run: &'a RunId,
    machine: &'a Machine,
}

impl Bench<'_> {
    async fn copies(&self, root: &Path, files: usize, size: usize) {
        let source = tempfile::tempdir_in(root).expect("a directory");
        for n in 0..files {
            // Bytes that no file system makes less of.
            let mut state = n as u64 + 1;
            let words = std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state
            });
            let bytes: Vec<u8> = words.take(size / 8).flat_map(u64::to_le_bytes).collect();
            std::fs::write(source.path().join(n.to_string()), bytes).expect("written");
        }
        let mut took: [Vec<Duration>; 4] = Default::default();
        for round in 0..COPIES {
            let there = |by: &str| format!("{}/{by}-{files}-{round}", self.machine.root);
            let (ours, bare) = (there("ours"), there("bare"));
            took[0].push(
                timed(async {
                    let copied = self.runner.copy_to(self.run, self.machine, source.path(), &ours, TIME);
                    copied.await.expect("copied");
                })
                .await,
            );
            let here = source.path().to_string_lossy();
            let name = &self.machine.name;
            let to = format!(
                "tar -C '{here}' -cf - . | docker exec -i {name} sh -c 'mkdir -p {bare} && exec tar -C {bare} -xf -'"
            );
            took[1].push(timed(async { shell(&to) }).await);
            let back = tempfile::tempdir_in(root).expect("a directory");
            took[2].push(
                timed(async {
                    let copied = self.runner.copy_from(self.run, self.machine, &ours, back.path(), TIME);
                    copied.await.expect("copied");
                })
                .await,
            );
            assert_eq!(std::fs::read_dir(back.path()).expect("listed").count(), files);
            let back = tempfile::tempdir_in(root).expect("a directory");
            let here = back.path().to_string_lossy();
            let from = format!("docker exec {name} tar -C {bare} -cf - . | tar -C '{here}' -xf -");
            took[3].push(timed(async { shell(&from) }).await);
            assert_eq!(std::fs::read_dir(back.path()).expect("listed").count(), files);
            shell(&format!("docker exec {name} rm -rf {ours} {bare}"));
        }
        let [to, to_bare, from, from_bare] = took.map(median);
        let rate = |time: Duration| format!("{:.0} MB/s", (files * size) as f64 / 1e6 / time.as_secs_f64());
        for (what, ours, bare) in [("to the container", to, to_bare), ("from the container", from, from_bare)]
        {
            let speed = format!("{} as fast, goal ≥ 0.9 ×", times(bare, ours));
            row(what, rate(ours), &speed);
            row("baseline: `tar`, `docker exec` and `tar`", rate(bare), &ms(bare));
        }
    }

    async fn commands(&self) {
        let argv = ["true".to_owned()];
        let mut took: [Vec<Duration>; 2] = Default::default();
        for _ in 0..COMMANDS {
            took[0].push(
                timed(async {
                    let started = self.runner.run_command(self.run, self.machine, &argv, TIME).await;
                    let mut running = started.expect("started");
                    drop(running.take_stdin());
                    running.wait().await.expect("it ended");
                })
                .await,
            );
            took[1].push(timed(async { shell(&format!("docker exec -i {} true", self.machine.name)) }).await);
        }
        let [ours, bare] = took.map(median);
        row("over the channel, until it has ended", ms(ours), &times(ours, bare));
        row("baseline: `docker exec -i` from a shell", ms(bare), "");
    }
}

async fn timed(what: impl Future<Output = ()>) -> Duration {
    let began = Instant::now();
    what.await;
    began.elapsed()
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("sh starts").success(), "{script}");
}
