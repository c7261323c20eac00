//! Whole pages of runners.

use super::*;

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
      calls     30s each, making and copying 10m, removing 2m; 256 MiB of memory,
                10,000 calls to mst and 1,000 lines on your terminal each

    It says of itself
      about     "Machines in boxes."
      license   "Apache-2.0"
      homepage  "https://acme.example/box"

    In short
      This runner has 4 commands run on this machine, as you; sees 2 directories,
      and writes to 1.
      For itself it asks for no request over the network, no secret and no variable;
      its commands have more without asking.
      Network: `docker` speaks to its engine, where your configuration says; images
      are pulled from registries; containers have the engine's default network,
      which may reach the engine's machine and its network; commands name `nc`,
      `socat`; the clients have this machine's network. mst keeps no command from
      the network.
      ! as good as any program of the plugin's choice, run as you: exec:sh
      ! takes more rights than yours: exec:sh, exec:send
      ! where the clients that are evaluated run is not known: take it for this
        machine, as you: exec:own
      ! as good as who runs a container engine, mostly root: exec:create, exec:own
      ! opens containers to the engine's host: exec:create
      ! can log in or act on other machines and accounts, as you: exec:own
      ! can send and fetch over the network: exec:send
      ! changes and removes files in directories of yours: dir:state
      ! A run goes where its lines lead: the cases' prompts and files, the clients'
        command lines and environment, and the values of the eval's tokens go to
        exec:own, and on to where the machine for each part of a run (a shard) is:
        who runs that can keep and spend the tokens. Shards that share an account on
        a host can read each other's tokens and files.
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
      Only exec:own can be handed over to mst as the worker, which asks the clients,
      and then goes on: mst writes to its stdin, the values of the eval's tokens
      (credentials that it names) too, and alone reads its stdout and stderr. mst
      puts no token, secret, prompt or answer into an argument.
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
          {machine}     mst fills it, for removal too: its own random name (a-z,
                        0-9, `-`) of the call's machine, one of this run's
          {command...}  mst fills it: what mst runs on the machine
          [...]         left out where its slot is empty, and the plugin may leave
                        its own empty
          '...'         one argument, quoted as for a POSIX shell
          \             a break of the page's own, with the blanks that follow

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
          ! clients that run here can use keys, agents and logins of yours
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
          ! the plugin reads it, and does with it what it likes
          "What the machines are made of."
      keys: string, a path on this machine

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/log@0.1.0: write, progress (to your terminal, as lines of the run)
      mst:plugin/process@0.1.0: child.kill, run, start
      for their types alone: mst:plugin@0.1.0 types, commands

    Exports: what mst calls
      mst:plugin/machine@0.1.0: create-machine, destroy-machine, list-machines
      mst:plugin/channel@0.1.0: run-command, copy-to, copy-from, forward-port (mst
          never calls it)
    "#);
}

#[test]
fn the_page_of_the_ssh_example() {
    let manifest = include_str!("../../../../../examples/plugins/ssh-runner/plugin.toml");
    let page = page("machine-runner", &Manifest::from_toml(manifest).expect("valid"));
    insta::assert_snapshot!(text(&page), @r#"
    example/runner/ssh 0.1.0
      world     machine-runner, of mst:plugin@0.1.0
      file      sha256:…, N bytes
      standing  a stranger's: it may do none of this until you add it and grant it,
                each request for itself and for this file alone
      shards    at most 64 at a time, each on a machine
      calls     30s each, making and copying 10m, removing 2m; 256 MiB of memory,
                10,000 calls to mst and 1,000 lines on your terminal each

    It says of itself
      about     "Machines that are directories on a host which is always there and
                reached by ssh."
      license   "Apache-2.0"

    In short
      This runner has 7 commands run on this machine, as you.
      For itself it asks for no directory, no request over the network, no secret
      and no variable; its commands have more without asking.
      Network: `ssh` logs in to the host in your option `host`; the clients have the
      network of the machine that they run on. mst keeps no command from the
      network.
      ! can log in or act on other machines and accounts, as you: every command
      ! the clients that are evaluated run on another machine, confined by nothing
        that mst knows of: exec:exec
      ! removes whole directories: exec:destroy
      ! changes or removes files: exec:copy-from
      ! changes or removes files on other machines: exec:destroy, exec:copy-to
      ! is told of files that your options name: every command
      ! leads ports between this machine and others, where programs may take them
        for services of yours: exec:forward-port
      ! runs scripts, which are to be read: exec:copy-to, exec:copy-from
      ! has scripts run on other machines, which are to be read: exec:create,
        exec:destroy, exec:list, exec:exec, exec:copy-to, exec:copy-from
      ! A run goes where its lines lead: the cases' prompts and files, the clients'
        command lines and environment, and the values of the eval's tokens go to
        exec:exec, and on to where the machine for each part of a run (a shard) is:
        who runs that can keep and spend the tokens. Shards that share an account on
        a host can read each other's tokens and files.
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
          ! logs in on another machine, with your keys: `ssh`
          ! gets your SSH agent: may log in wherever your keys do
          ! its program is told of files of yours, and may read and change them: in
            your options `identity`, `known_hosts`
          ! a shell on the other machine reads the arguments: `ssh`
          ! goes by your own configuration of `ssh`, which may name further programs
            and hosts
          ! gets of your environment: `SSH_AUTH_SOCK`
      Of several:
          ! a shell on the other machine runs what stands here (exec:create,
            exec:destroy, exec:list, exec:exec, exec:copy-to, exec:copy-from)
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
          machine-path     an absolute path (`/` too), no `..`, of letters, digits
                           and `_.-+=,@%`. It confines nothing: links lead anywhere
          {option(x)}      you fill it (`--runner-option`), by the option x
          {machine}        mst fills it, for removal too: its own random name (a-z,
                           0-9, `-`) of the call's machine, one of this run's
          {run}            mst fills it: the run's name, of the same letters
          {command:shell}  mst fills it, for a shell: what mst runs on the machine
          {x:host-dir}     mst's directory in a call that copies, by no path of the
                           plugin's: what goes to a machine, or an empty one for
                           what comes. That, of any size, is unpacked here before
                           mst checks it, links too: only what unpacks it (`tar`,
                           `cp`, an engine) keeps it in there. Stdout goes nowhere
          [...]            left out where its slot is empty
          '...'            one argument, quoted as for a POSIX shell
          {{ }}            one brace each
          \                a break of the page's own, with the blanks that follow

    Asks for, each by the plugin's name for it
      exec:create (at most 1m)
          ssh -T -oClearAllForwardings=yes <shared> 'umask 077 && mkdir -p \
              {option(base)} && mkdir {option(base)}/{machine} \
              {option(base)}/{machine}/run-{run} && cd {option(base)}/{machine} && \
              pwd -P'
      exec:destroy (at most 2m)
          ssh -T -oClearAllForwardings=yes <shared> 'chmod -R u+rwx \
              {option(base)}/{machine} 2>/dev/null; exec rm -rf \
              {option(base)}/{machine}'
          ! removes whole directories on the other machine: `rm`
          ! changes or removes files on the other machine: `chmod`
      exec:list (at most 30s)
          ssh -T -oClearAllForwardings=yes <shared> 'test -e {option(base)} || \
              exit 0; cd {option(base)} || exit; for mark in */run-{run}; do [ ! \
              -d "$mark" ] || echo "${{mark%/*}}"; done'
      exec:exec (at most 7 days; the plugin reads nothing of it, and mst all)
          ssh -T -oClearAllForwardings=yes <shared> 'exec {command:shell}'
          ! the clients run on the host that it logs in to (it may be this one),
            with all that this account may do
      exec:copy-to (at most 10m, as no call is longer; the plugin reads its exit and
        2 KiB of stderr)
          /bin/sh -c 'from=$1; shift; {{ tar -C "$from" -cf - . && : >sent; }} | \
              "$@" && [ -e sent ]' sh {source:host-dir} ssh -T \
              -oClearAllForwardings=yes <shared> \
              'd={option(base)}/{machine}{target:machine-path}; mkdir -p $d && \
              exec tar -C $d -xopf -'
          ! a fixed script that runs its arguments, some of them the plugin's
          ! changes or removes files on the other machine: `tar`
      exec:copy-from (at most 10m, as no call is longer; the plugin reads its exit
        and 2 KiB of stderr)
          /bin/sh -c 'to=$1; shift; {{ "$@" && : >sent; }} | tar -C "$to" -xopf - \
              && [ -e sent ]' sh {target:host-dir} ssh -T \
              -oClearAllForwardings=yes <shared> 'exec tar -C \
              {option(base)}/{machine}{source:machine-path} -cf - .'
          ! a fixed script that runs its arguments, some of them the plugin's
          ! changes or removes files where its arguments say: `tar`
      exec:forward-port (at most 10m, as no call is longer)
          ssh -T -N -oExitOnForwardFailure=yes \
              -L127.0.0.1:{local:uint(1..65535)}:127.0.0.1:{remote:uint(1..65535)} \
              <shared>
          ! listens at `127.0.0.1` on this machine and leads to `127.0.0.1` as the
            other knows it, at ports of the plugin's choice: `-L`; leads those of
            your configuration too: `-oClearAllForwardings=yes` would clear all

    Options
      base: string, matching `^[A-Za-z0-9._/][A-Za-z0-9._/-]*$`, required
          "A directory there, made where it is missing; in the user's home where it
          does not begin with `/`, as `.mst`. Each machine is a directory in it."
      host: string, matching `^[A-Za-z0-9_:][A-Za-z0-9._:-]*$`, required
          "Where the machines are: a name, an address, or a `Host` of your
          `~/.ssh/config`. It needs a POSIX shell and `tar`."
      identity: string, a path on this machine, matching `^[^%"\s]*$`
          "A file with a private key. The keys of your agent are offered too, with
          it and without."
      known_hosts: string, a path on this machine, matching `^[^%"\s]*$`
          "A file with the host's key. A key that is not known is refused, and never
          added."
      port: integer, 1 to 65535
      user: string, matching `^[A-Za-z0-9_][A-Za-z0-9._-]*$`

    Imports: what it can call; each call is held to what is granted above
      mst:plugin/log@0.1.0: write, progress (to your terminal, as lines of the run)
      mst:plugin/process@0.1.0: child.kill, run, start
      for their types alone: mst:plugin@0.1.0 types, commands

    Exports: what mst calls
      mst:plugin/machine@0.1.0: create-machine, destroy-machine, list-machines
      mst:plugin/channel@0.1.0: run-command, copy-to, copy-from, forward-port (mst
          never calls it)
    "#);
}
