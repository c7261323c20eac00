//! Values that a plugin can have put in and never reads: where they come from, and how they are kept
//! out of what comes back.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use memchr::memmem;
use mst_plugin::Source;

/// The shortest value that can be told from other text.
const MIN_BYTES: usize = 4;

/// What a value is covered with.
const COVER: u8 = b'*';

/// A secret's value.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// A value; one that is too short, or has a line break or another control character in it, is
    /// refused with a word on why.
    pub fn new(value: String) -> Result<SecretValue, String> {
        if value.len() < MIN_BYTES {
            return Err(format!("its value has {} bytes, fewer than {MIN_BYTES}", value.len()));
        }
        if value.chars().any(char::is_control) {
            return Err("its value has a control character in it".to_owned());
        }
        Ok(SecretValue(value))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// Whoever can read the sources of secrets.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The value of a source, or why it can't be had: in words that hold neither the value nor what
    /// a command said.
    async fn value(&self, source: &Source) -> Result<SecretValue, String>;
}

/// Has no secrets.
#[derive(Debug, Clone, Copy)]
pub struct NoSecrets;

#[async_trait]
impl Secrets for NoSecrets {
    async fn value(&self, _: &Source) -> Result<SecretValue, String> {
        Err("there are no secrets here".to_owned())
    }
}

/// The values that one plugin had put in. What comes back to it is covered where it holds one.
#[derive(Clone, Default)]
pub(crate) struct Scrubber(Arc<Mutex<Vec<Vec<u8>>>>);

impl Scrubber {
    fn values(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this value is covered: as it is, and as JSON has it.
    pub(crate) fn know(&self, value: &SecretValue) {
        let mut values = self.values();
        let json = serde_json::to_string(value.expose()).unwrap_or_default();
        let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or_default();
        for form in [value.expose(), inner].into_iter().filter(|form| !form.is_empty()) {
            if !values.iter().any(|known| known == form.as_bytes()) {
                values.push(form.as_bytes().to_vec());
            }
        }
        // A value that holds another is covered as a whole.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// The values, each as it is and as JSON has it.
    pub(crate) fn known(&self) -> Vec<Vec<u8>> {
        self.values().clone()
    }

    fn longest(&self) -> usize {
        self.values().first().map_or(0, Vec::len)
    }

    /// Covers whole values.
    pub(crate) fn scrub(&self, bytes: &mut [u8]) {
        for value in self.values().iter() {
            let found: Vec<usize> = memmem::find_iter(bytes, value).collect();
            for at in found {
                bytes[at..at + value.len()].fill(COVER);
            }
        }
    }

    /// Covers values in what was kept of a stream. Where it was cut off, the beginning of a value may
    /// stand at its end: as much as could be one is covered, whatever it is. An answer that told a
    /// piece of a value from other text would be one that a value can be guessed by.
    pub(crate) fn scrub_cut(&self, bytes: &mut [u8], cut: bool) {
        self.scrub(bytes);
        if cut {
            let from = bytes.len().saturating_sub(self.longest().saturating_sub(1));
            bytes[from..].fill(COVER);
        }
    }

    /// A text without values.
    pub(crate) fn scrubbed(&self, text: String) -> String {
        let mut bytes = text.into_bytes();
        self.scrub(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A stream that is scrubbed as it passes. As much as could be the beginning of a value is held back
/// until more is known.
pub(crate) struct Scrubbed {
    scrubber: Scrubber,
    /// As it came: a value is known by all of its bytes, those that were handed on too.
    held: Vec<u8>,
    /// How much of `held` was handed on.
    out: usize,
}

impl Scrubbed {
    pub(crate) fn new(scrubber: Scrubber) -> Scrubbed {
        Scrubbed { scrubber, held: Vec::new(), out: 0 }
    }

    /// The next piece; what can be handed on of it and of what was held back.
    pub(crate) fn push(&mut self, bytes: Bytes) -> Bytes {
        let longest = self.scrubber.longest();
        if longest == 0 && self.held.is_empty() {
            return bytes;
        }
        self.held.extend_from_slice(&bytes);
        let most = longest.saturating_sub(1);
        let ready = self.held.len().saturating_sub(most).max(self.out);
        let next = self.covered(ready);
        // What a value that reaches into the rest could begin with stays.
        let gone = ready.saturating_sub(most);
        self.held.drain(..gone);
        self.out = ready - gone;
        next
    }

    /// What is to be handed on next, up to here.
    fn covered(&self, to: usize) -> Bytes {
        let mut whole = self.held.clone();
        self.scrubber.scrub(&mut whole);
        Bytes::copy_from_slice(&whole[self.out..to])
    }

    pub(crate) fn scrubber(&self) -> Scrubber {
        self.scrubber.clone()
    }

    /// The end: what was held back.
    pub(crate) fn finish(&mut self) -> Bytes {
        let rest = self.covered(self.held.len());
        (self.held, self.out) = (Vec::new(), 0);
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scrubber(values: &[&str]) -> Scrubber {
        let scrubber = Scrubber::default();
        for value in values {
            scrubber.know(&SecretValue::new((*value).to_owned()).expect("a value"));
        }
        scrubber
    }

    #[test]
    fn a_value_is_covered_whole_and_as_json_has_it() {
        let scrubber = scrubber(&["hunter22", "a\"quote"]);
        assert_eq!(scrubber.scrubbed("x hunter22hunter22 y".to_owned()), "x **************** y");
        assert_eq!(scrubber.scrubbed("a\"quote and a\\\"quote".to_owned()), "******* and ********");
        assert_eq!(scrubber.scrubbed("hunter2 2".to_owned()), "hunter2 2");
    }

    #[test]
    fn what_could_begin_a_value_at_a_cut_is_covered_whatever_it_is() {
        let scrubber = scrubber(&["hunter22"]);
        for (said, cut, kept) in [
            ("a long way to x hunter2", true, "a long way to x *******"),
            ("a long way to x hunterX", true, "a long way to x *******"),
            ("hun", true, "***"),
            ("hunter22", true, "********"),
            // A whole stream's end tells nothing.
            ("x hunter2", false, "x hunter2"),
            ("x hunter22", false, "x ********"),
        ] {
            let mut bytes = said.as_bytes().to_vec();
            scrubber.scrub_cut(&mut bytes, cut);
            assert_eq!(String::from_utf8_lossy(&bytes), kept);
        }
    }

    #[test]
    fn what_could_not_be_told_apart_is_no_secret() {
        for value in ["", "abc", "line\nbreak", "nul\0nul"] {
            SecretValue::new(value.to_owned()).expect_err(value);
        }
        let value = SecretValue::new("hunter22".to_owned()).expect("a value");
        assert!(!format!("{value:?}").contains("hunter"));
    }

    proptest! {
        #[test]
        fn no_border_of_pieces_lets_a_value_through(
            before in "[a-h]{0,12}", between in "[a-h]{0,12}", cuts in proptest::collection::vec(1usize..6, 0..40)
        ) {
            let scrubber = scrubber(&["hunter22", "hunter22-longer"]);
            let whole = format!("{before}hunter22{between}hunter22-longerhunter22");
            let mut stream = Scrubbed::new(scrubber);
            let (mut got, mut rest) = (Vec::new(), whole.as_bytes());
            for cut in cuts.iter().chain(std::iter::repeat(&7)) {
                if rest.is_empty() {
                    break;
                }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                got.extend_from_slice(&stream.push(Bytes::copy_from_slice(piece)));
                rest = more;
            }
            got.extend_from_slice(&stream.finish());
            let got = String::from_utf8(got).expect("UTF-8");
            let between = "*".repeat(8) + &between;
            prop_assert_eq!(got, format!("{before}{between}{}", "*".repeat(15 + 8)));
        }
    }
}
