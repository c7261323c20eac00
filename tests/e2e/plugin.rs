//! `mst plugin inspect`, and plugins that are refused before anything of theirs runs.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Eval, Output, Space, guest, guests_dir, need, wasm};

/// The page of a first-party plugin. Its digest and size are in `plugins/dist/dist.json`.
fn page(id: &str) -> String {
    let space = Space::new();
    let text = space.mst(["plugin", "inspect", id]).exits(0).stdout;
    let size = regex_lite::Regex::new(r"\d+ bytes\n").expect("valid");
    size.replace(&text, "[SIZE] bytes\n").into_owned()
}

#[test]
fn the_page_of_the_dataset_jsonl() {
    insta::assert_snapshot!(page("mst/dataset/jsonl"), @r#"
    mst/dataset/jsonl 0.1.0
      world     dataset, of mst:plugin@0.1.0
      file      [DIGEST], [SIZE] bytes
      standing  mst's own: granted all that it asks for, and only a policy takes that away

    It says of itself
      about     "Cases from a file of JSON objects: one a line (JSONL) or one array,
                either of them also gzipped."
      license   "Apache-2.0"

    In short
      This dataset sees 1 directory.

    Asks for
      dir:data
          read
          ! reads the path in your option `path`

    Options
      fields: object, `{}` where you set none
          "Which field of an object is which part of a case. A name is a member of
          the object, or, where it begins with `/`, a JSON Pointer (RFC 6901) into
          it. What is named must be there in every case, but for metadata and
          deadline_ms; what is not named is taken from a field of the part's own
          name, where there is one. null stands for none, though there be a field of
          that name."
      format: string, one of `auto`, `jsonl`, `json`, `auto` where you set none
          "`jsonl`: one object a line, blank lines are skipped. `json`: one array of
          objects. `auto`: an array where the first character that is no blank is
          `[`."
      path: string, path, required
          "The file. It may be gzipped; that is seen from its content, not from its
          name."

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/types@0.1.0
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io/error@0.2.6,
          wasi:io/streams@0.2.6, wasi:cli/environment@0.2.6, wasi:cli/exit@0.2.6,
          wasi:cli/stdin@0.2.6, wasi:cli/stdout@0.2.6, wasi:cli/stderr@0.2.6,
          wasi:cli/terminal-input@0.2.6, wasi:cli/terminal-output@0.2.6,
          wasi:cli/terminal-stdin@0.2.6, wasi:cli/terminal-stdout@0.2.6,
          wasi:cli/terminal-stderr@0.2.6, wasi:clocks/wall-clock@0.2.6,
          wasi:filesystem/types@0.2.6, wasi:filesystem/preopens@0.2.6

    Exports: what mst calls
      mst:plugin/cases@0.1.0: cursor.next, open
    "#);
}

#[test]
fn the_page_of_the_judge_text() {
    insta::assert_snapshot!(page("mst/judge/text"), @r#"
    mst/judge/text 0.1.0
      world     judge, of mst:plugin@0.1.0
      file      [DIGEST], [SIZE] bytes
      standing  mst's own: granted all that it asks for, and only a policy takes that away

    It says of itself
      about     "Compares the client's report, or a file that it left, with what the
                case expects: the same, contained, matched by a pattern, the same
                JSON, or the same number."
      license   "Apache-2.0"

    In short
      Asks for nothing: no command, no directory, no network.

    Options
      against: string, matching `^(report|files/.+)$`, `report` where you set none
          "What is compared: `report`, or `files/` and the path of a file in the
          workspace, as `files/out/answer.txt`. A report or file that is not there
          fails the trial."
      expected_pointer: string, matching `^(/.*)?$`, `` where you set none
          "A JSON Pointer (RFC 6901) to the part of the case's `expected` that is
          compared, as `/answer`."
      extract: string, one of `whole`, `last`, `whole` where you set none
          "For `number`: `whole`, the text is a number and nothing else; `last`, its
          last number counts. Both read `1,234.5` and `-6e3`."
      ignore_case: boolean, `false` where you set none
          "Whether `exact`, `contains` and `regex` ignore case; `regex` that of
          ASCII letters only."
      mode: string, one of `exact`, `contains`, `regex`, `json-equal`, `number`,
          required
          "`exact`: the text is the expected one. `contains`: the expected text
          stands in it. `regex`: the pattern matches somewhere in it. `json-equal`:
          it is JSON, and structurally the expected value; the order of an object's
          members does not matter. `number`: it is the expected number."
      pattern: string
          "For `regex`: the pattern, in the syntax of Rust's regex-lite; without it
          the expected value is the pattern. It may match anywhere: write `^…$` for
          the whole."
      relative_tolerance: number, `0` where you set none
          "The same as a share of the expected number, as 0.01 for 1 %. The wider of
          the two tolerances counts."
      tolerance: number, `0` where you set none
          "For `number` and the numbers in `json-equal`: the difference that is
          still the same."
      trim: boolean, `true` where you set none
          "Whether blanks at both ends of both sides are ignored."
      value: any
          "What is expected, for every case; without it the case's own `expected`
          is."

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/types@0.1.0
      mst:plugin/evidence@0.1.0: trial.eval-case, trial.entries, trial.read
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io/error@0.2.6,
          wasi:io/streams@0.2.6, wasi:cli/environment@0.2.6, wasi:cli/exit@0.2.6,
          wasi:cli/stdin@0.2.6, wasi:cli/stdout@0.2.6, wasi:cli/stderr@0.2.6,
          wasi:clocks/wall-clock@0.2.6, wasi:filesystem/types@0.2.6,
          wasi:filesystem/preopens@0.2.6, wasi:random/insecure-seed@0.2.6

    Exports: what mst calls
      mst:plugin/grading@0.1.0: judge
    "#);
}

#[test]
fn the_page_of_the_judge_command() {
    insta::assert_snapshot!(page("mst/judge/command"), @r#"
    mst/judge/command 0.1.0
      world     judge, of mst:plugin@0.1.0
      file      [DIGEST], [SIZE] bytes
      standing  mst's own: granted all that it asks for, and only a policy takes that away

    It says of itself
      about     "Runs a command of yours in the trial's workspace, and passes or
                fails by its exit code or by the JSON that it prints."
      license   "Apache-2.0"

    In short
      This judge has 1 command run in trials' workspaces, as you.
      ! runs beside what the evaluated client wrote, as you: workspace:check
      Marks (!) know programs and flags by their names, and not all of them: a
      command without a mark is not a safe one. Read its line.

    Commands
      Each runs as you, on the machine that grades, in a copy of the files that the
      client left of a trial (one try at one case): a copy keeps the trial as it
      was, and confines nothing. It has no variable and no secret of yours, and a
      HOME of its own.
      In their lines:
          {option(x)}  you fill it, by the option x

    Asks for
      workspace:check
          {command:option(command)}
          at most 1h; the plugin reads 1 MiB of stdout and of stderr
          ! what it runs or reads there (tests, build files, configuration) may be
            the evaluated client's own work, run as you
          ! the user's own command, run as you: your option `command`

    Options
      command: string or array, required
          "The check. An array is a program and its arguments, as they are: no
          shell, no splitting, no globs; for a shell write [\"sh\", \"-c\", \"…\"].
          A string is a program without arguments. It runs in a restored copy of the
          workspace that the client left, with a closed environment: MST_CASE_FILE
          (a file with the case as JSON, mst.case/v1, with `expected` and
          `metadata`), MST_REPORT_FILE (a file with the bytes of the client's
          report), MST_CASE_ID, MST_VARIANT and MST_TRIAL (from 0). What stands in
          the workspace and in the report was written by the client: don't run it
          without thinking."
      result: string, one of `exit`, `json`, `exit` where you set none
          "`exit`: code 0 passes, any other code and any signal fail, with the end
          of what was printed as the reason. `json`: the command ends with code 0
          and prints, as all of its stdout or as its last line, one object with
          exactly one of \"pass\" (true or false), \"score\" (0.0 to 1.0) and
          \"abstain\" (why it can't say); and, if it likes, \"reason\" (a sentence)
          and \"measures\" ({name: number} or {name: {\"value\": number, \"unit\":
          \"ms\"}}). In both, a command that can't be run (126, 127) or runs out of
          time is an error of the check, and never a failed trial."

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/types@0.1.0
      mst:plugin/evidence@0.1.0
      mst:plugin/commands@0.1.0
      mst:plugin/workspace@0.1.0: run
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io/error@0.2.6,
          wasi:io/streams@0.2.6, wasi:cli/environment@0.2.6, wasi:cli/exit@0.2.6,
          wasi:cli/stdin@0.2.6, wasi:cli/stdout@0.2.6, wasi:cli/stderr@0.2.6,
          wasi:clocks/wall-clock@0.2.6, wasi:filesystem/types@0.2.6,
          wasi:filesystem/preopens@0.2.6

    Exports: what mst calls
      mst:plugin/grading@0.1.0: judge
    "#);
}

#[test]
fn the_page_of_the_runner_docker() {
    insta::assert_snapshot!(page("mst/runner/docker"), @r#"
    mst/runner/docker 0.1.0
      world     machine-runner, of mst:plugin@0.1.0
      file      [DIGEST], [SIZE] bytes
      standing  mst's own: granted all that it asks for, and only a policy takes that away
      shards    at most 256 at a time, each on a machine

    It says of itself
      about     "A container for each shard, by the CLI of docker or podman."
      license   "Apache-2.0"

    In short
      This runner has 13 commands run on this machine, as you.
      ! as good as root on a container engine's host: every command
      ! can log in or act on other machines, as you: every command
      ! It decides where a run goes: the prompts and files of cases, the clients'
        command lines and environment, and the values of the eval's tokens go to a
        program that it starts, and from there to the machine (a container, a host)
        that it makes for each part of a run (a shard).
      Marks (!) know programs and flags by their names, and not all of them: a
      command without a mark is not a safe one. Read its line.

    Commands
      Each runs as you, on this machine: it may do what you may. It begins in an
      empty directory, with your PATH, your HOME and what its marks name. The plugin
      calls it when it likes, 10,000 times a call of its own at most. Where it only
      starts one, mst has its output, without a bound.
      Of each of them:
          ! speaks to a container engine: who may do that is as good as root on its
            host
          ! gets your SSH agent: may log in wherever your keys do
          ! gets of your environment: `CONTAINER_HOST`, `DOCKER_CERT_PATH`,
            `DOCKER_CONFIG`, `DOCKER_CONTEXT`, `DOCKER_HOST`, `DOCKER_TLS_VERIFY`,
            `SSH_AUTH_SOCK`, `XDG_RUNTIME_DIR`
      In their lines:
          {name:type}       the plugin fills it, within its type
          {x:machine-path}  the plugin fills it: an absolute path without `..`, of
                            letters, digits and `_.-+=,@%`, which leads on from what
                            stands before it
          {option(x)}       you fill it, by the option x
          {machine}         mst fills it: the name that it gave a machine of this
                            run, and no other
          {run}             mst fills it: the run's name
          {command...}      mst fills it (or {command:shell}): what mst runs on the
                            machine, unseen by the plugin
          {x:host-dir}      mst fills it: a directory of what goes to a machine, or
                            comes back
          [...]             left out where its slot is empty
          {{ }}             one brace each

    Asks for
      exec:image
          {engine:enum(docker|podman)} image inspect --format={{{{.Config.User}}}}
              {option(image)}
          at most 1m; the plugin reads 1 MiB of stdout and of stderr
      exec:pull
          {engine:enum(docker|podman)} pull --quiet [--platform={option(platform)}]
              {option(image)}
          at most 30m; the plugin reads 1 MiB of stdout and of stderr
      exec:create
          {engine:enum(docker|podman)} run --detach --init --pull=never --user=0
              --name={machine} --label=mst.run={run} --label=mst.machine={machine}
              --tmpfs=/run/mst:mode=0700 --security-opt=no-new-privileges
              [--memory={option(memory)}] [--cpus={option(cpus)}]
              [--network={option(network)}] [--platform={option(platform)}]
              --entrypoint=sleep {option(image)} 2147483647
          at most 5m; the plugin reads 1 MiB of stdout and of stderr
          ! may open the container to the engine's machine, as your options say:
            `--network`
      exec:container
          {engine:enum(docker|podman)} container inspect '--format={{{{.Id}}}}
              {{{{.Image}}}}' {machine}
          at most 1m; the plugin reads 1 MiB of stdout and of stderr
      exec:id
          {engine:enum(docker|podman)} exec
              --user={user:text(/[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9
              _.-]*)?/)} {machine} id {which:enum(-u|-g)}
          at most 1m; the plugin reads 1 MiB of stdout and of stderr
          ! text from the plugin, within its pattern: `user`
      exec:label
          {engine:enum(docker|podman)} container inspect '--format={{{{index
              .Config.Labels "mst.machine"}}}}' {machine}
          at most 1m; the plugin reads 1 MiB of stdout and of stderr
      exec:destroy
          {engine:enum(docker|podman)} rm --force --volumes {machine}
          at most 2m; the plugin reads 1 MiB of stdout and of stderr
      exec:list
          {engine:enum(docker|podman)} ps --all --filter=label=mst.run={run}
              --format={{{{.Names}}}}
          at most 1m; the plugin reads 1 MiB of stdout and of stderr
      exec:exec
          {engine:enum(docker|podman)} exec --interactive
              [--user={user:text(/[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-
              9_.-]*)?/)}] {machine} {command...}
          at most 7 days; the plugin reads nothing of it: what it says is between
            mst and a machine
          ! text from the plugin, within its pattern: `user`
      exec:make-dir
          {engine:enum(docker|podman)} exec --user=0 {machine} mkdir -p
              {target:machine-path}
          at most 1m; the plugin reads 1 MiB of stdout and of stderr
      exec:own
          {engine:enum(docker|podman)} exec --user=0 {machine} chown -hR
              {owner:text(/[0-9]+:[0-9]+/)} {target:machine-path}
          at most 5m; the plugin reads 1 MiB of stdout and of stderr
          ! text from the plugin, within its pattern: `owner`
      exec:copy-to
          {engine:enum(docker|podman)} cp {source:host-dir}/.
              {machine}:{target:machine-path}
          at most 1h; the plugin reads how it ended, and 2 KiB of stderr
          ! sees a directory of mst's: what goes to a machine, or comes from it
      exec:copy-from
          {engine:enum(docker|podman)} cp {machine}:{source:machine-path}/.
              {target:host-dir}
          at most 1h; the plugin reads how it ended, and 2 KiB of stderr
          ! sees a directory of mst's: what goes to a machine, or comes from it

    Options
      cpus: number
          "The most processors of a machine, as `2` or `0.5`."
      engine: string, one of `docker`, `podman`, `docker` where you set none
          "The program that makes them. It finds its engine as it does for you: by
          its own configuration and `DOCKER_HOST`, `DOCKER_CONTEXT` or
          `CONTAINER_HOST`."
      image: string, matching `^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`, required
          "What the machines are made from, as `debian:12` or
          `registry.example/worker@sha256:…`. Pulled where it is not here. It needs
          `sleep`, `mkdir` and whatever the client needs; where its user is not
          root, or the option `user` is set, also `id` and `chown`."
      memory: string, matching `^[0-9]+[bkmgBKMG]?$`
          "The most memory of a machine, as `512m` or `4g`."
      network: string, matching `^[A-Za-z0-9][A-Za-z0-9_.:-]*$`
          "The network of the machines, as `none`; the engine's own default where it
          is not set. `host` and `container:NAME` open a machine to what is there."
      platform: string, matching `^[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?$`
          "The platform of the image, as `linux/arm64`."
      user: string, matching
          `^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`
          "Whom the worker and the client run as, a name of the image's or a number,
          as `agent` or `1000:1000`; the image's own user where it is not set."

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/log@0.1.0: progress
      mst:plugin/types@0.1.0
      mst:plugin/commands@0.1.0
      mst:plugin/process@0.1.0: run, start
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io/error@0.2.6,
          wasi:io/streams@0.2.6, wasi:cli/environment@0.2.6, wasi:cli/exit@0.2.6,
          wasi:cli/stdin@0.2.6, wasi:cli/stdout@0.2.6, wasi:cli/stderr@0.2.6,
          wasi:clocks/wall-clock@0.2.6, wasi:filesystem/types@0.2.6,
          wasi:filesystem/preopens@0.2.6

    Exports: what mst calls
      mst:plugin/machine@0.1.0: create-machine, destroy-machine, list-machines
      mst:plugin/channel@0.1.0: run-command, copy-to, copy-from, forward-port
    "#);
}

#[test]
fn as_json_a_page_says_what_it_asks_for() {
    let space = Space::new();
    let asks = |id: &str| {
        let page = space.mst(["plugin", "inspect", id, "--json"]).exits(0).json();
        json!({"world": page["world"], "contract": page["contract"], "requests": page["requests"]})
    };
    let all = json!([asks("mst/dataset/jsonl"), asks("mst/judge/text"), asks("mst/judge/command")]);
    insta::assert_snapshot!(format!("{all:#}"), @r#"
    [
      {
        "contract": "0.1.0",
        "requests": [
          {
            "facts": [
              "read"
            ],
            "key": "dir:data",
            "request": {
              "access": "read",
              "name": "data",
              "option": "path"
            },
            "risks": [
              "reads the path in your option `path`"
            ]
          }
        ],
        "world": "dataset"
      },
      {
        "contract": "0.1.0",
        "requests": [],
        "world": "judge"
      },
      {
        "contract": "0.1.0",
        "requests": [
          {
            "facts": [
              "at most 1h; the plugin reads 1 MiB of stdout and of stderr"
            ],
            "key": "workspace:check",
            "request": {
              "argv": [
                "{command:option(command)}"
              ],
              "env": [],
              "id": "check",
              "max_output_bytes": 1048576,
              "options": {
                "command": {
                  "items": {
                    "type": "string"
                  },
                  "minItems": 1,
                  "minLength": 1,
                  "type": [
                    "string",
                    "array"
                  ]
                }
              },
              "stdin": "none",
              "timeout": "1h"
            },
            "risks": [
              "what it runs or reads there (tests, build files, configuration) may be the evaluated client's own work, run as you",
              "the user's own command, run as you: your option `command`"
            ]
          }
        ],
        "world": "judge"
      }
    ]
    "#);
}

#[test]
fn what_is_inspected_is_the_file_itself() {
    let space = Space::new();
    let bytes = wasm::first_party("mst.judge.text.wasm");
    space.write("text.wasm", &bytes);
    let page = space.mst(["plugin", "inspect", "text.wasm", "--json"]).exits(0).json();
    assert_eq!(page["digest"], crate::support::sha256(&bytes));
    assert_eq!(page["size_bytes"], bytes.len());
    assert_eq!(page["id"], "mst/judge/text");
}

#[test]
fn inspecting_runs_nothing() {
    let file = need!(guest("judge"));
    let space = Space::new();
    let output = space.mst(["plugin".as_ref(), "inspect".as_ref(), file.as_os_str()]).exits(0);
    assert_eq!(output.stderr, "");
    assert!(output.stdout.contains("\n  workspace:sleep\n"), "{output}");
}

/// Refused by both who looks at it and who would use it, in the same words.
#[track_caller]
fn refused(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let space = Space::new();
    space.write(name, bytes);
    let inspected = space.mst(["plugin", "inspect", name]).exits(105);
    let added = space.mst(["plugin", "add", name, "--grant", "all"]).exits(105);
    assert_eq!((added.stdout.as_str(), &added.stderr), ("", &inspected.stderr));
    assert!(!space.path("mst.lock").exists());
    assert!(!space.path("runs").exists());
    inspected.stderr
}

#[test]
fn what_is_no_plugin_is_refused_each_in_its_own_words() {
    let text = wasm::first_party("mst.judge.text.wasm");
    insta::assert_snapshot!(refused("module.wasm", b"\0asm\x01\0\0\0"), @"
    error: `module.wasm` is no plugin that this mst can load
      - the file is a core WebAssembly module, and a plugin is a component
    hint: build it for `wasm32-wasip2`, or with `mst plugin build`
    ");
    insta::assert_snapshot!(refused("empty.wasm", b""), @"
    error: `empty.wasm` is no plugin that this mst can load
      - the file is empty
    hint: get the file again: it was not written to its end
    ");
    insta::assert_snapshot!(refused("script.wasm", b"#!/bin/sh\n"), @"
    error: `script.wasm` is no plugin that this mst can load
      - the file is no WebAssembly component: it looks like a script
    hint: a plugin is the `.wasm` file that `mst plugin build` writes
    ");
    insta::assert_snapshot!(refused("text.wasm", b"(component)"), @"
    error: `text.wasm` is no plugin that this mst can load
      - the file is no WebAssembly component: it looks like the text form of WebAssembly
    hint: translate it with `wasm-tools parse`, or build with `mst plugin build`
    ");
    insta::assert_snapshot!(refused("zipped.wasm", b"\x1f\x8b\x08\0"), @"
    error: `zipped.wasm` is no plugin that this mst can load
      - the file is no WebAssembly component: it looks like a gzip archive
    hint: unpack it first
    ");
    insta::assert_snapshot!(refused("bare.wasm", wasm::without_manifest(&text)), @"
    error: `bare.wasm` is no plugin that this mst can load
      - the component has no manifest: no custom section `mst:manifest`
    hint: `mst plugin build` writes it from `plugin.toml`
    ");
    let cut = refused("cut.wasm", &text[..text.len() / 2]);
    let numbers = regex_lite::Regex::new(r"byte \d+ of \d+").expect("valid");
    insta::assert_snapshot!(numbers.replace(&cut, "byte [N] of [N]"), @"
    error: `cut.wasm` is no plugin that this mst can load
      - the file is cut off: at byte [N] of [N] more was to come: unexpected end-of-file
    hint: get the file again: it was not written to its end
    ");
    for at in [9, 5000] {
        let mut flipped = text.clone();
        flipped[at] ^= 0xff;
        let said = refused("flipped.wasm", flipped);
        // What a wrong length leads to looks like an end.
        let words = ["the component is damaged or invalid at byte ", "the file is cut off: at byte "];
        assert!(words.iter().any(|words| said.contains(words)), "byte {at}: {said}");
    }
}

#[test]
fn another_version_of_the_contract_says_who_upgrades() {
    let text = wasm::first_party("mst.judge.text.wasm");
    let of = |version: &str| {
        let mut manifest = wasm::manifest(&text);
        manifest["id"] = json!("acme/judge/tone");
        manifest["contract"] = json!(format!("mst:plugin@{version}"));
        wasm::with_manifest(&wasm::of_contract(&text, version), &manifest)
    };
    insta::assert_snapshot!(refused("newer.wasm", of("0.2.0")), @"
    error: `newer.wasm` is no plugin that this mst can load
      - the plugin needs `mst:plugin@0.2.0`, and this mst has `mst:plugin@0.1.0`
    hint: upgrade mst
    ");
    insta::assert_snapshot!(refused("older.wasm", of("0.0.9")), @"
    error: `older.wasm` is no plugin that this mst can load
      - the plugin needs `mst:plugin@0.0.9`, and this mst has `mst:plugin@0.1.0`
    hint: rebuild the plugin with mst-sdk 0.1
    ");
    // Whatever the manifest says: its imports say it too.
    insta::assert_snapshot!(refused("lies.wasm", wasm::of_contract(&text, "0.2.0")), @"
    error: `lies.wasm` is no plugin that this mst can load
      - the plugin needs `mst:plugin@0.2.0`, and this mst has `mst:plugin@0.1.0`
    hint: upgrade mst
    ");
}

#[test]
fn a_component_for_another_world_says_which_it_looks_like() {
    let judge = wasm::first_party("mst.judge.text.wasm");
    let dataset = wasm::first_party("mst.dataset.jsonl.wasm");
    let says = |bytes: &[u8], id: &str, world: &str| {
        let mut manifest = json!({"id": id, "world": world, "dirs": [], "workspace": []});
        let old = wasm::manifest(bytes);
        for (name, value) in old.as_object().expect("an object") {
            if name != "dir" && name != "workspace" && name != "dirs" {
                manifest.as_object_mut().expect("an object").entry(name).or_insert(value.clone());
            }
        }
        for gone in ["dirs", "workspace"] {
            manifest.as_object_mut().expect("an object").remove(gone);
        }
        wasm::with_manifest(bytes, &manifest)
    };
    insta::assert_snapshot!(refused("judge.wasm", says(&judge, "acme/dataset/tone", "dataset")), @"
    error: `judge.wasm` is no plugin that this mst can load
      - the plugin imports `mst:plugin/evidence`, which a plugin of world `dataset` does not get
    hint: it looks like a plugin of world `judge`: `world` in `plugin.toml` says what it is
    ");
    insta::assert_snapshot!(refused("dataset.wasm", says(&dataset, "acme/judge/tone", "judge")), @"
    error: `dataset.wasm` is no plugin that this mst can load
      - the plugin says that it is of world `judge`, and does not export `grading`
    hint: it looks like a plugin of world `dataset`: `world` in `plugin.toml` says what it is
    ");
    insta::assert_snapshot!(refused("kind.wasm", says(&judge, "acme/dataset/tone", "judge")), @"
    error: `kind.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - `world`: `judge` is no world of a dataset (`acme/dataset/tone`): it must be `dataset`
    ");
}

#[test]
fn manifests_that_are_wrong() {
    let text = wasm::first_party("mst.judge.text.wasm");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut manifest = wasm::manifest(&text);
        manifest["id"] = json!("acme/judge/tone");
        change(&mut manifest);
        wasm::with_manifest(&text, &manifest)
    };
    insta::assert_snapshot!(refused("schema.wasm", with(&|manifest| manifest["schema"] = json!("mst.manifest/v2"))), @"
    error: `schema.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - the manifest's format is `mst.manifest/v2`, and this mst reads `mst.manifest/v1`
    hint: upgrade mst
    ");
    insta::assert_snapshot!(refused("key.wasm", with(&|manifest| manifest["workspce"] = json!([]))), @"
    error: `key.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - unknown key `workspce`
    hint: did you mean `workspace`?
    ");
    insta::assert_snapshot!(refused("id.wasm", with(&|manifest| manifest["id"] = json!("Tone"))), @"
    error: `id.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - `id` can't be `Tone`
      - `Tone` is no plugin id: it must be `org/kind/name`, as `mst/judge/text`
    ");
    insta::assert_snapshot!(refused("options.wasm", with(&|manifest| manifest["options"] = json!({"type": "no-type"}))), @"
    error: `options.wasm` is no plugin that this mst can load
      - the component's manifest can't be read
      - `options.type`: it must be `object`: options are named
    ");
}

#[test]
fn the_name_of_a_first_party_plugin_is_nobody_elses() {
    let space = Space::new();
    space.write("text.wasm", wasm::first_party("mst.judge.text.wasm"));
    Eval::new().write(&space);
    insta::assert_snapshot!(space.mst(["plugin", "add", "text.wasm", "--grant", "all"]).exits(105), @"
    exit 105
    -- stderr
    error: `text.wasm` says that it is `mst/judge/text`, a plugin of mst's own
    hint: mst's own need not be added; build another with an id of your own organisation
    ");
    assert!(!space.path("mst.lock").exists());
}

#[test]
fn a_plugin_of_ones_own_is_added_first() {
    let space = Space::new();
    let text = wasm::first_party("mst.judge.text.wasm");
    let mut manifest = wasm::manifest(&text);
    manifest["id"] = json!("acme/judge/tone");
    let own = wasm::with_manifest(&text, &manifest);
    space.write("tone.wasm", &own);
    let eval = Eval::new().set("judges.0.plugin", json!("acme/judge/tone"));
    eval.run(&space).exits(105);
    space.add(&space.path("tone.wasm"));
    space.mst(["run", "eval.yaml"]).exits(0);
    let plugins = space.run().record()["plugins"].clone();
    assert_eq!(
        plugins[1],
        json!({"id": "acme/judge/tone", "version": "0.1.0", "sha256": crate::support::sha256(&own)})
    );
}

#[test]
fn files_that_are_not_there() {
    let space = Space::new();
    fs::create_dir(space.path("dir.wasm")).expect("made");
    let inspect = |name: &str| -> Output { space.mst(["plugin", "inspect", name]).exits(105) };
    insta::assert_snapshot!(inspect("none.wasm"), @"
    exit 105
    -- stderr
    error: can't read the plugin `none.wasm`
      - No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(inspect("dir.wasm"), @"
    exit 105
    -- stderr
    error: `dir.wasm` is no file
    hint: name a component, as acme-judge.wasm
    ");
    insta::assert_snapshot!(inspect("mst/judge/txt"), @"
    exit 105
    -- stderr
    error: there is no plugin `mst/judge/txt`
    hint: known ids are `mst/dataset/jsonl`, `mst/judge/command`, `mst/judge/text`, `mst/runner/docker`; a file is named by its path
    ");
}

#[test]
fn a_damaged_cache_is_a_miss() {
    let space = Space::new();
    Eval::new().write(&space);
    let run = || {
        let mut command = space.command(["run", "eval.yaml"]);
        command.env("MST_CACHE_DIR", space.path("cache"));
        space.finish(command).exits(0).stdout
    };
    let first = run();
    let entries = || crate::support::files_below(&space.path("cache"));
    assert!(!entries().is_empty());
    for damage in [b"".as_slice(), b"x", &[0; 5000]] {
        for path in entries() {
            fs::write(&path, damage).expect("written");
        }
        assert_eq!(run(), first);
    }
    for path in entries() {
        let mut bytes = fs::read(&path).expect("reads");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).expect("written");
    }
    assert_eq!(run(), first);
    // A cache that can't be written is no fault either.
    let mut command = space.command(["run", "eval.yaml"]);
    command.env("MST_CACHE_DIR", "/proc/nowhere");
    assert_eq!(space.finish(command).exits(0).stdout, first);
}

#[test]
fn sockets_are_no_plugins() {
    // Built as far as that goes: it is refused before it is written.
    let _ = need!(guest("judge"));
    let space = Space::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mst"));
    command.args(["plugin", "build"]).arg(guests_dir().join("sockets")).arg("-o").arg(space.path("s.wasm"));
    let output = space.finish(command).exits(105);
    let error = output.stderr.split_once("error: ").expect("an error").1;
    insta::assert_snapshot!(error.replace(&*guests_dir().to_string_lossy(), "[GUESTS]"), @"
    can't build the plugin in `[GUESTS]/sockets`
      - what was built is no plugin that this mst can run
      - no plugin gets `wasi:sockets/network`
    hint: a plugin reaches nothing by itself; a runner asks for programs with `[[exec]]`
    ");
    assert!(!space.path("s.wasm").exists());
    // The same component with a manifest, as an author could make it by hand.
    let bare =
        fs::read(guests_dir().join("target/wasm32-wasip2/release/guest_sockets.wasm")).expect("it was built");
    let mut manifest = wasm::manifest(&wasm::first_party("mst.judge.text.wasm"));
    manifest["id"] = json!("acme/judge/tone");
    insta::assert_snapshot!(refused("sockets.wasm", wasm::with_manifest(&bare, &manifest)), @"
    error: `sockets.wasm` is no plugin that this mst can load
      - no plugin gets `wasi:sockets/network`
    hint: a plugin reaches nothing by itself; a runner asks for programs with `[[exec]]`
    ");
}
