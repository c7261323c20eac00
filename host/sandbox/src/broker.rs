//! The broker: every call from a plugin into the host passes [`Broker::pass`], which decides and
//! begins the call's line in the audit before anything acts.
//!
//! What the runtime of a language calls for its own sake and what can reach nothing ([`Ambient`]) is
//! counted. The rest has a line each.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use mst_model::audit::{Asks, Caller};
use mst_plugin::{Access, Admitted, Capability, CommandTemplate, Granted, Key, Refusal};

use crate::audit::{AuditSink, Pass, Record};
use crate::clean;

/// A call that a plugin makes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call<'a> {
    /// What can be had for nothing, since it reaches nothing.
    Ambient(Ambient),
    /// A function of `evidence`, on what it was given.
    Evidence(&'static str),
    /// `workspace.run` of this template.
    Workspace {
        /// The template's id.
        template: &'a str,
    },
    /// `process.run` or `process.start` of this template.
    Exec {
        /// Which of the two.
        function: &'static str,
        /// The template's id.
        template: &'a str,
    },
    /// Something about a child that it started.
    Child(&'static str),
    /// A function of `shard`.
    Shard(&'static str),
    /// The variables that it was granted.
    Env,
    /// A request.
    Http {
        /// By this method.
        method: &'a str,
        /// To this host, in lowercase and without brackets.
        host: &'a str,
        /// And port.
        port: u16,
    },
    /// A secret in a header of a request.
    SecretTo {
        /// Which.
        name: &'a str,
        /// To whom.
        host: &'a str,
        /// And which port.
        port: u16,
    },
    /// A secret in the environment of a command.
    SecretIn {
        /// Which.
        name: &'a str,
        /// Of this template.
        command: &'a CommandTemplate,
    },
    /// Something about a path in a directory that it was given.
    Dir {
        /// The function.
        function: &'static str,
        /// The directory's name in the manifest.
        dir: &'a str,
        /// The path, from that directory on.
        path: &'a str,
        /// Whether the path leads out of it, as it is said.
        leads_out: bool,
        /// Whether it changes something.
        writes: bool,
    },
}

/// Interfaces of which every call is admitted: they reach nothing beyond the instance, the clock and
/// the plugin's own lines, which have a bound of their own. An open file is one too: its opening was
/// decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ambient {
    Log,
    IoError,
    Poll,
    Streams,
    WallClock,
    MonotonicClock,
    Random,
    Insecure,
    InsecureSeed,
    OpenFile,
    Preopens,
    Arguments,
    Exit,
    Stdin,
    Stdout,
    Stderr,
    Terminal,
    HttpTypes,
    Drop,
}

impl Ambient {
    pub(crate) const ALL: [Ambient; Ambient::COUNT] = [
        Ambient::Log,
        Ambient::IoError,
        Ambient::Poll,
        Ambient::Streams,
        Ambient::WallClock,
        Ambient::MonotonicClock,
        Ambient::Random,
        Ambient::Insecure,
        Ambient::InsecureSeed,
        Ambient::OpenFile,
        Ambient::Preopens,
        Ambient::Arguments,
        Ambient::Exit,
        Ambient::Stdin,
        Ambient::Stdout,
        Ambient::Stderr,
        Ambient::Terminal,
        Ambient::HttpTypes,
        Ambient::Drop,
    ];
    pub(crate) const COUNT: usize = 19;

    /// What it is called in the audit.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Ambient::Log => "log",
            Ambient::IoError => "wasi:io/error",
            Ambient::Poll => "wasi:io/poll",
            Ambient::Streams => "wasi:io/streams",
            Ambient::WallClock => "wasi:clocks/wall-clock",
            Ambient::MonotonicClock => "wasi:clocks/monotonic-clock",
            Ambient::Random => "wasi:random/random",
            Ambient::Insecure => "wasi:random/insecure",
            Ambient::InsecureSeed => "wasi:random/insecure-seed",
            Ambient::OpenFile => "wasi:filesystem/types of an open file",
            Ambient::Preopens => "wasi:filesystem/preopens",
            Ambient::Arguments => "wasi:cli/environment without variables",
            Ambient::Exit => "wasi:cli/exit",
            Ambient::Stdin => "wasi:cli/stdin",
            Ambient::Stdout => "wasi:cli/stdout",
            Ambient::Stderr => "wasi:cli/stderr",
            Ambient::Terminal => "wasi:cli/terminal",
            Ambient::HttpTypes => "wasi:http without a request",
            Ambient::Drop => "resource drops",
        }
    }
}

impl Call<'_> {
    /// The function, as the audit names it.
    fn function(&self) -> &'static str {
        match *self {
            Call::Ambient(which) => which.as_str(),
            Call::Evidence(function) | Call::Child(function) | Call::Shard(function) => function,
            Call::Exec { function, .. } | Call::Dir { function, .. } => function,
            Call::Workspace { .. } => "workspace.run",
            Call::Env => "environment.get-environment",
            Call::Http { .. } => "http.request",
            Call::SecretTo { .. } | Call::SecretIn { .. } => "secret",
        }
    }
}

/// A call that was refused: what was called, and the rule that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// As `workspace.run("deploy")`.
    pub call: String,
    /// As "its manifest has no `[[workspace]]` template of that id".
    pub rule: String,
    /// The command that would grant it, where one would.
    pub grant: Option<String>,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.call, self.rule)?;
        match &self.grant {
            Some(command) => write!(f, "; `{command}` would grant it"),
            None => Ok(()),
        }
    }
}

/// Marks the end of a guest call in wasmtime's errors: the call was refused.
#[derive(Debug, thiserror::Error)]
#[error("denied {0}")]
pub(crate) struct Denied(pub(crate) Denial);

/// Decides for one instance of one plugin.
pub(crate) struct Broker {
    granted: Arc<Granted>,
    /// The directories that the instance has.
    dirs: Vec<String>,
    pub(crate) record: Arc<Record>,
}

impl Broker {
    pub(crate) fn new(
        granted: Arc<Granted>,
        dirs: Vec<String>,
        sink: Arc<dyn AuditSink>,
        by: Caller,
    ) -> Broker {
        Broker { granted, dirs, record: Record::new(sink, by) }
    }

    /// Admits a call and begins its line in the audit, or refuses it and writes that down. What a
    /// plugin may call is what it was granted.
    pub(crate) fn pass(&self, call: Call<'_>) -> Result<Pass, Denied> {
        if let Call::Ambient(which) = call {
            self.record.ambient(which);
            return Ok(Pass::counted());
        }
        let function = call.function();
        let asks = asks_for(call);
        match self.rule(call) {
            Ok(rule) => {
                let mut pass = Pass::open(&self.record, function, asks, rule);
                match call {
                    Call::Dir { dir, path, .. } => {
                        pass.args(|| format!("/{dir}/{path}"));
                    }
                    Call::SecretTo { .. } | Call::SecretIn { .. } => pass.args(|| in_words(function, call)),
                    _ => {}
                }
                Ok(pass)
            }
            Err(Refusal { rule, command, .. }) => {
                let denial = Denial { call: in_words(function, call), rule, grant: command };
                let mut pass = Pass::open(&self.record, function, asks, denial.rule.clone());
                pass.args(|| denial.call.clone());
                pass.denied(denial.grant.clone());
                self.record.refuse(&denial);
                Err(Denied(denial))
            }
        }
    }

    /// Refuses a call that was admitted, for what turned out on its way.
    pub(crate) fn refuse_late(&self, pass: Pass, call: Call<'_>, rule: String) -> Denied {
        let denial = pass.refused(in_words(call.function(), call), rule);
        self.record.refuse(&denial);
        Denied(denial)
    }

    /// Whether it may change what is in this directory.
    pub(crate) fn may_write(&self, dir: &str) -> bool {
        self.granted.dir(dir, Access::ReadWrite).is_ok()
    }

    /// The rule that admits a call, or what there is to say to the person.
    fn rule(&self, call: Call<'_>) -> Result<Cow<'static, str>, Refusal> {
        match call {
            Call::Ambient(_) => Ok("there is nothing to ask for".into()),
            Call::Evidence(_) => Ok("a judge may read the trial that it is given".into()),
            Call::Child(_) => Ok("it started the child".into()),
            Call::Shard(_) => Ok("a runner may see the shard that it is given".into()),
            Call::Env => Ok("it sees the variables that it was granted".into()),
            Call::Workspace { template } => self.granted.workspace(template).map(granted),
            Call::Exec { template, .. } => self.granted.exec(template).map(granted),
            Call::Http { method, host, port } => self.granted.http(method, host, port).map(granted),
            Call::SecretTo { name, host, port } => self.granted.secret_to(name, host, port).map(granted),
            Call::SecretIn { name, command } => self.granted.secret_in(name, command).map(granted),
            Call::Dir { dir, leads_out, writes, .. } => {
                let no = |rule: &str| Refusal { rule: rule.to_owned(), key: None, command: None };
                if !self.dirs.iter().any(|name| name == dir) {
                    return Err(no("it was given no such directory"));
                }
                if leads_out {
                    return Err(no("the path leads out of the directory that it was given"));
                }
                self.granted.dir(dir, if writes { Access::ReadWrite } else { Access::Read }).map(granted)
            }
        }
    }

    /// The first refusal, which ends the guest's call, if there was one.
    pub(crate) fn first_denial(&self) -> Option<Denial> {
        self.record.first_denial()
    }
}

fn granted<T>(admitted: Admitted<'_, T>) -> Cow<'static, str> {
    format!("`{}` is granted", admitted.rule).into()
}

/// The narrowest request that would admit a call.
fn asks_for(call: Call<'_>) -> Option<Asks> {
    let asks = |capability, name: &str, access: Option<&'static str>| {
        let request = Key::new(capability, clean(name, 256, false)).to_string();
        Some(Asks { request, access: access.map(Into::into) })
    };
    match call {
        Call::Workspace { template } => asks(Capability::Workspace, template, None),
        Call::Exec { template, .. } => asks(Capability::Exec, template, None),
        Call::Dir { dir, writes, .. } => {
            asks(Capability::Dir, dir, Some(if writes { "write" } else { "read" }))
        }
        Call::Http { method, host, port } => {
            let request = Key::new(Capability::Http, origin(host, port)).to_string();
            Some(Asks { request, access: Some(clean(method, 32, false).into()) })
        }
        Call::SecretTo { name, .. } | Call::SecretIn { name, .. } => asks(Capability::Secret, name, None),
        _ => None,
    }
}

/// As a manifest has it.
fn origin(host: &str, port: u16) -> String {
    let host = clean(host, 256, false);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    if port == 443 { format!("https://{host}") } else { format!("https://{host}:{port}") }
}

/// A refused call, as a person is told of it.
fn in_words(function: &str, call: Call<'_>) -> String {
    match call {
        Call::Workspace { template } | Call::Exec { template, .. } => {
            format!("{function}({:?})", clean(template, 64, false))
        }
        Call::Dir { dir, path, .. } => {
            format!("{function}({})", clean(&format!("/{dir}/{path}"), 256, false))
        }
        Call::Http { method, host, port } => {
            format!("{function}({} {})", clean(method, 32, false), origin(host, port))
        }
        Call::SecretTo { name, host, port } => {
            format!("{function}({:?} to {})", clean(name, 64, false), origin(host, port))
        }
        Call::SecretIn { name, command } => {
            format!("{function}({:?} in {:?})", clean(name, 64, false), command.id)
        }
        _ => function.to_owned(),
    }
}

#[cfg(test)]
mod tests;
