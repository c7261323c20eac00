//! What can go wrong with a plugin: five different things, all the way to the screen.

use std::fmt;
use std::time::Duration;

use mst_model::PluginId;

use crate::broker::Denial;

/// A bound of [`crate::Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Linear memory.
    Memory,
    /// Entries of a table.
    Table,
    /// Core instances, memories or tables in the component.
    Instances,
    /// Handles to things of the host's.
    Handles,
    /// Bytes that a call passes to the host.
    CallBytes,
    /// The depth of its calls.
    Stack,
    /// The wall time of a call.
    Time,
    /// What a call does outside of mst: commands, requests, changes of files.
    CallsOut,
}

/// What a guest said went wrong, in the contract's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestError {
    /// Which of the contract's cases.
    pub kind: GuestErrorKind,
    /// Its sentence, cleaned and bounded.
    pub message: String,
}

/// The cases of `mst:plugin/types.error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestErrorKind {
    /// An option, a case or an argument is wrong.
    Invalid,
    /// What was named is not there.
    NotFound,
    /// A service can't be reached now.
    Unavailable,
    /// The host refused a call.
    Denied,
    /// Anything else.
    Failed,
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            GuestErrorKind::Invalid => "",
            GuestErrorKind::NotFound => "not found: ",
            GuestErrorKind::Unavailable => "unavailable: ",
            GuestErrorKind::Denied => "denied: ",
            GuestErrorKind::Failed => "",
        })?;
        f.write_str(&self.message)
    }
}

/// A call into a plugin that gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The plugin says so itself.
    #[error("`{plugin}`: {error}")]
    Guest {
        /// The plugin.
        plugin: PluginId,
        /// What it said.
        error: GuestError,
    },
    /// The plugin called what it was not given.
    #[error("`{plugin}` was denied {denial}")]
    Denied {
        /// The plugin.
        plugin: PluginId,
        /// The call, and the rule that decided.
        denial: Denial,
    },
    /// The plugin's code broke.
    #[error("`{plugin}` crashed in `{function}`: {reason}")]
    Trap {
        /// The plugin.
        plugin: PluginId,
        /// The function that the host had called.
        function: &'static str,
        /// wasmtime's word for it, and the last lines that the plugin wrote to stderr.
        reason: String,
    },
    /// The plugin met a bound.
    #[error("`{plugin}` met a limit in `{function}`: {what}")]
    Limit {
        /// The plugin.
        plugin: PluginId,
        /// The function that the host had called.
        function: &'static str,
        /// The bound.
        limit: LimitKind,
        /// The bound, and what was used, with units.
        what: String,
    },
    /// The plugin answered with something that the contract does not admit.
    #[error("`{plugin}` gave a wrong answer from `{function}`: {what}")]
    Answer {
        /// The plugin.
        plugin: PluginId,
        /// The function.
        function: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The host failed; a bug, or the machine is out of something.
    #[error("mst failed while `{plugin}` ran `{function}`: {what}")]
    Host {
        /// The plugin.
        plugin: PluginId,
        /// The function.
        function: &'static str,
        /// What failed.
        what: String,
    },
}

/// A plugin that could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The engine can't start on this machine.
    #[error("the WebAssembly engine can't start: {0}")]
    Engine(String),
    /// The component does not compile.
    #[error("`{plugin}` does not compile: {what}")]
    Compile {
        /// The plugin.
        plugin: PluginId,
        /// The engine's reason.
        what: String,
    },
    /// The component does not fit what the host links.
    #[error("`{plugin}` does not fit this mst: {what}")]
    Link {
        /// The plugin.
        plugin: PluginId,
        /// The engine's reason.
        what: String,
    },
    /// The plugin is of another kind.
    #[error("`{plugin}` is a {is}, not a {wanted}")]
    Kind {
        /// The plugin.
        plugin: PluginId,
        /// Its kind.
        is: mst_model::Kind,
        /// The kind that was needed.
        wanted: mst_model::Kind,
    },
    /// A directory that the plugin is to read can't be opened.
    #[error("`{plugin}`: can't open the directory for `{name}`: {what}")]
    Dir {
        /// The plugin.
        plugin: PluginId,
        /// The `dir`'s name in the manifest.
        name: String,
        /// Why.
        what: String,
    },
}

/// Seconds for people.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    if count >= 1 << 20 {
        format!("{:.1} MiB", count as f64 / f64::from(1 << 20))
    } else {
        format!("{count} bytes")
    }
}
