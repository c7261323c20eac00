//! What is wrong with a file, and where.

use std::fmt;
use std::io;

use mst_sdk::dataset::Error;

/// Something wrong in the file, without the file's name.
#[derive(Debug)]
pub(crate) enum Fault {
    /// In the text, here.
    Text { line: u64, column: Option<u64>, what: String },
    /// In reading it, on the way to this line.
    Read { line: u64, error: io::Error },
}

impl Fault {
    pub(crate) fn at(line: u64, column: u64, what: impl Into<String>) -> Self {
        Self::Text { line, column: Some(column), what: what.into() }
    }

    pub(crate) fn in_line(line: u64, what: impl Into<String>) -> Self {
        Self::Text { line, column: None, what: what.into() }
    }

    /// The error for the user. `gzip` says what an unreadable file most likely is.
    pub(crate) fn in_file(self, name: &str, gzip: bool) -> Error {
        match self {
            Self::Text { line, column: Some(column), what } => {
                Error::invalid(format!("`{name}` line {line}, column {column}: {what}"))
            }
            Self::Text { line, column: None, what } => {
                Error::invalid(format!("`{name}` line {line}: {what}"))
            }
            Self::Read { line, error } => unreadable(name, gzip, format_args!(" near line {line}"), &error),
        }
    }
}

/// The error for a file that can't be read, at `place` where that is known.
pub(crate) fn unreadable(name: &str, gzip: bool, place: impl fmt::Display, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof if gzip => Error::invalid(format!(
            "`{name}` is gzipped and cut off{place}: its end is missing; copy or download it again"
        )),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput if gzip => {
            Error::invalid(format!("`{name}` is gzipped and damaged{place}: {error}"))
        }
        _ => Error::failed(format!("`{name}` can't be read{place}: {error}")),
    }
}
