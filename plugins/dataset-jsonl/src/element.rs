//! One object's text, and where in the file it stands.

use serde_json::Value;

use crate::fault::Fault;

/// Bytes that one element may have. The sandbox's memory is bounded, and a parsed object
/// takes several times its text.
pub(crate) const LIMIT: usize = 16 << 20;

/// One line, or one item of the array.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) text: Vec<u8>,
    /// The line on which it begins, from 1.
    pub(crate) line: u64,
    /// The character at which it begins there, from 1.
    pub(crate) column: u64,
}

impl Element {
    /// The object that the text is.
    pub(crate) fn parse(&self) -> Result<Value, Fault> {
        let text = std::str::from_utf8(&self.text).map_err(|error| {
            let (line, column) = self.place(error.valid_up_to());
            let byte = self.text[error.valid_up_to()];
            Fault::at(line, column, format!("the byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"))
        })?;
        match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(other) => {
                Err(Fault::at(self.line, self.column, format!("expected an object, found {}", kind(&other))))
            }
            Err(error) => {
                let (line, column) = self.place(offset(text, error.line(), error.column()));
                let what = error.to_string();
                let what = what.rsplit_once(" at line ").map_or(&*what, |(what, _)| what);
                let hint = if error.is_eof() {
                    "; the object has no end here, and JSONL has one whole object on each line"
                } else {
                    ""
                };
                Err(Fault::at(line, column, format!("{what}{hint}")))
            }
        }
    }

    /// The line and the character in the file of a byte of the text.
    fn place(&self, offset: usize) -> (u64, u64) {
        let before = &self.text[..offset.min(self.text.len())];
        let characters = |bytes: &[u8]| bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64;
        match before.iter().rposition(|byte| *byte == b'\n') {
            None => (self.line, self.column + characters(before)),
            Some(newline) => {
                let lines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
                (self.line + lines, 1 + characters(&before[newline + 1..]))
            }
        }
    }
}

/// The byte that serde_json means: its lines count from 1, its columns are bytes and count
/// from 1, 0 being the newline before.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    (start + column).saturating_sub(1)
}

/// A value's type, in a message.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
