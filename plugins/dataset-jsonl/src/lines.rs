//! JSONL: an element a line.

use std::io::{BufRead, Read};

use crate::element::{Element, LIMIT};
use crate::fault::Fault;

/// The lines that are not blank.
pub(crate) struct Lines<R> {
    text: R,
    line: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(text: R) -> Self {
        Self { text, line: 0 }
    }

    fn read(&mut self) -> Result<Option<Element>, Fault> {
        loop {
            let mut text = Vec::new();
            // Room for the line's end, so that a line of just the limit is not taken for more.
            let limit = LIMIT as u64 + 2;
            let read = self.text.by_ref().take(limit).read_until(b'\n', &mut text);
            self.line += 1;
            if read.map_err(|error| Fault::Read { line: self.line, error })? == 0 {
                return Ok(None);
            }
            for end in [b'\n', b'\r'] {
                if text.last() == Some(&end) {
                    text.pop();
                }
            }
            if text.len() > LIMIT {
                return Err(Fault::in_line(
                    self.line,
                    format!("the line is longer than {} MiB", LIMIT >> 20),
                ));
            }
            if !text.trim_ascii().is_empty() {
                return Ok(Some(Element { text, line: self.line, column: 1 }));
            }
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Element, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
