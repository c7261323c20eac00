//! What the text of a shell's script does with its arguments and its stderr, as far as a glance tells.

use super::programs::{INTERPRETERS, RAISERS, SHELLS, STARTERS, base};

/// What a simple command may begin with before its program.
const BEFORE: [&str; 13] =
    ["!", "builtin", "command", "do", "elif", "else", "if", "nohup", "then", "time", "until", "while", "{"];
/// What more may stand there and runs what follows as it is, where that is no flag.
const LEADS: [&str; 3] = ["env", "exec", "sudo"];
/// What runs the words behind it.
const RUNS: [&str; 5] = [".", "eval", "exec", "source", "trap"];

/// Whether a script may run what it is given as a program.
pub(super) fn runs_arguments(text: &str) -> bool {
    if ["$@", "$*", "${@", "${*"].iter().any(|words| text.contains(words)) {
        return true;
    }
    let ends = |c: char| matches!(c, ';' | '|' | '&' | '\n' | '(' | ')' | '`');
    text.split(ends).any(command_runs_arguments)
}

/// The same of a simple command.
fn command_runs_arguments(text: &str) -> bool {
    let mut words = text.split_whitespace().map(|word| word.trim_matches(['"', '\''])).peekable();
    while words.next_if(|word| BEFORE.contains(word) || is_assignment(word)).is_some() {}
    let Some(program) = words.next() else { return false };
    let behind: Vec<&str> = words.collect();
    let runs = match (program, behind.first()) {
        // What it runs is told of by its name.
        ("exec", Some(word)) => word.contains('$') || word.starts_with('-') || is_runner(word),
        ("exec", None) => false,
        _ => is_runner(program),
    };
    // A variable may hold an argument.
    program.contains('$') || (runs && behind.iter().any(|word| word.contains('$')))
}

/// Whether a word, as the first of a simple command, certainly stands before its program.
pub(super) fn goes_before(word: &str) -> bool {
    BEFORE.contains(&word) || LEADS.contains(&word) || is_assignment(word)
}

/// Whether a program runs what it is given.
pub(super) fn is_runner(program: &str) -> bool {
    RUNS.contains(&program)
        || [SHELLS, STARTERS, RAISERS, INTERPRETERS].iter().any(|list| list.contains(&base(program)))
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a script certainly runs all of its arguments but the first as one command, as they stand, and
/// changes neither them nor what their program's name means: `NAME=$1; shift; …`, and then nothing but such
/// commands as do neither.
pub(super) fn runs_rest(text: &str) -> bool {
    const REST: &str = "\"$@\"";
    const PLAIN: [&str; 5] = [":", "[", "cat", "cp", "tar"];
    let Some((name, text)) = text.split_once("=$1; shift; ") else { return false };
    let is_name = !name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase());
    let open = text
        .replace(REST, "")
        .replace(&format!("\"${name}\""), "")
        .contains(|c: char| !(c.is_ascii_alphanumeric() || " -./:;>&|[]{}".contains(c)));
    let mut runs = 0;
    let is_plain = |command: &str| {
        let command = command.trim();
        let command = command.strip_prefix("{ ").unwrap_or(command).trim();
        runs += usize::from(command == REST);
        command == REST
            || ["", "}"].contains(&command)
            || (!command.contains(REST) && PLAIN.contains(&command.split(' ').next().unwrap_or_default()))
    };
    let is_plain = text.split([';', '|', '&']).all(is_plain);
    is_name && !open && is_plain && runs == 1
}

/// Whether a text writes to stderr, or has a shell do that.
pub(super) fn tells(text: &str) -> bool {
    let close: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let traces = text.split("set ").skip(1).any(|behind| {
        let word =
            behind.trim_start().split(|c: char| c.is_whitespace() || c == ';').next().unwrap_or_default();
        word.starts_with('-') && word.contains('x')
    });
    traces
        || text.contains("xtrace")
        || [">&2", "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"].iter().any(|sign| close.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_an_argument_is_known_by_where_it_stands() {
        for text in [
            r#""$1" x"#,
            r#". "$1""#,
            r#"source "$1""#,
            r#"sh -c "$1""#,
            r#"eval "$1""#,
            r#"exec "$1" x"#,
            r#"cd x && "${1}""#,
            r#"A=b $2"#,
            r#"if "$1"; then x; fi"#,
            r#"a=$1; $a"#,
            r#"x | "$3""#,
            r#""$@""#,
            r#"exec -a x "$1""#,
            r#"env A=b "$1""#,
            r#"( "$1" )"#,
            r#"exec sh "$1""#,
            r#"./bin/"$1""#,
        ] {
            assert!(runs_arguments(text), "{text}");
        }
        for text in [
            r#"echo "$1""#,
            r#"cat "$1" > "$2""#,
            r#"d=$1; cat x"#,
            r#"exec rm -rf -- "$1""#,
            r#"cd -- "$1" || exit; ls"#,
            r#"for x in "$1"/*; do echo "$x"; done"#,
            r#"[ -e "$1" ] && cat x"#,
            "exec cat",
        ] {
            assert!(!runs_arguments(text), "{text}");
        }
    }

    #[test]
    fn only_a_script_of_known_shape_runs_the_rest_as_it_stands() {
        for text in [
            r#"from=$1; shift; { tar -C "$from" -cf - . && : >sent; } | "$@" && [ -e sent ]"#,
            r#"to=$1; shift; { "$@" && : >sent; } | tar -C "$to" -xopf - && [ -e sent ]"#,
            r#"x=$1; shift; "$@""#,
        ] {
            assert!(runs_rest(text), "{text}");
        }
        for text in [
            r#""$@""#,
            r#"PATH=$1; shift; "$@""#,
            r#"x=$1; shift; shift; "$@""#,
            r#"x=$1; shift; set -- "$1" evil; "$@""#,
            r#"x=$1; shift; "$@" evil"#,
            r#"x=$1; shift; env "$@""#,
            r#"x=$1; shift; tar "$@"; "$@""#,
            r#"x=$1; shift; ssh evil; "$@""#,
            r#"x=$1; shift; ssh() { :; }; "$@""#,
            r#"x=$1; shift; PATH=.; "$@""#,
            r#"x=$1; shift; : '; "$@"; : '"#,
            r#"x=$1; shift; : $(tar); "$@""#,
            r#"x=$1; shift; $x; "$@""#,
            r#"x=$1; shift; "$x" y; "$@""#,
            r#"x=$1; shift; "$@"; "$@""#,
            r#"x=$1; shift; tar -x"#,
        ] {
            assert!(!runs_rest(text), "{text}");
        }
    }

    #[test]
    fn stderr_is_known_however_it_is_written() {
        for text in [
            "x >&2",
            "x >& 2",
            "x 1>&2",
            "x >/proc/self/fd/2",
            "x > /dev/fd/2",
            "set -ex; x",
            "set -o xtrace",
        ] {
            assert!(tells(text), "{text}");
        }
        for text in ["x 2>&1", "x 2>/dev/null", "set -e; x"] {
            assert!(!tells(text), "{text}");
        }
    }
}
