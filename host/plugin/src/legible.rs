//! Strangers' text, made fit for people's eyes.

/// Whether `c` changes what a reader sees without being seen: control characters, invisible
/// ones, and those that reorder the text around them (as in "Trojan Source", CVE-2021-42574).
/// A newline and a tab count too; who admits them says so.
pub(crate) fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// `text` on one line, cut at `max` characters, with all that could deceive written as an escape.
pub(crate) fn shown(text: &str, max: usize) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == max {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_deceptive(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The names, each in backticks, with commas between.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| code(name, 80)).collect::<Vec<_>>().join(", ")
}

/// A stranger's text in a sentence of the host's, in backticks. It has none of its own, so that it
/// does not end where it likes.
pub(crate) fn code(text: &str, max: usize) -> String {
    format!("`{}`", shown(text, max).replace('`', "\u{2bc}"))
}

/// A stranger's text as a quotation: on one line, in quotes, and never so padded that what follows
/// looks like a line of the host's.
pub(crate) fn quotation(text: &str, max: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\"{}\"", shown(&text, max).replace('"', "\\\""))
}

/// `text` in lines of at most `WIDTH` columns that begin with `first` and then with `then`, so that no
/// terminal has to break a line and let a stranger's text begin one.
pub(crate) fn wrapped(first: &str, then: &str, text: &str) -> String {
    let columns = |text: &str| text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum::<usize>();
    let mut out = String::from(first);
    let (mut used, mut fresh) = (columns(first), true);
    for word in text.split(' ') {
        if !fresh && used + 1 + columns(word) > WIDTH {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.push_str(then);
            (used, fresh) = (columns(then), true);
        }
        if !fresh {
            out.push(' ');
            used += 1;
        }
        let mut chars = word.chars().peekable();
        while let Some(c) = chars.next() {
            let wide = if c.is_ascii() { 1 } else { 2 };
            // One more column for the sign that says that the word goes on.
            if used + wide + usize::from(chars.peek().is_some()) > WIDTH {
                out.push_str("\\\n");
                out.push_str(then);
                used = columns(then);
            }
            out.push(c);
            used += wide;
        }
        fresh = false;
    }
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
    out
}

/// `text`, which is all ASCII, in such lines, and no character of it lost: every line that is not the last
/// ends with a backslash, before which stands all that is in `text` there, a blank too. A word is broken only
/// where no line takes it.
pub(crate) fn broken(first: &str, then: &str, text: &str) -> String {
    let mut out = String::from(first);
    let (mut used, mut fresh) = (first.len(), true);
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(' ').map_or(rest.len(), |at| at + 1);
        let end = rest.find("\\n").map_or(end, |at| end.min(at + 2));
        let (mut piece, behind) = rest.split_at(end);
        let room = |used: usize, is_last: bool| (WIDTH - usize::from(!is_last)).saturating_sub(used);
        if !fresh && piece.len() > room(used, behind.is_empty()) {
            out.push_str("\\\n");
            out.push_str(then);
            used = then.len();
        }
        while piece.len() > room(used, behind.is_empty()) {
            let at = piece.floor_char_boundary(room(used, false).max(1));
            out.push_str(&piece[..at]);
            out.push_str("\\\n");
            out.push_str(then);
            (piece, used) = (&piece[at..], then.len());
        }
        out.push_str(piece);
        used += piece.len();
        (rest, fresh) = (behind, false);
    }
    out.push('\n');
    out
}

/// What fits on the narrowest terminal that people use.
const WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_is_escaped_and_the_rest_is_left() {
        assert_eq!(
            shown("a\u{202e}b\u{200b}\u{1b}[2J\0\nü 漢", 80),
            "a\\u{202e}b\\u{200b}\\u{1b}[2J\\u{0}\\nü 漢"
        );
        assert_eq!(shown("abcdef", 3), "abc…");
    }

    #[test]
    fn a_quotation_ends_where_the_host_ends_it() {
        assert_eq!(quotation("a \"b\"  \n  c", 80), r#""a \"b\" c""#);
        assert_eq!(code("a`b", 80), "`a\u{2bc}b`");
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_wider_than_a_terminal(text in "( {0,90}|[a-z漢]{0,200}|[a-z]{1,9} ){0,20}") {
            let lines = wrapped("  ! ", "      ", &text);
            let words = |text: &str| text.split_whitespace().collect::<String>();
            proptest::prop_assert_eq!(words(&lines.replace("\\\n", "\n")), words(&format!("! {text}")));
            for line in lines.lines().skip(1) {
                proptest::prop_assert!(line.is_empty() || line.starts_with("      "), "{:?}", line);
            }
            let columns = |line: &str| line.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum::<usize>();
            proptest::prop_assert!(lines.lines().all(|line| columns(line) <= WIDTH), "{}", lines);
        }

        #[test]
        fn a_command_is_on_the_page_as_it_is(text in "( {0,90}|[a-z'\\\\]{0,200}|[a-z]{1,9} |\\\\n){0,20}") {
            let lines = broken("  ! ", "      ", &text);
            let whole = lines.strip_prefix("  ! ").expect("the first").strip_suffix('\n').expect("the last");
            proptest::prop_assert_eq!(whole.replace("\\\n      ", ""), text);
            proptest::prop_assert!(lines.lines().all(|line| line.len() <= WIDTH), "{}", lines);
        }
    }
}
