//! Text from a guest, made safe to show and to keep.

/// `text` without control characters and without the marks that reorder what a terminal shows;
/// at most `max` bytes, and `…` after them where it was cut. Newlines stay where `lines` says so, and
/// become spaces where not.
pub fn clean(text: &str, max: usize, lines: bool) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let c = match c {
            '\n' if lines => '\n',
            '\n' | '\t' => ' ',
            '\r' => continue,
            c if c.is_control() || reorders(c) => '\u{fffd}',
            c => c,
        };
        if out.len() + c.len_utf8() > max {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// Bidirectional overrides and isolates, and the invisible characters that hide text or carry it
/// unseen.
fn reorders(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal_but_text() {
        assert_eq!(
            clean("a\u{1b}[31mb\0c\u{202e}d\r\ne\tf", 100, false),
            "a\u{fffd}[31mb\u{fffd}c\u{fffd}d e f"
        );
        assert_eq!(clean("a\nb", 100, true), "a\nb");
        assert_eq!(clean("\u{9b}31m", 100, false), "\u{fffd}31m");
    }

    #[test]
    fn cut_at_a_character() {
        assert_eq!(clean("äöü", 4, false), "äö…");
        assert_eq!(clean("ab", 2, false), "ab");
    }
}
