//! Asking the person at the terminal what a plugin may do. Whatever is no answer is no consent.

use std::io::{self, BufRead, Write};

use mst_plugin::{Capability, Key, Pinned, Policy};

use super::grants::Binding;
use crate::error::Failure;

/// What a person answered.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// What is granted.
    pub(super) keys: Vec<Key>,
    /// Where what is granted is.
    pub(super) bindings: Vec<Binding>,
}

/// Shows `text` and asks for each key.
pub(super) fn ask(
    text: &str,
    pinned: &Pinned,
    pending: &[Key],
    policy: &Policy,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<Answer, Failure> {
    write!(output, "{}", mst_sandbox::clean(text, usize::MAX, true)).map_err(failed)?;
    let mut answer = Answer::default();
    let mut all = false;
    for key in pending {
        if let Some(rule) = pinned.requests.get(key).and_then(|asked| policy.refuses(&asked.request)) {
            writeln!(output, "{key}: not to be granted: {rule}").map_err(failed)?;
            continue;
        }
        if !all {
            let question = format!("grant {key}? [y]es, [n]o, [a]ll that follow, [q]uit: ");
            match said(&question, input, output)?.as_str() {
                "y" | "yes" => {}
                "a" | "all" => all = true,
                "n" | "no" | "" => continue,
                _ => return Err(nothing_changed()),
            }
        }
        if pinned.unbound(key) {
            let Some(binding) = place(key, input, output)? else { continue };
            answer.bindings.push(binding);
        }
        answer.keys.push(key.clone());
    }
    Ok(answer)
}

/// Where a directory is, or where a secret comes from; none where nothing is said.
fn place(key: &Key, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<Option<Binding>, Failure> {
    let question = match key.capability() {
        Capability::Dir => format!("where is {key}? a path, or nothing to leave it: "),
        _ => format!(
            "where does {key} come from? env:NAME, file:PATH, keyring:SERVICE/USERNAME or command:PROGRAM ARGUMENTS, or nothing to leave it: "
        ),
    };
    loop {
        let place = said(&question, input, output)?;
        if place.is_empty() {
            return Ok(None);
        }
        match format!("{key}={place}").parse() {
            Ok(binding) => return Ok(Some(binding)),
            Err(why) => writeln!(output, "{why}").map_err(failed)?,
        }
    }
}

/// The next line, after a question.
fn said(question: &str, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<String, Failure> {
    write!(output, "{question}").and_then(|()| output.flush()).map_err(failed)?;
    let mut line = String::new();
    if input.read_line(&mut line).map_err(failed)? == 0 {
        return Err(nothing_changed());
    }
    Ok(line.trim().to_owned())
}

fn failed(error: io::Error) -> Failure {
    Failure::because("can't ask", &error)
}

fn nothing_changed() -> Failure {
    Failure::new("nothing was granted, and the lock is as it was")
}

#[cfg(test)]
mod tests {
    use super::super::grants::pending;
    use super::*;
    use crate::plugins;

    /// What is granted for these lines, and what was said.
    fn asked(lines: &str, policy: &str) -> (Option<Vec<String>>, String) {
        let file = plugins::first_party("mst/runner/docker").expect("there").expect("whole");
        let pinned = Pinned::new(&file, "x.wasm".into());
        let mut rules = Policy::default();
        rules.add("p.toml", &format!("schema = 'mst.policy/v1'\n{policy}")).expect("a policy");
        let pending: Vec<Key> = pending(&pinned, None).into_iter().take(3).collect();
        let mut said = Vec::new();
        let answer = ask("", &pinned, &pending, &rules, &mut lines.as_bytes(), &mut said);
        let keys = answer.ok().map(|answer| answer.keys.iter().map(ToString::to_string).collect());
        (keys, String::from_utf8(said).expect("UTF-8"))
    }

    #[test]
    fn a_person_is_asked_for_each() {
        let (granted, said) = asked("y\nn\nyes\n", "");
        assert_eq!(granted, Some(vec!["exec:container".to_owned(), "exec:copy-to".to_owned()]), "{said}");
        assert!(said.contains("grant exec:container? [y]es, [n]o"), "{said}");
        let (granted, _) = asked("n\na\n", "");
        assert_eq!(granted, Some(vec!["exec:copy-from".to_owned(), "exec:copy-to".to_owned()]));
        let (granted, _) = asked("\n\n\n", "");
        assert_eq!(granted, Some(Vec::new()), "no answer is no");
    }

    #[test]
    fn what_is_no_answer_is_no_consent() {
        for lines in ["", "y\n", "y\nq\n", "y\nwhat\n"] {
            assert_eq!(asked(lines, "").0, None, "{lines:?}");
        }
    }

    #[test]
    fn what_a_policy_refuses_is_not_asked() {
        let (granted, said) = asked("", "programs = ['ssh']");
        assert_eq!(granted, Some(Vec::new()));
        assert!(said.contains("`p.toml` admits no program `docker`"), "{said}");
        // And `all` does not mean it.
        assert_eq!(asked("a\n", "capabilities = []").0, Some(Vec::new()));
    }
}
