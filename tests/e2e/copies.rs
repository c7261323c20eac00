//! What a channel copies: modes and links stay what they are, and no link leads anybody out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mst_plugin::PluginFile;
use mst_sandbox::{
    Cache, ExecEnvironment, Limits, MachineRequest, Permit, Quiet, RunnerPlugin, RunnerSetup, Sandbox,
    Settings, Sinks,
};
use serde_json::{Value, json};

use crate::docker::image;
use crate::support::wasm::{first_party, manifest, with_manifest};
use crate::support::{Eval, Space, example, need};

const TIME: Duration = Duration::from_secs(120);

/// What lies in a directory: of each path its kind and mode, and its text or target.
fn listed(dir: &Path) -> BTreeMap<String, String> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).expect("lists") {
            let path = entry.expect("an entry").path();
            let meta = path.symlink_metadata().expect("is there");
            let mode = meta.permissions().mode() & 0o7777;
            let what = if meta.is_symlink() {
                format!("link to {}", fs::read_link(&path).expect("reads").display())
            } else if meta.is_dir() {
                dirs.push(path.clone());
                format!("directory {mode:o}")
            } else {
                format!("file {mode:o} {}", fs::read_to_string(&path).expect("reads"))
            };
            found.insert(path.strip_prefix(dir).expect("is below").display().to_string(), what);
        }
    }
    found
}

fn there_and_back(bytes: Vec<u8>, options: Value) {
    let space = Space::new();
    let source = space.path("source");
    for dir in ["a/b", "empty", "closed"] {
        fs::create_dir_all(source.join(dir)).expect("made");
    }
    for (path, mode) in
        [("run.sh", 0o755), ("private", 0o600), ("a/b/read-only", 0o444), ("a/b/ödd name", 0o640)]
    {
        fs::write(source.join(path), path).expect("written");
        fs::set_permissions(source.join(path), fs::Permissions::from_mode(mode)).expect("set");
    }
    fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o700)).expect("set");
    for (target, at) in
        [("a/b/read-only", "inside"), ("../..", "a/b/up"), ("not-there-yet", "a/later"), ("a", "dir")]
    {
        symlink(target, source.join(at)).expect("linked");
    }
    fs::create_dir(space.path("machines")).expect("made");
    fs::create_dir(space.path("target")).expect("made");
    let options = match options {
        Value::Null => json!({ "base": space.text("machines") }),
        options => options,
    };
    let file = PluginFile::read(bytes).expect("a plugin");
    let sandbox = Sandbox::new(Settings { cache: Cache::off(), limits: Limits::default() }).expect("starts");
    let setup = RunnerSetup {
        permit: Permit::all(&file),
        options,
        environment: ExecEnvironment {
            path: std::env::var("PATH").expect("a PATH"),
            home: space.text(""),
            vars: BTreeMap::new(),
        },
        scratch: space.path("exec"),
        sinks: Sinks::unrecorded(Arc::new(Quiet)),
    };
    let (runner, _) = RunnerPlugin::load(&sandbox, &file, setup).expect("loads");
    let run: mst_model::RunId = "20261130-015240-k3f9".parse().expect("a run");
    let name = format!("mst-copies-{}", std::process::id());
    let request = MachineRequest { name: name.clone(), run: run.clone(), shard: 0, shards: 1 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("starts");
    runtime.block_on(async {
        let machine = runner.create(&request, TIME).await.expect("made");
        let there = format!("{}/tree", machine.root);
        let copied = runner.copy_to(&run, &machine, &source, &there, TIME).await;
        let target = space.path("target");
        let back = runner.copy_from(&run, &machine, &there, &target, TIME).await;
        runner.destroy(&run, &name, Some(&machine.handle), TIME).await.expect("removed");
        copied.and(back).expect("copied");
        assert_eq!(listed(&target), listed(&source));
    });
}

#[test]
fn modes_and_links_survive_a_directory_that_is_a_machine() {
    let runner = need!(example("dir-runner"));
    there_and_back(fs::read(runner).expect("reads"), Value::Null);
}

#[test]
fn modes_and_links_survive_a_container() {
    let image = need!(image());
    there_and_back(first_party("mst.runner.docker.wasm"), json!({ "engine": "docker", "image": image }));
}

#[test]
fn a_link_that_leads_out_is_not_taken_from_a_machine() {
    let runner = need!(example("dir-runner"));
    let bytes = fs::read(runner).expect("reads");
    let mut wicked = manifest(&bytes);
    for exec in wicked["exec"].as_array_mut().expect("templates") {
        if exec["id"] == "copy-from" {
            // As a machine may be.
            let script = r#"cp -a -- "$1" "$2" && ln -sf /etc/passwd "$2/report""#;
            exec["argv"] = json!([
                "/bin/sh",
                "-c",
                script,
                "sh",
                "{option(base)}/{machine}{source:machine-path}/.",
                "{target:host-dir}"
            ]);
        }
    }
    let space = Space::new();
    fs::create_dir(space.path("machines")).expect("made");
    space.write("wicked.wasm", with_manifest(&bytes, &wicked));
    space.add(&space.path("wicked.wasm"));
    Eval::new().client("cat").write(&space);
    let output = space
        .mst(["run", "eval.yaml", "--runner", "example/runner/dir", "--runner-option", "base=machines"])
        .exits(106);
    assert!(
        output.stderr.contains("the link `report` leads out of its directory, or may: to `/etc/passwd`"),
        "{output}"
    );
    assert_eq!(space.run().trials(), 0);
    space.run().assert_whole();
}

#[test]
fn a_link_to_the_clients_program_goes_to_a_machine_as_the_program() {
    let runner = need!(example("dir-runner"));
    let space = Space::new();
    fs::create_dir(space.path("machines")).expect("made");
    space.script("elsewhere/agent.sh", "#!/bin/sh\ncat >/dev/null; readlink \"$0\" || echo no link\n");
    symlink("elsewhere/agent.sh", space.path("agent")).expect("linked");
    Eval::new().set("client", json!({"kind": "command", "argv": ["./agent"]})).write(&space);
    let mut command = space.command(["run", "eval.yaml", "--runner", "example/runner/dir"]);
    space.add(runner);
    command.args(["--runner-option", "base=machines"]);
    space.finish(command).exits(0);
    assert_eq!(space.run().report_text("a/v/0"), "no link\n");
}
