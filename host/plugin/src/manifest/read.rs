//! Reading a manifest's head: who it is, and its options.

use mst_model::{Kind, PluginId};
use serde_json::{Map, Value, json};

use super::requests::{Context, read_dirs, read_env, read_http, read_secrets, read_templates};
use super::{Fields, MAX_BYTES, Manifest, ManifestError};
use crate::legible::{is_deceptive, shown};
use crate::template::Place;
use crate::world::World;

const DEFAULT_MAX_SHARDS: u32 = 64;
const MOST_SHARDS: u32 = 10_000;

pub(super) fn bounded(size_bytes: usize) -> Result<(), ManifestError> {
    if size_bytes > MAX_BYTES { Err(ManifestError::TooLarge { size_bytes }) } else { Ok(()) }
}

/// TOML as JSON. Dates and numbers that are none have no counterpart.
pub(crate) fn json_of(at: &str, value: toml::Value) -> Result<Value, ManifestError> {
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

pub(super) fn read(mut fields: Fields, contract: semver::Version) -> Result<Manifest, ManifestError> {
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
    let http = fields.list("http")?;
    let env = fields.texts("env")?;
    let secrets = fields.list("secret")?;
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
    let http = read_http(http)?;
    let secrets = read_secrets(secrets, &http)?;
    let context = Context { world, options: &options, secrets: &secrets };
    let manifest = Manifest {
        max_shards: read_max_shards(max_shards, world)?,
        forward_port: read_forward_port(forward_port, world)?,
        dirs: read_dirs(dirs, &options)?,
        env: read_env(env)?,
        exec: read_templates("exec", exec, Place::Exec, &context)?,
        workspace: read_templates("workspace", workspace, Place::Workspace, &context)?,
        http,
        secrets,
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

pub(super) fn rule(at: impl Into<String>, why: impl Into<String>) -> ManifestError {
    ManifestError::Rule { at: at.into(), why: why.into() }
}

pub(super) fn either<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
}

/// A text that people read: one line, no more than it takes, nothing hidden in it.
pub(super) fn line(at: &str, text: &str, max: usize) -> Result<(), ManifestError> {
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
pub(super) fn name(fields: &mut Fields, key: &'static str) -> Result<String, ManifestError> {
    let text = fields.text(key)?.ok_or_else(|| fields.missing(key))?;
    if is_name(&text) {
        Ok(text)
    } else {
        Err(rule(
            fields.at(key),
            format!("`{}` must be 1 to 64 of `a-z`, `0-9` and `-`, first a letter", shown(&text, 80)),
        ))
    }
}

pub(super) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}

fn read_options(options: Option<Value>) -> Result<Value, ManifestError> {
    let Some(options) = options else {
        return Ok(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    };
    let Value::Object(table) = &options else {
        return Err(ManifestError::Type {
            at: "options".to_owned(),
            wanted: "a JSON Schema as a table",
            found: super::fields::kind_of(&options),
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
