//! One JSON array, cut into its items without being parsed.
//!
//! The scanner knows strings and brackets, no more: it finds where an item ends. Whether the
//! item is JSON is said by who parses it, and what the scanner lets through is refused there.

use std::io::{self, BufRead};

use crate::element::{Element, LIMIT};
use crate::fault::Fault;

/// The items of an array that is the whole text.
pub(crate) struct Items<R> {
    text: R,
    line: u64,
    column: u64,
    next: Next,
}

/// What must come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// `[`
    Begin,
    /// An item, or the end of an empty array.
    FirstOrEnd,
    /// An item: there was a comma.
    Item,
    /// `,` or `]`
    CommaOrEnd,
    /// Nothing.
    Ended,
}

impl<R: BufRead> Items<R> {
    pub(crate) fn new(text: R) -> Self {
        Self { text, line: 1, column: 1, next: Next::Begin }
    }

    fn read(&mut self) -> Result<Option<Element>, Fault> {
        loop {
            self.skip_blanks()?;
            let byte = self.peek()?;
            self.next =
                match (self.next, byte) {
                    (Next::Begin, Some(b'[')) => Next::FirstOrEnd,
                    (Next::Begin, _) => return Err(self.fault(
                        "expected `[`, the beginning of an array; one object a line is the format `jsonl`",
                    )),
                    (Next::FirstOrEnd | Next::CommaOrEnd, Some(b']')) => Next::Ended,
                    (Next::CommaOrEnd, Some(b',')) => Next::Item,
                    (Next::CommaOrEnd, Some(_)) => return Err(self.fault("expected `,` or `]`")),
                    (Next::FirstOrEnd | Next::Item, Some(b',')) => {
                        return Err(self.fault("expected an object, found `,`"));
                    }
                    (Next::Item, Some(b']')) => {
                        return Err(
                            self.fault("expected an object, found `]`; there is a comma too many before it")
                        );
                    }
                    (Next::FirstOrEnd | Next::Item, Some(_)) => {
                        self.next = Next::CommaOrEnd;
                        return self.item().map(Some);
                    }
                    (Next::FirstOrEnd | Next::Item | Next::CommaOrEnd, None) => {
                        return Err(self.fault("the file ends within the array; its `]` is missing"));
                    }
                    (Next::Ended, None) => return Ok(None),
                    (Next::Ended, Some(_)) => {
                        return Err(self.fault("expected the end of the file after the array's `]`"));
                    }
                };
            self.take(1);
        }
    }

    /// An item up to the comma or bracket that ends it.
    fn item(&mut self) -> Result<Element, Fault> {
        let mut element = Element { text: Vec::new(), line: self.line, column: self.column };
        let mut scan = Scan::default();
        loop {
            let part = fill(&mut self.text).map_err(|error| Fault::Read { line: self.line, error })?;
            if part.is_empty() {
                let what = "the object that begins here has no end: the file is cut off, or a quote or a bracket is not closed";
                return Err(Fault::at(element.line, element.column, what));
            }
            let end = part.iter().position(|byte| scan.ends_at(*byte));
            let bytes = end.unwrap_or(part.len());
            element.text.extend_from_slice(&part[..bytes]);
            self.take(bytes);
            if element.text.len() > LIMIT {
                let what = format!(
                    "the object that begins here is longer than {} MiB, or a quote or a bracket in it is not closed",
                    LIMIT >> 20
                );
                return Err(Fault::at(element.line, element.column, what));
            }
            if end.is_some() {
                return Ok(element);
            }
        }
    }

    fn skip_blanks(&mut self) -> Result<(), Fault> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek()? {
            self.take(1);
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>, Fault> {
        let line = self.line;
        fill(&mut self.text).map(|part| part.first().copied()).map_err(|error| Fault::Read { line, error })
    }

    /// Goes on by bytes of the part that was looked at.
    fn take(&mut self, bytes: usize) {
        // It is buffered: nothing is read here, and nothing can fail.
        for byte in self.text.fill_buf().unwrap_or_default().iter().take(bytes) {
            match byte {
                b'\n' => (self.line, self.column) = (self.line + 1, 1),
                // The later bytes of a character.
                0x80..0xc0 => {}
                _ => self.column += 1,
            }
        }
        self.text.consume(bytes);
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::at(self.line, self.column, what)
    }
}

fn fill(text: &mut impl BufRead) -> io::Result<&[u8]> {
    // Twice, for the borrow checker's sake: the second finds what the first has buffered.
    while let Err(error) = text.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    text.fill_buf()
}

/// Where in an item the scanner is.
#[derive(Default)]
struct Scan {
    depth: u32,
    string: bool,
    escaped: bool,
}

impl Scan {
    /// Whether this byte stands after the item and ends it.
    fn ends_at(&mut self, byte: u8) -> bool {
        if self.string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b',' | b']' if self.depth == 0 => return true,
            b'"' => self.string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }
}

impl<R: BufRead> Iterator for Items<R> {
    type Item = Result<Element, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
