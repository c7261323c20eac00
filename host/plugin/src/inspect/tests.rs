use super::*;
use crate::component::{tests::judge_manifest, with_manifest};
use crate::manifest::Manifest;
use crate::world::tests::component_of;

fn page(world: &str, manifest: &Manifest) -> Page {
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
    Machines in boxes.

    world     machine-runner, of mst:plugin@0.1.0
    file      sha256:…, N bytes
    license   Apache-2.0
    homepage  https://acme.example/box
    shards    at most 8
    ports     none

    Asks for
      in short: it has 4 commands run on this machine, as you; sees 2 directories, and writes to 1; by itself nothing else
      exec:create, on this machine, as you
          docker run --volume=/:/host --security-opt=no-new-privileges --name {machine} [--memory={memory:quantity}] {image:oci-ref} sleep infinity
          at most 2m, and 1 MiB of each output
          ! speaks to a container engine: who may do that is as good as root on its host
          ! opens the container to this machine: `--volume`
          ! an image of the plugin's choice: `image`
          ! your environment's `DOCKER_HOST`
      exec:own, on this machine, as you
          {option(engine)} exec {machine} {command...}
          at most 1h, and 1 MiB of each output
          ! the user's own command, run as you: your option `engine`, which is `docker` where you set none
          ! speaks to a container engine: who may do that is as good as root on its host
      exec:sh, on this machine, as you
          sudo /bin/bash -c 'echo "{what:text(/.*/)}"' ''
          at most 10s, and 4 KiB of each output
          ! a shell among the arguments: what follows it may be a program
          ! more rights than yours: `sudo`
          ! free stdin from the plugin into a program that may run what it reads: as good as any command at all
          ! free text from the plugin, in the arguments of a shell: `what`
      exec:send, on this machine, as you
          {with:enum(nc|socat|sudo)} {host:ident} {port:uint(1..65535)}
          at most 10s, and 1 MiB of each output
          ! more rights than yours: `sudo`
          ! free stdin from the plugin into a program
      dir:keys, read
          ! reads the path in your option `keys`
      dir:state, read-write
          ! reads, changes and removes files in a directory that you name

    Options
      engine  string
      image   string, required  What the machines are made of.
      keys    string, path

    Imports
      mst:plugin/log@0.1.0       write, progress
      mst:plugin/types@0.1.0
      mst:plugin/commands@0.1.0
      mst:plugin/process@0.1.0   child.kill, run, start

    Exports
      mst:plugin/machine@0.1.0  create-machine, destroy-machine, list-machines
      mst:plugin/channel@0.1.0  run-command, copy-to, copy-from, forward-port
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
    let refused = policy.refused(&manifest);
    page("judge", &manifest)
        .with_grants(&granted)
        .with_pinned(Digest::of(b"another"))
        .with_policy(policy.refuses_plugin(&manifest.id), &refused)
}

#[test]
fn what_was_granted_and_what_a_policy_refuses_stands_beside_each_request() {
    let page = judges_page();
    assert!(page.is_refused());
    let text = text(&page);
    insta::assert_snapshot!(text.split_once("\nOptions").expect("options follow").0, @r#"
    acme/judge/model 2.0.0
    Asks a model. [click](https://evil.example) <b>@all</b>

    world     judge, of mst:plugin@0.1.0
    file      sha256:…, N bytes
    lock      pins another file: sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5

      x the policy `/etc/mst/policy.toml` admits no plugin `acme/judge/model`: `plugins` has `mst/*/*`

    Asks for
      in short: it has 1 command run in trials' workspaces, as you; sends requests to 2 destinations; has 2 secrets put in; reads 2 variables of your environment; by itself nothing else
      workspace:check, in a copy of the trial's workspace, on the machine that grades  [not granted]
          {option(command)}
          at most 1h, and 1 MiB of each output
          ! the user's own command, run as you: your option `command`, which is `["make","test"]` where you set none
      http:https://*.acme.com, by GET, POST  [granted]
          ! a wildcard: every host below `acme.com`, whoever runs it, now and later
          ! what the plugin sees may go there: your options and all evidence of a trial: prompts, expected answers, reports, files
      http:https://127.0.0.1:8443, by GET  [not granted]
          x the policy `/etc/mst/policy.toml` admits no private addresses: `private_addresses` is false
          ! an address and no name: who has it may change
          ! may be an address of this machine or its network: services there that trust who is inside
          ! what the plugin sees may go there: your options and all evidence of a trial: prompts, expected answers, reports, files
      secret:api-key, for: Signs requests to the model.  [granted]
          ! leaves this machine, to `https://api.acme.com`
          ! leaves this machine, to any host below `eu.acme.com`: `https://*.eu.acme.com`
      secret:idle, for: Nothing.  [not granted]
          ! goes nowhere: nothing in the manifest uses it
      env:ACME_REGION, of your environment  [not granted]
          ! the plugin reads its value
      env:ACME_TOKEN, of your environment  [not granted]
          ! sounds like a secret: as a `[[secret]]` its value would stay with the host
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

    Asks a model. \[click\]\(https:&#47;/evil.example\) &lt;b&gt;&#64;all&lt;/b&gt;

    - world: judge, of mst:plugin&#64;0.1.0
    - file: sha256:…, N bytes
    - lock: pins another file: sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5

    **Refused**: the policy \`/etc/mst/policy.toml\` admits no plugin \`acme/judge/model\`: \`plugins\` has \`mst/\*/\*\`

    ### Asks for

    In short: it has 1 command run in trials' workspaces, as you; sends requests to 2 destinations; has 2 secrets put in; reads 2 variables of your environment; by itself nothing else.

    #### `workspace:check`, in a copy of the trial's workspace, on the machine that grades — **not granted**

        {option(command)}

    - at most 1h, and 1 MiB of each output
    - ⚠ the user's own command, run as you: your option \`command\`, which is \`\["make","test"\]\` where you set none

    #### `http:https://*.acme.com`, by GET, POST — **granted**

    - ⚠ a wildcard: every host below \`acme.com\`, whoever runs it, now and later
    - ⚠ what the plugin sees may go there: your options and all evidence of a trial: prompts, expected answers, reports, files

    #### `http:https://127.0.0.1:8443`, by GET — **not granted**

    - ✗ the policy \`/etc/mst/policy.toml\` admits no private addresses: \`private\_addresses\` is false
    - ⚠ an address and no name: who has it may change
    - ⚠ may be an address of this machine or its network: services there that trust who is inside
    - ⚠ what the plugin sees may go there: your options and all evidence of a trial: prompts, expected answers, reports, files

    #### `secret:api-key`, for: Signs requests to the model. — **granted**

    - ⚠ leaves this machine, to \`https:&#47;/api.acme.com\`
    - ⚠ leaves this machine, to any host below \`eu.acme.com\`: \`https:&#47;/\*.eu.acme.com\`

    #### `secret:idle`, for: Nothing. — **not granted**

    - ⚠ goes nowhere: nothing in the manifest uses it

    #### `env:ACME_REGION`, of your environment — **not granted**

    - ⚠ the plugin reads its value

    #### `env:ACME_TOKEN`, of your environment — **not granted**

    - ⚠ sounds like a secret: as a \`\[\[secret\]\]\` its value would stay with the host
    - ⚠ the plugin reads its value

    ### Options

    - `command` (array)
    "#);
}

#[test]
fn a_judge_that_asks_for_nothing() {
    insta::assert_snapshot!(text(&page("judge", &judge_manifest())), @r"
    acme/judge/tone 1.0.0
    Grades tone.

    world     judge, of mst:plugin@0.1.0
    file      sha256:…, N bytes

    Asks for nothing: no command, no directory, no network.

    Options
      none

    Imports
      mst:plugin/log@0.1.0        write, progress
      mst:plugin/types@0.1.0
      mst:plugin/evidence@0.1.0   trial.eval-case, trial.variant-id, trial.trial-index, trial.outcome, trial.report, trial.entries, trial.read
      mst:plugin/commands@0.1.0
      mst:plugin/workspace@0.1.0  run

    Exports
      mst:plugin/grading@0.1.0  judge
    ");
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
        let text = text.split_once("Asks for\n").expect("it asks").1;
        text.split_once("\n\n").expect("more follows").0.to_owned()
    };
    insta::assert_snapshot!(with("['A', 'B']", "['A', 'B']"), @r"
    in short: it has 2 commands run on this machine, as you; by itself nothing else
    for every command below
        ! your environment's `A`, `B`
    exec:s, on this machine, as you
        x
        at most 1s, and 1 MiB of each output
    exec:t, on this machine, as you
        y
        at most 1s, and 1 MiB of each output
    ");
    assert!(!with("['A', 'B']", "['A']").contains("every command"));
    assert!(!with("[]", "[]").contains("every command"));
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
    let risks = |argv: &str| risk::of(&manifest(argv), &manifest(argv).requests()[0]);
    assert_eq!(risks("['{option(command)}']"), ["the user's own command, run as you: your option `command`"]);
    assert_eq!(
        risks("['./test.sh']"),
        ["a program out of the workspace: `./test.sh` may have been written by what is being evaluated"]
    );
    assert_eq!(risks("['cargo', 'test']"), [""; 0]);
    assert_eq!(
        risks("['/usr/bin/python3.12', '-c', 'x']"),
        ["an interpreter: `python` can run programs from its arguments"]
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
        "requests",
        "options",
        "imports",
        "exports",
    ] {
        assert!(json.get(key).is_some_and(|value| !value.is_null()), "`{key}`");
    }
    assert_eq!(json["requests"][0]["key"], "exec:create");
    assert_eq!(json["requests"][0]["request"]["timeout"], "2m");
}
