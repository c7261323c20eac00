//! The command line's reference.

use crate::support::Space;

/// The help of a command and of all below it, whatever they are.
fn help(space: &Space, command: &[&str], text: &mut String) {
    let args = [command, &["--help"]].concat();
    let output = space.mst(&args).exits(0);
    assert_eq!(output.stderr, "");
    text.push_str(&format!("$ mst {}\n{}\n", args.join(" "), output.stdout));
    let below = output.stdout.split_once("Commands:\n").map_or("", |(_, below)| below);
    // A name stands two columns in, what goes on in the next line further.
    let names = below.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        help(space, &[command, &[name]].concat(), text);
    }
}

#[test]
fn the_whole_of_help() {
    let mut text = String::new();
    help(&Space::new(), &[], &mut text);
    insta::assert_snapshot!(text, @"
    $ mst --help
    Evals of LLM agents whose runners, datasets and judges are WebAssembly components

    Usage: mst <COMMAND>

    Commands:
      run       Run an eval: ask every case in every variant, judge what came back, print a summary
      report    Print the summary of a run again
      audit     Show what the plugins of a run called, and what was decided
      runner    Look into runners, and set them up
      machines  See and remove machines that runs left
      plugin    Build and look into plugins
      schema    Print a JSON Schema
      help      Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Exit codes:
      0    done
      2    the command line is wrong
      100  a threshold that the eval sets was missed
      105  nothing could start
      106  partial: some trials are missing, or an instrument broke
      130  interrupted

    $ mst run --help
    Run an eval: ask every case in every variant, judge what came back, print a summary

    Usage: mst run [OPTIONS] [EVAL]

    Arguments:
      [EVAL]
              The eval: a .yaml, .json or .toml file

    Options:
          --runs <DIR>
              Where runs are kept
              
              [default: runs]

          --resume <RUN>
              Collect what an earlier run misses, and judge it

          --retry-unfinished
              With `--resume`: do again what an instrument's error kept from finishing; the attempt
              before is kept

          --explain
              With `--resume`: say of each trial why it is reused or run again

          --concurrency <N>
              How many trials run at a time, on each machine
              
              [default: 1]

          --limit <KIND:NAME=N>
              What trials may not exceed, over all machines: `provider:NAME=N` at a time,
              `server:NAME=N/min` starts a minute; in place of what the eval says

          --deadline <PART=TIME>
              How long a part of the work may take: `machine`, `provision`, `client`, `scoring`,
              `export` or `cleanup`, as `client=20m`; in place of what the eval says. It is part of what
              a run is

          --seed <N>
              Orders the cases; 0 keeps the dataset's order
              
              [default: 0]

          --tokens-on-disk
              Let tokens lie on a disk where a machine has no memory file system for them

          --runner <ID>
              Where trials run: `local`, or a runner plugin's id
              
              [default: local]

          --runner-option <KEY=VALUE>
              An option of the runner; `mst plugin inspect ID` shows which there are

          --shards <N>
              On how many machines
              
              [default: 1]

          --keep <KEEP>
              When a machine outlives its shard

              Possible values:
              - never:  Never
              - failed: Where the shard failed
              - always: Always
              
              [default: never]

          --lock <FILE>
              The lock that says which plugins may be used; mst.lock beside the eval where absent

          --json
              Print events and the summary as JSON, one object a line

      -h, --help
              Print help (see a summary with '-h')

    $ mst report --help
    Print the summary of a run again

    Usage: mst report [OPTIONS] <RUN>

    Arguments:
      <RUN>  The run: its name, or its directory

    Options:
          --runs <DIR>  Where runs are kept [default: runs]
          --json        Print it as JSON
      -h, --help        Print help

    $ mst audit --help
    Show what the plugins of a run called, and what was decided

    Usage: mst audit [OPTIONS] <RUN>

    Arguments:
      <RUN>  The run: its name, or its directory

    Options:
          --runs <DIR>  Where runs are kept [default: runs]
          --denied      Only what was denied
          --json        Print it as JSON
      -h, --help        Print help

    $ mst runner --help
    Look into runners, and set them up

    Usage: mst runner <COMMAND>

    Commands:
      list   List the runners that mst has, and those of the lock
      setup  Make what a runner needs
      help   Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    $ mst runner list --help
    List the runners that mst has, and those of the lock

    Usage: mst runner list [OPTIONS]

    Options:
          --lock <FILE>  The lock [default: mst.lock]
          --json         Print them as JSON
      -h, --help         Print help

    $ mst runner setup --help
    Make what a runner needs

    Usage: mst runner setup [OPTIONS] <RUNNER>

    Arguments:
      <RUNNER>
              For which runner

              Possible values:
              - docker: A worker image for `mst/runner/docker`

    Options:
          --base <IMAGE>
              The image to put mst into
              
              [default: debian:bookworm-slim]

          --tag <NAME>
              What the worker image is called; mst-worker:VERSION where absent

          --engine <ENGINE>
              The engine's program

              Possible values:
              - docker: Docker
              - podman: Podman
              
              [default: docker]

      -h, --help
              Print help (see a summary with '-h')

    $ mst machines --help
    See and remove machines that runs left

    Usage: mst machines <COMMAND>

    Commands:
      list  List the machines that are there, or may be
      reap  Remove a run's machines, and no other's
      help  Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    $ mst machines list --help
    List the machines that are there, or may be

    Usage: mst machines list [OPTIONS] [RUN]

    Arguments:
      [RUN]  Of this run; of all where absent

    Options:
          --runs <DIR>  Where runs are kept [default: runs]
          --json        Print them as JSON
      -h, --help        Print help

    $ mst machines reap --help
    Remove a run's machines, and no other's

    Usage: mst machines reap [OPTIONS] <RUN>

    Arguments:
      <RUN>  The run: its name, or its directory

    Options:
          --runs <DIR>   Where runs are kept [default: runs]
          --lock <FILE>  The lock that pins the run's runner; mst.lock beside the run's eval where
                         absent
          --wait         Wait until no other mst has the run in hand, and look again for a machine whose
                         making was cut off
      -h, --help         Print help

    $ mst plugin --help
    Build and look into plugins

    Usage: mst plugin <COMMAND>

    Commands:
      build    Compile a plugin and put its manifest into it
      inspect  Print all that a plugin is and may do; none of its code runs
      add      Let evals use a plugin, after a look at all that it asks for
      grant    Grant a plugin what it asks for
      revoke   Take back what was granted to a plugin, or the plugin itself
      list     List the plugins that evals can use
      tighten  Say what a run used of what a plugin may do, and what it could do without
      help     Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    $ mst plugin build --help
    Compile a plugin and put its manifest into it

    Usage: mst plugin build [OPTIONS] <DIR>

    Arguments:
      <DIR>  The plugin's directory, with its Cargo.toml and plugin.toml

    Options:
      -o, --output <FILE>  The file to write; ORG.KIND.NAME.wasm here where absent
          --json           Print what was built as JSON
      -h, --help           Print help

    $ mst plugin inspect --help
    Print all that a plugin is and may do; none of its code runs

    Usage: mst plugin inspect [OPTIONS] <PLUGIN>

    Arguments:
      <PLUGIN>  A plugin's file, or the id of a first-party plugin or of one in the lock

    Options:
          --lock <FILE>    The lock [default: mst.lock]
          --json           Print it as JSON
          --markdown       Print it as Markdown, for a pull request
          --policy <FILE>  Say what this policy would refuse, in place of those that bind here; `mst
                           schema policy` says how one is written
      -h, --help           Print help

    $ mst plugin add --help
    Let evals use a plugin, after a look at all that it asks for

    Usage: mst plugin add [OPTIONS] <SOURCE>

    Arguments:
      <SOURCE>  The plugin's file

    Options:
          --grant <KEY>...    What to grant, without being asked: requests by their keys, as
                              exec:create; `all`; `none`; and `wider` for what an upgrade widens and has
                              no key
          --bind <KEY=VALUE>  Where a directory is, or where a secret comes from: dir:NAME=PATH,
                              secret:NAME=env:VARIABLE, secret:NAME=file:PATH,
                              secret:NAME=keyring:SERVICE/USERNAME, secret:NAME=command:PROGRAM
                              ARGUMENTS
          --lock <FILE>       The lock [default: mst.lock]
      -h, --help              Print help

    $ mst plugin grant --help
    Grant a plugin what it asks for

    Usage: mst plugin grant [OPTIONS] <PLUGIN> [KEY]...

    Arguments:
      <PLUGIN>  The plugin's id
      [KEY]...  The requests to grant, as exec:create

    Options:
          --bind <KEY=VALUE>  Where a directory is, or where a secret comes from: dir:NAME=PATH,
                              secret:NAME=env:VARIABLE, secret:NAME=file:PATH,
                              secret:NAME=keyring:SERVICE/USERNAME, secret:NAME=command:PROGRAM
                              ARGUMENTS
          --lock <FILE>       The lock [default: mst.lock]
      -h, --help              Print help

    $ mst plugin revoke --help
    Take back what was granted to a plugin, or the plugin itself

    Usage: mst plugin revoke [OPTIONS] <PLUGIN> [KEY]...

    Arguments:
      <PLUGIN>  The plugin's id
      [KEY]...  The requests to refuse from now on; where absent, the plugin is taken out of the lock

    Options:
          --lock <FILE>  The lock [default: mst.lock]
      -h, --help         Print help

    $ mst plugin list --help
    List the plugins that evals can use

    Usage: mst plugin list [OPTIONS]

    Options:
          --json         Print them as JSON
          --lock <FILE>  The lock [default: mst.lock]
      -h, --help         Print help

    $ mst plugin tighten --help
    Say what a run used of what a plugin may do, and what it could do without

    Usage: mst plugin tighten [OPTIONS] --run <RUN> <PLUGIN>

    Arguments:
      <PLUGIN>  The plugin: a first-party id, one in the lock, or a component's file

    Options:
          --lock <FILE>  The lock [default: mst.lock]
          --run <RUN>    The run to go by: its name, or its directory
          --runs <DIR>   Where runs are kept [default: runs]
          --json         Print it as JSON
      -h, --help         Print help

    $ mst schema --help
    Print a JSON Schema

    Usage: mst schema <OF>

    Arguments:
      <OF>
              Of what

              Possible values:
              - eval:   An eval's file
              - policy: A policy's file: what plugins may be granted at all

    Options:
      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[test]
fn version() {
    let output = Space::new().mst(["--version"]).exits(0);
    assert_eq!(output.stdout, format!("mst {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let space = Space::new();
    for args in [
        &[][..],
        &["rnu"],
        &["run"],
        &["run", "eval.yaml", "--concurency", "2"],
        &["run", "eval.yaml", "--concurrency", "0"],
        &["run", "eval.yaml", "--concurrency", "2000"],
        &["report"],
        &["plugin"],
        &["schema"],
        &["schema", "evil"],
    ] {
        let output = space.mst(args).exits(2);
        assert_eq!(output.stdout, "", "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
    insta::assert_snapshot!(space.mst(["rnu", "eval.yaml"]), @"
    exit 2
    -- stderr
    error: unrecognized subcommand 'rnu'

      tip: a similar subcommand exists: 'runner'

    Usage: mst <COMMAND>

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(space.mst(["run", "eval.yaml", "--concurency", "2"]), @"
    exit 2
    -- stderr
    error: unexpected argument '--concurency' found

      tip: a similar argument exists: '--concurrency'

    Usage: mst run --concurrency <N> <EVAL>

    For more information, try '--help'.
    ");
}
