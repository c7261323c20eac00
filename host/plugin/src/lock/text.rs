//! The lock as TOML. The tables of requests are those of a manifest, read by the manifest's own
//! reader, with what the user said of each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mst_model::{Digest, PluginId};
use serde::Serialize;
use serde_json::Value;

use super::{Asked, Lock, LockError, MAX_BYTES, Pinned, SCHEMA, field, format_of, is_own};
use crate::grant::{Bindings, Source};
use crate::legible::is_deceptive;
use crate::manifest::read::json_of;
use crate::manifest::requests::{read_dir, read_env_one, read_http_one, read_secret, read_template};
use crate::manifest::{Fields, ManifestError};
use crate::request::{Access, CommandTemplate, Destination, Key, Method, Request, Stdin};
use crate::template::Place;
use crate::world::World;

const HEAD: &str = "\
# What plugins may do here, and who they are. `mst plugin add`, `grant` and `revoke` write this file;
# commit it beside the eval.
";

#[derive(Serialize)]
struct LockTable<'a> {
    schema: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plugin: Vec<PluginTable<'a>>,
}

#[derive(Serialize)]
struct PluginTable<'a> {
    id: &'a str,
    version: String,
    source: String,
    sha256: String,
    world: World,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_shards: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forward_port: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exec: Vec<CommandTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    workspace: Vec<CommandTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dir: Vec<DirTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    http: Vec<HttpTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secret: Vec<SecretTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<EnvTable<'a>>,
}

#[derive(Serialize)]
struct CommandTable<'a> {
    id: &'a str,
    granted: bool,
    argv: Vec<&'a str>,
    timeout: String,
    stdin: Stdin,
    max_output_bytes: u64,
    env: Vec<String>,
    /// As JSON: TOML has no null.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    defaults: BTreeMap<&'a str, String>,
    /// As JSON, for the same reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<&'a str, String>,
}

#[derive(Serialize)]
struct DirTable<'a> {
    name: &'a str,
    granted: bool,
    access: Access,
    #[serde(skip_serializing_if = "Option::is_none")]
    option: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Serialize)]
struct HttpTable<'a> {
    to: &'a Destination,
    granted: bool,
    methods: &'a [Method],
    private: bool,
}

#[derive(Serialize)]
struct SecretTable<'a> {
    name: &'a str,
    granted: bool,
    about: &'a str,
    #[serde(skip_serializing_if = "<[Destination]>::is_empty")]
    to: &'a [Destination],
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

#[derive(Serialize)]
struct EnvTable<'a> {
    name: &'a str,
    granted: bool,
}

pub(super) fn write(lock: &Lock) -> Result<String, LockError> {
    let plugin = lock.plugins.values().map(plugin_table).collect();
    let text = toml::to_string(&LockTable { schema: SCHEMA, plugin })
        .map_err(|error| LockError::Write(Box::new(error)))?;
    let text = format!("{HEAD}{text}");
    match text.len() {
        // Nobody could read it any more.
        size_bytes if size_bytes > MAX_BYTES => Err(LockError::TooLarge { size_bytes }),
        _ => Ok(text),
    }
}

fn plugin_table(plugin: &Pinned) -> PluginTable<'_> {
    let mut table = PluginTable {
        id: plugin.id.as_str(),
        version: plugin.version.to_string(),
        source: plugin.source.to_string_lossy().into_owned(),
        sha256: plugin.sha256.to_string(),
        world: plugin.world,
        max_shards: plugin.max_shards,
        forward_port: plugin.forward_port,
        exec: Vec::new(),
        workspace: Vec::new(),
        dir: Vec::new(),
        http: Vec::new(),
        secret: Vec::new(),
        env: Vec::new(),
    };
    for Asked { request, granted } in plugin.requests.values() {
        let granted = *granted;
        match request {
            Request::Exec(command) => table.exec.push(command_table(command, granted)),
            Request::Workspace(command) => table.workspace.push(command_table(command, granted)),
            Request::Dir(dir) => table.dir.push(DirTable {
                name: &dir.name,
                granted,
                access: dir.access,
                option: dir.option.as_deref(),
                path: plugin.bindings.dirs.get(&dir.name).map(|path| path.to_string_lossy().into_owned()),
            }),
            Request::Http(http) => table.http.push(HttpTable {
                to: &http.to,
                granted,
                methods: &http.methods,
                private: http.private,
            }),
            Request::Secret(secret) => table.secret.push(SecretTable {
                name: &secret.name,
                granted,
                about: &secret.about,
                to: &secret.to,
                from: plugin.bindings.secrets.get(&secret.name).map(ToString::to_string),
            }),
            Request::Env(name) => table.env.push(EnvTable { name, granted }),
        }
    }
    table
}

fn command_table(command: &CommandTemplate, granted: bool) -> CommandTable<'_> {
    CommandTable {
        id: &command.id,
        granted,
        argv: command.template.argv(),
        timeout: command.timeout.to_string(),
        stdin: command.stdin,
        max_output_bytes: command.max_output_bytes,
        env: command.env_lines(),
        defaults: json_of_each(&command.defaults),
        options: json_of_each(&command.options),
    }
}

fn json_of_each(values: &BTreeMap<String, Value>) -> BTreeMap<&str, String> {
    values.iter().map(|(name, value)| (name.as_str(), value.to_string())).collect()
}

pub(super) fn read(text: &str) -> Result<Lock, LockError> {
    if text.len() > MAX_BYTES {
        return Err(LockError::TooLarge { size_bytes: text.len() });
    }
    let table: toml::Table = toml::from_str(text).map_err(|error| LockError::Toml(Box::new(error)))?;
    let value = json_of("", toml::Value::Table(table)).map_err(field)?;
    let mut fields = Fields::new("", value).map_err(field)?;
    // First of all: in another format any other complaint would be beside the point.
    match fields.text("schema").map_err(field)? {
        Some(found) if found == SCHEMA => {}
        Some(found) => return Err(format_of(&found)),
        None => return Err(field(fields.missing("schema"))),
    }
    let plugins = fields.list("plugin").map_err(field)?;
    fields.finish().map_err(field)?;
    let mut lock = Lock::default();
    for (index, value) in plugins.into_iter().enumerate() {
        let plugin = read_plugin(format!("plugin[{index}]"), value)?;
        if lock.plugins.contains_key(&plugin.id) {
            return Err(LockError::Twice(plugin.id.to_string()));
        }
        lock.put(plugin);
    }
    Ok(lock)
}

fn read_plugin(at: String, value: Value) -> Result<Pinned, LockError> {
    let mut fields = Fields::new(at, value).map_err(field)?;
    let mut entry = Entry { requests: BTreeMap::new(), bindings: Bindings::default() };
    let plugin = (|| {
        let id: PluginId = fields.parsed("id")?.ok_or_else(|| fields.missing("id"))?;
        let version: semver::Version = fields.parsed("version")?.ok_or_else(|| fields.missing("version"))?;
        let source = path(&mut fields, "source")?.ok_or_else(|| fields.missing("source"))?;
        let sha256: Digest = fields.parsed("sha256")?.ok_or_else(|| fields.missing("sha256"))?;
        let world: World = fields.parsed("world")?.ok_or_else(|| fields.missing("world"))?;
        let max_shards = fields.number("max_shards")?.and_then(|count| u32::try_from(count).ok());
        let forward_port = fields.flag("forward_port")?;
        Ok((id, version, source, sha256, world, max_shards, forward_port))
    })();
    let (id, version, source, sha256, world, max_shards, forward_port) = plugin.map_err(field)?;
    if is_own(&id) {
        return Err(LockError::Own(id));
    }
    for key in ["exec", "workspace", "dir", "http", "secret", "env"] {
        for (index, value) in fields.list(key).map_err(field)?.into_iter().enumerate() {
            let mut table = Fields::new(format!("{}[{index}]", fields.at(key)), value).map_err(field)?;
            entry.read(key, &mut table).map_err(field).and_then(|asked| {
                table.finish().map_err(field)?;
                let key = asked.request.key();
                match entry.requests.insert(key.clone(), asked) {
                    Some(_) => Err(LockError::Twice(format!("{key}` of `{id}"))),
                    None => Ok(()),
                }
            })?;
        }
    }
    fields.finish().map_err(field)?;
    let Entry { requests, bindings } = entry;
    Ok(Pinned { id, version, source, sha256, world, max_shards, forward_port, requests, bindings })
}

struct Entry {
    requests: BTreeMap<Key, Asked>,
    bindings: Bindings,
}

impl Entry {
    fn read(&mut self, kind: &str, fields: &mut Fields) -> Result<Asked, ManifestError> {
        let granted = fields.flag("granted")?.ok_or_else(|| fields.missing("granted"))?;
        let request = match kind {
            "exec" => Request::Exec(command(fields, Place::Exec)?),
            "workspace" => Request::Workspace(command(fields, Place::Workspace)?),
            "dir" => {
                let dir = read_dir(fields)?;
                if let Some(path) = path(fields, "path")? {
                    self.bindings.dirs.insert(dir.name.clone(), path);
                }
                Request::Dir(dir)
            }
            "http" => Request::Http(read_http_one(fields)?),
            "secret" => {
                let secret = read_secret(fields)?;
                if let Some(source) = fields.parsed::<Source>("from")? {
                    self.bindings.secrets.insert(secret.name.clone(), source);
                }
                Request::Secret(secret)
            }
            _ => Request::Env(read_env_one(fields)?),
        };
        Ok(Asked { request, granted })
    }
}

fn command(fields: &mut Fields, place: Place) -> Result<CommandTemplate, ManifestError> {
    let mut command = read_template(fields, place)?;
    command.defaults = values(fields, "defaults")?;
    command.options = values(fields, "options")?;
    Ok(command)
}

/// A table of JSON, each as text.
fn values(fields: &mut Fields, key: &'static str) -> Result<BTreeMap<String, Value>, ManifestError> {
    let at = fields.at(key);
    let read = |(name, text): (String, Value)| {
        let value = text.as_str().and_then(|text| serde_json::from_str(text).ok());
        match value {
            Some(value) => Ok((name, value)),
            None => Err(ManifestError::Rule {
                at: format!("{at}.{name}"),
                why: "it must be JSON, as text".to_owned(),
            }),
        }
    };
    fields.table(key)?.into_iter().map(read).collect()
}

/// A path that a reader sees as it is.
fn path(fields: &mut Fields, key: &'static str) -> Result<Option<PathBuf>, ManifestError> {
    let Some(text) = fields.text(key)? else { return Ok(None) };
    if text.is_empty() || text.chars().any(is_deceptive) {
        return Err(ManifestError::Rule {
            at: fields.at(key),
            why: "a path has at least one character, and none that a reader would not see".to_owned(),
        });
    }
    Ok(Some(PathBuf::from(text)))
}
