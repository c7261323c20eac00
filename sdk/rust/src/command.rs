//! Commands that the host ran for a plugin: the contract's `commands`.

use std::borrow::Cow;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// The template's time was over; the program and all that it started were killed.
    TimedOut,
}

/// What a finished program wrote, each stream cut at the template's bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
    /// Bytes that the bound cut off, over both streams.
    pub cut: u64,
}

impl Output {
    /// Whether it ended with code 0.
    pub fn success(&self) -> bool {
        self.status == ExitStatus::Code(0)
    }

    /// Stdout as text; bytes that are no UTF-8 are replaced.
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Stderr as text; bytes that are no UTF-8 are replaced.
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}
