//! Text from a guest, made safe to show and to keep.

/// `text` without control characters and without the marks that reorder what a terminal shows;
/// at most `max` bytes, and `…` after them where it was cut. Newlines stay where `lines` says so, and
/// become spaces where not.
pub fn clean(text: &str, max: usize, lines: bool) -> String {
    // As most text is.
    if text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
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

    #[test]
    fn what_hides_text_is_seen() {
        for c in
            ['\u{ad}', '\u{200b}', '\u{200d}', '\u{2028}', '\u{2066}', '\u{feff}', '\u{e0041}', '\u{e0101}']
        {
            assert_eq!(clean(&format!("a{c}b"), 100, true), "a\u{fffd}b", "{:x}", u32::from(c));
        }
        assert_eq!(clean("naïve 日本 ✓ 👍", 100, true), "naïve 日本 ✓ 👍");
    }

    proptest::proptest! {
        /// Any text, with what terminals obey in it more often than chance has it.
        #[test]
        fn nothing_but_bounded_text(
            text in "(\\PC|\\pC|[\\x00-\\x1f\\x7f-\\x9f\u{200b}-\u{202e}\u{2060}-\u{206f}]|[a-z\n\t\r]){0,200}",
            max in 0usize..300,
            lines in proptest::bool::ANY,
        ) {
            let out = clean(&text, max, lines);
            proptest::prop_assert!(out.len() <= max + '…'.len_utf8(), "{} bytes of {max}", out.len());
            for c in out.chars() {
                proptest::prop_assert!(!c.is_control() || (lines && c == '\n'), "{c:?}");
                // The bidirectional controls of UAX #9.
                let bidi = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
                proptest::prop_assert!(!bidi, "{c:?}");
            }
            let whole = clean(&text, usize::MAX, lines);
            proptest::prop_assert_eq!(clean(&whole, usize::MAX, lines), whole.clone());
            if whole.len() <= max {
                proptest::prop_assert_eq!(out, whole);
            } else {
                let kept = out.strip_suffix('…').expect("the cut shows");
                proptest::prop_assert!(whole.starts_with(kept));
            }
        }
    }
}
