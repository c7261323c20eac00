//! What holds for any bytes whatever. The fuzz target `codec` (`tests/fuzz`) is this file, too.

use mst_protocol::{FrameError, FromCoordinator, Lines, MAX_LINE_BYTES, Numbered, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Panics where a rule does not hold for these bytes: the first says how the others are cut.
pub(crate) fn hold(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else { return };
    let whole = read(bytes.chunks(bytes.len().max(1)));
    let cut = read(bytes.chunks(usize::from(*cut) + 1));
    assert_eq!(whole, cut, "it depends on how the bytes were cut");
    for line in &whole.0 {
        assert!(line.len() <= MAX_LINE_BYTES && !line.contains(&b'\n'));
        back::<Numbered>(line);
        back::<FromCoordinator>(line);
    }
}

/// The lines, and how the stream ended.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Result<(), FrameError>) {
    let mut lines = Lines::default();
    let mut ended = Ok(());
    for piece in pieces {
        ended = lines.push(piece);
        if ended.is_err() {
            break;
        }
    }
    let complete = std::iter::from_fn(|| lines.next_line()).collect();
    (complete, ended.and_then(|()| lines.end()))
}

/// A line that is a message is the same message when it is written again.
fn back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(line: &[u8]) {
    let message: T = match decode(line) {
        Ok(message) => message,
        Err(error) => {
            let said = error.to_string();
            assert!(!said.chars().any(char::is_control) && said.len() < 2048, "{said:?}");
            return;
        }
    };
    match encode(&message) {
        Ok(again) => {
            let (newline, again) = again.split_last().expect("a newline");
            assert!(*newline == b'\n' && !again.contains(&b'\n'));
            assert_eq!(decode::<T>(again).expect("is a message"), message);
        }
        // What was short, a list for an object, need not be so when it is written out.
        Err(FrameError::Unsendable { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}
