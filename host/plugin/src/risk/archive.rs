//! Whether a `tar` only reads: it packs into its stdout, or lists. Whatever is not plain counts as
//! writing.

use super::guard;
use crate::request::CommandTemplate;
use crate::template::{Element, Part, SlotType};

/// Stands for a slot whose value is one word that begins no option.
const HELD: char = '\u{1}';
/// For one that may begin with anything, and is one word or told of elsewhere.
const OPEN: char = '\u{2}';
/// For whatever may be several words, or an option.
const FREE: char = '\u{3}';

/// Variables that tell a `tar` more than its arguments do.
const TELLING: [&str; 3] = ["TAR_OPTIONS", "TAPE", "RSH"];

/// Whether a word is certainly the system's `tar`.
pub(super) fn is_tar(word: &str) -> bool {
    ["tar", "/bin/tar", "/usr/bin/tar"].contains(&word)
}

/// Whether nothing but its arguments tells a command's `tar` what to do.
pub(super) fn has_plain_environment(command: &CommandTemplate) -> bool {
    let names = command.env.iter().chain(command.secrets.iter().map(|var| &var.name));
    !names.into_iter().any(|name| TELLING.contains(&name.as_str()))
        && !command.template.argv().iter().any(|source| TELLING.iter().any(|name| source.contains(name)))
}

/// Whether what follows is the first word of a simple command of a shell's: behind nothing, behind a sign
/// that ends one, or behind such words as begin one.
pub(super) fn begins_command(before: &str) -> bool {
    const SIGNS: [char; 5] = [';', '|', '&', '(', '\n'];
    const WORDS: [&str; 6] = ["!", "do", "else", "exec", "then", "{"];
    let before = before.trim_end_matches([' ', '\t']);
    if before.is_empty() {
        return true;
    }
    if let Some(rest) = before.strip_suffix(SIGNS) {
        return !rest.ends_with(['\\', '>', '<']);
    }
    let start = before.rfind(|c: char| c.is_whitespace() || SIGNS.contains(&c)).map_or(0, |at| at + 1);
    WORDS.contains(&&before[start..]) && begins_command(&before[..start])
}

/// What stands behind a word: the rest of its literal, of its element, and further elements.
pub(super) fn behind(command: &CommandTemplate, rest: &str, parts: &[Part], elements: &[Element]) -> String {
    let mut out = rest.to_owned();
    signs(&mut out, command, parts);
    for element in elements {
        out.push(' ');
        match element.optional {
            true => out.push(FREE),
            false => signs(&mut out, command, &element.parts),
        }
    }
    out
}

fn signs(out: &mut String, command: &CommandTemplate, parts: &[Part]) {
    for part in parts {
        match part {
            Part::Literal(text) => out.push_str(text),
            Part::Slot(slot) if slot.many => out.push(FREE),
            Part::Slot(slot) => out.push(match &slot.kind {
                SlotType::Uint { .. }
                | SlotType::MachinePath
                | SlotType::Machine
                | SlotType::Run
                | SlotType::HostDir => HELD,
                SlotType::Option(option) if guard::is_plain_word(command, option) => OPEN,
                _ => FREE,
            }),
        }
    }
}

/// Whether a `tar` with these words behind it only reads.
pub(super) fn only_reads(behind: &str) -> bool {
    reads(behind).unwrap_or(false)
}

fn reads(behind: &str) -> Option<bool> {
    let words = words(behind)?;
    // Without a dash the first word is options all the same.
    if !words.first()?.starts_with('-') {
        return None;
    }
    let mut words = words.iter().map(String::as_str);
    let (mut mode, mut file) = (None, None);
    while let Some(word) = words.next() {
        if word == "--" {
            words.by_ref().for_each(drop);
        } else if let Some(letters) = word.strip_prefix('-') {
            for (at, letter) in letters.char_indices() {
                let is_last = at + letter.len_utf8() == letters.len();
                match letter {
                    'c' | 't' if mode.is_none() => mode = Some(letter),
                    'J' | 'h' | 'j' | 'p' | 'v' | 'z' => {}
                    'C' if is_last => drop(words.next()?),
                    // A name with a `:` is on another machine, and another program's to open.
                    'f' if is_last && file.is_none() => {
                        file = Some(words.next().filter(|name| !name.contains([':', OPEN]))?);
                    }
                    _ => return None,
                }
            }
        } else if word.starts_with(OPEN) {
            return None;
        }
    }
    Some(match mode? {
        // Elsewhere than to its stdout it writes a file.
        'c' => file == Some("-"),
        _ => true,
    })
}

/// The words of one command, as a shell divides them; none where something in them may be more than a
/// word.
fn words(text: &str) -> Option<Vec<String>> {
    let mut out: Vec<String> = Vec::new();
    let (mut word, mut quoted) = (None::<String>, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            // One word, whatever is in it.
            '$' if quoted && chars.peek().is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_') => {
                while chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_').is_some() {}
                word.get_or_insert_default().push(OPEN);
            }
            ' ' | '\t' if !quoted => out.extend(word.take()),
            ';' | '|' | '&' | '\n' if !quoted => break,
            HELD | OPEN => word.get_or_insert_default().push(c),
            c if c.is_ascii_alphanumeric() || "/._-+=,@%:".contains(c) => {
                word.get_or_insert_default().push(c);
            }
            _ => return None,
        }
    }
    out.extend(word);
    (!quoted).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_reads_is_said_to_read() {
        for text in [
            " -C \"$from\" -cf - . && : >sent",
            " -C \u{2}/\u{1}\u{1} -cf - .",
            " -czf - -C / -- \u{2}",
            " -t; rm x",
            " -tzvf /x.tgz\n",
        ] {
            assert!(only_reads(text), "{text:?}");
        }
        for text in [
            "",
            " ",
            " -xf -",
            " -C /x -xopf -",
            " -cf out.tar .",
            " -c .",
            " -cfout .",
            " cf - .",
            " xf - -t",
            " -cf - -x .",
            " -ctf - .",
            " -cf - --remove-files .",
            " -cf - --checkpoint-action=exec=x .",
            " -I x -cf - .",
            " -cf - *",
            " -cf - $x",
            " -C $x -cf - .",
            " -cf - \"$x\"",
            " -cf - \u{2}",
            " -cf - \u{3}",
            " \u{3} -cf - .",
            " -cf - . > /etc/x",
            " -cf - $(rm x)",
            " -cf - `rm x`",
            " -cf - \"$(rm x)\"",
            " -cf - \"x",
            " -tf x -f y",
            " -tf host:x",
            " -cf host:- .",
            " -tf \"$1\"",
            " -tf \u{2}",
            " -f",
        ] {
            assert!(!only_reads(text), "{text:?}");
        }
    }

    #[test]
    fn a_command_begins_behind_what_ends_another() {
        for before in ["", "x; ", "x &&", "a | exec ", "if x; then ", "{ ", "x\n", "$("] {
            assert!(begins_command(before), "{before:?}");
        }
        for before in [
            "xargs ",
            "env A=b ",
            "A=b ",
            "find . -exec ",
            "x \\; ",
            "xargs \\\n",
            "x >&",
            "echo exec ",
            "\"",
        ] {
            assert!(!begins_command(before), "{before:?}");
        }
    }
}
