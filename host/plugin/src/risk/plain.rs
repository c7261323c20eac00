//! Which words of a shell's script are certainly nothing but arguments of a container engine's.
//!
//! Whoever writes a script writes it so that it reads as something else. So of one that is not as plain as
//! can be, nothing is certain: of a script without escapes, brackets, comments and texts behind `<<` each
//! quote ends where the next of its kind stands, and each command where its sign does.

use super::named::words;
use super::programs::ENGINES;
use super::script;

/// Shells that read a script as it is read here.
const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];
/// Signs that change what others mean.
const SIGNS: &str = "\\`(){}#";
const BLANKS: [char; 3] = [' ', '\t', '\n'];
/// Words that may give an engine's name another meaning, or run a text.
const MEANINGS: [&str; 9] =
    [".", "PATH", "alias", "autoload", "enable", "eval", "function", "hash", "source"];
/// Verbs that have an engine run a program on this machine.
const HERE: [&str; 2] = ["shell", "unshare"];

/// Whether a shell reads a script as it is read here.
pub(super) fn is_read_by(shell: &str) -> bool {
    SHELLS.contains(&shell)
}

/// The words of a script that are certainly an engine's arguments, where they stand in it.
pub(super) fn told(script: &str) -> Vec<&str> {
    let is_open = |word: &str| MEANINGS.contains(&word) || HERE.contains(&word);
    // What is a blank beyond these is one to some and none to others.
    let is_plain = |c: char| (c.is_ascii_graphic() && !SIGNS.contains(c)) || BLANKS.contains(&c);
    if !script.chars().all(is_plain) || script.contains("<<") || words(script).any(is_open) {
        return Vec::new();
    }
    let commands = commands(script);
    if commands.iter().any(|words| !names_its_program(words)) {
        return Vec::new();
    }
    commands.iter().flat_map(|words| arguments(words)).copied().collect()
}

/// Whether a command's program stands in it as it is: what is put together of quotes and variables may be one
/// of [`MEANINGS`].
fn names_its_program(words: &[&str]) -> bool {
    let program = words.iter().find(|word| !script::goes_before(word));
    program.is_none_or(|word| !word.starts_with('-') && !word.contains(['$', '\'', '"']))
}

/// What stands behind an engine that is certainly a command's program.
fn arguments<'a, 'b>(words: &'b [&'a str]) -> &'b [&'a str] {
    let program = words.iter().position(|word| !script::goes_before(word));
    match program.and_then(|at| words.get(at..)) {
        Some([program, arguments @ ..]) if ENGINES.contains(program) => arguments,
        _ => &[],
    }
}

/// The words of each command, as they stand there, without the places of streams.
fn commands(script: &str) -> Vec<Vec<&str>> {
    let mut out = vec![Vec::new()];
    let (mut begin, mut quote, mut is_place) = (None, None, false);
    let mut chars = script.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_blank = BLANKS.contains(&c);
        if quote.is_some() {
            quote = quote.filter(|open| *open != c);
            continue;
        }
        if !is_blank && !";|&<>".contains(c) {
            begin.get_or_insert(at);
            quote = Some(c).filter(|c| matches!(c, '\'' | '"'));
            continue;
        }
        if let Some(begin) = begin.take()
            && !std::mem::take(&mut is_place)
            && let Some(command) = out.last_mut()
        {
            command.push(&script[begin..at]);
        }
        match c {
            '<' | '>' => {
                is_place = true;
                // `>&2` is no end of a command.
                while chars.next_if(|(_, c)| matches!(c, '&' | '<' | '>')).is_some() {}
            }
            ';' | '|' | '&' | '\n' => {
                is_place = false;
                out.push(Vec::new());
            }
            _ => {}
        }
    }
    if let (Some(begin), None, false, Some(command)) = (begin, quote, is_place, out.last_mut()) {
        command.push(&script[begin..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_engine_is_certainly_told_is_told_to_it() {
        for (script, words) in [
            ("docker exec x rm -rf y && docker ps", "exec x rm -rf y ps"),
            ("A=b exec docker >log >&1 exec \"$1\" rm 'y z' | rm q", "exec \"$1\" rm 'y z'"),
            ("if ! sudo docker ps; then rm x; fi\ndocker rm y", "ps rm y"),
            ("docker ps >&2 rm > rm rm", "ps rm rm"),
            ("docker ps & rm", "ps"),
            ("docker ps 'rm", "ps"),
            ("", ""),
            // What is no program, or another one.
            ("echo docker rm", ""),
            ("sudo -u docker rm", ""),
            ("exec -a docker rm", ""),
            ("flock docker rm", ""),
            ("for docker in rm; do $docker x; done", ""),
            ("\"a\"=b docker rm", ""),
            ("'docker' ps rm", ""),
            ("./docker rm", ""),
            // What gives the engine's name another meaning, put together.
            ("ali\"as\" docker=\" \"\ndocker curl x", ""),
            ("a=ha b=sh; $a$b -p /usr/bin/env docker; docker curl x", ""),
            ("a=ha b=sh; command -- $a$b -p /usr/bin/env docker; docker curl x", ""),
            ("$x docker rm", ""),
            // What may be read otherwise.
            ("docker ps $(rm x)", ""),
            ("docker ps `rm x`", ""),
            ("docker() { \"$@\"; }; docker rm x", ""),
            ("function docker { \"$@\"; }; docker rm x", ""),
            ("alias docker=\" \"\ndocker rm x", ""),
            ("hash -p /usr/bin/env docker; docker rm x", ""),
            ("PATH=/x docker rm x", ""),
            (". /x; docker rm x", ""),
            ("docker ps <<E\n'\nE\n: '\ndocker a'; x=' rm y", ""),
            ("docker ps # '\nrm x", ""),
            ("docker ps \\; rm x", ""),
            ("x=1\u{a0}docker rm y", ""),
            ("x=1\u{b}docker rm y", ""),
            ("podman unshare rm x", ""),
            ("machinectl shell .host rm", ""),
        ] {
            assert_eq!(told(script).join(" "), words, "{script}");
        }
    }

    /// Programs in a directory: an engine that does nothing, one that leaves a mark, and such as run what they
    /// are given.
    #[cfg(unix)]
    fn programs() -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().expect("a directory");
        let runs = r#"exec "$@""#;
        for (name, text) in [("docker", "exit 0"), ("curl", r#": >"$MARK""#), ("env", runs), ("sudo", runs)] {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
        }
        dir
    }

    #[cfg(unix)]
    #[test]
    fn no_shell_runs_what_is_told_to_an_engine() {
        use std::process::{Command, Stdio};

        use proptest::prelude::*;

        const PIECES: [&str; 34] = [
            "docker ",
            "docker",
            "curl ",
            " curl",
            "curl",
            " ",
            "'",
            "\"",
            ";",
            "|",
            "&",
            "\n",
            ">",
            "<",
            ">&",
            "$x",
            "${x",
            "a",
            "x=",
            "=",
            "\\",
            "`",
            "$(",
            "(",
            ")",
            "{",
            "}",
            "#",
            "exec ",
            "sudo ",
            "env ",
            "if docker;then ",
            ";fi",
            "<<E\n",
        ];
        let programs = programs();
        let place = tempfile::tempdir().expect("a directory");
        let mark = programs.path().join("mark");
        let runs = |shell: &str, script: &str| {
            let mut shell = Command::new(shell);
            shell.args(["-c", script]).current_dir(place.path());
            shell.env_clear().env("PATH", programs.path()).env("MARK", &mark).env("x", "b;curl c");
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("a shell");
            std::fs::remove_file(&mark).is_ok()
        };
        let shells: Vec<&str> = ["/bin/sh", "/bin/bash"]
            .into_iter()
            .filter(|shell| std::fs::exists(shell).is_ok_and(|is| is))
            .collect();
        assert!(
            shells.iter().all(|shell| runs(shell, "docker ps; curl x") && !runs(shell, "docker ps curl"))
        );
        let pieces = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..12);
        let scripts = pieces.prop_map(|pieces| format!("docker ps{} curl", pieces.concat()));
        proptest!(ProptestConfig::with_cases(2048), |(script in scripts)| {
            let told = told(&script);
            let is_told = |name: &str| told.iter().any(|word| std::ptr::eq(*word, name));
            if words(&script).filter(|word| *word == "curl").all(is_told) {
                for shell in &shells {
                    prop_assert!(!runs(shell, &script), "{shell}: {script:?}");
                }
            }
        });
    }
}
