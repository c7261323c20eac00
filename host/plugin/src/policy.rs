//! What may be granted at all, as an organisation, a user and a project say it, each in a file of
//! its own. What any of them refuses is refused: the strictest wins. First-party plugins are bound
//! like others.
//!
//! A list that is not there refuses nothing; a list that is there refuses whatever it does not have.

use std::collections::BTreeMap;

use mst_model::{Kind, PluginId};
use serde_json::{Value, json};

use crate::grant::{Bindings, Source};
use crate::legible::{listed, shown};
use crate::manifest::read::json_of;
use crate::manifest::{Fields, Manifest, ManifestError};
use crate::request::{Capability, CommandTemplate, Destination, Key, Request};

/// The name and version of its format.
pub const SCHEMA: &str = "mst.policy/v1";
/// The largest that is read, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;

/// All policies that bind here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    files: Vec<Rules>,
}

/// One file's.
#[derive(Debug, Clone, PartialEq)]
struct Rules {
    /// As a person knows it.
    file: String,
    plugins: Option<Vec<String>>,
    kinds: Option<Vec<String>>,
    capabilities: Option<Vec<String>>,
    programs: Option<Vec<String>>,
    hosts: Option<Vec<Destination>>,
    private_addresses: bool,
}

/// The JSON Schema of a policy's file, which is TOML. What it says of texts is for people and editors: the
/// reader says what is wrong with one.
pub fn json_schema() -> Value {
    let texts = |about: &str, example: Value| {
        json!({
            "description": format!("{about} A list that is not there refuses nothing; one that is there \
                refuses whatever it does not have."),
            "type": "array",
            "items": {"type": "string"},
            "examples": [example],
        })
    };
    let one_of = |mut schema: Value, words: Vec<&str>| {
        schema["items"]["enum"] = json!(words);
        schema
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mst policy",
        "description": "What plugins may be granted at all, mst's own included. `/etc/mst/policy.toml`, \
            `mst/policy.toml` in the user's directory for configuration, and `mst.policy.toml` beside the \
            lock and beside the eval are held, each where it is there: what any of them refuses is refused.",
        "type": "object",
        "additionalProperties": false,
        "required": ["schema"],
        "properties": {
            "schema": {"description": "The format.", "const": SCHEMA},
            "plugins": texts(
                "Ids of plugins; a `*` stands for a whole part.",
                json!(["mst/*/*", "acme/runner/*"]),
            ),
            "kinds": one_of(
                texts("Kinds of plugins.", json!(["dataset", "judge"])),
                KINDS.iter().map(|kind| kind.as_str()).collect(),
            ),
            "capabilities": one_of(
                texts("What a plugin may ask for.", json!(["workspace", "http", "secret"])),
                Capability::ALL.iter().map(|capability| capability.as_str()).collect(),
            ),
            "programs": texts(
                "Programs of commands, as they stand in a manifest, and of what prints a secret. Of an `enum` \
                 all; of an option with an `enum` the one that it is set to; of an option that can be any, the \
                 option itself. Arguments are not looked at.",
                json!(["docker", "{option(command)}"]),
            ),
            "hosts": texts("Destinations of requests.", json!(["https://*.acme.com"])),
            "private_addresses": {
                "description": "Whether a destination may be a loopback or private address.",
                "type": "boolean",
                "default": true,
            },
        },
    })
}

/// Why a text is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Too much of it.
    #[error("it has {size_bytes} bytes; at most {MAX_BYTES} are admitted")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
    },
    /// No TOML. The source says line and column.
    #[error("it is no TOML")]
    Toml(#[source] Box<toml::de::Error>),
    /// Another format than this version of mst reads.
    #[error("its format is `{found}`, and this mst reads `{SCHEMA}`")]
    Format {
        /// What it says.
        found: String,
    },
    /// A field that is wrong.
    #[error(transparent)]
    Field(#[from] ManifestError),
}

impl PolicyError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            PolicyError::Format { .. } => Some("upgrade mst".to_owned()),
            PolicyError::Field(ManifestError::Missing { at }) if at == "schema" => {
                Some(format!("a policy begins with `schema = \"{SCHEMA}\"`"))
            }
            PolicyError::Field(error) => error.hint(),
            _ => None,
        }
    }
}

impl Policy {
    /// Adds what a file says; `file` is its name for people. What it does not know it refuses: a
    /// rule that nobody holds would be one that somebody relies on.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), PolicyError> {
        if text.len() > MAX_BYTES {
            return Err(PolicyError::TooLarge { size_bytes: text.len() });
        }
        let table: toml::Table = toml::from_str(text).map_err(|error| PolicyError::Toml(Box::new(error)))?;
        let mut fields = Fields::new("", json_of("", toml::Value::Table(table))?)?;
        match fields.text("schema")? {
            Some(found) if found == SCHEMA => {}
            Some(found) => return Err(PolicyError::Format { found: shown(&found, 64) }),
            None => return Err(fields.missing("schema").into()),
        }
        let rules = Rules {
            file: file.to_owned(),
            plugins: known(
                &mut fields,
                "plugins",
                is_id_pattern,
                "must be as `acme/runner/*`, with `*` for a whole part",
            )?,
            kinds: known(&mut fields, "kinds", is_kind, "must be `runner`, `dataset` or `judge`")?,
            capabilities: known(
                &mut fields,
                "capabilities",
                |name| Capability::ALL.iter().any(|known| known.as_str() == name),
                "must be `exec`, `workspace`, `dir`, `http`, `secret` or `env`",
            )?,
            programs: known(&mut fields, "programs", |name| !name.is_empty(), "must be a program")?,
            hosts: known(
                &mut fields,
                "hosts",
                |text| text.parse::<Destination>().is_ok(),
                "must be as `https://*.acme.com`",
            )?
            .map(|texts| texts.iter().filter_map(|text| text.parse().ok()).collect()),
            private_addresses: fields.flag("private_addresses")?.unwrap_or(true),
        };
        fields.finish()?;
        self.files.push(rules);
        Ok(())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files, as people know them.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|rules| rules.file.as_str())
    }

    /// The rule that refuses this plugin as a whole; none where none does.
    pub fn refuses_plugin(&self, id: &PluginId) -> Option<String> {
        self.files.iter().find_map(|rules| rules.refuses_plugin(id))
    }

    /// The rule that refuses this request; none where none does. One whose program an option of the
    /// user's chooses among several is refused where none of them is admitted: which one it is is
    /// looked at where the options are known, by [`refuses_choice`](Policy::refuses_choice).
    pub fn refuses(&self, request: &Request) -> Option<String> {
        let kind = self.files.iter().find_map(|rules| rules.refuses(request));
        kind.or_else(|| {
            let (Request::Exec(command) | Request::Workspace(command)) = request else { return None };
            let refused = |program| self.refuses_program(command, program);
            match command.programs() {
                // One that is the user's option and can be any: it is listed as it stands in the manifest.
                programs if programs.is_empty() => refused(first(command)),
                programs if command.program_option().is_some() => {
                    let all = programs.into_iter().map(refused).collect::<Option<Vec<_>>>()?;
                    all.into_iter().next()
                }
                programs => programs.into_iter().find_map(refused),
            }
        })
    }

    /// Of what an option may choose as the request's program: which a rule refuses, each with the rule.
    /// Nothing where that is no choice of the user's, and where the request is refused as a whole.
    pub fn refuses_some<'a>(&self, request: &'a Request) -> Vec<(&'a str, String)> {
        match chooses(request) {
            Some(command) if self.refuses(request).is_none() => {
                let programs = command.programs().into_iter();
                programs
                    .filter_map(|program| Some((program, self.refuses_program(command, program)?)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// The first option by which the user, with these, chose a program that a rule refuses: its name, the
    /// program and the rule.
    pub fn refuses_choice<'a>(
        &self,
        requests: &'a [Request],
        options: &'a Value,
    ) -> Option<(&'a str, &'a str, String)> {
        requests.iter().filter_map(chooses).find_map(|command| {
            let option = command.program_option()?;
            let program = options.get(option)?.as_str()?;
            Some((option, program, self.refuses_program(command, program)?))
        })
    }

    fn refuses_program(&self, command: &CommandTemplate, program: &str) -> Option<String> {
        self.files.iter().find_map(|rules| rules.refuses_program(command, program))
    }

    /// The rule that refuses that a secret comes from here; none where none does. A command that
    /// prints one runs as the user, as a plugin's do: its program is held to the same list.
    pub fn refuses_source(&self, source: &Source) -> Option<String> {
        self.files.iter().find_map(|rules| rules.refuses_source(source))
    }

    /// Each secret whose source is refused, with the rule.
    pub fn refused_sources(&self, bindings: &Bindings) -> BTreeMap<Key, String> {
        let secrets = bindings.secrets.iter();
        let refused = secrets.filter_map(|(name, source)| {
            Some((Key::new(Capability::Secret, name), self.refuses_source(source)?))
        });
        refused.collect()
    }

    /// Each request of a plugin's that is refused, with the rule.
    pub fn refused(&self, manifest: &Manifest) -> BTreeMap<Key, String> {
        let requests = manifest.requests().into_iter();
        requests.filter_map(|request| Some((request.key(), self.refuses(&request)?))).collect()
    }
}

/// The command, where an option of the user's chooses its program among several.
fn chooses(request: &Request) -> Option<&CommandTemplate> {
    let (Request::Exec(command) | Request::Workspace(command)) = request else { return None };
    (command.program_option().is_some() && !command.programs().is_empty()).then_some(command)
}

fn known(
    fields: &mut Fields,
    key: &'static str,
    fits: impl Fn(&str) -> bool,
    must: &str,
) -> Result<Option<Vec<String>>, ManifestError> {
    if !fields.has(key) {
        // Known, so that an unknown one beside it is told which there are.
        drop(fields.take(key));
        return Ok(None);
    }
    let texts = fields.texts(key)?;
    match texts.iter().find(|text| !fits(text)) {
        Some(wrong) => {
            Err(ManifestError::Rule { at: fields.at(key), why: format!("`{}` {must}", shown(wrong, 120)) })
        }
        None => Ok(Some(texts)),
    }
}

const KINDS: [Kind; 3] = [Kind::Runner, Kind::Dataset, Kind::Judge];

fn is_kind(text: &str) -> bool {
    KINDS.iter().any(|kind| kind.as_str() == text)
}

fn is_id_pattern(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    match parts[..] {
        // A `*` in the place of a part; the rest must make an id.
        [org, kind, name] => {
            let part = |part, any| if part == "*" { any } else { part };
            [part(org, "a"), part(kind, "judge"), part(name, "a")].join("/").parse::<PluginId>().is_ok()
        }
        _ => false,
    }
}

fn matches(pattern: &str, id: &PluginId) -> bool {
    let mut parts = pattern.split('/').zip(id.as_str().split('/'));
    parts.all(|(pattern, part)| pattern == "*" || pattern == part)
}

impl Rules {
    /// As "`/etc/mst/policy.toml` admits no … : `programs` has …".
    fn refused(&self, what: &str, key: &str, has: &[String]) -> String {
        let has = match has {
            [] => "is empty".to_owned(),
            has => format!("has {}", listed(has.iter().map(String::as_str))),
        };
        format!("the policy `{}` admits no {what}: `{key}` {has}", self.file)
    }

    fn refuses_plugin(&self, id: &PluginId) -> Option<String> {
        if let Some(plugins) = &self.plugins
            && !plugins.iter().any(|pattern| matches(pattern, id))
        {
            return Some(self.refused(&format!("plugin `{id}`"), "plugins", plugins));
        }
        let kinds = self.kinds.as_ref()?;
        let kind = id.kind().as_str();
        (!kinds.iter().any(|known| known == kind)).then(|| self.refused(kind, "kinds", kinds))
    }

    fn refuses(&self, request: &Request) -> Option<String> {
        let capability = request.key().capability().as_str();
        if let Some(capabilities) = &self.capabilities
            && !capabilities.iter().any(|known| known == capability)
        {
            return Some(self.refused(&format!("`{capability}`"), "capabilities", capabilities));
        }
        match request {
            Request::Http(http) => {
                if let Some(hosts) = &self.hosts
                    && !hosts.iter().any(|host| host.covers(&http.to))
                {
                    let has: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                    return Some(self.refused(&format!("host `{}`", http.to), "hosts", &has));
                }
                (http.private && !self.private_addresses).then(|| {
                    format!(
                        "the policy `{}` admits no private addresses: `private_addresses` is false",
                        self.file
                    )
                })
            }
            _ => None,
        }
    }

    fn refuses_source(&self, source: &Source) -> Option<String> {
        let Source::Command(words) = source else { return None };
        let programs = self.programs.as_ref()?;
        let program = words.first().map_or("", String::as_str);
        (!programs.iter().any(|known| known == program)).then(|| {
            let what = format!("secret from the program `{}`", shown(program, 120));
            self.refused(&what, "programs", programs)
        })
    }

    /// Whether a command may start this program. One that lists the option itself admits all of it.
    fn refuses_program(&self, command: &CommandTemplate, program: &str) -> Option<String> {
        let programs = self.programs.as_ref()?;
        let has = |program: &str| programs.iter().any(|known| known == program);
        let by_option = command.program_option().is_some() && has(first(command));
        (!by_option && !has(program))
            .then(|| self.refused(&format!("program `{}`", shown(program, 120)), "programs", programs))
    }
}

/// The program as it stands in the manifest.
fn first(command: &CommandTemplate) -> &str {
    command.template.elements().first().map_or("", |element| element.source.as_str())
}

#[cfg(test)]
mod tests;
