//! The file as plain bytes from its first to its last character.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

/// Bytes in which the first character that is no blank is looked for.
const LOOK_AHEAD: usize = 64 << 10;

/// Bytes that are read at once: each read is a call into the host.
const BUFFER: usize = 64 << 10;

const GZIP: &[u8] = &[0x1f, 0x8b];
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A file that was looked into.
pub(crate) struct Input {
    /// Its text, without a byte order mark.
    pub(crate) text: Box<dyn BufRead>,
    /// Whether its first character that is no blank is `[`.
    pub(crate) array: bool,
}

/// Whether the bytes are gzip's, and all of them.
pub(crate) fn unpack(file: impl Read + 'static) -> io::Result<(bool, Box<dyn BufRead>)> {
    let (head, rest) = look(BufReader::with_capacity(BUFFER, file), |head| head.len() >= GZIP.len())?;
    if head.starts_with(GZIP) {
        let plain = MultiGzDecoder::new(Cursor::new(head).chain(rest));
        return Ok((true, Box::new(BufReader::with_capacity(BUFFER, plain))));
    }
    Ok((false, Box::new(Cursor::new(head).chain(rest))))
}

/// Looks at the beginning of a text.
pub(crate) fn begin(text: Box<dyn BufRead>) -> io::Result<Input> {
    let first = |head: &[u8]| head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start().first().copied();
    // Up to three bytes may be the mark's beginning, which is no blank either.
    let (mut head, rest) = look(text, |head| head.len() > BOM.len() && first(head).is_some())?;
    let array = first(&head) == Some(b'[');
    if head.starts_with(BOM) {
        head.drain(..BOM.len());
    }
    Ok(Input { text: Box::new(Cursor::new(head).chain(rest)), array })
}

/// Reads until enough was seen, the look-ahead is used up, or the end.
fn look<R: BufRead>(mut from: R, enough: impl Fn(&[u8]) -> bool) -> io::Result<(Vec<u8>, R)> {
    let mut head = Vec::new();
    while !enough(&head) && head.len() < LOOK_AHEAD {
        let part = match from.fill_buf() {
            Ok(part) => part,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if part.is_empty() {
            break;
        }
        head.extend_from_slice(part);
        let seen = part.len();
        from.consume(seen);
    }
    Ok((head, from))
}
