//! Reading what a manifest asks for: one table a request. `mst.lock` holds the same tables, and
//! they are read here too.

use std::collections::{BTreeMap, BTreeSet};

use mst_model::{Digest, Span};
use serde_json::Value;

use super::read::{either, line, name, rule};
use super::{Fields, ManifestError};
use crate::legible::{listed, shown};
use crate::request::{
    Access, CommandTemplate, Destination, DestinationError, Dir, Http, Method, SECRET_CLOSE, SECRET_OPEN,
    Secret, SecretVar, Stdin,
};
use crate::template::{Filler, Place, SlotType, Template};
use crate::world::World;

const MAX_TEMPLATES: usize = 64;
const MAX_DIRS: usize = 16;
const MAX_HTTP: usize = 32;
const MAX_SECRETS: usize = 16;
const MAX_ENV: usize = 32;
const DEFAULT_OUTPUT_BYTES: u64 = 1024 * 1024;
const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// What requests of a manifest refer to.
pub(super) struct Context<'a> {
    pub(super) world: World,
    pub(super) options: &'a Value,
    pub(super) secrets: &'a [Secret],
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

fn at_most(key: &str, count: usize, max: usize, what: &str) -> Result<(), ManifestError> {
    if count > max {
        return Err(rule(key, format!("{count} {what}; at most {max} are admitted")));
    }
    Ok(())
}

/// Every table of a list, each under another name.
fn each<T>(
    key: &str,
    list: Vec<Value>,
    named: &'static str,
    name_of: impl Fn(&T) -> String,
    read: impl Fn(&mut Fields) -> Result<T, ManifestError>,
) -> Result<Vec<T>, ManifestError> {
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for (index, value) in list.into_iter().enumerate() {
        let mut fields = Fields::new(format!("{key}[{index}]"), value)?;
        let item = read(&mut fields)?;
        let name = name_of(&item);
        if seen.contains(&name) {
            return Err(rule(fields.at(named), format!("`{name}` stands twice")));
        }
        seen.insert(name);
        fields.finish()?;
        out.push(item);
    }
    Ok(out)
}

pub(super) fn read_dirs(list: Vec<Value>, options: &Value) -> Result<Vec<Dir>, ManifestError> {
    at_most("dir", list.len(), MAX_DIRS, "directories")?;
    each(
        "dir",
        list,
        "name",
        |dir: &Dir| dir.name.clone(),
        |fields| {
            let dir = read_dir(fields)?;
            if let Some(option) = &dir.option {
                check_path_option(fields.at("option"), option, options)?;
            }
            Ok(dir)
        },
    )
}

/// One directory; whether its option is one is not looked at.
pub(crate) fn read_dir(fields: &mut Fields) -> Result<Dir, ManifestError> {
    let name = name(fields, "name")?;
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
    Ok(Dir { name, access, option: fields.text("option")? })
}

fn check_path_option(at: String, option: &str, options: &Value) -> Result<(), ManifestError> {
    let schema = property(options, option).ok_or_else(|| no_such_option(at.clone(), option, options))?;
    let is = |key: &str, value: &str| schema.get(key).and_then(Value::as_str) == Some(value);
    if !is("type", "string") || !is("format", "path") {
        return Err(rule(
            at,
            format!(
                "the schema of `{option}` must say `type = \"string\"` and `format = \"path\"`: naming a path there is the grant to it"
            ),
        ));
    }
    if schema.get("default").is_some() {
        return Err(rule(
            at,
            format!(
                "the schema of `{option}` must have no `default`: naming a path there is the user's grant to it"
            ),
        ));
    }
    Ok(())
}

pub(super) fn read_http(list: Vec<Value>) -> Result<Vec<Http>, ManifestError> {
    at_most("http", list.len(), MAX_HTTP, "destinations")?;
    each("http", list, "to", |http: &Http| http.to.to_string(), read_http_one)
}

/// One destination.
pub(crate) fn read_http_one(fields: &mut Fields) -> Result<Http, ManifestError> {
    let to: Destination = fields.parsed("to")?.ok_or_else(|| fields.missing("to"))?;
    let mut methods = Vec::new();
    for name in fields.texts("methods")? {
        let Some(method) = Method::of(&name) else {
            return Err(rule(
                fields.at("methods"),
                format!("`{}` must be one of {}", shown(&name, 40), listed(Method::ALL.map(Method::as_str))),
            ));
        };
        methods.push(method);
    }
    methods.sort();
    methods.dedup();
    if methods.is_empty() {
        return Err(rule(fields.at("methods"), "it must name at least one method, as `GET`"));
    }
    Ok(Http { to, methods, private: fields.flag("private")?.unwrap_or(false) })
}

pub(super) fn read_secrets(list: Vec<Value>, http: &[Http]) -> Result<Vec<Secret>, ManifestError> {
    at_most("secret", list.len(), MAX_SECRETS, "secrets")?;
    each(
        "secret",
        list,
        "name",
        |secret: &Secret| secret.name.clone(),
        |fields| {
            let secret = read_secret(fields)?;
            let foreign = secret.to.iter().find(|to| !http.iter().any(|http| http.to.covers(to)));
            match foreign {
                Some(to) => Err(rule(
                    fields.at("to"),
                    format!("`{to}` is asked for by no `[[http]]`: a secret goes only where requests may go"),
                )),
                None => Ok(secret),
            }
        },
    )
}

/// One secret; whether requests may go where it may is not looked at.
pub(crate) fn read_secret(fields: &mut Fields) -> Result<Secret, ManifestError> {
    let name = name(fields, "name")?;
    let about = fields.text("about")?.ok_or_else(|| fields.missing("about"))?;
    line(&fields.at("about"), &about, 300)?;
    let at = fields.at("to");
    let mut to: Vec<Destination> = Vec::new();
    for text in fields.texts("to")? {
        let refused = |source: DestinationError| ManifestError::Value {
            at: at.clone(),
            value: shown(&text, 80),
            source: Box::new(source),
        };
        to.push(text.parse().map_err(refused)?);
    }
    to.sort();
    to.dedup();
    Ok(Secret { name, about, to })
}

pub(super) fn read_env(names: Vec<String>) -> Result<Vec<String>, ManifestError> {
    env_names("env", names.iter().map(String::as_str))?;
    Ok(names)
}

/// One variable, as the lock has it.
pub(crate) fn read_env_one(fields: &mut Fields) -> Result<String, ManifestError> {
    let name = fields.text("name")?.ok_or_else(|| fields.missing("name"))?;
    env_names(&fields.at("name"), std::iter::once(name.as_str()))?;
    Ok(name)
}

/// Exact names, none of them twice.
fn env_names<'a>(at: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<(), ManifestError> {
    at_most(at, names.clone().count(), MAX_ENV, "names")?;
    let mut seen = BTreeSet::new();
    for name in names {
        if !is_env_name(name) {
            return Err(rule(
                at,
                format!(
                    "`{}` must be one variable's exact name, of letters, digits and `_`; there are no wildcards",
                    shown(name, 80)
                ),
            ));
        }
        if !seen.insert(name) {
            return Err(rule(at, format!("`{name}` stands twice")));
        }
    }
    Ok(())
}

pub(super) fn read_templates(
    key: &'static str,
    list: Vec<Value>,
    place: Place,
    context: &Context<'_>,
) -> Result<Vec<CommandTemplate>, ManifestError> {
    let world = context.world;
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
    at_most(key, list.len(), MAX_TEMPLATES, "templates")?;
    each(
        key,
        list,
        "id",
        |command: &CommandTemplate| command.id.clone(),
        |fields| {
            let mut command = read_template(fields, place)?;
            own_options(&fields.at("argv"), &mut command, context.options)?;
            for var in &command.secrets {
                if context.secrets.iter().all(|secret| secret.name != var.secret) {
                    return Err(rule(
                        fields.at("env"),
                        format!("`{}` is asked for by no `[[secret]]`", shown(&var.secret, 64)),
                    ));
                }
            }
            Ok(command)
        },
    )
}

/// One command; whether its options and secrets are there is not looked at.
pub(crate) fn read_template(fields: &mut Fields, place: Place) -> Result<CommandTemplate, ManifestError> {
    let id = name(fields, "id")?;
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
    let (env, secrets) = read_command_env(fields)?;
    if place == Place::Workspace && !(env.is_empty() && secrets.is_empty()) {
        return Err(rule(
            fields.at("env"),
            "a command in a workspace gets none of your variables and no secret: what stands there was \
             written by the client that is graded",
        ));
    }
    let template = Template::parse(&argv, place)
        .map_err(|source| ManifestError::Template { at: fields.place().to_owned(), source })?;
    Ok(CommandTemplate {
        id,
        template,
        timeout,
        stdin,
        max_output_bytes,
        env,
        secrets,
        defaults: BTreeMap::new(),
        options: BTreeMap::new(),
    })
}

/// `NAME`, from the user's environment, or `NAME={{secret:SECRET}}`.
fn read_command_env(fields: &mut Fields) -> Result<(Vec<String>, Vec<SecretVar>), ManifestError> {
    let at = fields.at("env");
    let (mut env, mut secrets) = (Vec::new(), Vec::new());
    for text in fields.texts("env")? {
        let Some((name, value)) = text.split_once('=') else {
            env.push(text);
            continue;
        };
        let secret = value.strip_prefix(SECRET_OPEN).and_then(|rest| rest.strip_suffix(SECRET_CLOSE));
        let Some(secret) = secret.filter(|secret| super::read::is_name(secret)) else {
            return Err(rule(
                at,
                format!("`{}`: what stands behind the `=` must be `{{{{secret:NAME}}}}`", shown(&text, 80)),
            ));
        };
        if matches!(name, "PATH" | "HOME") {
            return Err(rule(at, format!("`{name}` is the host's, and no secret")));
        }
        secrets.push(SecretVar { name: name.to_owned(), secret: secret.to_owned() });
    }
    let names = env.iter().map(String::as_str).chain(secrets.iter().map(|var| var.name.as_str()));
    env_names(&at, names)?;
    Ok((env, secrets))
}

/// What in a schema admits and refuses nothing; a default is told apart.
const WORDS: [&str; 5] = ["$comment", "default", "description", "examples", "title"];

/// What is noted of the whole schema beside an option that does not stand by itself.
const WITHIN: &str = "$within";

/// What stands at the root of a schema of options and says nothing of what one of them admits.
const OF_THE_ROOT: [&str; 5] = ["$defs", "$schema", "additionalProperties", "properties", "required"];

/// Whether a schema refers to another anywhere.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(table) => table.iter().any(|(key, value)| {
            matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") || refers(value)
        }),
        Value::Array(list) => list.iter().any(refers),
        _ => false,
    }
}

fn holds_more_than_options(options: &Value) -> bool {
    let plain = |key: &String| key == "type" || OF_THE_ROOT.contains(&&**key) || WORDS.contains(&&**key);
    options.as_object().is_some_and(|table| !table.keys().all(plain))
}

/// Notes what the schema says of the options of a command.
fn own_options(at: &str, command: &mut CommandTemplate, options: &Value) -> Result<(), ManifestError> {
    for slot in command.template.slots().filter(|slot| slot.kind.filler() == Filler::User) {
        let SlotType::Option(name) = &slot.kind else { continue };
        let schema = property(options, name).ok_or_else(|| no_such_option(at.to_owned(), name, options))?;
        if schema.get("type").and_then(Value::as_str) == Some("object") {
            return Err(rule(
                at,
                format!("the option `{name}` is an object, which can't stand in a command"),
            ));
        }
        if let Some(default) = schema.get("default") {
            command.defaults.insert(name.clone(), default.clone());
        }
        let mut schema = schema.clone();
        let refers = refers(&schema);
        if let Some(table) = schema.as_object_mut() {
            table.retain(|key, _| !WORDS.contains(&key.as_str()));
            // What it refers to, and what stands over all options, is a part of it: another text of
            // either counts as wider.
            if refers || holds_more_than_options(options) {
                let all = Digest::of_json(options).map_err(|error| rule(at, error.to_string()))?;
                table.insert(WITHIN.to_owned(), Value::String(all.to_string()));
            }
        }
        command.options.insert(name.clone(), schema);
    }
    Ok(())
}

pub(crate) fn is_env_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}
