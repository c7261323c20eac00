//! What a program that failed has to say to the person at the terminal.

use crate::{Error, ExitStatus, Output};

/// Characters of stderr that an error shows.
const SHOWN: usize = 400;

/// Makes an error of a text.
type Kind = fn(String) -> Error;

/// What the usual tools write, and what it means. The first that stands in stderr counts, whatever
/// its case. It only chooses the kind of error: the text is the program's own.
const KNOWN: [(&str, Kind); 26] = [
    // Container engines.
    ("cannot connect to the docker daemon", Error::Unavailable),
    ("is the docker daemon running", Error::Unavailable),
    ("error during connect", Error::Unavailable),
    ("cannot connect to podman", Error::Unavailable),
    ("unable to connect to podman", Error::Unavailable),
    ("no such container", Error::NotFound),
    ("no container with name or id", Error::NotFound),
    ("no such image", Error::NotFound),
    ("image not known", Error::NotFound),
    ("unable to find image", Error::NotFound),
    ("manifest unknown", Error::NotFound),
    ("pull access denied", Error::NotFound),
    ("could not find the file", Error::NotFound),
    ("invalid reference format", Error::Invalid),
    ("executable file not found", Error::Invalid),
    // Networks and ssh.
    ("connection refused", Error::Unavailable),
    ("connection timed out", Error::Unavailable),
    ("connection reset", Error::Unavailable),
    ("i/o timeout", Error::Unavailable),
    ("no route to host", Error::Unavailable),
    ("could not resolve hostname", Error::Unavailable),
    ("no such host", Error::Unavailable),
    ("temporary failure in name resolution", Error::Unavailable),
    ("host key verification failed", Error::Failed),
    ("permission denied", Error::Failed),
    ("no such file or directory", Error::NotFound),
];

/// Lines that say nothing about the fault, by their beginnings.
const NOISE: [&str; 3] = ["Run 'docker", "See 'docker", "See 'podman"];
/// Beginnings of lines that say nothing either.
const PREFIXES: [&str; 4] = ["docker: ", "Error response from daemon: ", "Error: ", "error: "];

/// The error of a program that did not end with code 0: "can't `doing`", and what it wrote to
/// stderr, or to stdout where it wrote nothing there. Its kind is taken from what docker, podman, ssh and the usual tools write.
pub fn explain(output: &Output, doing: &str) -> Error {
    let how = match output.status {
        ExitStatus::TimedOut => {
            return Error::Unavailable(format!(
                "can't {doing}: it took longer than the plugin's manifest admits"
            ));
        }
        ExitStatus::Code(code) => format!("code {code}"),
        ExitStatus::Signal(signal) => format!("signal {signal}"),
    };
    let (stderr, stdout) = (output.stderr_text(), output.stdout_text());
    // `docker exec` says on stdout why it can't.
    let text = if stderr.trim().is_empty() { stdout } else { stderr };
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !NOISE.iter().any(|noise| line.starts_with(noise)));
    let said: Vec<&str> = lines
        .map(|line| PREFIXES.iter().fold(line, |line, prefix| line.strip_prefix(prefix).unwrap_or(line)))
        .collect();
    let said = said.join("; ");
    let text = match said.is_empty() {
        true => format!("can't {doing}: the program ended with {how} and no word"),
        false => format!("can't {doing}: {}", end_of(&said)),
    };
    let lower = said.to_lowercase();
    let kind = KNOWN.iter().find(|(words, _)| lower.contains(words));
    kind.map_or(Error::Failed as Kind, |(_, kind)| *kind)(text)
}

/// The end of a text: what went wrong stands last.
fn end_of(text: &str) -> String {
    match text.chars().count() {
        count if count <= SHOWN => text.to_owned(),
        count => format!("…{}", text.chars().skip(count - SHOWN).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(stderr: &str) -> Error {
        let output =
            Output { status: ExitStatus::Code(1), stdout: Vec::new(), stderr: stderr.into(), cut: 0 };
        explain(&output, "make it")
    }

    /// What the tools wrote when these went wrong: docker 20.10 and 28.2, OpenSSH 9.2, GNU
    /// coreutils 9.1.
    #[test]
    fn the_usual_tools_are_understood() {
        for (stderr, error) in [
            (
                "docker: Error response from daemon: Conflict. The container name \"/x\" is already in use by container \"bf43\".\n\nRun 'docker run --help' for more information\n",
                Error::failed(
                    "can't make it: Conflict. The container name \"/x\" is already in use by container \"bf43\".",
                ),
            ),
            (
                "Cannot connect to the Docker daemon at unix:///nonexist. Is the docker daemon running?\n",
                Error::unavailable(
                    "can't make it: Cannot connect to the Docker daemon at unix:///nonexist. Is the docker daemon running?",
                ),
            ),
            (
                "Error response from daemon: no such image: nope:1: No such image: nope:1\n",
                Error::not_found("can't make it: no such image: nope:1: No such image: nope:1"),
            ),
            ("Error: No such container: x\n", Error::not_found("can't make it: No such container: x")),
            (
                "docker: Error response from daemon: OCI runtime create failed: exec: \"sleep\": executable file not found in $PATH: unknown.\n",
                Error::invalid(
                    "can't make it: OCI runtime create failed: exec: \"sleep\": executable file not found in $PATH: unknown.",
                ),
            ),
            (
                "ssh: connect to host 127.0.0.1 port 9 : Connection refused\r\n",
                Error::unavailable(
                    "can't make it: ssh: connect to host 127.0.0.1 port 9 : Connection refused",
                ),
            ),
            (
                "Host key verification failed.\r\n",
                Error::failed("can't make it: Host key verification failed."),
            ),
            ("", Error::failed("can't make it: the program ended with code 1 and no word")),
            (
                "mkdir: cannot create directory '/x/y': No such file or directory\n",
                Error::not_found(
                    "can't make it: mkdir: cannot create directory '/x/y': No such file or directory",
                ),
            ),
        ] {
            assert_eq!(failed(stderr), error);
        }
    }

    #[test]
    fn the_end_counts_and_time_is_told() {
        let text = failed(&"é".repeat(1000)).to_string();
        assert_eq!(text.chars().filter(|&c| c == 'é').count(), SHOWN);
        let output =
            Output { status: ExitStatus::Code(126), stdout: b"no user\n".into(), stderr: Vec::new(), cut: 0 };
        assert_eq!(explain(&output, "make it"), Error::failed("can't make it: no user"));
        let output = Output { status: ExitStatus::TimedOut, stdout: Vec::new(), stderr: Vec::new(), cut: 0 };
        assert!(matches!(explain(&output, "make it"), Error::Unavailable(_)));
    }
}
