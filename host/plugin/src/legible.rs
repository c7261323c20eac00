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
    names.into_iter().map(|name| format!("`{}`", shown(name, 80))).collect::<Vec<_>>().join(", ")
}

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
}
