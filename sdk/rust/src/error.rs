//! Why a plugin could not do what it was asked.

use std::{fmt, io};

/// Why a plugin could not do what it was asked: the contract's `types.error`. Each text is one
/// sentence for the person at the terminal; the host cleans and bounds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// An option, a case or an argument is wrong. Say which, where, and how to mend it.
    Invalid(String),
    /// What was named is not there.
    NotFound(String),
    /// A service that the plugin needs can't be reached now; a later try may succeed.
    Unavailable(String),
    /// The host refused a call.
    Denied(String),
    /// Anything else.
    Failed(String),
}

impl Error {
    /// [`Error::Invalid`] with this text.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    /// [`Error::NotFound`] with this text.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::NotFound(text.into())
    }

    /// [`Error::Unavailable`] with this text.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::Unavailable(text.into())
    }

    /// [`Error::Denied`] with this text.
    pub fn denied(text: impl Into<String>) -> Self {
        Self::Denied(text.into())
    }

    /// [`Error::Failed`] with this text.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The sentence, without the kind.
    pub fn text(&self) -> &str {
        match self {
            Self::Invalid(text)
            | Self::NotFound(text)
            | Self::Unavailable(text)
            | Self::Denied(text)
            | Self::Failed(text) => text,
        }
    }

    /// The same kind of error, its text set into a wider one.
    pub fn map_text(self, wider: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Invalid(text) => Self::Invalid(wider(text)),
            Self::NotFound(text) => Self::NotFound(wider(text)),
            Self::Unavailable(text) => Self::Unavailable(wider(text)),
            Self::Denied(text) => Self::Denied(wider(text)),
            Self::Failed(text) => Self::Failed(wider(text)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound(text),
            io::ErrorKind::PermissionDenied => Self::Denied(text),
            _ => Self::Failed(text),
        }
    }
}
