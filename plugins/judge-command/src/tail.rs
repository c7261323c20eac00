//! The end of what a command printed, short enough for a reason.

use mst_sdk::judge::Output;

/// Bytes of each stream that a reason shows: together with the rest less than the contract's
/// 4 KiB.
const TAIL: usize = 1200;

/// Bytes that show what malformed output looks like.
const HEAD: usize = 200;

/// `; stderr: …; stdout: …`, the parts that are there.
pub(crate) fn what_was_printed(output: &Output) -> String {
    let mut text = String::new();
    for (name, bytes) in [("stderr", &output.stderr), ("stdout", &output.stdout)] {
        let printed = tail(bytes);
        if !printed.is_empty() {
            text.push_str(&format!("; {name}: {printed}"));
        }
    }
    if output.cut > 0 {
        text.push_str(&format!(" ({} more bytes were cut off)", output.cut));
    }
    text
}

/// The last [`TAIL`] bytes as text, without blanks around them.
fn tail(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(TAIL);
    let text = String::from_utf8_lossy(&bytes[start..]);
    if start == 0 {
        return text.trim().to_owned();
    }
    // The cut may stand within a character; what is left of it is no part of the text.
    format!("…{}", text.trim_start_matches(char::REPLACEMENT_CHARACTER).trim_end())
}

/// The first [`HEAD`] bytes as text.
pub(crate) fn head(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
    let text = text.trim();
    if bytes.len() > HEAD {
        format!("{}…", text.trim_end_matches(char::REPLACEMENT_CHARACTER))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_its_end() {
        assert_eq!(tail(b" short\n"), "short");
        let long = tail("é".repeat(1000).as_bytes());
        assert!(long.len() <= TAIL + "…".len() && long.starts_with("…é"), "{long}");
        assert_eq!(head(&b"x".repeat(300)), format!("{}…", "x".repeat(200)));
    }
}
