//! The mode `number`.

use mst_sdk::judge::Verdict;

use crate::options::{Extract, Options};
use crate::quote::quote;
use crate::subject::Subject;

pub(crate) fn compare(subject: &Subject, expected: f64, options: &Options) -> Verdict {
    let (text, name) = (subject.text(), subject.name());
    let found = match options.extract {
        Extract::Whole => whole(text).map(|number| (text, number)),
        Extract::Last => last(text),
    };
    let Some((words, number)) = found else {
        return Verdict::fail(match options.extract {
            Extract::Whole => format!("{name} is {}, which is no number", quote(text)),
            Extract::Last => format!("{name} is {}, and there is no number in it", quote(text)),
        });
    };
    if !number.is_finite() {
        return Verdict::fail(format!("{} is too large a number", quote(words)));
    }
    let what = match options.extract {
        Extract::Whole => name,
        Extract::Last => format!("the last number of {name}"),
    };
    if options.tolerance().admits(number, expected) {
        subject.cite(Verdict::pass(format!("{what} is {}; {expected} was expected", quote(words))), words)
    } else {
        Verdict::fail(format!("{what} is {} where {expected} was expected", quote(words)))
    }
}

/// The number that the text is. Infinite where it is too large; never from `inf` or `nan`,
/// which Rust would read.
pub(crate) fn whole(text: &str) -> Option<f64> {
    let (number, end) = number_at(text.as_bytes(), 0)?;
    (end == text.len()).then_some(number)
}

/// The last number in the text, with its words.
fn last(text: &str) -> Option<(&str, f64)> {
    let bytes = text.as_bytes();
    let mut found = None;
    let mut at = 0;
    while at < bytes.len() {
        match number_at(bytes, at) {
            // A sign right after a digit or a letter is a dash, as in `3-5` or `x-5`.
            Some((number, end))
                if !(is_sign(bytes[at]) && at > 0 && bytes[at - 1].is_ascii_alphanumeric()) =>
            {
                found = Some((&text[at..end], number));
                at = end;
            }
            _ => at += 1,
        }
    }
    found
}

fn is_sign(byte: u8) -> bool {
    byte == b'-' || byte == b'+'
}

/// A number that starts here, and where it ends: an optional sign, digits with or without
/// commas between thousands, an optional fraction, an optional exponent.
fn number_at(bytes: &[u8], start: usize) -> Option<(f64, usize)> {
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = start + usize::from(bytes.get(start).copied().is_some_and(is_sign));
    let whole_from = at;
    at = digits(at);
    let whole_digits = at - whole_from;
    if (1..=3).contains(&whole_digits) {
        // `1,234` is one number, `1,23` and `1,2345` are two.
        while bytes.get(at) == Some(&b',') && digits(at + 1) == at + 4 {
            at += 4;
        }
    }
    if bytes.get(at) == Some(&b'.') && digits(at + 1) > at + 1 {
        at = digits(at + 1);
    } else if whole_digits == 0 {
        return None;
    }
    if bytes.get(at).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e')) {
        let from = at + 1 + usize::from(bytes.get(at + 1).copied().is_some_and(is_sign));
        if from <= bytes.len() && digits(from) > from {
            at = digits(from);
        }
    }
    let words: String =
        bytes[start..at].iter().filter(|byte| **byte != b',').map(|byte| char::from(*byte)).collect();
    words.parse().ok().map(|number| (number, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        for (text, number) in [
            ("4", 4.0),
            ("-4.5", -4.5),
            ("+1", 1.0),
            ("1,234,567.5", 1_234_567.5),
            (".5", 0.5),
            ("6E-3", 0.006),
        ] {
            assert_eq!(whole(text), Some(number), "`{text}`");
        }
        for text in [
            "",
            "-",
            ".",
            "inf",
            "NaN",
            "-infinity",
            "1,23",
            "1,2345",
            "4.",
            "4 apples",
            "0x10",
            "1e",
            "1 2",
            "٤",
        ] {
            assert_eq!(whole(text), None, "`{text}`");
        }
    }

    #[test]
    fn last_numbers() {
        for (text, words) in [
            ("#### 1,234", "1,234"),
            ("It is $18.50.", "18.50"),
            ("3-5", "5"),
            ("x = -5", "-5"),
            ("between 1 and 2e3 km", "2e3"),
            ("1, 2, 3", "3"),
            ("1,23", "23"),
            ("v1.2.3", ".3"),
            ("é 7 é", "7"),
            ("5e", "5"),
        ] {
            assert_eq!(last(text).map(|(words, _)| words), Some(words), "`{text}`");
        }
        assert_eq!(last("none, nan, inf"), None);
        assert_eq!(last("1e999").map(|(_, number)| number), Some(f64::INFINITY));
    }
}
