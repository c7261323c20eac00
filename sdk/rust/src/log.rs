//! What a plugin says to the person who runs it.
//!
//! The host adds the plugin's id, strips control characters, and bounds the length of a line
//! and the number of lines. Outside a host (`cargo test`) lines go to stderr.

/// A line that is shown only where the user asked for it.
pub fn debug(message: impl AsRef<str>) {
    write(Level::Debug, message.as_ref());
}

/// A line that says what is going on.
pub fn info(message: impl AsRef<str>) {
    write(Level::Info, message.as_ref());
}

/// A line about something that the user may have to look at.
pub fn warn(message: impl AsRef<str>) {
    write(Level::Warn, message.as_ref());
}

/// A line about something that went wrong. It does not replace returning an
/// [`Error`](crate::Error).
pub fn error(message: impl AsRef<str>) {
    write(Level::Error, message.as_ref());
}

/// Long work: what is being done, and how far it is (0.0 to 1.0) where that is known.
pub fn progress(message: impl AsRef<str>, fraction: Option<f32>) {
    tell(message.as_ref(), fraction);
}

#[cfg(target_arch = "wasm32")]
use host::*;
#[cfg(not(target_arch = "wasm32"))]
use no_host::*;

#[cfg(target_arch = "wasm32")]
mod host {
    use crate::bindings::mst::plugin::log;

    pub(super) use log::Level;

    pub(super) fn write(level: Level, message: &str) {
        log::write(level, message);
    }

    pub(super) fn tell(message: &str, fraction: Option<f32>) {
        log::progress(message, fraction);
    }
}

// The bindings panic without a host, and a unit test of a plugin may well log.
#[cfg(not(target_arch = "wasm32"))]
mod no_host {
    #[derive(Debug)]
    pub(super) enum Level {
        Debug,
        Info,
        Warn,
        Error,
    }

    pub(super) fn write(level: Level, message: &str) {
        eprintln!("{level:?}: {message}");
    }

    pub(super) fn tell(message: &str, fraction: Option<f32>) {
        match fraction {
            Some(fraction) => eprintln!("{message} ({:.0} %)", fraction * 100.0),
            None => eprintln!("{message}"),
        }
    }
}
