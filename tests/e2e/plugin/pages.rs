//! The pages of mst's own plugins: a widening shows up in review.

use serde_json::json;

use crate::support::Space;

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
      standing  mst's own, built into it: granted all that it asks for, and only a
                policy takes that away
      calls     30s each; 256 MiB of memory, 10,000 calls to mst and 1,000 lines on
                your terminal each

    It says of itself
      about     "Cases from a file of JSON objects: one a line (JSONL) or one array,
                either of them also gzipped."
      license   "Apache-2.0"

    In short
      This dataset sees 1 directory.
      It asks for no command, no request over the network, no secret and no
      variable.
      Network: none.
      ! It decides what is asked, and which answers are expected.

    Asks for, each by the plugin's name for it
      dir:data
          read
          ! reads the path in your option `path`

    Options
      fields: object, with more in its schema (`--json`), `{}` where you set none
          ! the plugin reads it, and does with it what it likes
          "Which field of an object is which part of a case. A name is a member of
          the object, or, where it begins with `/`, a JSON Pointer (RFC 6901) into
          it. What is named must be there in every case, but for metadata and
          deadline_ms; what is not named is taken from a field of the part's own
          name, where there is one. null stands for none, though there be a field of
          that name."
      format: string, one of `auto`, `jsonl`, `json`, `auto` where you set none
          ! the plugin reads it, and does with it what it likes
          "`jsonl`: one object a line, blank lines are skipped. `json`: one array of
          objects. `auto`: an array where the first character that is no blank is
          `[`."
      path: string, a path on this machine, required
          "The file. It may be gzipped; that is seen from its content, not from its
          name."

    Imports: what it can call; each call is held to what is granted above
      for their types alone: mst:plugin@0.1.0 types
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io@0.2.6 error, streams;
          wasi:cli@0.2.6 environment, exit, stdin, stdout, stderr, terminal-input,
          terminal-output, terminal-stdin, terminal-stdout, terminal-stderr;
          wasi:clocks@0.2.6 wall-clock; wasi:filesystem@0.2.6 types, preopens

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
      standing  mst's own, built into it: granted all that it asks for, and only a
                policy takes that away
      calls     one a trial, in the eval's time for it (or else 3m); 256 MiB of
                memory, 10,000 calls to mst and 1,000 lines on your terminal each

    It says of itself
      about     "Compares the client's report, or a file that it left, with what the
                case expects: the same, contained, matched by a pattern, the same
                JSON, or the same number."
      license   "Apache-2.0"

    In short
      Asks for nothing: no command, no directory, no network, no secret, no
      variable.
      Network: none.
      ! It reads of each trial that it grades: the prompt, the expected answer, the
        client's report and files; and decides its score.

    Options
      Each: the plugin reads it, and does with it what it likes
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
      pattern: string, not empty
          "For `regex`: the pattern, in the syntax of Rust's regex-lite; without it
          the expected value is the pattern. It may match anywhere: write `^…$` for
          the whole."
      relative_tolerance: number, at least 0, `0` where you set none
          "The same as a share of the expected number, as 0.01 for 1 %. The wider of
          the two tolerances counts."
      tolerance: number, at least 0, `0` where you set none
          "For `number` and the numbers in `json-equal`: the difference that is
          still the same."
      trim: boolean, `true` where you set none
          "Whether blanks at both ends of both sides are ignored."
      value: any
          "What is expected, for every case; without it the case's own `expected`
          is."

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/evidence@0.1.0: trial.eval-case, trial.entries, trial.read
      for their types alone: mst:plugin@0.1.0 types
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io@0.2.6 error, streams;
          wasi:cli@0.2.6 environment, exit, stdin, stdout, stderr; wasi:clocks@0.2.6
          wall-clock; wasi:filesystem@0.2.6 types, preopens; wasi:random@0.2.6
          insecure-seed

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
      standing  mst's own, built into it: granted all that it asks for, and only a
                policy takes that away
      calls     one a trial, in the eval's time for it (or else 3m); 256 MiB of
                memory, 10,000 calls to mst and 1,000 lines on your terminal each

    It says of itself
      about     "Runs a command of yours in the trial's workspace, and passes or
                fails by its exit code or by the JSON that it prints."
      license   "Apache-2.0"

    In short
      This judge has 1 command run in trials' workspaces, as you.
      For itself it asks for no directory, no request over the network, no secret
      and no variable; its commands have more without asking.
      Network: no command names a program that is known for it. mst keeps no command
      from the network.
      ! runs beside what the evaluated client wrote, as you: workspace:check
      ! It reads nothing of a trial itself, only what its commands print of it, and
        decides its score.
      Marks (!) know some programs and flags by name: what has none may do harm too.

    Commands
      Each runs as you, on this machine, in a copy of the files that the client left
      of a trial (one try at one case): a copy keeps the trial as it was, and
      confines nothing. Of your variables it gets PATH alone, no secret, and a HOME
      of its own; your files it finds all the same.
      The plugin can have these lines run and no others, when it likes, 10,000 times
      a trial at most. One is killed, with what it started, as far as mst finds
      that, when its own time is over, or sooner the eval's for the trial. Its stdin
      is empty where nothing else is said. It finds the case, the expected answer
      and the report in files that its variables name; what the plugin fills into an
      argument may be text of the trial too.
      In their lines:
          {y:option(x)}  the eval fills it (you, or who wrote it), by the option x;
                         y is the plugin's name for it

    Asks for, each by the plugin's name for it
      workspace:check (at most 1h; the plugin reads 1 MiB of stdout and of stderr)
          {command:option(command)}
          ! what it runs or reads there (tests, build files, configuration) may be
            the evaluated client's own work, run as you
          ! the user's own command, run as you: your option `command`

    Options
      command: string or array of string, not empty, required
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
          ! the plugin reads it, and does with it what it likes
          "`exit`: code 0 passes, any other code and any signal fail, with the end
          of what was printed as the reason. `json`: the command ends with code 0
          and prints, as all of its stdout or as its last line, one object with
          exactly one of \"pass\" (true or false), \"score\" (0.0 to 1.0) and
          \"abstain\" (why it can't say); and, if it likes, \"reason\" (a sentence)
          and \"measures\" ({name: number} or {name: {\"value\": number, \"unit\":
          \"ms\"}}). In both, a command that can't be run (126, 127) or runs out of
          time is an error of the check, and never a failed trial."

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/workspace@0.1.0: run
      for their types alone: mst:plugin@0.1.0 types, evidence, commands
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io@0.2.6 error, streams;
          wasi:cli@0.2.6 environment, exit, stdin, stdout, stderr; wasi:clocks@0.2.6
          wall-clock; wasi:filesystem@0.2.6 types, preopens

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
      standing  mst's own, built into it: granted all that it asks for, and only a
                policy takes that away
      shards    at most 256 at a time, each on a machine
      calls     30s each, making and copying 10m, removing 2m; 256 MiB of memory,
                10,000 calls to mst and 1,000 lines on your terminal each

    It says of itself
      about     "A container for each shard, by the CLI of docker or podman."
      license   "Apache-2.0"

    In short
      This runner has 13 commands run on this machine, as you.
      For itself it asks for no directory, no request over the network, no secret
      and no variable; its commands have more without asking.
      Network: `docker` or `podman` speaks to its engine, where your configuration
      says; images are pulled from registries; containers have the network that your
      option `network` names, or else the engine's default one, which may reach the
      engine's machine and its network. mst keeps no command from the network.
      ! as good as who runs a container engine, mostly root: every command
      ! can log in or act on other machines and accounts, as you: every command
      ! changes or removes files: exec:copy-from
      ! the clients that are evaluated run in a container: exec:exec
      ! A run goes where its lines lead: the cases' prompts and files, the clients'
        command lines and environment, and the values of the eval's tokens go to
        exec:exec, and on to the container made for each part of a run (a shard):
        who runs that can keep and spend the tokens.
      ! mst hands the plugin itself no prompt, answer, token or file of a run: it
        reads your options, and whatever its commands print. The plugin picks the
        directory that mst works in on a machine; by itself mst bounds no memory,
        processor or disk there. What comes back mst holds to the form that it must
        have; whether it is true nobody can tell.
      Marks (!) know some programs and flags by name: what has none may do harm too.

    Commands
      Each runs as you, on this machine: it may do what you may. It begins in an
      empty directory, with your PATH, your HOME and what its marks name, and an
      empty stdin where nothing else is said. The plugin can have these lines run
      and no others, when it likes, 10,000 times a call of its own at most. One is
      killed when its own time or the call that runs it is over, with what it
      started here, as far as mst finds that; what it began in a container or on a
      host may go on. A machine stays until the plugin's line that removes it has
      run: mst asks for that when done with it, and in `mst machines reap`.
      Only exec:exec can be handed over to mst as the worker, which asks the
      clients, and then goes on: mst writes to its stdin, the values of the eval's
      tokens (credentials that it names) too, and alone reads its stdout and stderr.
      mst puts no token, secret, prompt or answer into an argument.
      Of each of them:
          ! speaks to a container engine: as good as who runs that, mostly root
          ! gets your SSH agent: may log in wherever your keys do
          ! your option `engine` says which program: one of `docker`, `podman`,
            `docker` where you set none
          ! goes by your own configuration of `docker`, `podman` (logins, helpers,
            proxies)
          ! gets of your environment: `CONTAINER_HOST`, `DOCKER_CERT_PATH`,
            `DOCKER_CONFIG`, `DOCKER_CONTEXT`, `DOCKER_HOST`, `DOCKER_TLS_VERIFY`,
            `SSH_AUTH_SOCK`, `XDG_RUNTIME_DIR`
      Where nothing else is said, the plugin reads 1 MiB of stdout and of stderr.
      In their lines:
          {x:type}      the plugin fills it, within its type
          enum(a|b)     one of these
          machine-path  an absolute path (`/` too), no `..`, of letters, digits and
                        `_.-+=,@%`. It confines nothing: links lead anywhere
          text(/x/)     text that the expression x matches as a whole
          {option(x)}   you fill it (`--runner-option`), by the option x
          {machine}     mst fills it, for removal too: its own random name (a-z,
                        0-9, `-`) of the call's machine, one of this run's
          {run}         mst fills it: the run's name, of the same letters
          {command...}  mst fills it: what mst runs on the machine
          {x:host-dir}  mst's directory in a call that copies, by no path of the
                        plugin's: what goes to a machine, or an empty one for what
                        comes. That, of any size, is unpacked here before mst checks
                        it, links too: only what unpacks it (`tar`, `cp`, an engine)
                        keeps it in there. Stdout goes nowhere
          [...]         left out where its slot is empty, and the plugin may leave
                        its own empty
          '...'         one argument, quoted as for a POSIX shell
          {{ }}         one brace each
          \             a break of the page's own, with the blanks that follow

    Asks for, each by the plugin's name for it
      exec:image (at most 1m)
          {option(engine)} image inspect --format={{{{.Config.User}}}} \
              {option(image)}
      exec:pull (at most 10m, as no call is longer)
          {option(engine)} pull --quiet [--platform={option(platform)}] \
              {option(image)}
          ! fetches an image: code of its author's, which runs in what is made of it
      exec:create (at most 5m)
          {option(engine)} run --detach --init --pull=never --user=0 \
              --name={machine} --label=mst.run={run} --label=mst.machine={machine} \
              --tmpfs=/run/mst:mode=0700 --security-opt=no-new-privileges \
              [--memory={option(memory)}] [--cpus={option(cpus)}] \
              [--network={option(network)}] [--platform={option(platform)}] \
              --entrypoint=sleep {option(image)} 2147483647
          ! makes a container and runs in it what its image holds, as root
            (`--user=0`); opens that to the engine's machine by no flag that is
            known but as your options say: `--network`; bounds memory and processors
            only as your options say: `--memory`, `--cpus`
      exec:container (at most 1m)
          {option(engine)} container inspect '--format={{{{.Id}}}} {{{{.Image}}}}' \
              {machine}
      exec:id (at most 1m)
          {option(engine)} exec \
              --user={user:text(/[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-\
              9_.-]*)?/)} {machine} id {which:enum(-u|-g)}
          ! text from the plugin, within its pattern: `user`
      exec:label (at most 1m)
          {option(engine)} container inspect '--format={{{{index .Config.Labels \
              "mst.machine"}}}}' {machine}
      exec:destroy (at most 2m)
          {option(engine)} rm --force --volumes {machine}
          ! has the engine remove or stop this run's machine: `rm`
      exec:list (at most 30s)
          {option(engine)} ps --all --filter=label=mst.run={run} \
              --format={{{{.Names}}}}
      exec:exec (at most 7 days; the plugin reads nothing of it, and mst all)
          {option(engine)} exec --interactive \
              [--user={user:text(/[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0\
              -9_.-]*)?/)}] {machine} {command...}
          ! the clients run in a container of the engine's, which confines them as
            far as the command that makes it says
          ! text from the plugin, within its pattern, or none: `user`
      exec:make-dir (at most 1m)
          {option(engine)} exec --user=0 {machine} mkdir -p {target:machine-path}
      exec:own (at most 5m)
          {option(engine)} exec --user=0 {machine} chown -hR \
              {owner:text(/[0-9]+:[0-9]+/)} {target:machine-path}
          ! text from the plugin, within its pattern: `owner`
      exec:copy-to (at most 10m, as no call is longer; the plugin reads its exit and
        2 KiB of stderr)
          {option(engine)} cp {source:host-dir}/. {machine}:{target:machine-path}
      exec:copy-from (at most 10m, as no call is longer; the plugin reads its exit
        and 2 KiB of stderr)
          {option(engine)} cp {machine}:{source:machine-path}/. {target:host-dir}
          ! changes or removes files where its arguments say: the engine's `cp`

    Options
      cpus: number, more than 0
          "The most processors of a machine, as `2` or `0.5`."
      engine: string, one of `docker`, `podman`, `docker` where you set none
          "The program that makes them. It finds its engine as it does for you: by
          its own configuration and `DOCKER_HOST`, `DOCKER_CONTEXT` or
          `CONTAINER_HOST`."
      image: string, matching `^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`, at most 512
          characters, required
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
          ! the plugin reads it, and does with it what it likes
          "Whom the worker and the client run as, a name of the image's or a number,
          as `agent` or `1000:1000`; the image's own user where it is not set."

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/log@0.1.0: progress (to your terminal, as lines of the run)
      mst:plugin/process@0.1.0: run, start
      for their types alone: mst:plugin@0.1.0 types, commands
      for its language's own library, which finds no file, no variable and no
          network that is not granted above: wasi:io@0.2.6 error, streams;
          wasi:cli@0.2.6 environment, exit, stdin, stdout, stderr; wasi:clocks@0.2.6
          wall-clock; wasi:filesystem@0.2.6 types, preopens

    Exports: what mst calls
      mst:plugin/machine@0.1.0: create-machine, destroy-machine, list-machines
      mst:plugin/channel@0.1.0: run-command, copy-to, copy-from, forward-port (mst
          never calls it)
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
              "at most 1h",
              "the plugin reads 1 MiB of stdout and of stderr"
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
