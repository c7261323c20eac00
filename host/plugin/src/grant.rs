//! What one plugin may do here: what its manifest asks for, as far as it was granted and no policy
//! refuses it, with what the user bound to it.
//!
//! For each kind of call there is one lookup. It answers the request that admits the call, or a
//! refusal for the person: the rule that decided, and the command that would change it where one
//! would. Nothing else decides whether a plugin may do something.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::legible::{is_deceptive, listed, shown};
use crate::manifest::Manifest;
use crate::request::{Access, Capability, CommandTemplate, Dir, Http, Key, Secret, quoted};

/// What one plugin may do here.
#[derive(Debug, Clone)]
pub struct Granted {
    manifest: Arc<Manifest>,
    granted: BTreeSet<Key>,
    refused: BTreeMap<Key, String>,
    bindings: Bindings,
    lock: Option<PathBuf>,
}

/// What the user bound a plugin's names to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bindings {
    /// Where a `dir` is, by its name.
    pub dirs: BTreeMap<String, PathBuf>,
    /// Where a secret's value comes from, by its name.
    pub secrets: BTreeMap<String, Source>,
}

/// Where a secret's value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This variable of the user's environment.
    Env(String),
    /// The content of this file, without a newline at its end.
    File(PathBuf),
    /// What this command prints, without a newline at its end: a program and its arguments.
    Command(Vec<String>),
    /// What the user's keyring keeps under these.
    Keyring {
        /// For what it is.
        service: String,
        /// And for whom there.
        username: String,
    },
}

/// A call that may be made, and by which request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted<'a, T> {
    /// The request that admits it: the rule that decided.
    pub rule: Key,
    /// What was asked for.
    pub what: &'a T,
}

/// A call that may not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}")]
pub struct Refusal {
    /// The rule that decided, as "its manifest asks for no `[[exec]]` template".
    pub rule: String,
    /// The request that would admit it, where the manifest has one.
    pub key: Option<Key>,
    /// The command that would grant it, where one would.
    pub command: Option<String>,
}

impl Granted {
    /// All that the manifest asks for: a first-party plugin.
    pub fn all(manifest: Arc<Manifest>) -> Granted {
        let granted = manifest.requests().iter().map(|request| request.key()).collect();
        Granted { manifest, granted, refused: BTreeMap::new(), bindings: Bindings::default(), lock: None }
    }

    /// Only these of what it asks for, and what is granted by being used.
    pub fn only(manifest: Arc<Manifest>, keys: impl IntoIterator<Item = Key>) -> Granted {
        let mut granted: BTreeSet<Key> = keys.into_iter().collect();
        let by_use = manifest.requests().into_iter().filter(|request| request.is_granted_by_use());
        granted.extend(by_use.map(|request| request.key()));
        Granted { granted, ..Granted::all(manifest) }
    }

    /// With what the user bound to its names.
    pub fn bound(mut self, bindings: Bindings) -> Granted {
        self.bindings = bindings;
        self
    }

    /// With the lock that commands in refusals name, where it is not the one that they find.
    pub fn in_lock(mut self, lock: PathBuf) -> Granted {
        self.lock = Some(lock);
        self
    }

    /// Without what a policy refuses, each with the rule that does.
    pub fn refused(mut self, refused: BTreeMap<Key, String>) -> Granted {
        self.refused = refused;
        self
    }

    /// All that the plugin says about itself.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// What was bound.
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Whether this request stands: granted, and refused by no policy.
    pub fn has(&self, key: &Key) -> bool {
        self.granted.contains(key) && !self.refused.contains_key(key)
    }

    /// For `process.run` and `process.start` of this template.
    pub fn exec(&self, template: &str) -> Result<Admitted<'_, CommandTemplate>, Refusal> {
        match self.manifest.exec(template) {
            Some(command) => self.admit(Key::new(Capability::Exec, template), command),
            None => Err(no_template("[[exec]]", &self.manifest.exec)),
        }
    }

    /// For `workspace.run` of this template.
    pub fn workspace(&self, template: &str) -> Result<Admitted<'_, CommandTemplate>, Refusal> {
        match self.manifest.workspace(template) {
            Some(command) => self.admit(Key::new(Capability::Workspace, template), command),
            None => Err(no_template("[[workspace]]", &self.manifest.workspace)),
        }
    }

    /// For something in the directory that the plugin calls `name`.
    pub fn dir(&self, name: &str, wanted: Access) -> Result<Admitted<'_, Dir>, Refusal> {
        let Some(dir) = self.manifest.dirs.iter().find(|dir| dir.name == name) else {
            let known = self.manifest.dirs.iter().map(|dir| dir.name.as_str());
            return Err(not_asked("`[[dir]]` of that name", known));
        };
        if wanted > dir.access {
            return Err(Refusal {
                rule: format!("its manifest asks for `dir:{name}` to {} only", dir.access),
                key: None,
                command: None,
            });
        }
        self.admit(Key::new(Capability::Dir, name), dir)
    }

    /// The directories that the plugin sees by a binding, each with its path. Those that an option
    /// names are found by who reads the options, and by no binding: naming one there is what grants it.
    pub fn bound_dirs(&self) -> impl Iterator<Item = (&Dir, &Path)> {
        let by_binding = self.manifest.dirs.iter().filter(|dir| dir.option.is_none());
        by_binding.filter_map(|dir| {
            let path = self.bindings.dirs.get(&dir.name)?;
            self.has(&Key::new(Capability::Dir, &dir.name)).then_some((dir, path.as_path()))
        })
    }

    /// For a request by this method to this host, as it stands in the authority, and port.
    pub fn http(&self, method: &str, host: &str, port: u16) -> Result<Admitted<'_, Http>, Refusal> {
        let mut first = None;
        for http in self.manifest.http.iter().filter(|http| http.to.admits(host, port)) {
            let key = Key::new(Capability::Http, http.to.to_string());
            let answer = if http.methods.iter().any(|known| known.as_str() == method) {
                self.admit(key, http)
            } else {
                let methods = listed(http.methods.iter().map(|method| method.as_str()));
                let rule =
                    format!("its manifest asks for `{key}` by {methods}, and not by `{}`", shown(method, 20));
                Err(Refusal { rule, key: None, command: None })
            };
            match answer {
                Ok(admitted) => return Ok(admitted),
                // One that a command would mend is told before one that nothing does.
                Err(refusal) if first.as_ref().is_none_or(|first: &Refusal| first.command.is_none()) => {
                    first = Some(refusal);
                }
                Err(_) => {}
            }
        }
        let hosts: Vec<String> = self.manifest.http.iter().map(|http| http.to.to_string()).collect();
        Err(first.unwrap_or_else(|| not_asked("`[[http]]` for that host", hosts.iter().map(String::as_str))))
    }

    /// For a variable that the plugin reads itself.
    pub fn env(&self, name: &str) -> Result<Admitted<'_, String>, Refusal> {
        match self.manifest.env.iter().find(|known| *known == name) {
            Some(known) => self.admit(Key::new(Capability::Env, name), known),
            None => Err(not_asked("variable of that name", self.manifest.env.iter().map(String::as_str))),
        }
    }

    /// The names of all variables that the plugin may read itself.
    pub fn env_names(&self) -> impl Iterator<Item = &str> {
        let names = self.manifest.env.iter().map(String::as_str);
        names.filter(|name| self.has(&Key::new(Capability::Env, *name)))
    }

    /// For a secret in a header of a request to this host and port. Whether the request may be sent
    /// at all is `http`'s to say.
    pub fn secret_to(&self, name: &str, host: &str, port: u16) -> Result<Admitted<'_, Secret>, Refusal> {
        let secret = self.asked_secret(name)?;
        if !secret.to.iter().any(|to| to.admits(host, port)) {
            let to: Vec<String> = secret.to.iter().map(ToString::to_string).collect();
            let rule = match &to[..] {
                [] => format!("its manifest has `secret:{name}` go into commands, and into no request"),
                to => format!(
                    "its manifest has `secret:{name}` go to {} only",
                    listed(to.iter().map(String::as_str))
                ),
            };
            return Err(Refusal { rule, key: None, command: None });
        }
        self.bound_secret(secret)
    }

    /// For a secret in the environment of a command, where the command's template has it.
    pub fn secret_in(&self, name: &str, command: &CommandTemplate) -> Result<Admitted<'_, Secret>, Refusal> {
        if !command.secrets.iter().any(|var| var.secret == name) {
            return Err(Refusal {
                rule: format!(
                    "the template `{}` has no variable with `secret:{}`",
                    command.id,
                    shown(name, 64)
                ),
                key: None,
                command: None,
            });
        }
        self.bound_secret(self.asked_secret(name)?)
    }

    /// Where a secret's value comes from.
    pub fn source(&self, secret: &str) -> Option<&Source> {
        self.bindings.secrets.get(secret)
    }

    fn asked_secret(&self, name: &str) -> Result<&Secret, Refusal> {
        let mut secrets = self.manifest.secrets.iter();
        secrets.find(|secret| secret.name == name).ok_or_else(|| {
            let known = self.manifest.secrets.iter().map(|secret| secret.name.as_str());
            not_asked("`[[secret]]` of that name", known)
        })
    }

    fn bound_secret<'a>(&'a self, secret: &'a Secret) -> Result<Admitted<'a, Secret>, Refusal> {
        let admitted = self.admit(Key::new(Capability::Secret, &secret.name), secret)?;
        if self.source(&secret.name).is_none() {
            let key = admitted.rule;
            let bind = format!("{key}=env:NAME");
            return Err(Refusal {
                rule: format!("`{key}` is granted, and nothing says where its value comes from"),
                command: Some(format!("{} --bind {}", self.grant_command(&key), quoted(&bind))),
                key: Some(key),
            });
        }
        Ok(admitted)
    }

    fn admit<'a, T>(&'a self, rule: Key, what: &'a T) -> Result<Admitted<'a, T>, Refusal> {
        if let Some(policy) = self.refused.get(&rule) {
            return Err(Refusal { rule: policy.clone(), key: Some(rule), command: None });
        }
        if !self.granted.contains(&rule) {
            return Err(Refusal {
                rule: format!("its manifest asks for `{rule}`, which is not granted"),
                command: Some(self.grant_command(&rule)),
                key: Some(rule),
            });
        }
        Ok(Admitted { rule, what })
    }

    /// The command that grants a request.
    pub fn grant_command(&self, key: &Key) -> String {
        let lock = self.lock.as_ref().map(|lock| format!(" --lock {}", quoted(&lock.to_string_lossy())));
        format!("mst plugin grant {} {}{}", self.manifest.id, key.quoted(), lock.unwrap_or_default())
    }
}

fn no_template(table: &str, known: &[CommandTemplate]) -> Refusal {
    not_asked(&format!("`{table}` template of that id"), known.iter().map(|command| command.id.as_str()))
}

fn not_asked<'a>(what: &str, known: impl Iterator<Item = &'a str>) -> Refusal {
    let known = listed(known);
    let rule = match known.as_str() {
        "" => format!(
            "its manifest asks for no {}",
            what.trim_end_matches(" of that id").trim_end_matches(" of that name")
        ),
        known => format!("its manifest has no {what}, only {known}"),
    };
    Refusal { rule, key: None, command: None }
}

impl Bindings {
    /// With relative paths led from the lock's directory.
    pub fn seen_from(&self, lock_dir: &Path) -> Bindings {
        let dirs = self.dirs.iter().map(|(name, path)| (name.clone(), lock_dir.join(path)));
        let secrets = self.secrets.iter().map(|(name, source)| {
            let source = match source {
                Source::File(path) => Source::File(lock_dir.join(path)),
                other => other.clone(),
            };
            (name.clone(), source)
        });
        Bindings { dirs: dirs.collect(), secrets: secrets.collect() }
    }
}

/// A text that says of no place where a secret is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret comes from `env:NAME`, `file:PATH`, `keyring:SERVICE/USERNAME` or `command:PROGRAM ARGUMENTS`"
)]
pub struct NoSource;

impl FromStr for Source {
    type Err = NoSource;

    /// A command's words are divided at blanks; there are no quotes.
    fn from_str(text: &str) -> Result<Source, NoSource> {
        if text.chars().any(is_deceptive) {
            return Err(NoSource);
        }
        match text.split_once(':').ok_or(NoSource)? {
            ("env", name) if crate::manifest::requests::is_env_name(name) => Ok(Source::Env(name.to_owned())),
            ("file", path) if !path.is_empty() => Ok(Source::File(PathBuf::from(path))),
            ("command", words) => {
                let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
                if words.is_empty() { Err(NoSource) } else { Ok(Source::Command(words)) }
            }
            ("keyring", entry) => match entry.split_once('/') {
                Some((service, username)) if is_of_keyring(service) && is_of_keyring(username) => {
                    Ok(Source::Keyring { service: service.to_owned(), username: username.to_owned() })
                }
                _ => Err(NoSource),
            },
            _ => Err(NoSource),
        }
    }
}

/// Whether a keyring's program takes this for a name, and never for one of its own flags.
fn is_of_keyring(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.chars().any(|c| c.is_control() || c == '/')
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Env(name) => write!(f, "env:{name}"),
            Source::File(path) => write!(f, "file:{}", path.display()),
            Source::Command(words) => write!(f, "command:{}", words.join(" ")),
            Source::Keyring { service, username } => write!(f, "keyring:{service}/{username}"),
        }
    }
}

#[cfg(test)]
mod tests;
