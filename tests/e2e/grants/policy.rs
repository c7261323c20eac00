//! What an organisation says may be granted at all.

use std::fs;

use serde_json::json;

use super::{apart_from_the_page, asking, mst, space};
use crate::support::{Eval, Output, Space, case, missing, need, wasm};

/// mst reads it wherever it is started, and so do all of these tests.
#[test]
fn policy_of_this_machine() {
    let there = fs::symlink_metadata("/etc/mst/policy.toml").is_ok();
    assert!(
        !there,
        "this machine has a policy of its own, `/etc/mst/policy.toml`: what it refuses fails in other tests. \
         Run them where there is none, as in a container."
    );
}

/// Runs mst where `/etc/mst/policy.toml` is this text, in a mount namespace that ends with it.
fn under_the_systems(space: &Space, policy: &str, words: &str) -> Option<Output> {
    space.write("system.toml", policy);
    let script = format!(
        "mount -t tmpfs mst-e2e /etc || exit 77
         mkdir /etc/mst && cp system.toml /etc/mst/policy.toml && exec {} {words}",
        env!("CARGO_BIN_EXE_mst")
    );
    let output = space.finish(space.any_command("unshare", ["-m", "sh", "-c", &script]));
    if output.code == 77 || output.stderr.contains("unshare: ") {
        missing("ROOT", &format!("nothing can be mounted: {}", output.stderr.trim()));
        return None;
    }
    Some(output)
}

#[test]
fn the_systems_policy_binds_whatever_the_users_and_the_projects_admit() {
    let space = space(asking());
    space.write(
        "mst.policy.toml",
        "schema = \"mst.policy/v1\"\ncapabilities = [\"env\", \"workspace\", \"dir\"]\n",
    );
    let policy = "schema = \"mst.policy/v1\"\ncapabilities = [\"workspace\", \"dir\"]\n";
    let add = "plugin add check.wasm --grant env:ACME_REGION";
    let refused = need!(under_the_systems(&space, policy, add)).exits(105);
    assert!(
        refused.stderr.contains(
            "`env:ACME_REGION` can't be granted: the policy `/etc/mst/policy.toml` admits no `env`"
        ),
        "{refused}"
    );
    assert!(!space.path("mst.lock").exists());
    let broken = need!(under_the_systems(&space, "nonsense", "run eval.yaml")).exits(105);
    assert!(broken.stderr.contains("can't read the policy `/etc/mst/policy.toml`"), "{broken}");
    mst(&space, add).exits(0);
    // What was granted before it was refused.
    let refused = need!(under_the_systems(&space, policy, "run eval.yaml")).exits(105);
    assert!(refused.stderr.contains("`acme/judge/check` was granted what a policy refuses"), "{refused}");
}

#[test]
fn a_policy_says_what_may_be_granted_at_all() {
    let space = space(asking());
    space.write(
        "mst.policy.toml",
        "schema = \"mst.policy/v1\"\ncapabilities = [\"workspace\", \"http\", \"dir\"]\n",
    );
    let mut home = space.command(["plugin", "add", "check.wasm", "--grant", "env:ACME_REGION"]);
    insta::assert_snapshot!(space.finish(home), @r"
    exit 105
    -- stderr
    error: `env:ACME_REGION` can't be granted: the policy `mst.policy.toml` admits no `env`: `capabilities` has `workspace`, `http`, `dir`
    hint: whoever keeps the policy can change it
    ");
    // All means all that it admits.
    let added = mst(&space, "plugin add check.wasm --grant all --bind dir:rules=.").exits(0);
    insta::assert_snapshot!(apart_from_the_page(&added), @"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      granted      workspace:check
      granted      dir:rules is .
      granted      http:https://*.acme.com
      not granted  secret:api-key
      not granted  env:ACME_REGION
    -- stderr
    secret:api-key: not granted: the policy `mst.policy.toml` admits no `secret`: `capabilities` has `workspace`, `http`, `dir`
    env:ACME_REGION: not granted: the policy `mst.policy.toml` admits no `env`: `capabilities` has `workspace`, `http`, `dir`
    acme/judge/check 1.0.0
      standing  a stranger's, in your lock: granted 3 of 5 requests
    [IN SHORT]
    `mst plugin inspect check.wasm` shows all of it
    ");
    mst(&space, "run eval.yaml").exits(0);
    // What was granted before it was refused.
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = []\nhosts = []\n");
    insta::assert_snapshot!(mst(&space, "run eval.yaml").exits(105), @r"
    exit 105
    -- stderr
    error: `acme/judge/check` was granted what a policy refuses
      - `workspace:check`: the policy `mst.policy.toml` admits no program `{command:option(command)}`: `programs` is empty
      - `http:https://*.acme.com`: the policy `mst.policy.toml` admits no host `https://*.acme.com`: `hosts` is empty
    hint: `mst plugin revoke acme/judge/check workspace:check 'http:https://*.acme.com'` takes it back; whoever keeps the policy can change it
    ");
    mst(&space, "plugin revoke acme/judge/check workspace:check http:https://*.acme.com").exits(0);
    fs::remove_file(space.path("mst.policy.toml")).expect("removed");
    // The user's binds too, and the strictest wins.
    fs::create_dir_all(space.path("config/mst")).expect("made");
    space.write("config/mst/policy.toml", "schema = \"mst.policy/v1\"\nplugins = [\"mst/*/*\"]\n");
    home = space.command(["run", "eval.yaml"]);
    home.env("XDG_CONFIG_HOME", space.path("config"));
    insta::assert_snapshot!(space.finish(home), @r"
    exit 105
    -- stderr
    error: the policy `[DIR]/config/mst/policy.toml` admits no plugin `acme/judge/check`: `plugins` has `mst/*/*`
    hint: whoever keeps the policy can change it
    ");
    // One that can't be read lets nothing start.
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprogram = []\n");
    insta::assert_snapshot!(mst(&space, "run eval.yaml").exits(105), @r"
    exit 105
    -- stderr
    error: can't read the policy `mst.policy.toml`
      - unknown key `program`
    hint: did you mean `programs`?
    ");
}

#[test]
fn a_policy_binds_mst_s_own_plugins() {
    let space = Space::new();
    Eval::new().write(&space);
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\ncapabilities = []\n");
    insta::assert_snapshot!(mst(&space, "run eval.yaml").exits(105), @r"
    exit 105
    -- stderr
    error: `mst/dataset/jsonl` may not see the directory `data`: the policy `mst.policy.toml` admits no `dir`: `capabilities` is empty
    ");
    fs::remove_file(space.path("mst.policy.toml")).expect("removed");
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = [\"ssh\"]\n");
    let check = Eval::new().check("true").run(&space).exits(105);
    insta::assert_snapshot!(check, @r"
    exit 105
    -- stderr
    error: `mst/judge/command` was granted what a policy refuses
      - `workspace:check`: the policy `mst.policy.toml` admits no program `{command:option(command)}`: `programs` has `ssh`
    hint: whoever keeps the policy can change it
    ");
    space.write("strict.toml", "schema = \"mst.policy/v1\"\nprograms = [\"kubectl\"]\n");
    let page = mst(&space, "plugin inspect mst/runner/docker --policy strict.toml").exits(0).stdout;
    assert!(
        page.contains("      x the policy `strict.toml` admits no program `docker`: `programs` has\n"),
        "{page}"
    );
    let json = mst(&space, "plugin inspect mst/runner/docker --policy strict.toml --json").exits(0).json();
    let refused =
        json["requests"].as_array().expect("a list").iter().filter(|line| line["refused"].is_string());
    assert_eq!(refused.count(), 13);
    assert!(page.contains("\n  policy    strict.toml refuses 13 of 13\n"), "{page}");
    let page = mst(&space, "plugin inspect mst/judge/text --policy strict.toml").exits(0).stdout;
    assert!(page.contains("\n  policy    strict.toml refuses nothing of it\n"), "{page}");
    mst(&space, "plugin inspect mst/runner/docker --policy none.toml").exits(105);
}

#[test]
fn a_lock_elsewhere_leads_past_no_policy() {
    let space = space(json!({}));
    mst(&space, "plugin add check.wasm --grant all --lock locks/mst.lock").exits(0);
    mst(&space, "run eval.yaml --lock locks/mst.lock").exits(0);
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nplugins = [\"mst/*/*\"]\n");
    for words in [
        "run eval.yaml --lock locks/mst.lock",
        "plugin add check.wasm --grant all --lock locks/mst.lock",
        "plugin add check.wasm --grant all --lock others/mst.lock",
    ] {
        let said = mst(&space, words).exits(105).stderr;
        assert!(said.contains("admits no plugin `acme/judge/check`"), "{words}: {said}");
    }
    // The one beside the lock binds as well.
    fs::rename(space.path("mst.policy.toml"), space.path("locks/mst.policy.toml")).expect("moved");
    mst(&space, "run eval.yaml --lock locks/mst.lock").exits(105);
    // A link that leads nowhere is no policy that is not there.
    fs::remove_file(space.path("locks/mst.policy.toml")).expect("removed");
    std::os::unix::fs::symlink("gone.toml", space.path("mst.policy.toml")).expect("linked");
    let said = mst(&space, "run eval.yaml --lock locks/mst.lock").exits(105).stderr;
    assert!(said.contains("can't read the policy"), "{said}");
}

#[test]
fn a_list_says_what_a_policy_refuses_of_what_is_granted() {
    let space = space(json!({}));
    mst(&space, "plugin add check.wasm --grant all").exits(0);
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = [\"kubectl\"]\n");
    let list = mst(&space, "plugin list").exits(0).stdout;
    let line = |id: &str| list.lines().find(|line| line.starts_with(id)).expect("listed").to_owned();
    assert!(line("mst/runner/docker").contains("13 of 13 granted, 13 of them refused by a policy"), "{list}");
    assert!(line("acme/judge/check").contains("1 of 1 granted, 1 of them refused by a policy"), "{list}");
    assert!(!line("mst/judge/text").contains("refused"), "{list}");
}

#[test]
fn a_program_that_an_option_says_is_held_to_the_policy_when_it_is_set() {
    let space = Space::new();
    Eval::new().write(&space);
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = [\"docker\"]\n");
    let page = mst(&space, "plugin inspect mst/runner/docker").exits(0).stdout;
    let head = page.split_once("\n\n").expect("a head").0;
    insta::assert_snapshot!(head.split_once("  policy").expect("held").1, @"
    takes that away
     shards    at most 256 at a time, each on a machine
     calls     30s each, making and copying 10m, removing 2m; 256 MiB of memory,
               10,000 calls to mst and 1,000 lines on your terminal each
     policy    mst.policy.toml refuses nothing of it but what follows
     x `podman` as your option `engine`: the policy `mst.policy.toml` admits no
       program `podman`: `programs` has `docker`
    ");
    let json = mst(&space, "plugin inspect mst/runner/docker --json").exits(0).json();
    assert_eq!(json["refused_choices"].as_array().map(Vec::len), Some(1));
    assert!(json["requests"].as_array().expect("a list").iter().all(|line| line["refused"].is_null()));
    let list = mst(&space, "plugin list").exits(0).stdout;
    assert!(list.contains("13 of 13 granted  mst's own"), "{list}");
    let run = "run eval.yaml --runner mst/runner/docker --runner-option image=none.invalid/x:1";
    insta::assert_snapshot!(mst(&space, &format!("{run} --runner-option engine=podman")).exits(105), @"
    exit 105
    -- stderr
    error: `mst/runner/docker` can't run `podman`, which its option `engine` says: the policy `mst.policy.toml` admits no program `podman`: `programs` has `docker`
    hint: set the option to a program that is admitted; whoever keeps the policy can change it
    ");
    assert!(!space.path("runs").exists(), "nothing was begun");
    // The one that is admitted, and that is the option's where nobody sets it, goes on to the engine.
    let mut admitted = space.command(run.split(' '));
    admitted.env("PATH", space.path("bin"));
    let said = space.finish(admitted).stderr;
    assert!(said.contains("docker") && !said.contains("policy"), "{said}");
}

#[test]
fn a_summary_says_what_a_policy_takes_of_what_was_granted() {
    let space = space(asking());
    mst(&space, "plugin add check.wasm --grant all --bind dir:rules=. --bind secret:api-key=env:KEY")
        .exits(0);
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = []\nplugins = [\"mst/*/*\"]\n");
    insta::assert_snapshot!(mst(&space, "plugin revoke acme/judge/check dir:rules").exits(0), @"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      x refused all the same: the policy `mst.policy.toml` admits no plugin `acme/judge/check`: `plugins` has `mst/*/*`
      granted      workspace:check
        x refused all the same: the policy `mst.policy.toml` admits no program `{command:option(command)}`: `programs` is empty
      not granted  dir:rules is .
      granted      http:https://*.acme.com
      granted      secret:api-key from env:KEY
      granted      env:ACME_REGION
    ");
    insta::assert_snapshot!(mst(&space, "plugin grant acme/judge/check dir:rules").exits(0), @"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      x refused all the same: the policy `mst.policy.toml` admits no plugin `acme/judge/check`: `plugins` has `mst/*/*`
      granted      workspace:check
        x refused all the same: the policy `mst.policy.toml` admits no program `{command:option(command)}`: `programs` is empty
      granted      dir:rules is .
      granted      http:https://*.acme.com
      granted      secret:api-key from env:KEY
      granted      env:ACME_REGION
    ");
    // What takes something back asks no policy's leave, and needs none that can be read.
    space.write("mst.policy.toml", "schema = 1");
    insta::assert_snapshot!(mst(&space, "plugin revoke acme/judge/check dir:rules").exits(0), @"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      granted      workspace:check
      not granted  dir:rules is .
      granted      http:https://*.acme.com
      granted      secret:api-key from env:KEY
      granted      env:ACME_REGION
    -- stderr
    can't read the policy `mst.policy.toml`: `schema` must be text, and is a number
    ");
}

#[test]
fn what_a_manifest_says_makes_no_line_of_a_summary_and_moves_no_terminal() {
    let space = Space::new();
    let docker = wasm::first_party("mst.runner.docker.wasm");
    let mut manifest = wasm::manifest(&docker);
    manifest["id"] = json!("acme/runner/wicked");
    let wicked = "x\u{1b}[31mRED`: y\n  granted      exec:nothing-else\nhint: \u{202e}none";
    manifest["options"]["properties"]["engine"]["enum"] = json!(["docker", wicked]);
    space.write("wicked.wasm", wasm::with_manifest(&wasm::without_manifest(&docker), &manifest));
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = [\"docker\"]\n");
    let eval = "run eval.yaml --runner acme/runner/wicked --runner-option image=debian:12";
    Eval::new().cases([case("a")]).write(&space);
    for words in [
        "plugin add wicked.wasm --grant all",
        "plugin revoke acme/runner/wicked exec:pull",
        "plugin grant acme/runner/wicked exec:pull",
        "plugin inspect wicked.wasm --policy mst.policy.toml",
        "plugin list",
        eval,
    ] {
        let mut args: Vec<&str> = words.split(' ').collect();
        let engine = format!("engine={wicked}");
        if words == eval {
            args.extend(["--runner-option", &engine]);
        }
        let output = space.mst(args);
        let text = format!("{output}");
        let raw = [&output.raw.0, &output.raw.1].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(raw.iter().all(|text| !text.contains(['\u{1b}', '\u{202e}'])), "{text}");
        let forged = |line: &str| {
            line.trim_end() == "  granted      exec:nothing-else"
                || line.starts_with("hint: ") && line.contains("none")
        };
        assert!(!raw.iter().any(|text| text.lines().any(forged)), "{text}");
        assert!(words == "plugin list" || text.contains("RED"), "it would have been seen: {text}");
    }
}
