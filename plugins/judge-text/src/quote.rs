//! Pieces of both sides, short enough to be read in a reason.

/// Characters of a text that a reason shows.
const SHOWN: usize = 80;

/// Bytes of a citation's quote.
const CITED: usize = 200;

/// The text between backticks, its end left out where it is long, control characters escaped.
pub(crate) fn quote(text: &str) -> String {
    let mut shown = String::from("`");
    for c in text.chars().take(SHOWN) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown.push('`');
    shown
}

/// The beginning of a text, as it stands there.
pub(crate) fn cited(text: &str) -> &str {
    let mut end = text.len().min(CITED);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].trim_end()
}
