//! The end of what a child said.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::capture::Keep;

/// How much of a started child's stderr is kept.
pub const STDERR_TAIL_BYTES: usize = 16 << 10;

/// The last [`STDERR_TAIL_BYTES`] of a child's stderr, for messages. Clones show the same.
#[derive(Clone, Default)]
pub struct StderrTail(Arc<Mutex<Tail>>);

#[derive(Default)]
struct Tail {
    last: VecDeque<u8>,
    cut: u64,
    covered: Vec<Vec<u8>>,
}

/// The shortest piece of a covered value at the beginning of what is kept.
const MIN_PIECE: usize = 3;

impl StderrTail {
    /// The last bytes that came until now.
    pub fn bytes(&self) -> Vec<u8> {
        let tail = self.tail();
        let mut bytes: Vec<u8> = tail.last.iter().copied().collect();
        for value in &tail.covered {
            let mut at = 0;
            while let Some(found) = bytes[at..].windows(value.len()).position(|window| window == value) {
                at += found;
                bytes[at..at + value.len()].fill(b'*');
            }
            // What was forgotten may have been the first part of one.
            let piece =
                (MIN_PIECE..value.len()).rev().find(|piece| bytes.starts_with(&value[value.len() - piece..]));
            if tail.cut > 0
                && let Some(piece) = piece
            {
                bytes[..piece].fill(b'*');
            }
        }
        bytes
    }

    /// From now on these values show as asterisks: secrets that the child was given.
    pub fn cover(&self, values: impl IntoIterator<Item = Vec<u8>>) {
        self.tail().covered.extend(values.into_iter().filter(|value| !value.is_empty()));
    }

    /// How many bytes came before them and are forgotten.
    pub fn cut(&self) -> u64 {
        self.tail().cut
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keep for StderrTail {
    fn keep(&mut self, bytes: &[u8]) {
        let mut tail = self.tail();
        tail.last.extend(bytes);
        let over = tail.last.len().saturating_sub(STDERR_TAIL_BYTES);
        tail.last.drain(..over);
        tail.cut += over as u64;
    }
}

// A child's words may be long, and are no business of a log's.
impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StderrTail").field(&self.tail().last.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_covered_does_not_show() {
        let mut tail = StderrTail::default();
        tail.cover([b"hunter22".to_vec(), Vec::new()]);
        tail.keep(b"a hunter22hunter22 b hunter2");
        assert_eq!(tail.bytes(), b"a **************** b hunter2");
        // The rest of the value comes, and its first half is forgotten.
        tail.keep(b"2");
        tail.keep(&vec![b'x'; STDERR_TAIL_BYTES - 4]);
        assert!(tail.bytes().starts_with(b"****xxx"), "{:?}", String::from_utf8_lossy(&tail.bytes()[..9]));
    }

    #[test]
    fn the_last_bytes_are_kept_and_the_others_counted() {
        let mut tail = StderrTail::default();
        tail.keep(b"abc");
        assert_eq!((tail.bytes(), tail.cut()), (b"abc".to_vec(), 0));
        tail.keep(&vec![b'x'; STDERR_TAIL_BYTES - 1]);
        let kept = tail.bytes();
        assert_eq!((kept.len(), kept[0], tail.cut()), (STDERR_TAIL_BYTES, b'c', 2));
        tail.keep(&vec![b'y'; 3 * STDERR_TAIL_BYTES]);
        assert!(tail.bytes().iter().all(|byte| *byte == b'y'));
        assert_eq!(tail.cut(), 2 + 3 * STDERR_TAIL_BYTES as u64);
    }
}
