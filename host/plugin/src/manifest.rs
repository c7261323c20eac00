//! The manifest: all that a plugin may ever do, as data.
//!
//! A plugin's author writes it as TOML (`plugin.toml`); `mst plugin build` embeds it as JSON in
//! the component's custom section `mst:manifest`. One reader serves both, so that what the author
//! was told is what the user is told. Whatever it does not know it refuses: a capability that
//! nobody shows is a capability that nobody granted.

use std::fmt;

use mst_model::{Kind, PluginId, Span};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::legible::{is_deceptive, listed, shown};
use crate::template::{Filler, Place, SlotType, Template, TemplateError};
use crate::world::{self, World};

/// The component's custom section that holds it.
pub const SECTION: &str = "mst:manifest";
/// The name and version of its JSON.
pub const SCHEMA: &str = "mst.manifest/v1";
/// The largest, in bytes, as TOML and as JSON.
pub const MAX_BYTES: usize = 64 * 1024;

const MAX_TEMPLATES: usize = 64;
const MAX_DIRS: usize = 16;
const MAX_ENV: usize = 32;
const DEFAULT_OUTPUT_BYTES: u64 = 1024 * 1024;
const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
const DEFAULT_MAX_SHARDS: u32 = 64;
const MOST_SHARDS: u32 = 10_000;

/// All that a plugin says about itself and asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Who it is.
    pub id: PluginId,
    /// Its own version.
    pub version: semver::Version,
    /// What it implements.
    pub world: World,
    /// The contract it was built for: the version of the WIT package `mst:plugin`.
    pub contract: semver::Version,
    /// One line for people.
    pub description: String,
    /// An SPDX expression, unchecked.
    pub license: Option<String>,
    /// An `https` address.
    pub homepage: Option<String>,
    /// The JSON Schema of its options: an object's.
    pub options: Value,
    /// The most shards, and so machines, that a run may ask it for at a time; of a runner.
    pub max_shards: u32,
    /// Whether it leads local ports to a machine's; of a `machine-runner`.
    pub forward_port: bool,
    /// Directories it asks for.
    pub dirs: Vec<Dir>,
    /// Programs it asks the host to run; only in the runners' worlds.
    pub exec: Vec<CommandTemplate>,
    /// Programs it asks to run in a trial's workspace; only in the judges' world.
    pub workspace: Vec<CommandTemplate>,
}

/// A directory that a plugin asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dir {
    /// What the plugin calls it.
    pub name: String,
    /// What it may do there.
    pub access: Access,
    /// The option that says where it is; otherwise the user binds it in the grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
}

/// What a plugin may do in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Only read.
    Read,
    /// Read, write, make and remove.
    ReadWrite,
}

/// A command that a plugin may have run, with its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTemplate {
    /// What the plugin calls it.
    pub id: String,
    /// The command.
    pub template: Template,
    /// How long it may take.
    pub timeout: Span,
    /// What its stdin is.
    pub stdin: Stdin,
    /// The most bytes of stdout and of stderr that are kept, each.
    pub max_output_bytes: u64,
    /// The user's environment variables that it gets, beside PATH and HOME.
    pub env: Vec<String>,
}

/// What a command's stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// Nothing, or the host's where it started the command for its own use.
    None,
    /// Bytes that the plugin writes.
    Plugin,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::ReadWrite => "read-write",
        })
    }
}

impl Serialize for CommandTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "id": self.id,
            "argv": self.template.argv(),
            "timeout": self.timeout.to_string(),
            "stdin": self.stdin,
            "max_output_bytes": self.max_output_bytes,
            "env": self.env,
        })
        .serialize(serializer)
    }
}

/// Why a text is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Too much of it.
    #[error("the manifest has {size_bytes} bytes; at most {MAX_BYTES} are admitted")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
    },
    /// No TOML. The source says line and column.
    #[error("the manifest is no TOML")]
    Toml(#[source] Box<toml::de::Error>),
    /// No JSON. The source says line and column.
    #[error("the manifest is no JSON")]
    Json(#[source] serde_json::Error),
    /// A TOML value that JSON does not have.
    #[error("`{at}`: {found} has no place in a manifest")]
    NoJson {
        /// Where.
        at: String,
        /// What it is.
        found: &'static str,
    },
    /// Another format than this version of mst reads.
    #[error("the manifest's format is `{found}`, and this mst reads `{SCHEMA}`")]
    Format {
        /// What it says.
        found: String,
        /// Whether it is a later version of ours.
        newer: bool,
    },
    /// A key that must be there.
    #[error("`{at}` is missing")]
    Missing {
        /// Which.
        at: String,
    },
    /// A value of another type.
    #[error("`{at}` must be {wanted}, and is {found}")]
    Type {
        /// Which.
        at: String,
        /// What is wanted.
        wanted: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A value that its type does not admit.
    #[error("`{at}` can't be `{value}`")]
    Value {
        /// Which.
        at: String,
        /// What is there, bounded.
        value: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A key that nobody knows.
    #[error("unknown key `{key}`{}", if at.is_empty() { String::new() } else { format!(" in `{at}`") })]
    Unknown {
        /// The table; empty for the manifest itself.
        at: String,
        /// The key, bounded.
        key: String,
        /// What was probably meant.
        near: Option<String>,
        /// What is known there.
        known: Vec<&'static str>,
    },
    /// A capability that another version of mst may know.
    #[error("the manifest asks for `{name}`, a capability that this version of mst does not know")]
    Capability {
        /// Which.
        name: String,
    },
    /// A value that breaks a rule.
    #[error("`{at}`: {why}")]
    Rule {
        /// Which.
        at: String,
        /// The rule, with the alternatives.
        why: String,
    },
    /// A command template that is none.
    #[error("`{at}` is no command template")]
    Template {
        /// Which.
        at: String,
        /// What is wrong.
        #[source]
        source: TemplateError,
    },
    /// Options that are no JSON Schema.
    #[error("`options` is {0}")]
    Options(mst_model::schema::SchemaError),
}

impl ManifestError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ManifestError::Unknown { near: Some(near), .. } => Some(format!("did you mean `{near}`?")),
            ManifestError::Unknown { known, .. } => {
                Some(format!("known keys: {}", listed(known.iter().copied())))
            }
            ManifestError::Capability { .. } => {
                Some("use a newer mst, or a version of the plugin that does without".to_owned())
            }
            ManifestError::Format { newer: true, .. } => Some("upgrade mst".to_owned()),
            ManifestError::Format { newer: false, .. } => {
                Some("build the plugin with `mst plugin build`".to_owned())
            }
            ManifestError::Template { source, .. } => source.hint(),
            _ => None,
        }
    }
}

impl Manifest {
    /// Reads `plugin.toml`. It names no `schema` and no `contract`: these are of the mst that
    /// builds the plugin.
    pub fn from_toml(text: &str) -> Result<Manifest, ManifestError> {
        bounded(text.len())?;
        let table: toml::Table =
            toml::from_str(text).map_err(|error| ManifestError::Toml(Box::new(error)))?;
        let value = json_of("", toml::Value::Table(table))?;
        read(Fields::new("", value)?, world::contract_version())
    }

    /// Reads the JSON of a component's custom section.
    pub fn from_json(text: &[u8]) -> Result<Manifest, ManifestError> {
        bounded(text.len())?;
        let value = mst_model::strict_json::from_slice(text).map_err(ManifestError::Json)?;
        let mut fields = Fields::new("", value)?;
        // First of all: in another format any other complaint would be beside the point.
        match fields.text("schema")? {
            Some(found) if found == SCHEMA => {}
            Some(found) => {
                let newer = found
                    .strip_prefix("mst.manifest/v")
                    .and_then(|version| version.parse::<u32>().ok())
                    .is_some_and(|version| version > 1);
                return Err(ManifestError::Format { found: shown(&found, 64), newer });
            }
            None => return Err(fields.missing("schema")),
        }
        let contract = fields.text("contract")?.ok_or_else(|| fields.missing("contract"))?;
        let contract = contract
            .strip_prefix("mst:plugin@")
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| ManifestError::Rule {
                at: "contract".to_owned(),
                why: format!(
                    "`{}` is none: it must be as `mst:plugin@{}`",
                    shown(&contract, 64),
                    world::contract_version()
                ),
            })?;
        read(fields, contract)
    }

    /// Its JSON. Equal manifests have equal JSON, and it reads back as itself.
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        out.insert("schema".to_owned(), SCHEMA.into());
        out.insert("contract".to_owned(), format!("mst:plugin@{}", self.contract).into());
        out.insert("id".to_owned(), self.id.as_str().into());
        out.insert("version".to_owned(), self.version.to_string().into());
        out.insert("world".to_owned(), self.world.as_str().into());
        out.insert("description".to_owned(), self.description.as_str().into());
        for (key, value) in [("license", &self.license), ("homepage", &self.homepage)] {
            if let Some(value) = value {
                out.insert(key.to_owned(), value.as_str().into());
            }
        }
        out.insert("options".to_owned(), self.options.clone());
        if self.world.kind() == Kind::Runner {
            out.insert("max_shards".to_owned(), self.max_shards.into());
        }
        if self.world == World::MachineRunner {
            out.insert("forward_port".to_owned(), self.forward_port.into());
        }
        for (key, list) in
            [("dir", json!(self.dirs)), ("exec", json!(self.exec)), ("workspace", json!(self.workspace))]
        {
            if list.as_array().is_some_and(|list| !list.is_empty()) {
                out.insert(key.to_owned(), list);
            }
        }
        Value::Object(out)
    }

    /// The template of this id, for `process.run` and `process.start`.
    pub fn exec(&self, id: &str) -> Option<&CommandTemplate> {
        self.exec.iter().find(|template| template.id == id)
    }

    /// The template of this id, for `workspace.run`.
    pub fn workspace(&self, id: &str) -> Option<&CommandTemplate> {
        self.workspace.iter().find(|template| template.id == id)
    }

    /// The schema of one option.
    pub fn option(&self, name: &str) -> Option<&Value> {
        self.options.get("properties")?.get(name)
    }
}

impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

fn bounded(size_bytes: usize) -> Result<(), ManifestError> {
    if size_bytes > MAX_BYTES { Err(ManifestError::TooLarge { size_bytes }) } else { Ok(()) }
}

/// TOML as JSON. Dates and numbers that are none have no counterpart.
fn json_of(at: &str, value: toml::Value) -> Result<Value, ManifestError> {
    let no = |found| ManifestError::NoJson { at: at.to_owned(), found };
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| no("a number that is infinite or none"))?,
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(_) => return Err(no("a date")),
        toml::Value::Array(items) => Value::Array(
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| json_of(&format!("{at}[{index}]"), item))
                .collect::<Result<_, _>>()?,
        ),
        toml::Value::Table(table) => {
            let mut out = Map::new();
            for (key, item) in table {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                let item = json_of(&at, item)?;
                out.insert(key, item);
            }
            Value::Object(out)
        }
    })
}

fn read(mut fields: Fields, contract: semver::Version) -> Result<Manifest, ManifestError> {
    let id: PluginId = fields.parsed("id")?.ok_or_else(|| fields.missing("id"))?;
    let version = fields.parsed("version")?.ok_or_else(|| fields.missing("version"))?;
    let world: World = fields.parsed("world")?.ok_or_else(|| fields.missing("world"))?;
    let description = fields.text("description")?.ok_or_else(|| fields.missing("description"))?;
    let license = fields.text("license")?;
    let homepage = fields.text("homepage")?;
    let options = fields.take("options");
    let max_shards = fields.number("max_shards")?;
    let forward_port = fields.flag("forward_port")?;
    let dirs = fields.list("dir")?;
    let exec = fields.list("exec")?;
    let workspace = fields.list("workspace")?;
    fields.finish()?;

    if world.kind() != id.kind() {
        let worlds = World::ALL.into_iter().filter(|world| world.kind() == id.kind()).map(World::as_str);
        return Err(rule(
            "world",
            format!("`{world}` is no world of a {} (`{id}`): it must be {}", id.kind(), either(worlds)),
        ));
    }
    line("description", &description, 500)?;
    if let Some(license) = &license {
        line("license", license, 100)?;
    }
    if let Some(homepage) = &homepage {
        line("homepage", homepage, 300)?;
        if !homepage.starts_with("https://") || homepage.chars().any(char::is_whitespace) {
            return Err(rule(
                "homepage",
                format!("`{}` is no address that begins with `https://`", shown(homepage, 80)),
            ));
        }
    }
    let options = read_options(options)?;
    let manifest = Manifest {
        max_shards: read_max_shards(max_shards, world)?,
        forward_port: read_forward_port(forward_port, world)?,
        dirs: read_dirs(dirs, &options)?,
        exec: read_templates("exec", exec, Place::Exec, world, &options)?,
        workspace: read_templates("workspace", workspace, Place::Workspace, world, &options)?,
        id,
        version,
        world,
        contract,
        description,
        license,
        homepage,
        options,
    };
    Ok(manifest)
}

fn read_max_shards(given: Option<u64>, world: World) -> Result<u32, ManifestError> {
    let Some(given) = given else { return Ok(DEFAULT_MAX_SHARDS) };
    if world.kind() != Kind::Runner {
        return Err(rule(
            "max_shards",
            format!("a plugin of world `{world}` has no shards: it is for runners"),
        ));
    }
    u32::try_from(given)
        .ok()
        .filter(|count| (1..=MOST_SHARDS).contains(count))
        .ok_or_else(|| rule("max_shards", format!("{given} shards; 1 to {MOST_SHARDS} are admitted")))
}

fn read_forward_port(given: Option<bool>, world: World) -> Result<bool, ManifestError> {
    if given.is_some() && world != World::MachineRunner {
        return Err(rule(
            "forward_port",
            format!("a plugin of world `{world}` has no channel: it is for `{}`", World::MachineRunner),
        ));
    }
    Ok(given.unwrap_or(false))
}

fn rule(at: impl Into<String>, why: impl Into<String>) -> ManifestError {
    ManifestError::Rule { at: at.into(), why: why.into() }
}

fn either<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
}

/// A text that people read: one line, no more than it takes, nothing hidden in it.
fn line(at: &str, text: &str, max: usize) -> Result<(), ManifestError> {
    if text.trim().is_empty() || text.len() > max {
        return Err(rule(
            at,
            format!("it has {} bytes; 1 to {max} are admitted, and not only spaces", text.len()),
        ));
    }
    match text.chars().find(|&c| is_deceptive(c)) {
        Some(c) => Err(rule(at, format!("it holds `{}`, which a reader would not see", c.escape_unicode()))),
        None => Ok(()),
    }
}

/// A name of the plugin's own: of a template or a directory.
fn name(fields: &mut Fields, key: &'static str) -> Result<String, ManifestError> {
    let text = fields.text(key)?.ok_or_else(|| fields.missing(key))?;
    let fits = (1..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    if fits {
        Ok(text)
    } else {
        Err(rule(
            fields.at(key),
            format!("`{}` must be 1 to 64 of `a-z`, `0-9` and `-`, first a letter", shown(&text, 80)),
        ))
    }
}

fn read_options(options: Option<Value>) -> Result<Value, ManifestError> {
    let Some(options) = options else {
        return Ok(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    };
    let Value::Object(table) = &options else {
        return Err(ManifestError::Type {
            at: "options".to_owned(),
            wanted: "a JSON Schema as a table",
            found: crate::fields::kind_of(&options),
        });
    };
    if table.get("type") != Some(&Value::from("object")) {
        return Err(rule("options.type", "it must be `object`: options are named"));
    }
    if let Some(at) = foreign_ref("options", &options) {
        return Err(rule(at, "a `$ref` must stay in this schema, as `#/$defs/NAME`"));
    }
    mst_model::schema::check_schema(&options).map_err(ManifestError::Options)?;
    Ok(options)
}

/// The place of a reference that leads out of the schema: resolving one would be I/O.
fn foreign_ref(at: &str, value: &Value) -> Option<String> {
    match value {
        Value::Object(table) => table.iter().find_map(|(key, item)| {
            let at = format!("{at}.{}", shown(key, 64));
            let refers = matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef" | "$schema");
            match item.as_str() {
                Some(target) if refers && key == "$schema" => (!target
                    .starts_with("https://json-schema.org/draft/")
                    && !target.starts_with("http://json-schema.org/draft-"))
                .then_some(at),
                Some(target) if refers && !target.starts_with('#') => Some(at),
                _ => foreign_ref(&at, item),
            }
        }),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| foreign_ref(&format!("{at}[{index}]"), item))
        }
        _ => None,
    }
}

fn property<'a>(options: &'a Value, name: &str) -> Option<&'a Value> {
    options.get("properties")?.get(name)
}

fn no_such_option(at: String, name: &str, options: &Value) -> ManifestError {
    let known: Vec<&str> = options
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|all| all.keys().map(String::as_str))
        .collect();
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", listed(known)) };
    rule(at, format!("`options` has no property `{}`: {known}", shown(name, 64)))
}

fn read_dirs(list: Vec<Value>, options: &Value) -> Result<Vec<Dir>, ManifestError> {
    if list.len() > MAX_DIRS {
        return Err(rule("dir", format!("{} directories; at most {MAX_DIRS} are admitted", list.len())));
    }
    let mut dirs: Vec<Dir> = Vec::new();
    for (index, value) in list.into_iter().enumerate() {
        let mut fields = Fields::new(format!("dir[{index}]"), value)?;
        let name = name(&mut fields, "name")?;
        let access = match fields.text("access")?.ok_or_else(|| fields.missing("access"))?.as_str() {
            "read" => Access::Read,
            "read-write" => Access::ReadWrite,
            other => {
                return Err(rule(
                    fields.at("access"),
                    format!("`{}` must be `read` or `read-write`", shown(other, 64)),
                ));
            }
        };
        let option = fields.text("option")?;
        if let Some(option) = &option {
            let schema = property(options, option)
                .ok_or_else(|| no_such_option(fields.at("option"), option, options))?;
            let is = |key: &str, value: &str| schema.get(key).and_then(Value::as_str) == Some(value);
            if !is("type", "string") || !is("format", "path") {
                return Err(rule(
                    fields.at("option"),
                    format!(
                        "the schema of `{option}` must say `type = \"string\"` and `format = \"path\"`: naming a path there is the grant to it"
                    ),
                ));
            }
        }
        if dirs.iter().any(|other| other.name == name) {
            return Err(rule(fields.at("name"), format!("`{name}` stands twice")));
        }
        fields.finish()?;
        dirs.push(Dir { name, access, option });
    }
    Ok(dirs)
}

fn read_templates(
    key: &'static str,
    list: Vec<Value>,
    place: Place,
    world: World,
    options: &Value,
) -> Result<Vec<CommandTemplate>, ManifestError> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    if !world.admits(place) {
        let worlds = World::ALL.into_iter().filter(|world| world.admits(place)).map(World::as_str);
        return Err(rule(
            key,
            format!("a plugin of world `{world}` can't run these: `[[{key}]]` is for {}", either(worlds)),
        ));
    }
    if list.len() > MAX_TEMPLATES {
        return Err(rule(key, format!("{} templates; at most {MAX_TEMPLATES} are admitted", list.len())));
    }
    let mut templates: Vec<CommandTemplate> = Vec::new();
    for (index, value) in list.into_iter().enumerate() {
        let template = read_template(format!("{key}[{index}]"), value, place, options)?;
        if templates.iter().any(|other| other.id == template.id) {
            return Err(rule(format!("{key}[{index}].id"), format!("`{}` stands twice", template.id)));
        }
        templates.push(template);
    }
    Ok(templates)
}

fn read_template(
    at: String,
    value: Value,
    place: Place,
    options: &Value,
) -> Result<CommandTemplate, ManifestError> {
    let mut fields = Fields::new(at.clone(), value)?;
    let id = name(&mut fields, "id")?;
    let argv = fields.texts("argv")?;
    let timeout: Span = fields.parsed("timeout")?.ok_or_else(|| fields.missing("timeout"))?;
    let stdin = match fields.text("stdin")?.as_deref() {
        None | Some("none") => Stdin::None,
        Some("plugin") => Stdin::Plugin,
        Some(other) => {
            return Err(rule(
                fields.at("stdin"),
                format!("`{}` must be `none` or `plugin`", shown(other, 64)),
            ));
        }
    };
    let max_output_bytes = fields.number("max_output_bytes")?.unwrap_or(DEFAULT_OUTPUT_BYTES);
    if max_output_bytes > MAX_OUTPUT_BYTES {
        return Err(rule(
            fields.at("max_output_bytes"),
            format!("{max_output_bytes} bytes; at most {MAX_OUTPUT_BYTES} are admitted"),
        ));
    }
    let env = fields.texts("env")?;
    if env.len() > MAX_ENV {
        return Err(rule(fields.at("env"), format!("{} names; at most {MAX_ENV} are admitted", env.len())));
    }
    if let Some(wrong) = env.iter().find(|name| !is_env_name(name)) {
        return Err(rule(
            fields.at("env"),
            format!(
                "`{}` must be one variable's exact name, of letters, digits and `_`; there are no wildcards",
                shown(wrong, 80)
            ),
        ));
    }
    let argv_at = fields.at("argv");
    fields.finish()?;
    let template = Template::parse(&argv, place).map_err(|source| ManifestError::Template { at, source })?;
    for slot in template.slots().filter(|slot| slot.kind.filler() == Filler::User) {
        let SlotType::Option(name) = &slot.kind else { continue };
        let schema = property(options, name).ok_or_else(|| no_such_option(argv_at.clone(), name, options))?;
        if schema.get("type").and_then(Value::as_str) == Some("object") {
            return Err(rule(
                argv_at,
                format!("the option `{name}` is an object, which can't stand in a command"),
            ));
        }
    }
    Ok(CommandTemplate { id, template, timeout, stdin, max_output_bytes, env })
}

fn is_env_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNER: &str = r#"
        id = "acme/runner/box"
        version = "1.2.0"
        world = "machine-runner"
        description = "Machines in boxes."
        license = "Apache-2.0"
        homepage = "https://acme.example/box"
        max_shards = 8
        forward_port = true

        [options]
        type = "object"
        additionalProperties = false
        [options.properties.image]
        type = "string"
        [options.properties.extra]
        type = "array"
        items = { type = "string" }
        [options.properties.keys]
        type = "string"
        format = "path"

        [[dir]]
        name = "keys"
        access = "read"
        option = "keys"

        [[exec]]
        id = "create"
        argv = ["box", "new", "--name", "{machine}", "[--memory={memory:quantity}]", "{option(image)}", "{option(extra)}"]
        timeout = "2m"
        env = ["BOX_HOST"]

        [[exec]]
        id = "send"
        argv = ["box", "send", "{machine}"]
        timeout = "10s"
        stdin = "plugin"
        max_output_bytes = 4096
    "#;

    fn toml(text: &str) -> Result<Manifest, ManifestError> {
        Manifest::from_toml(text)
    }

    #[track_caller]
    fn refused(text: &str) -> ManifestError {
        toml(text).expect_err("refused")
    }

    /// The message with its causes, and the hint.
    fn told(error: &ManifestError) -> String {
        let mut out = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            out += &format!(": {source}");
            cause = source.source();
        }
        match error.hint() {
            Some(hint) => format!("{out} ({hint})"),
            None => out,
        }
    }

    #[test]
    fn toml_and_json_read_alike() {
        let manifest = toml(RUNNER).expect("valid");
        assert_eq!((manifest.exec.len(), manifest.dirs.len()), (2, 1));
        assert_eq!(manifest.exec("create").map(|create| create.timeout), Some(Span::secs(120)));
        assert_eq!(
            manifest.exec("send").map(|send| (send.stdin, send.max_output_bytes)),
            Some((Stdin::Plugin, 4096))
        );
        let json = serde_json::to_vec(&manifest.to_json()).expect("JSON");
        assert_eq!(Manifest::from_json(&json).expect("reads back"), manifest);
    }

    #[test]
    fn what_only_runners_have() {
        let head = |world: &str| {
            let kind = world.rsplit('-').next().unwrap_or_default();
            format!("id='a/{kind}/b'\nversion='0.1.0'\nworld='{world}'\ndescription='d'\n")
        };
        let read = |world: &str, more: &str| {
            toml(&(head(world) + more)).map(|manifest| (manifest.max_shards, manifest.forward_port))
        };
        assert_eq!(read("machine-runner", "").expect("valid"), (64, false));
        assert_eq!(
            read("machine-runner", "max_shards=10000\nforward_port=true").expect("valid"),
            (10_000, true)
        );
        assert_eq!(read("shard-runner", "max_shards=1").expect("valid"), (1, false));
        for (world, key) in [
            ("shard-runner", "forward_port=false"),
            ("judge", "max_shards=1"),
            ("dataset", "max_shards=1"),
            ("judge", "forward_port=false"),
        ] {
            assert!(matches!(read(world, key), Err(ManifestError::Rule { .. })), "{world} {key}");
        }
        for world in World::ALL {
            let json = toml(&head(world.as_str())).expect("valid").to_json();
            assert_eq!(json.get("max_shards").is_some(), world.kind() == Kind::Runner, "{world}");
            assert_eq!(json.get("forward_port").is_some(), world == World::MachineRunner, "{world}");
            Manifest::from_json(json.to_string().as_bytes()).expect("reads back");
        }
    }

    #[test]
    fn the_json_is_what_the_design_names() {
        let manifest = toml("id='a/judge/b'\nversion='0.1.0'\nworld='judge'\ndescription='d'\n[[workspace]]\nid='t'\nargv=['make']\ntimeout='1s'").expect("valid");
        insta::assert_snapshot!(serde_json::to_string_pretty(&manifest.to_json()).expect("JSON"), @r#"
        {
          "contract": "mst:plugin@0.1.0",
          "description": "d",
          "id": "a/judge/b",
          "options": {
            "additionalProperties": false,
            "properties": {},
            "type": "object"
          },
          "schema": "mst.manifest/v1",
          "version": "0.1.0",
          "workspace": [
            {
              "argv": [
                "make"
              ],
              "env": [],
              "id": "t",
              "max_output_bytes": 1048576,
              "stdin": "none",
              "timeout": "1s"
            }
          ],
          "world": "judge"
        }
        "#);
    }

    #[test]
    fn messages_say_where_what_and_how() {
        let with = |from: &str, to: &str| {
            assert!(RUNNER.contains(from), "{from}");
            told(&refused(&RUNNER.replacen(from, to, 1)))
        };
        let all = [
            with("license =", "licence ="),
            with("timeout = \"2m\"", "timeout = \"2m\"\nmax_output = 1"),
            with("timeout = \"2m\"", ""),
            with("timeout = \"2m\"", "timeout = \"soon\""),
            with("timeout = \"2m\"", "timeout = 120"),
            with("env = [\"BOX_HOST\"]", "env = [\"BOX_*\"]"),
            with("acme/runner/box", "acme/judge/box"),
            with("\"machine-runner\"", "\"runner\""),
            with("1.2.0", "1.2"),
            with("access = \"read\"", "access = \"write\""),
            with("option = \"keys\"", "option = \"image\""),
            with("option = \"keys\"", "option = \"key\""),
            with("{option(image)}", "{option(imgae)}"),
            with("{memory:quantity}", "{memory:amount}"),
            with("id = \"send\"", "id = \"create\""),
            with("[[exec]]", "[[workspace]]"),
            with("[[dir]]", "[[http]]\nhosts = ['x']\n[[dir]]"),
            with("Machines in", "Machines\u{202e} in"),
            with("type = \"object\"", "type = \"array\""),
            with("type = \"object\"", "type = \"object\"\nminProperties = \"x\""),
            with("type = \"object\"", "type = \"object\"\n\"$ref\" = \"file:///etc/passwd\""),
            with("type = \"object\"", "type = \"object\"\nx = 1979-05-27"),
            with("max_output_bytes = 4096", "max_output_bytes = 67108865"),
            with("max_output_bytes = 4096", "max_output_bytes = -1"),
            with("max_shards = 8", "max_shards = 0"),
            with("max_shards = 8", "max_shards = 10001"),
            with("forward_port = true", "forward_port = 1"),
            with("\"machine-runner\"", "\"shard-runner\""),
        ];
        insta::assert_snapshot!(all.join("\n"), @r#"
        unknown key `licence` (did you mean `license`?)
        unknown key `max_output` in `exec[0]` (known keys: `id`, `argv`, `timeout`, `stdin`, `max_output_bytes`, `env`)
        `exec[0].timeout` is missing
        `exec[0].timeout` can't be `soon`: `soon` is no length of time: write a number and a unit, as `90s`, `10m` or `1h 30m`; at least `1ms`, at most `30days`
        `exec[0].timeout` must be text, and is a number
        `exec[0].env`: `BOX_*` must be one variable's exact name, of letters, digits and `_`; there are no wildcards
        `world`: `machine-runner` is no world of a judge (`acme/judge/box`): it must be `judge`
        `world` can't be `runner`: a world is `machine-runner`, `shard-runner`, `dataset`, `judge`
        `version` can't be `1.2`: unexpected end of input while parsing minor version number
        `dir[0].access`: `write` must be `read` or `read-write`
        `dir[0].option`: the schema of `image` must say `type = "string"` and `format = "path"`: naming a path there is the grant to it
        `dir[0].option`: `options` has no property `key`: it has `extra`, `image`, `keys`
        `exec[0].argv`: `options` has no property `imgae`: it has `extra`, `image`, `keys`
        `exec[0]` is no command template: `argv[4]` (`[--memory={memory:amount}]`): `amount` is no slot type (the types are `ident`, `uint(a..b)`, `quantity`, `enum(a|b)`, `oci-ref`, `machine-path`, `text(/regex/)`, `option(NAME)` and `host-dir`; the host's own slots are `{machine}`, `{run}`, `{command...}` and `{command:shell}`)
        `exec[1].id`: `create` stands twice
        `workspace`: a plugin of world `machine-runner` can't run these: `[[workspace]]` is for `judge`
        the manifest asks for `http`, a capability that this version of mst does not know (use a newer mst, or a version of the plugin that does without)
        `description`: it holds `\u{202e}`, which a reader would not see
        `options.type`: it must be `object`: options are named
        `options` is not a JSON Schema: "x" is not of type "integer"
        `options.$ref`: a `$ref` must stay in this schema, as `#/$defs/NAME`
        `options.x`: a date has no place in a manifest
        `exec[1].max_output_bytes`: 67108865 bytes; at most 67108864 are admitted
        `exec[1].max_output_bytes` must be a whole number, 0 or more, and is a number
        `max_shards`: 0 shards; 1 to 10000 are admitted
        `max_shards`: 10001 shards; 1 to 10000 are admitted
        `forward_port` must be true or false, and is a number
        `forward_port`: a plugin of world `shard-runner` has no channel: it is for `machine-runner`
        "#);
    }

    #[test]
    fn no_toml_says_where() {
        let error = refused("id = \nversion");
        assert!(told(&error).contains("line 2, column 8"), "{}", told(&error));
    }

    #[test]
    fn json_of_another_format_is_told_apart() {
        let json = |edit: &dyn Fn(&mut Value)| {
            let mut value = toml(RUNNER).expect("valid").to_json();
            edit(&mut value);
            Manifest::from_json(value.to_string().as_bytes()).map_err(|error| told(&error))
        };
        assert_eq!(
            json(&|value| value["schema"] = "mst.manifest/v2".into()),
            Err("the manifest's format is `mst.manifest/v2`, and this mst reads `mst.manifest/v1` (upgrade mst)".to_owned())
        );
        assert!(
            json(&|value| value["schema"] = "other".into())
                .is_err_and(|told| told.contains("mst plugin build"))
        );
        assert!(json(&|value| value["contract"] = "mst:plugin@x".into()).is_err());
        assert!(json(&|value| drop(value.as_object_mut().map(|all| all.remove("schema")))).is_err());
        assert!(json(&|value| value["secret"] = json!(["X"])).is_err_and(|told| told.contains("newer mst")));
        assert_eq!(
            json(&|value| value["contract"] = "mst:plugin@0.2.0".into()).expect("read").contract.minor,
            2
        );
        assert!(matches!(Manifest::from_json(b"{\"id\":1,\"id\":2}"), Err(ManifestError::Json(_))));
        assert!(matches!(Manifest::from_json(b"[]"), Err(ManifestError::Type { .. })));
    }

    #[test]
    fn bounds() {
        assert!(matches!(toml(&" ".repeat(MAX_BYTES + 1)), Err(ManifestError::TooLarge { .. })));
        let many: String =
            (0..65).map(|n| format!("[[exec]]\nid='t{n}'\nargv=['x']\ntimeout='1s'\n")).collect();
        let head = "id='a/runner/b'\nversion='0.1.0'\nworld='shard-runner'\ndescription='d'\n";
        assert!(told(&refused(&format!("{head}{many}"))).contains("65 templates"));
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(Manifest::from_json(deep.as_bytes()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let _ = Manifest::from_json(&bytes);
            let _ = Manifest::from_toml(&String::from_utf8_lossy(&bytes));
        }
    }
}
