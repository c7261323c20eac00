//! Programs and variables that are known by their names. None of these lists can be complete.

/// Start a program of their arguments, in a language of their own.
pub(super) const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "busybox",
    "cmd",
    "csh",
    "dash",
    "elvish",
    "fish",
    "ksh",
    "nu",
    "powershell",
    "pwsh",
    "sh",
    "tcsh",
    "zsh",
];
pub(super) const INTERPRETERS: &[&str] = &[
    "awk",
    "bun",
    "deno",
    "gawk",
    "julia",
    "lua",
    "mawk",
    "node",
    "osascript",
    "perl",
    "php",
    "pypy",
    "python",
    "ruby",
    "tclsh",
];
/// Programs that run what they are given.
pub(super) const STARTERS: &[&str] = &[
    "at",
    "chroot",
    "chrt",
    "entr",
    "env",
    "find",
    "flock",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "script",
    "setsid",
    "sshpass",
    "stdbuf",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "unshare",
    "watch",
    "xargs",
];
pub(super) const RAISERS: &[&str] = &["doas", "pkexec", "run0", "runuser", "su", "sudo"];
/// Log in on other machines, where a shell reads what follows.
pub(super) const REMOTES: &[&str] =
    &["autossh", "dbclient", "gcloud", "mosh", "plink", "rlogin", "rsh", "slogin", "ssh", "tsh"];
/// Act on clusters and virtual machines.
pub(super) const CLUSTERS: &[&str] = &["helm", "kubectl", "limactl", "multipass", "oc", "vagrant", "virsh"];
pub(super) const ENGINES: &[&str] = &[
    "buildah",
    "crictl",
    "ctr",
    "docker",
    "docker-compose",
    "finch",
    "incus",
    "lxc",
    "machinectl",
    "nerdctl",
    "podman",
    "podman-compose",
    "podman-remote",
];
/// Engines whose `exec` and `run` run a command in a container.
pub(super) const RUNS_IN_CONTAINERS: &[&str] = &["docker", "nerdctl", "podman", "podman-remote"];
/// Programs whose `exec` runs a command in a pod.
pub(super) const RUNS_IN_PODS: &[&str] = &["kubectl", "oc"];
/// Send and fetch.
pub(super) const NETWORK: &[&str] = &[
    "aria", "aws", "az", "curl", "dig", "ftp", "git", "gsutil", "nc", "ncat", "netcat", "nslookup",
    "openssl", "rclone", "rsync", "s3cmd", "scp", "sendmail", "sftp", "socat", "telnet", "tftp", "wget",
];
/// Fetch packages, and run what is in them.
pub(super) const FETCHERS: &[&str] = &[
    "apk",
    "apt",
    "apt-get",
    "brew",
    "bunx",
    "dnf",
    "gem",
    "nix",
    "nix-shell",
    "npm",
    "npx",
    "pip",
    "pipx",
    "pnpm",
    "uv",
    "uvx",
    "yarn",
    "yum",
];
/// Change or remove files where their arguments say.
pub(super) const CHANGERS: &[&str] = &[
    "chgrp", "chmod", "chown", "cp", "crontab", "dd", "install", "ln", "mkfs", "mv", "patch", "rm", "rmdir",
    "shred", "tar", "tee", "truncate", "unlink", "unzip",
];

/// What lets a container out, as an engine's argument, with or without `=…`.
const WAYS_OUT: &[&str] = &[
    "--cap-add",
    "--cgroupns",
    "--connection",
    "--context",
    "--device",
    "--device-cgroup-rule",
    "--env-file",
    "--env-host",
    "--gpus",
    "--host",
    "--ipc",
    "--mount",
    "--net",
    "--network",
    "--pid",
    "--privileged",
    "--publish",
    "--publish-all",
    "--rootfs",
    "--security-opt",
    "--url",
    "--userns",
    "--uts",
    "--volume",
    "--volumes-from",
];
/// What has an engine run a program on its own machine, or go by a configuration that does.
const RUNS_PROGRAMS: &[&str] =
    &["--config", "--conmon", "--hooks-dir", "--module", "--network-cmd-path", "--runtime", "--runtime-flag"];
/// What looks like one of them and shuts it further.
const SHUTS: &[&str] = &["--network=none", "--net=none", "--security-opt=no-new-privileges"];
/// The same in one letter: the daemon's address, ports, directories.
const SHORT_WAYS_OUT: &str = "HPpv";
/// Letters that may stand before one of these in one argument, as in `-itv`.
const SHORT_FLAGS: &str = "Ddfiqt";

/// Lead a program to code or to a configuration that it runs.
const LOADERS: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "GIT_CONFIG",
    "GIT_CONFIG_GLOBAL",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
    "NODE_OPTIONS",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SSH_ASKPASS",
];

/// The program's name without path, version and ending.
pub(super) fn base(program: &str) -> &str {
    let name = program.rsplit('/').next().unwrap_or(program);
    let name = name.strip_suffix(".exe").unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// The flag in a container engine's argument that lets the container out; none in most.
pub(super) fn way_out(argument: &str) -> Option<String> {
    if SHUTS.contains(&argument) {
        return None;
    }
    if argument.starts_with("--") {
        let flag = argument.split('=').next().unwrap_or(argument);
        return (WAYS_OUT.contains(&flag) || RUNS_PROGRAMS.contains(&flag)).then(|| flag.to_owned());
    }
    let letters = argument.strip_prefix('-')?;
    let letter = letters.chars().find(|letter| !SHORT_FLAGS.contains(*letter))?;
    SHORT_WAYS_OUT.contains(letter).then(|| format!("-{letter}"))
}

/// Whether a flag that is a way out is the engine's with any verb: podman takes such behind it too.
pub(super) fn is_of_all_verbs(flag: &str) -> bool {
    RUNS_PROGRAMS.contains(&flag) || ["--connection", "--context", "--host", "--url", "-H"].contains(&flag)
}

/// Whether a container engine's argument has it run a program on its own machine.
pub(super) fn runs_program(argument: &str) -> bool {
    RUNS_PROGRAMS.contains(&argument.split('=').next().unwrap_or(argument))
}

/// Whether a variable's value is probably one that nobody should know.
pub(super) fn sounds_secret(variable: &str) -> bool {
    let upper = variable.to_ascii_uppercase();
    let words = ["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "KUBECONFIG"];
    upper != "SSH_AUTH_SOCK" && words.iter().any(|word| upper.contains(word))
}

/// Whether a variable leads programs to code.
pub(super) fn loads_code(variable: &str) -> bool {
    ["LD_", "DYLD_"].iter().any(|start| variable.starts_with(start)) || LOADERS.contains(&variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_out_is_seen_however_it_is_written() {
        for (argument, flag) in [
            ("--volume=/:/host", "--volume"),
            ("--volumes-from", "--volumes-from"),
            ("--gpus=all", "--gpus"),
            ("-v", "-v"),
            ("-v/:/host", "-v"),
            ("-itv", "-v"),
            ("-dp8080:80", "-p"),
            ("-Htcp://x", "-H"),
            ("--env-file=/x", "--env-file"),
            ("--network=host", "--network"),
            ("--runtime=/tmp/x", "--runtime"),
            ("--hooks-dir", "--hooks-dir"),
        ] {
            assert_eq!(way_out(argument).as_deref(), Some(flag), "{argument}");
        }
        for shut in ["--network=none", "--init", "-it", "-u0", "--user=0", "run", "-", "--"] {
            assert_eq!(way_out(shut), None, "{shut}");
        }
    }

    #[test]
    fn names_are_known_without_path_and_version() {
        for (program, name) in [("/usr/bin/python3.12", "python"), ("docker.exe", "docker"), ("sh", "sh")] {
            assert_eq!(base(program), name);
        }
    }

    #[test]
    fn variables_are_known_by_their_names() {
        for name in ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "KUBECONFIG"] {
            assert!(sounds_secret(name), "{name}");
        }
        assert!(!sounds_secret("SSH_AUTH_SOCK") && !sounds_secret("DOCKER_HOST"));
        for name in ["LD_PRELOAD", "BASH_ENV", "GIT_SSH_COMMAND"] {
            assert!(loads_code(name), "{name}");
        }
    }
}
