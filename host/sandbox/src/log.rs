//! What plugins say: the `log` interface, stdout and stderr, all as cleaned, bounded lines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mst_model::PluginId;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::bindings::log;
use crate::broker::{Ambient, Call};
use crate::guest::Guest;
use crate::text::clean;

/// The longest line that is kept, in bytes.
const MAX_LINE: usize = 2048;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the plugin's author.
    Debug,
    /// For whoever is curious.
    Info,
    /// Something to look at.
    Warn,
    /// Something broke.
    Error,
}

/// A line that a plugin said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Which plugin.
    pub plugin: PluginId,
    /// How much it matters.
    pub level: Level,
    /// One line, cleaned and bounded.
    pub message: String,
}

/// Where lines go.
pub trait LogSink: Send + Sync {
    /// Takes a line. It must not block for long: a guest waits for it.
    fn line(&self, line: LogLine);

    /// Long work: what is being done, and how far it is (0.0 to 1.0) where that is known.
    fn progress(&self, plugin: &PluginId, message: String, fraction: Option<f32>) {
        let _ = (plugin, message, fraction);
    }
}

/// Drops every line.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl LogSink for Quiet {
    fn line(&self, _: LogLine) {}
}

/// The lines of one instance, counted.
pub(crate) struct Lines {
    plugin: PluginId,
    sink: Arc<dyn LogSink>,
    state: Mutex<State>,
    /// Of stdout and of stderr.
    partial: [Mutex<Partial>; 2],
}

struct State {
    /// Lines that may still be said in this call.
    left: u32,
    dropped: u64,
    /// stderr's last lines, for the error that a trap becomes: a Rust guest's panic stands there.
    last_words: Vec<String>,
}

impl Lines {
    pub(crate) fn new(plugin: PluginId, sink: Arc<dyn LogSink>, max_lines: u32) -> Arc<Lines> {
        let state = State { left: max_lines, dropped: 0, last_words: Vec::new() };
        Arc::new(Lines { plugin, sink, state: Mutex::new(state), partial: Default::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn say(&self, level: Level, message: &str) {
        {
            let mut state = self.state();
            if state.left == 0 {
                state.dropped += 1;
                return;
            }
            state.left -= 1;
        }
        let message = clean(message, MAX_LINE, false);
        self.sink.line(LogLine { plugin: self.plugin.clone(), level, message });
    }

    fn progress(&self, message: &str, fraction: Option<f32>) {
        {
            let mut state = self.state();
            if state.left == 0 {
                state.dropped += 1;
                return;
            }
            state.left -= 1;
        }
        let fraction = fraction.filter(|done| done.is_finite()).map(|done| done.clamp(0.0, 1.0));
        self.sink.progress(&self.plugin, clean(message, MAX_LINE, false), fraction);
    }

    fn printed(&self, stderr: bool, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        if line.trim().is_empty() {
            return;
        }
        if stderr {
            let mut state = self.state();
            if state.last_words.len() == 4 {
                state.last_words.remove(0);
            }
            state.last_words.push(clean(&line, 512, false));
        }
        self.say(if stderr { Level::Warn } else { Level::Info }, &line);
    }

    /// Ends a call: says how many lines were dropped, and gives the next call its full number.
    pub(crate) fn end_call(&self, max_lines: u32) {
        let dropped = {
            let mut state = self.state();
            state.left = max_lines;
            std::mem::take(&mut state.dropped)
        };
        if dropped > 0 {
            self.sink.line(LogLine {
                plugin: self.plugin.clone(),
                level: Level::Warn,
                message: format!(
                    "{dropped} more lines were dropped: a plugin may say {max_lines} in one call"
                ),
            });
        }
    }

    /// What stood last on stderr.
    pub(crate) fn last_words(&self) -> String {
        self.state().last_words.join(" / ")
    }
}

/// What a guest has printed on one of its two since the last newline.
#[derive(Default)]
struct Partial(Vec<u8>);

impl Partial {
    // One byte more than a line may have, so that the cut shows.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (MAX_LINE + 1).saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// A guest's stdout or stderr. The streams that it opens on one are the same.
#[derive(Clone)]
pub(crate) struct Printed {
    lines: Arc<Lines>,
    stderr: bool,
}

impl Printed {
    pub(crate) fn new(lines: &Arc<Lines>, stderr: bool) -> Printed {
        Printed { lines: lines.clone(), stderr }
    }

    fn partial(&self) -> MutexGuard<'_, Partial> {
        self.lines.partial[usize::from(self.stderr)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut bytes: &[u8]) {
        let mut partial = self.partial();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            partial.keep(&bytes[..end]);
            self.lines.printed(self.stderr, &partial.0);
            partial.0.clear();
            bytes = &bytes[end + 1..];
        }
        partial.keep(bytes);
    }

    /// Makes a line of what no newline has ended.
    pub(crate) fn end_line(&self) {
        let mut partial = self.partial();
        self.lines.printed(self.stderr, &partial.0);
        partial.0.clear();
    }
}

impl IsTerminal for Printed {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Printed {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only WASI 0.3 takes this way, and no plugin gets that yet.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Printed {
    async fn ready(&mut self) {}
}

impl OutputStream for Printed {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 << 10)
    }
}

impl log::Host for Guest {
    async fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let _ = self.broker.pass(Call::Ambient(Ambient::Log))?;
        let level = match level {
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        self.lines.say(level, &message);
        Ok(())
    }

    async fn progress(&mut self, message: String, fraction: Option<f32>) -> wasmtime::Result<()> {
        let _ = self.broker.pass(Call::Ambient(Ambient::Log))?;
        self.lines.progress(&message, fraction);
        Ok(())
    }
}
