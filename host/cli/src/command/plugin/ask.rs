//! Asking the person at the terminal what a plugin may do. Whatever is no answer is no consent.

use std::io::{self, BufRead, Write};

use mst_plugin::{Capability, Key, Page, Pinned, Policy};

use super::bindings::Binding;
use crate::error::Failure;

/// What a person answered.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// What is granted.
    pub(super) keys: Vec<Key>,
    /// Where what is granted is.
    pub(super) bindings: Vec<Binding>,
}

/// What a person is asked about.
pub(super) struct Question<'a> {
    /// What is shown before all.
    pub(super) text: &'a str,
    /// Where each request stands with what to know about it.
    pub(super) page: &'a Page,
    pub(super) pinned: &'a Pinned,
    /// What is to be decided, in the order of the page.
    pub(super) pending: &'a [Key],
    /// Whether something is wider that no key names.
    pub(super) wider: bool,
    pub(super) policy: &'a Policy,
}

/// Shows what it is about, and asks for each key.
pub(super) fn ask(
    about: &Question<'_>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<Answer, Failure> {
    show(about.text, output)?;
    let mut answer = Answer::default();
    if about.wider
        && !matches!(said("pin it all the same? [y]es, [n]o: ", input, output)?.as_str(), "y" | "yes")
    {
        return Err(nothing_changed());
    }
    let mut all = false;
    for key in about.pending {
        let asked = about.pinned.requests.get(key);
        if let Some(rule) = asked.and_then(|asked| about.policy.refuses(&asked.request)) {
            writeln!(output, "{key}: not to be granted: {rule}").map_err(failed)?;
            continue;
        }
        // Also where all are granted: nothing is that was not shown.
        show(&about.page.request_text(key), output)?;
        if !all {
            let question = format!("grant {key}? [y]es, [n]o, [a]ll that follow, [?] all again, [q]uit: ");
            let answered = loop {
                match said(&question, input, output)?.as_str() {
                    "?" => show(about.text, output)?,
                    answer => break answer.to_owned(),
                }
            };
            match answered.as_str() {
                "y" | "yes" => {}
                "a" | "all" => all = true,
                "n" | "no" | "" => continue,
                _ => return Err(nothing_changed()),
            }
        }
        if about.pinned.unbound(key) {
            let Some(binding) = place(key, input, output)? else { continue };
            answer.bindings.push(binding);
        }
        answer.keys.push(key.clone());
    }
    Ok(answer)
}

fn show(text: &str, output: &mut dyn Write) -> Result<(), Failure> {
    write!(output, "{}", mst_sandbox::clean(text, usize::MAX, true)).map_err(failed)
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
        let pending: Vec<Key> = pending(&file, &pinned, None).into_iter().take(3).collect();
        let mut said = Vec::new();
        let (page, wider) = (Page::of(&file), lines.starts_with("wider"));
        let about = Question {
            text: "ALL OF IT\n",
            page: &page,
            pinned: &pinned,
            pending: &pending,
            wider,
            policy: &rules,
        };
        let mut lines = lines.trim_start_matches("wider").as_bytes();
        let answer = ask(&about, &mut lines, &mut said);
        let keys = answer.ok().map(|answer| answer.keys.iter().map(ToString::to_string).collect());
        (keys, String::from_utf8(said).expect("UTF-8"))
    }

    #[test]
    fn a_person_is_asked_for_each() {
        let (granted, said) = asked("y\nn\nyes\n", "");
        assert_eq!(granted, Some(vec!["exec:image".to_owned(), "exec:create".to_owned()]), "{said}");
        assert!(said.contains("grant exec:image? [y]es, [n]o"), "{said}");
        let (granted, _) = asked("n\na\n", "");
        assert_eq!(granted, Some(vec!["exec:pull".to_owned(), "exec:create".to_owned()]));
        let (granted, _) = asked("\n\n\n", "");
        assert_eq!(granted, Some(Vec::new()), "no answer is no");
    }

    #[test]
    fn each_question_has_the_command_and_its_marks_and_all_can_be_read_again() {
        let (granted, said) = asked("?\ny\nn\nn\n", "");
        assert_eq!(granted, Some(vec!["exec:image".to_owned()]), "{said}");
        assert_eq!(said.matches("ALL OF IT").count(), 2, "{said}");
        let before = said.split_once("grant exec:image?").expect("asked").0;
        assert!(
            before.contains("image inspect") && before.contains("! speaks to a container engine"),
            "{said}"
        );
    }

    #[test]
    fn what_is_wider_and_has_no_key_is_asked_first() {
        assert_eq!(asked("wider\n", "").0, None);
        assert_eq!(asked("widern\n", "").0, None);
        assert_eq!(asked("widery\ny\nn\nn\n", "").0, Some(vec!["exec:image".to_owned()]));
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
