//! Whole pages of judges.

use super::*;

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
      calls     one a trial, in the eval's time for it (or else 3m); 256 MiB of
                memory, 10,000 calls to mst and 1,000 lines on your terminal each
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
    - calls: one a trial, in the eval's time for it \(or else 3m\); 256 MiB of memory, 10,000 calls to mst and 1,000 lines on your terminal each
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

    Marks \(\!\) know some programs and flags by name: what has none may do harm too.

    ### Commands

    Each runs as you, on this machine, in a copy of the files that the client left of a trial \(one try at one case\): a copy keeps the trial as it was, and confines nothing. Of your variables it gets PATH alone, no secret, and a HOME of its own; your files it finds all the same.

    The plugin can have these lines run and no others, when it likes, 10,000 times a trial at most. One is killed, with what it started, as far as mst finds that, when its own time is over, or sooner the eval's for the trial. Its stdin is empty where nothing else is said. It finds the case, the expected answer and the report in files that its variables name; what the plugin fills into an argument may be text of the trial too.

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
      calls     one a trial, in the eval's time for it (or else 3m); 256 MiB of
                memory, 10,000 calls to mst and 1,000 lines on your terminal each

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
      mst:plugin/log@0.1.0: write, progress (to your terminal, as lines of the run)
      mst:plugin/evidence@0.1.0: trial.eval-case, trial.variant-id,
          trial.trial-index, trial.outcome, trial.report, trial.entries, trial.read
      mst:plugin/workspace@0.1.0: run
      for their types alone: mst:plugin@0.1.0 types, commands

    Exports: what mst calls
      mst:plugin/grading@0.1.0: judge
    "#);
}
