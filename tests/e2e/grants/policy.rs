//! What an organisation says may be granted at all.

use std::fs;

use serde_json::json;

use super::{asking, mst, space};
use crate::support::{Eval, Space};

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
    insta::assert_snapshot!(added, @"
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
    space.write("strict.toml", "schema = \"mst.policy/v1\"\nprograms = [\"podman\"]\n");
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
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = [\"podman\"]\n");
    let list = mst(&space, "plugin list").exits(0).stdout;
    let line = |id: &str| list.lines().find(|line| line.starts_with(id)).expect("listed").to_owned();
    assert!(line("mst/runner/docker").contains("13 of 13 granted, 13 of them refused by a policy"), "{list}");
    assert!(line("acme/judge/check").contains("1 of 1 granted, 1 of them refused by a policy"), "{list}");
    assert!(!line("mst/judge/text").contains("refused"), "{list}");
}
