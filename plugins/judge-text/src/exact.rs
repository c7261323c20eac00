//! The modes `exact` and `contains`.

use mst_sdk::judge::Verdict;

use crate::options::{Mode, Options};
use crate::quote::quote;
use crate::subject::Subject;

pub(crate) fn compare(subject: &Subject, expected: &str, options: &Options) -> Verdict {
    let (text, expected) = (subject.text(), options.trimmed(expected));
    let name = subject.name();
    if options.mode == Mode::Contains {
        return match find(text, expected, options.ignore_case) {
            Some(found) => subject.cite(Verdict::pass(format!("{name} contains {}", quote(expected))), found),
            None => {
                Verdict::fail(format!("{name} is {} and does not contain {}", quote(text), quote(expected)))
            }
        };
    }
    let same = if options.ignore_case { lower(text).eq(lower(expected)) } else { text == expected };
    if same {
        subject.cite(Verdict::pass(format!("{name} is {}, as expected", quote(text))), text)
    } else {
        let place = first_difference(text, expected, options.ignore_case);
        Verdict::fail(format!("{name} is {} where {} was expected{place}", quote(text), quote(expected)))
    }
}

fn lower(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().flat_map(char::to_lowercase)
}

/// The piece of the text that is the needle.
fn find<'t>(text: &'t str, needle: &str, ignore_case: bool) -> Option<&'t str> {
    if !ignore_case {
        return text.find(needle).map(|start| &text[start..start + needle.len()]);
    }
    // Lower case may be longer than the text that it comes from, so a place found there is no
    // place in the text: find out fast whether it is there at all, then where.
    let lowered: String = lower(needle).collect();
    if !lower(text).collect::<String>().contains(&lowered) {
        return None;
    }
    let found = text.char_indices().find_map(|(start, _)| starts_with(&text[start..], &lowered));
    // One that starts within a letter's lower case is there, and has no piece of its own.
    Some(found.unwrap_or_default())
}

/// The beginning of the text whose lower case is `lowered`.
fn starts_with<'t>(text: &'t str, lowered: &str) -> Option<&'t str> {
    let mut wanted = lowered.chars();
    for (start, c) in text.char_indices() {
        if wanted.as_str().is_empty() {
            return Some(&text[..start]);
        }
        for c in c.to_lowercase() {
            if wanted.next() != Some(c) {
                return None;
            }
        }
    }
    wanted.as_str().is_empty().then_some(text)
}

/// Where two texts part, for texts whose beginnings look the same in a reason.
fn first_difference(text: &str, expected: &str, ignore_case: bool) -> String {
    let same = |(a, b): &(char, char)| a == b || (ignore_case && a.to_lowercase().eq(b.to_lowercase()));
    match text.chars().zip(expected.chars()).take_while(same).count() {
        0..40 => String::new(),
        same => format!("; they differ from character {} on", same + 1),
    }
}
