//! What a plugin asks for, one capability a file, and the key by which each request is granted.
//!
//! A request is the whole text of what is granted: two that differ in any way that could let a
//! plugin do more are not within each other ([`Request::is_within`]).

mod command;
mod dir;
mod http;
mod secret;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::json;

pub use command::{CommandTemplate, SecretVar, Stdin};
pub use dir::{Access, Dir};
pub use http::{Destination, DestinationError, Host, Http, Method};
pub use secret::{SECRET_CLOSE, SECRET_OPEN, Secret};

use crate::legible::{listed, shown};

/// A kind of thing that a plugin can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Programs on this machine, by command templates.
    Exec,
    /// Programs in a trial's workspace, by command templates.
    Workspace,
    /// Directories.
    Dir,
    /// Requests to hosts.
    Http,
    /// Values that the host puts in for it.
    Secret,
    /// Environment variables that it reads itself.
    Env,
}

impl Capability {
    /// All of them, in the order of a page.
    pub const ALL: [Capability; 6] = [
        Capability::Exec,
        Capability::Workspace,
        Capability::Dir,
        Capability::Http,
        Capability::Secret,
        Capability::Env,
    ];

    /// Its name in manifests, keys and policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Capability::Exec => "exec",
            Capability::Workspace => "workspace",
            Capability::Dir => "dir",
            Capability::Http => "http",
            Capability::Secret => "secret",
            Capability::Env => "env",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which request of a plugin's, on one line: `exec:create`, `http:https://api.acme.com`,
/// `dir:data`, `env:NAME`, `secret:name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    capability: Capability,
    name: String,
}

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no request's key: it must be as `exec:create`, with one of {kinds} before the `:`", kinds = listed(Capability::ALL.map(Capability::as_str)))]
pub struct NoKey(String);

impl Key {
    /// The key of a request of this kind and name.
    pub fn new(capability: Capability, name: impl Into<String>) -> Key {
        Key { capability, name: name.into() }
    }

    /// What is asked for.
    pub fn capability(&self) -> Capability {
        self.capability
    }

    /// Which one of its kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As an argument for a POSIX shell.
    pub fn quoted(&self) -> String {
        quoted(&self.to_string())
    }
}

/// `word` as an argument for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | ',' | '@' | '%' | '+' | '=')
    };
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.capability, self.name)
    }
}

impl FromStr for Key {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Key, NoKey> {
        let none = || NoKey(shown(text, 120));
        let (kind, name) = text.split_once(':').ok_or_else(none)?;
        let capability = Capability::ALL.into_iter().find(|other| other.as_str() == kind).ok_or_else(none)?;
        let name = match capability {
            // So that `https://HOST:443` and `https://host` are one.
            Capability::Http => name.parse::<Destination>().map_err(|_| none())?.to_string(),
            _ if name.is_empty() => return Err(none()),
            _ => name.to_owned(),
        };
        Ok(Key { capability, name })
    }
}

/// One thing that a plugin asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// To run this on this machine.
    Exec(CommandTemplate),
    /// To run this in a trial's workspace.
    Workspace(CommandTemplate),
    /// To see this directory.
    Dir(Dir),
    /// To send requests there.
    Http(Http),
    /// To have this secret put in.
    Secret(Secret),
    /// To read this variable.
    Env(String),
}

impl Request {
    /// What it is called when it is granted.
    pub fn key(&self) -> Key {
        match self {
            Request::Exec(command) => Key::new(Capability::Exec, &command.id),
            Request::Workspace(command) => Key::new(Capability::Workspace, &command.id),
            Request::Dir(dir) => Key::new(Capability::Dir, &dir.name),
            Request::Http(http) => Key::new(Capability::Http, http.to.to_string()),
            Request::Secret(secret) => Key::new(Capability::Secret, &secret.name),
            Request::Env(name) => Key::new(Capability::Env, name),
        }
    }

    /// Whether who granted `granted` granted this: it can do nothing that the other could not.
    pub fn is_within(&self, granted: &Request) -> bool {
        match (self, granted) {
            (Request::Exec(new), Request::Exec(old)) | (Request::Workspace(new), Request::Workspace(old)) => {
                new.is_within(old)
            }
            (Request::Dir(new), Request::Dir(old)) => new.is_within(old),
            (Request::Http(new), Request::Http(old)) => new.is_within(old),
            (Request::Secret(new), Request::Secret(old)) => new.is_within(old),
            (Request::Env(new), Request::Env(old)) => new == old,
            _ => false,
        }
    }

    /// What it says beside its key, as name and text: what a reader compares.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        match self {
            Request::Exec(command) | Request::Workspace(command) => command.lines(),
            Request::Dir(dir) => vec![
                ("access", dir.access.to_string()),
                (
                    "named by",
                    dir.option.as_ref().map_or("a binding".to_owned(), |name| format!("option {name}")),
                ),
            ],
            Request::Http(http) => http
                .methods
                .iter()
                .map(|method| ("method", method.to_string()))
                .chain(http.private.then(|| ("addresses", "also private ones".to_owned())))
                .collect(),
            Request::Secret(secret) => secret.to.iter().map(|to| ("to", to.to_string())).collect(),
            Request::Env(_) => Vec::new(),
        }
    }

    /// Whether naming it in an eval or an option is grant enough: a directory that is only read,
    /// and that an option of the user's names.
    pub fn is_granted_by_use(&self) -> bool {
        matches!(self, Request::Dir(Dir { access: Access::Read, option: Some(_), .. }))
    }
}

impl Serialize for Request {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Request::Exec(command) | Request::Workspace(command) => {
                let mut table = command.table();
                if !command.defaults.is_empty() {
                    table.insert("defaults".to_owned(), json!(command.defaults));
                }
                if !command.options.is_empty() {
                    table.insert("options".to_owned(), json!(command.options));
                }
                table.serialize(serializer)
            }
            Request::Dir(dir) => dir.serialize(serializer),
            Request::Http(http) => http.serialize(serializer),
            Request::Secret(secret) => secret.serialize(serializer),
            Request::Env(name) => json!({ "name": name }).serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back_and_are_one_word_of_a_shell() {
        for text in ["exec:create", "workspace:test", "dir:data", "env:A_B", "secret:api-key"] {
            let key: Key = text.parse().expect(text);
            assert_eq!((key.to_string().as_str(), key.quoted().as_str()), (text, text));
        }
        let key: Key = "http:https://API.acme.com:443".parse().expect("a key");
        assert_eq!(key.to_string(), "http:https://api.acme.com");
        let key: Key = "http:https://*.acme.com".parse().expect("a key");
        assert_eq!(key.quoted(), "'http:https://*.acme.com'");
        for bad in ["create", "exec:", "run:x", "", "http:acme.com", "http:http://acme.com", ":x"] {
            assert!(bad.parse::<Key>().is_err(), "`{bad}`");
        }
    }
}
