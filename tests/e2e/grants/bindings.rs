//! What directories and secrets are here: bound when they are granted, told, and nothing that lets a plugin
//! grant itself more.

use std::fs;

use serde_json::json;

use super::{apart_from_the_page, asking, mst, space};

#[test]
fn what_needs_a_place_is_granted_with_it() {
    let space = space(asking());
    fs::create_dir(space.path("rules")).expect("made");
    let said = |words: &str| mst(&space, words).exits(105).stderr;
    let all = [
        said("plugin add check.wasm --grant all"),
        said("plugin add check.wasm --grant dir:rules"),
        said("plugin add check.wasm --grant all --bind dir:rules=none"),
        said("plugin add check.wasm --grant all --bind dir:rule=rules"),
        said("plugin add check.wasm --grant workspace:chekc"),
    ];
    insta::assert_snapshot!(all.join("--\n"), @r"
    error: what can't be granted before somebody says what it is
      - `dir:rules`: where the directory is
      - `secret:api-key`: where its value comes from
    hint: say it by `--bind dir:rules=PATH --bind secret:api-key=env:NAME`
    --
    error: what can't be granted before somebody says what it is
      - `dir:rules`: where the directory is
    hint: say it by `--bind dir:rules=PATH`
    --
    error: `dir:rules` can't be bound: `none` is no directory
    --
    error: `acme/judge/check` does not ask for `dir:rule`
    hint: did you mean `dir:rules`?
    --
    error: `acme/judge/check` does not ask for `workspace:chekc`
    hint: did you mean `workspace:check`?
    ");
    assert!(!space.path("mst.lock").exists());
    for wrong in ["dir:rules", "secret:api-key=VALUE", "exec:x=y"] {
        mst(&space, &format!("plugin add check.wasm --grant all --bind {wrong}")).exits(2);
    }
    let bound = "plugin add check.wasm --grant all --bind dir:rules=rules --bind secret:api-key=env:ACME_KEY";
    mst(&space, bound).exits(0);
    insta::assert_snapshot!(space.normal(&space.read("mst.lock")), @r#"
    # What plugins may do here, and who they are. `mst plugin add`, `grant` and `revoke` write this file;
    # commit it beside the eval.
    schema = "mst.lock/v1"

    [[plugin]]
    id = "acme/judge/check"
    version = "1.0.0"
    source = "check.wasm"
    sha256 = "[DIGEST]"
    world = "judge"

    [[plugin.workspace]]
    id = "check"
    granted = true
    argv = ["{command:option(command)}"]
    timeout = "1h"
    stdin = "none"
    max_output_bytes = 1048576
    env = []

    [plugin.workspace.options]
    command = '{"items":{"type":"string"},"minItems":1,"minLength":1,"type":["string","array"]}'

    [[plugin.dir]]
    name = "rules"
    granted = true
    access = "read"
    path = "rules"

    [[plugin.http]]
    to = "https://*.acme.com"
    granted = true
    methods = ["GET", "POST"]
    private = false

    [[plugin.secret]]
    name = "api-key"
    granted = true
    about = "Signs requests."
    to = ["https://api.acme.com"]
    from = "env:ACME_KEY"

    [[plugin.env]]
    name = "ACME_REGION"
    granted = true
    "#);
}

#[test]
fn what_is_bound_lets_no_plugin_grant_itself_more() {
    let space = space(json!({
        "dir": [{"name": "state", "access": "read-write"}],
        "secret": [{"name": "api-key", "about": "Signs requests.", "to": ["https://api.acme.com"]}],
        "http": [{"to": "https://api.acme.com", "methods": ["GET"], "private": false}],
    }));
    fs::create_dir_all(space.path("work/state")).expect("made");
    space.write("mst.policy.toml", "schema = \"mst.policy/v1\"\nprograms = [\"pass\"]\n");
    let add = |dir: &str, lock: &str| {
        mst(&space, &format!("plugin add check.wasm --grant dir:state --bind dir:state={dir} --lock {lock}"))
    };
    insta::assert_snapshot!(add(".", "mst.lock").exits(105), @r"
    exit 105
    -- stderr
    error: `dir:state` can't be bound to `.`: the plugin could write the lock `mst.lock` and the eval beside it
    hint: bind a directory of its own
    ");
    assert!(add("..", "mst.lock").exits(105).stderr.contains("could write the lock"));
    // The lock is elsewhere, and the policy is not.
    std::os::unix::fs::symlink("..", space.path("work/up")).expect("linked");
    let said = add("work/up", "../locks/mst.lock").exits(105).stderr;
    assert!(said.contains("could write the policy `mst.policy.toml`"), "{said}");
    // What is in the cache is run. It may not be there yet, and what is bound may lie in it.
    fs::create_dir_all(space.path("work/components/below")).expect("made");
    for (cache, dir) in
        [("work/state/deep", "work/state"), ("work", "work"), ("work", "work/components/below")]
    {
        let bind = format!("dir:state={dir}");
        let mut command = space.command([
            "plugin",
            "add",
            "check.wasm",
            "--grant",
            "dir:state",
            "--bind",
            &bind,
            "--lock",
            "mst.lock",
        ]);
        command.env("MST_CACHE_DIR", space.path(cache));
        let said = space.finish(command).exits(105).stderr;
        assert!(said.contains("the plugin could write mst's cache of compiled plugins"), "{said}");
    }
    add("work/state", "mst.lock").exits(0);
    // A command that prints a secret is one that runs here.
    let bind = |source: &str| {
        let source = format!("secret:api-key=command:{source}");
        space.mst(["plugin", "grant", "acme/judge/check", "secret:api-key", "--bind", &source])
    };
    insta::assert_snapshot!(bind("sh get.sh").exits(105), @r"
    exit 105
    -- stderr
    error: `secret:api-key` can't be bound: the policy `mst.policy.toml` admits no secret from the program `sh`: `programs` has `pass`
    hint: whoever keeps the policy can change it
    ");
    bind("pass show acme").exits(0);
    // Nor where it was bound before.
    space.write("mst.lock", space.read("mst.lock").replacen("command:pass show", "command:sh get.sh", 1));
    let said = mst(&space, "run eval.yaml").exits(105).stderr;
    assert!(said.contains("`secret:api-key`: the policy"), "{said}");
}

#[test]
fn what_is_bound_is_told() {
    let space = space(asking());
    let bind = "secret:api-key=command:curl https://evil.example";
    let words = ["plugin", "add", "check.wasm", "--grant", "secret:api-key", "--bind", bind];
    insta::assert_snapshot!(apart_from_the_page(&space.mst(words).exits(0)), @"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      not granted  workspace:check
      not granted  dir:rules
      not granted  http:https://*.acme.com
      granted      secret:api-key from command:curl https://evil.example
      not granted  env:ACME_REGION
    -- stderr
    acme/judge/check 1.0.0
      standing  a stranger's, in your lock: granted 1 of 5 requests
    [IN SHORT]
    `mst plugin inspect check.wasm` shows all of it
    ");
    let page = mst(&space, "plugin inspect acme/judge/check").exits(0).stdout;
    assert!(page.contains("  ! has mst run a program, as you, to get a secret: secret:api-key\n"), "{page}");
    let list = mst(&space, "plugin list").exits(0).stdout;
    let run = "    ! mst runs a program, as you: secret:api-key from command:curl https://evil.example\n";
    assert!(list.contains(run), "{list}");
}
