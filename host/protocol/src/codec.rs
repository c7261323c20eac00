//! Bytes to lines to messages, and back.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::{Zeroize as _, Zeroizing};

/// The longest line, its newline apart.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// How many lines before `hello` may be a remote shell's noise.
pub const MAX_NOISE_LINES: usize = 64;

/// A line that breaks a rule. It ends the shard as broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It does not end.
    #[error("a line of more than {MAX_LINE_BYTES} bytes that begins {start}")]
    TooLong {
        /// Its first bytes.
        start: String,
    },
    /// It is no message.
    #[error("a line that is no message of {}: {what}; it begins {start}", crate::PROTOCOL)]
    Malformed {
        /// What is wrong.
        what: String,
        /// Its first bytes.
        start: String,
    },
    /// The stream ended inside it.
    #[error("the stream ended in the middle of a line that begins {start}")]
    CutOff {
        /// Its first bytes.
        start: String,
    },
    /// It does not fit into a line.
    #[error("a message of {size_bytes} bytes does not fit into a line of {MAX_LINE_BYTES}")]
    Unsendable {
        /// Its size.
        size_bytes: usize,
    },
}

/// Stands for the first bytes of a line that may hold tokens.
const HIDDEN: &str = "with what is not shown";

/// The first bytes of a line, quoted and harmless.
fn start(line: &[u8]) -> String {
    format!("\"{}\"", line[..line.len().min(64)].escape_ascii())
}

/// What a reader says is wrong, bounded and harmless: it may quote as much as a whole line.
fn harmless(what: &str) -> String {
    let mut said = String::new();
    for c in what.chars().take(256) {
        // Quotes and letters of all languages stay as they are.
        if c.is_control() { said.extend(c.escape_default()) } else { said.push(c) }
    }
    if what.chars().nth(256).is_some() {
        said.push('…');
    }
    said
}

/// As most messages need, so that a line is mostly made in one place of the memory.
const ROOM: usize = 512;

/// A message as a line. It may hold tokens, so it is overwritten when it is dropped.
pub fn encode<T: Serialize>(message: &T) -> Result<Zeroizing<Vec<u8>>, FrameError> {
    let mut line = Zeroizing::new(Vec::with_capacity(ROOM));
    serde_json::to_writer(&mut *line, message)
        .map_err(|error| FrameError::Malformed { what: error.to_string(), start: "\"\"".to_owned() })?;
    if line.len() > MAX_LINE_BYTES {
        return Err(FrameError::Unsendable { size_bytes: line.len() });
    }
    line.push(b'\n');
    Ok(line)
}

/// Takes bytes as they come and gives lines as they are complete. "Not yet" is not "malformed".
#[derive(Default)]
pub struct Lines {
    partial: Vec<u8>,
    complete: VecDeque<Vec<u8>>,
    hidden: bool,
}

// By hand, since a line may hold tokens.
impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("complete", &self.complete.len()).finish_non_exhaustive()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if self.hidden {
            self.partial.zeroize();
            self.complete.iter_mut().for_each(|line| line.zeroize());
        }
    }
}

impl Lines {
    /// For lines that may hold tokens, the coordinator's: no error says what stands in one.
    pub fn hidden() -> Lines {
        Lines { partial: Vec::new(), complete: VecDeque::new(), hidden: true }
    }

    fn start(&self) -> String {
        if self.hidden { HIDDEN.to_owned() } else { start(&self.partial) }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), FrameError> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end])?;
            self.complete.push_back(std::mem::take(&mut self.partial));
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        if self.partial.len() + bytes.len() > MAX_LINE_BYTES {
            self.partial.extend_from_slice(&bytes[..bytes.len().min(64)]);
            return Err(FrameError::TooLong { start: self.start() });
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// The next complete line as it came, without its newline.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        self.complete.pop_front()
    }

    /// The next complete message.
    #[expect(clippy::should_implement_trait, reason = "an iterator has items of one type")]
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(line) = self.next_line() else { return Ok(None) };
        if !self.hidden {
            return decode(&line).map(Some);
        }
        let line = Zeroizing::new(line);
        decode(&line).map(Some).map_err(|_| FrameError::Malformed {
            what: format!("{} bytes that can't be read", line.len()),
            start: HIDDEN.to_owned(),
        })
    }

    /// Says whether the stream may end here.
    pub fn end(&self) -> Result<(), FrameError> {
        if self.partial.is_empty() { Ok(()) } else { Err(FrameError::CutOff { start: self.start() }) }
    }
}

/// A line as a message.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, FrameError> {
    let malformed = |what: String| FrameError::Malformed { what, start: start(line) };
    // serde would pass over what is no UTF-8 in a field that it ignores, and take a list for an
    // object with its fields in order.
    let text = std::str::from_utf8(line).map_err(|_| malformed("it is not UTF-8".to_owned()))?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(malformed("it is no JSON object".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| malformed(harmless(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FromCoordinator, FromWorker, Numbered, Work};
    use mst_model::TrialKey;
    use proptest::prelude::*;

    fn hello() -> Numbered {
        let message = FromWorker::Hello {
            protocol: crate::PROTOCOL.into(),
            mst: "0.1.0".into(),
            shard: 3,
            work: Work::Collect,
            image: None,
            clients: Default::default(),
        };
        Numbered { seq: 1, message }
    }

    #[test]
    fn the_wire_is_what_the_design_says() {
        let line = String::from_utf8(encode(&hello()).expect("fits").to_vec()).expect("UTF-8");
        assert_eq!(
            line,
            "{\"seq\":1,\"type\":\"hello\",\"protocol\":\"mst.shard/v1\",\"mst\":\"0.1.0\",\"shard\":3,\"work\":\"collect\",\"clients\":{}}\n"
        );
        let key = TrialKey { case: "a".parse().expect("id"), variant: "v".parse().expect("id"), index: 0 };
        let line =
            String::from_utf8(encode(&FromCoordinator::Granted { trial: key }).expect("fits").to_vec())
                .expect("UTF-8");
        assert_eq!(line, "{\"type\":\"granted\",\"trial\":{\"case\":\"a\",\"variant\":\"v\",\"index\":0}}\n");
    }

    #[test]
    fn unknown_fields_are_ignored_and_unknown_types_refused() {
        let grown = br#"{"type":"heartbeat","seq":2,"trials":[],"load":0.5}"#;
        assert!(decode::<Numbered>(grown).is_ok());
        let error = decode::<Numbered>(br#"{"type":"telemetry","seq":2}"#).expect_err("unknown");
        assert!(error.to_string().contains("telemetry"), "{error}");
    }

    #[test]
    fn what_is_no_object_and_what_is_no_utf8_is_refused() {
        let said = |line: &[u8]| decode::<FromCoordinator>(line).expect_err("refused").to_string();
        let list = br#"["granted",{"trial":{"case":"a","variant":"v","index":0}}]"#;
        assert!(said(list).contains("it is no JSON object"));
        assert!(said(b"").contains("it is no JSON object"));
        assert!(said(b"{\"type\":\"cancel\",\"why\":\"\",\"more\":\"\xff\"}").contains("it is not UTF-8"));
        let spaced = b" \t{ \"type\" : \"cancel\" , \"why\" : \"\" }\r";
        assert!(decode::<FromCoordinator>(spaced).is_ok());
    }

    #[test]
    fn a_line_that_does_not_end_is_refused_before_it_fills_the_memory() {
        let mut lines = Lines::default();
        let mut pushed = 0;
        let error = loop {
            pushed += 64 << 10;
            if let Err(error) = lines.push(&[b'x'; 64 << 10]) {
                break error;
            }
        };
        assert!(matches!(error, FrameError::TooLong { .. }));
        assert!(pushed <= MAX_LINE_BYTES + (64 << 10));
    }

    #[test]
    fn a_stream_that_ends_inside_a_line_says_so() {
        let mut lines = Lines::default();
        lines.push(b"{\"type\":").expect("not yet");
        assert_eq!(lines.next::<Numbered>().expect("not yet"), None);
        assert!(matches!(lines.end(), Err(FrameError::CutOff { .. })));
    }

    #[test]
    fn lines_that_may_hold_tokens_are_not_shown() {
        let secret = "hunter2";
        let wrong = [
            format!(r#"{{"type":"tokens","tokens":[{{"name":"a","value":{{"{secret}":1}}}}]}}"#),
            format!(r#"{{"type":"{secret}"}}"#),
            format!(r#"{{"type":"tokens","tokens":"{secret}"}}"#),
        ];
        for line in wrong {
            let mut lines = Lines::hidden();
            lines.push(format!("{line}\n").as_bytes()).expect("short");
            let error = lines.next::<FromCoordinator>().expect_err("no message");
            assert!(!format!("{error} {error:?} {lines:?}").contains(secret), "{error}");
        }
        let mut lines = Lines::hidden();
        lines.push(secret.as_bytes()).expect("short");
        let error = lines.end().expect_err("cut off");
        assert!(!format!("{error} {error:?} {lines:?}").contains(secret), "{error}");
        let error = lines.push(&vec![b'x'; MAX_LINE_BYTES]).expect_err("long");
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }

    #[test]
    fn errors_show_no_control_characters() {
        let wicked = r#"{"seq":1,"type":"\u001b[2J","why":""}"#;
        let long = format!(r#"{{"seq":1,"type":"{}"}}"#, "x".repeat(10_000));
        for line in [&b"\x1b[2J\xff garbage"[..], wicked.as_bytes(), long.as_bytes()] {
            let error = decode::<Numbered>(line).expect_err("no message").to_string();
            assert!(!error.chars().any(char::is_control) && error.len() < 1000, "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn however_the_bytes_are_cut_the_messages_are_the_same(cuts in prop::collection::vec(1usize..40, 0..40)) {
            let mut bytes = Vec::new();
            for seq in 1..4 {
                bytes.extend_from_slice(&encode(&Numbered { seq, ..hello() }).expect("fits"));
            }
            let mut lines = Lines::default();
            let (mut rest, mut seen) = (&bytes[..], Vec::new());
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                lines.push(now).expect("short lines");
                while let Some(message) = lines.next::<Numbered>().expect("messages") {
                    seen.push(message.seq);
                }
                rest = later;
            }
            prop_assert_eq!(seen, vec![1, 2, 3]);
            prop_assert!(lines.end().is_ok());
        }
    }
}
