//! `mst.lock` and policies: what a plugin may do, who said so, and what happens to it later.

mod bindings;
mod policy;
mod upgrade;

use std::fs;

use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use crate::support::{Eval, Output, Running, Space, case, need, python, wait_until, wasm};

/// A plugin of a stranger's: `mst/judge/command` under another name, asking for `more` beside.
fn plugin(version: &str, more: Value) -> Vec<u8> {
    let bytes = wasm::first_party("mst.judge.command.wasm");
    let mut manifest = wasm::manifest(&bytes);
    manifest["id"] = json!("acme/judge/check");
    manifest["version"] = json!(version);
    for (key, value) in more.as_object().expect("an object") {
        manifest[key] = value.clone();
    }
    wasm::with_manifest(&bytes, &manifest)
}

/// What it asks for beside its command.
fn asking() -> Value {
    json!({
        "http": [{"to": "https://*.acme.com", "methods": ["GET", "POST"], "private": false}],
        "secret": [{"name": "api-key", "about": "Signs requests.", "to": ["https://api.acme.com"]}],
        "dir": [{"name": "rules", "access": "read"}],
        "env": ["ACME_REGION"],
    })
}

fn space(more: Value) -> Space {
    let space = Space::new();
    space.write("check.wasm", plugin("1.0.0", more));
    Eval::new()
        .judges(json!([{"id": "check", "plugin": "acme/judge/check", "options": {"command": ["true"]}}]))
        .write(&space);
    space
}

fn mst(space: &Space, words: &str) -> Output {
    space.mst(words.split(' '))
}

/// What `plugin add` says, without the first part of the page, which `added_granted_revoked_and_taken_out` has.
fn apart_from_the_page(output: &Output) -> String {
    let text = output.to_string();
    let (before, page) = text.split_once("\nIn short\n").expect("the first part of the page");
    let (_, after) = page.split_once("may do harm too.\n").expect("its end");
    format!("{before}[IN SHORT]\n{after}")
}

#[test]
fn without_a_terminal_nobody_is_asked_and_nothing_is_granted() {
    let space = space(asking());
    insta::assert_snapshot!(mst(&space, "plugin add check.wasm").exits(105), @r"
    exit 105
    -- stderr
    error: `acme/judge/check` asks for what nobody granted, and nobody is here to ask
      - workspace:check
      - dir:rules
      - http:https://*.acme.com
      - secret:api-key
      - env:ACME_REGION
    hint: `mst plugin inspect check.wasm` shows all of it; say `--grant KEY` for each, `--grant all` or `--grant none`
    ");
    assert!(!space.path("mst.lock").exists());
    insta::assert_snapshot!(mst(&space, "run eval.yaml").exits(105), @r"
    exit 105
    -- stderr
    error: there is no plugin `acme/judge/check`
    hint: a plugin that is not mst's own is added first: `mst plugin add FILE.wasm`
    ");
    assert!(!space.path("runs").exists());
}

#[test]
fn added_granted_revoked_and_taken_out() {
    let space = space(asking());
    insta::assert_snapshot!(mst(&space, "plugin add check.wasm --grant workspace:check").exits(0), @"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      granted      workspace:check
      not granted  dir:rules
      not granted  http:https://*.acme.com
      not granted  secret:api-key
      not granted  env:ACME_REGION
    -- stderr
    acme/judge/check 1.0.0
      standing  a stranger's, in your lock: granted 1 of 5 requests

    In short
      This judge has 1 command run in trials' workspaces, as you; sees 1 directory;
      sends requests to 1 destination; has mst put in 1 secret, which it never sees;
      reads 1 variable of your environment.
      Network: requests of its own to https://*.acme.com; no command names a program
      that is known for it. mst keeps no command from the network.
      ! runs beside what the evaluated client wrote, as you: workspace:check
      ! may send what it sees to: http:https://*.acme.com
      ! among these every host below a name: http:https://*.acme.com
      ! It reads nothing of a trial itself, only what its commands print of it, and
        decides its score.
      Marks (!) know some programs and flags by name: what has none may do harm too.
    `mst plugin inspect check.wasm` shows all of it
    ");
    mst(&space, "run eval.yaml").exits(0);
    insta::assert_snapshot!(mst(&space, "plugin list").exits(0), @r"
    exit 0
    -- stdout
    mst/dataset/jsonl  0.1.0  1 of 1 granted  mst's own
    mst/judge/command  0.1.0  1 of 1 granted  mst's own
    mst/judge/text     0.1.0  0 of 0 granted  mst's own
    mst/runner/docker  0.1.0  13 of 13 granted  mst's own
    acme/judge/check   1.0.0  1 of 5 granted  as pinned: check.wasm
    ");
    insta::assert_snapshot!(mst(&space, "plugin grant acme/judge/check env:ACME_REGION http:https://*.acme.com").exits(0), @r"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      granted      workspace:check
      not granted  dir:rules
      granted      http:https://*.acme.com
      not granted  secret:api-key
      granted      env:ACME_REGION
    ");
    insta::assert_snapshot!(mst(&space, "plugin revoke acme/judge/check workspace:check").exits(0), @r"
    exit 0
    -- stdout
    acme/judge/check 1.0.0 in mst.lock
      not granted  workspace:check
      not granted  dir:rules
      granted      http:https://*.acme.com
      not granted  secret:api-key
      granted      env:ACME_REGION
    ");
    let page = mst(&space, "plugin inspect acme/judge/check").exits(0).stdout;
    assert!(page.contains("  [not granted] workspace:check (at most 1h"), "{page}");
    assert!(page.contains("  [granted] env:ACME_REGION\n"), "{page}");
    insta::assert_snapshot!(mst(&space, "plugin revoke acme/judge/check").exits(0), @r"
    exit 0
    -- stdout
    acme/judge/check is no more in mst.lock
    ");
    mst(&space, "run eval.yaml").exits(105);
}

#[test]
fn on_a_terminal_a_person_reads_the_page_and_is_asked_for_each() {
    let python = need!(python());
    let space = space(asking());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/support/terminal.py");
    let answer = |answers: &str| {
        let program = env!("CARGO_BIN_EXE_mst");
        let args = [script, answers, program, "plugin", "add", "check.wasm"];
        space.finish(space.any_command(python.join("python3"), args))
    };
    let quit = answer("y,q").exits(105);
    assert!(quit.stdout.contains("error: nothing was granted, and the lock is as it was\n"), "{quit}");
    assert!(!space.path("mst.lock").exists());
    fs::create_dir(space.path("rules")).expect("made");
    let added = answer("y,y,rules,n,a,ACME_KEY,env:ACME_KEY").exits(0);
    let (page, asked) = added.stdout.split_once("\ngrant ").expect("it asks");
    assert!(page.contains("! a wildcard: every host below `acme.com`"), "{page}");
    insta::assert_snapshot!(asked, @r#"
    workspace:check? [y]es, [n]o, [a]ll that follow, [?] all again, [q]uit: y
      dir:rules
          read
          ! reads a directory that you name
    grant dir:rules? [y]es, [n]o, [a]ll that follow, [?] all again, [q]uit: y
    where is dir:rules? a path, or nothing to leave it: rules
      http:https://*.acme.com
          by GET, POST
          ! what the plugin sees may go there: your options, and all evidence of a
            trial: prompts, expected answers, reports, files; what its command
            prints, whatever that reads on the machine; the files of its directories
            `rules`; your variables `ACME_REGION`
          ! a wildcard: every host below `acme.com`, whoever runs it, now and later
    grant http:https://*.acme.com? [y]es, [n]o, [a]ll that follow, [?] all again, [q]uit: n
      secret:api-key
          the plugin never sees its value: mst puts it in on the way out, and covers
            it in what comes back
          it says what for: "Signs requests."
          ! leaves this machine, to `https://api.acme.com`
    grant secret:api-key? [y]es, [n]o, [a]ll that follow, [?] all again, [q]uit: a
    where does secret:api-key come from? env:NAME, file:PATH, keyring:SERVICE/USERNAME or command:PROGRAM ARGUMENTS, or nothing to leave it: ACME_KEY
    a secret comes from `env:NAME`, `file:PATH`, `keyring:SERVICE/USERNAME` or `command:PROGRAM ARGUMENTS`
    where does secret:api-key come from? env:NAME, file:PATH, keyring:SERVICE/USERNAME or command:PROGRAM ARGUMENTS, or nothing to leave it: env:ACME_KEY
      env:ACME_REGION
          ! the plugin reads its value
    acme/judge/check 1.0.0 in mst.lock
      granted      workspace:check
      granted      dir:rules is rules
      not granted  http:https://*.acme.com
      granted      secret:api-key from env:ACME_KEY
      granted      env:ACME_REGION
    "#);
    // What needs no answer asks none.
    assert!(!answer("").exits(0).stdout.contains("grant "));
}

#[test]
fn what_was_not_granted_is_denied_in_the_run_with_the_command_that_grants_it() {
    let space = space(asking());
    Eval::new()
        .cases(["a", "b", "c"].map(case))
        .judges(json!([{"id": "check", "plugin": "acme/judge/check", "options": {"command": ["true"]}}]))
        .write(&space);
    mst(&space, "plugin add check.wasm --grant none").exits(0);
    let denied = mst(&space, "run eval.yaml").exits(106);
    insta::assert_snapshot!(denied.stdout, @r#"

    [RUN]
    3 cases, 3 trials, complete

     variant  judge  passed  failed  instrument errors  missing  pass rate
     v        check       0       0                  3        0          –

    instrument errors:
         3 × check: `acme/judge/check` was denied `workspace.run("check")`: its manifest asks for `workspace:check`, which is not granted; `mst plugin grant acme/judge/check workspace:check` would grant it
             first at a v #0
    "#);
    let grant = "plugin grant acme/judge/check workspace:check";
    // However many trials met it, and once revoked as if it had never been.
    assert_eq!(denied.stdout.matches(&format!("`mst {grant}`")).count(), 1, "{denied}");
    mst(&space, grant).exits(0);
    mst(&space, "run eval.yaml").exits(0);
    mst(&space, "plugin revoke acme/judge/check workspace:check").exits(0);
    let revoked = mst(&space, "run eval.yaml").exits(106);
    assert_eq!(revoked.stdout, denied.stdout);
    assert_eq!(revoked.stdout.matches(&format!("`mst {grant}`")).count(), 1, "{revoked}");
}

#[test]
fn what_two_judges_of_a_plugin_were_denied_is_told_once() {
    let space = space(asking());
    let judge = |id: &str| json!({"id": id, "plugin": "acme/judge/check", "options": {"command": ["true"]}});
    Eval::new().cases(["a", "b"].map(case)).judges(json!([judge("check"), judge("again")])).write(&space);
    mst(&space, "plugin add check.wasm --grant none").exits(0);
    let denied = mst(&space, "run eval.yaml").exits(106);
    insta::assert_snapshot!(denied, @r#"
    exit 106
    -- stdout

    [RUN]
    2 cases, 2 trials, complete

     variant  judge  passed  failed  instrument errors  missing  pass rate
     v        check       0       0                  2        0          –
     v        again       0       0                  2        0          –

    instrument errors:
         4 × check, again: `acme/judge/check` was denied `workspace.run("check")`: its manifest asks for `workspace:check`, which is not granted; `mst plugin grant acme/judge/check workspace:check` would grant it
             first at a v #0
    -- stderr
    run [RUN] in runs/[RUN]
    2 cases
    collect 1/2 a v #0: completed
    collect 2/2 b v #0: completed
    grade 1/4 check a v #0: instrument error: `acme/judge/check` was denied `workspace.run("check")`: its manifest asks for `workspace:check`, which is not granted
    grade 2/4 again a v #0: instrument error: `acme/judge/check` was denied `workspace.run("check")`: its manifest asks for `workspace:check`, which is not granted
    grade 3/4 check b v #0: instrument error: `acme/judge/check` was denied `workspace.run("check")`: its manifest asks for `workspace:check`, which is not granted
    grade 4/4 again b v #0: instrument error: `acme/judge/check` was denied `workspace.run("check")`: its manifest asks for `workspace:check`, which is not granted
    "#);
    let text = denied.to_string();
    assert_eq!(text.matches("mst plugin grant acme/judge/check workspace:check").count(), 1, "{denied}");
    let run = space.run().name();
    assert_eq!(space.mst(["report", &run]).exits(106).stdout, denied.stdout);
    let told = space.mst(["report", &run, "--json"]).exits(106).json();
    let groups = &told["instrument_errors"]["groups"];
    assert_eq!(groups.as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!((&groups[0]["judges"], &groups[0]["count"]), (&json!(["check", "again"]), &json!(4)));
    let grant = "mst plugin grant acme/judge/check workspace:check";
    assert_eq!(groups[0]["denial"]["grant"], grant);
    let kept = space.run().grade("again", "a/v/0");
    assert_eq!(kept["error"]["denial"]["grant"], grant, "{kept}");
}

#[test]
fn a_lock_elsewhere_is_named() {
    let space = space(json!({}));
    insta::assert_snapshot!(mst(&space, "run eval.yaml --lock locks/mst.lock").exits(105), @r"
    exit 105
    -- stderr
    error: there is no lock `locks/mst.lock`
    hint: `mst plugin add FILE --lock locks/mst.lock` makes it
    ");
    mst(&space, "plugin add check.wasm --grant all --lock locks/mst.lock").exits(0);
    assert!(space.read("locks/mst.lock").contains("source = \"../check.wasm\""));
    mst(&space, "run eval.yaml").exits(105);
    mst(&space, "run eval.yaml --lock locks/mst.lock").exits(0);
    // From elsewhere, the one beside the eval is found.
    fs::rename(space.path("locks/mst.lock"), space.path("mst.lock")).expect("moved");
    let text = space.read("mst.lock").replace("../check.wasm", "check.wasm");
    space.write("mst.lock", text);
    fs::create_dir(space.path("away")).expect("made");
    let mut command = space.command(["run", "../eval.yaml"]);
    command.current_dir(space.path("away"));
    space.finish(command).exits(0);
}

#[test]
fn a_lock_that_was_written_to_is_refused_or_grants_less() {
    let space = space(json!({}));
    mst(&space, "plugin add check.wasm --grant all").exits(0);
    let text = space.read("mst.lock");
    let said = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        space.write("mst.lock", text.replacen(from, to, 1));
        mst(&space, "run eval.yaml").exits(105).stderr
    };
    let all = [
        said("mst.lock/v1", "mst.lock/v2"),
        said("granted = true", "granted = \"yes\""),
        said("schema = ", "schema : "),
        said("check.wasm", "none.wasm"),
        said("acme/judge/check", "acme/judge/chek"),
    ];
    insta::assert_snapshot!(all.join("--\n"), @r#"
    error: can't read the lock `mst.lock`
      - its format is `mst.lock/v2`, and this mst reads `mst.lock/v1`
    hint: upgrade mst
    --
    error: can't read the lock `mst.lock`
      - `plugin[0].workspace[0].granted` must be true or false, and is text
    hint: `mst plugin add` writes it; bring back the one that was committed
    --
    error: can't read the lock `mst.lock`
      - it is no TOML
      - TOML parse error at line 3, column 8
          |
        3 | schema : "mst.lock/v1"
          |        ^
        key with no value, expected `=`
        
    hint: `mst plugin add` writes it; bring back the one that was committed
    --
    error: can't read the plugin `none.wasm`
      - No such file or directory (os error 2)
    --
    error: there is no plugin `acme/judge/check`
    hint: did you mean `acme/judge/chek`?
    "#);
    // Whose text is not what the plugin asks for grants nothing of it.
    space.write("mst.lock", text.replacen("timeout = \"1h\"", "timeout = \"1m\"", 1));
    let page = mst(&space, "plugin inspect acme/judge/check").exits(0).stdout;
    assert!(page.contains("[not granted]"), "{page}");
    mst(&space, "plugin grant acme/judge/check workspace:check").exits(0);
    assert_eq!(space.read("mst.lock"), text);
}

#[test]
fn mst_s_own_plugins_need_no_grant_and_take_none() {
    let space = Space::new();
    insta::assert_snapshot!(mst(&space, "plugin grant mst/runner/docker exec:create").exits(105), @r"
    exit 105
    -- stderr
    error: `mst/runner/docker` is mst's own: it is granted all that it asks for
    hint: a policy says what even mst's own plugins may not do
    ");
    insta::assert_snapshot!(mst(&space, "plugin revoke acme/judge/none").exits(105), @r"
    exit 105
    -- stderr
    error: `acme/judge/none` is not in the lock `mst.lock`
    hint: `mst plugin add FILE` puts it there; `--lock FILE` names another lock
    ");
}

#[test]
fn a_lock_gives_nobody_the_name_of_msts_own() {
    let space = space(json!({}));
    mst(&space, "plugin add check.wasm --grant all").exits(0);
    space.write("mst.lock", space.read("mst.lock").replacen("acme/judge/check", "mst/judge/check", 1));
    for words in ["run eval.yaml", "plugin inspect mst/judge/check", "plugin list"] {
        let said = mst(&space, words).exits(105).stderr;
        assert!(said.contains("has an entry for `mst/judge/check`"), "{words}: {said}");
    }
}

#[test]
fn a_page_for_a_pull_request() {
    let space = space(asking());
    mst(&space, "plugin add check.wasm --grant workspace:check").exits(0);
    let page = mst(&space, "plugin inspect acme/judge/check --markdown").exits(0).stdout;
    assert!(page.starts_with("## acme/judge/check 1.0.0\n"), "{page}");
    assert!(page.contains("\n#### **granted** `workspace:check`\n"), "{page}");
    assert!(page.contains("\n#### **not granted** `env:ACME_REGION`\n"), "{page}");
    mst(&space, "plugin inspect acme/judge/check --markdown --json").exits(2);
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_changes_the_lock_waits_for_who_is_changing_it_and_sees_what_that_did() {
    let space = space(asking());
    mst(&space, "plugin add check.wasm --grant none").exits(0);
    let lock = space.read("mst.lock");
    let dir = fs::File::open(space.dir()).expect("opens");
    rustix::fs::flock(&dir, FlockOperation::LockExclusive).expect("held");
    let running =
        Running::start(&space, space.command(["plugin", "grant", "acme/judge/check", "env:ACME_REGION"]));
    let waits = format!(" {} ", running.pid());
    wait_until("it waits for the lock", || {
        let locks = fs::read_to_string("/proc/locks").expect("reads");
        locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&waits))
    });
    assert_eq!(space.read("mst.lock"), lock, "nothing is written meanwhile");
    let changed = format!("{lock}\n# by another\n");
    space.write("mst.lock", &changed);
    rustix::fs::flock(&dir, FlockOperation::Unlock).expect("let go");
    let refused = running.end().exits(105);
    assert!(refused.stderr.contains("was changed meanwhile"), "{refused}");
    assert_eq!(space.read("mst.lock"), changed);
}
