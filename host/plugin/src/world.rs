//! The worlds of `mst:plugin`, and whether a component fits the one that its manifest names.
//!
//! A component is checked here and not at its first call, so that who installs a plugin learns
//! which function differs, which side is older, and who has to upgrade.

use std::fmt;
use std::str::FromStr;

use mst_model::Kind;
use serde::{Serialize, Serializer};
use wit_component::DecodedWasm;
use wit_parser::{Interface, Resolve, WorldId, WorldItem, WorldKey};

use crate::component::PluginFile;
use crate::contract::{Contract, contract, contract_version};
use crate::legible::{listed, shown};
use crate::signature;
use crate::template::Place;

/// The contract's package.
const PACKAGE: &str = "mst:plugin";

/// What of WASI 0.2 a plugin can import. Sockets are not there.
const WASI: [&str; 5] = ["cli", "clocks", "filesystem", "io", "random"];

/// What of `wasi:http` a plugin can import that asks for `[[http]]`: to send requests, and never to
/// be sent any.
const HTTP: [&str; 2] = ["types", "outgoing-handler"];

/// What a plugin implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum World {
    /// A runner that makes machines and a channel to each.
    MachineRunner,
    /// A runner that carries a whole shard.
    ShardRunner,
    /// A source of cases.
    Dataset,
    /// A grader of trials.
    Judge,
}

/// A text that names no world.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a world is {}", listed(World::ALL.map(World::as_str)))]
pub struct NoWorld;

impl World {
    /// All of them.
    pub const ALL: [World; 4] = [World::MachineRunner, World::ShardRunner, World::Dataset, World::Judge];

    /// Its name in the contract and in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            World::MachineRunner => "machine-runner",
            World::ShardRunner => "shard-runner",
            World::Dataset => "dataset",
            World::Judge => "judge",
        }
    }

    /// The kind of plugin that implements it.
    pub fn kind(self) -> Kind {
        match self {
            World::MachineRunner | World::ShardRunner => Kind::Runner,
            World::Dataset => Kind::Dataset,
            World::Judge => Kind::Judge,
        }
    }

    /// Whether its plugins can run command templates there: whether it imports `process`, or
    /// `workspace`.
    pub fn admits(self, place: Place) -> bool {
        match place {
            Place::Exec => matches!(self, World::MachineRunner | World::ShardRunner),
            Place::Workspace => self == World::Judge,
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for World {
    type Err = NoWorld;

    fn from_str(text: &str) -> Result<Self, NoWorld> {
        World::ALL.into_iter().find(|world| world.as_str() == text).ok_or(NoWorld)
    }
}

impl Serialize for World {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Why a component does not fit its world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// Built for another version of the contract.
    #[error("the plugin needs `mst:plugin@{plugin}`, and this mst has `mst:plugin@{host}`")]
    Contract {
        /// What the plugin was built for.
        plugin: semver::Version,
        /// What this mst has.
        host: semver::Version,
    },
    /// An import that no plugin is given.
    #[error("no plugin gets `{import}`")]
    NotGiven {
        /// Its name without the version, as `wasi:sockets/tcp`.
        import: String,
    },
    /// What only a plugin gets that asks for a host.
    #[error("the plugin imports `{import}`, and its manifest asks for no `[[http]]`")]
    HttpNotAsked {
        /// Its name without the version.
        import: String,
    },
    /// A version of WASI that is not 0.2.
    #[error("the plugin needs `{import}`, and this mst gives WASI 0.2")]
    Wasi {
        /// Its whole name.
        import: String,
    },
    /// An interface of the contract's package that is not there.
    #[error("the plugin imports `{interface}`, which `mst:plugin@{}` does not have", contract_version())]
    NoInterface {
        /// Its name.
        interface: String,
    },
    /// An interface that another world has.
    #[error("the plugin imports `{interface}`, which a plugin of world `{world}` does not get")]
    NotInWorld {
        /// Its name.
        interface: String,
        /// What the manifest says.
        world: World,
        /// Whose plugins get it.
        others: Vec<World>,
        /// What world the exports would fit.
        looks_like: Option<World>,
    },
    /// Something that the world exports is not there.
    #[error("the plugin says that it is of world `{world}`, and does not export {}", listed(missing.iter().map(String::as_str)))]
    NotExported {
        /// What the manifest says.
        world: World,
        /// What is missing, interfaces or functions.
        missing: Vec<String>,
        /// What world the exports would fit.
        looks_like: Option<World>,
    },
    /// A function or type that the contract's interface does not have.
    #[error(
        "the plugin {has} `{item}` in `{interface}`, which `mst:plugin@{}` does not have",
        contract_version()
    )]
    NoItem {
        /// The interface.
        interface: String,
        /// The function or type.
        item: String,
        /// `imports` or `exports`.
        has: &'static str,
    },
    /// A function or type that means another thing on each side.
    #[error("`{item}` of `{interface}` differs:\n  the plugin has `{plugin}`\n  this mst has   `{host}`")]
    Differs {
        /// The interface.
        interface: String,
        /// The function or type.
        item: String,
        /// As the plugin has it.
        plugin: String,
        /// As this mst has it.
        host: String,
    },
    /// A valid component whose imports and exports are no WIT.
    #[error("the component's imports and exports can't be read: {0}")]
    Undecodable(String),
}

impl WorldError {
    /// What to do about it, and who has to.
    pub fn hint(&self) -> Option<String> {
        let rebuild = || {
            format!(
                "rebuild the plugin with mst-sdk {}.{}",
                contract_version().major,
                contract_version().minor
            )
        };
        match self {
            WorldError::Contract { plugin, host } if plugin > host => Some("upgrade mst".to_owned()),
            WorldError::Contract { .. } => Some(rebuild()),
            WorldError::NotGiven { import } if import.starts_with("wasi:sockets") => Some(
                "a plugin reaches nothing by itself; a runner asks for programs with `[[exec]]`".to_owned(),
            ),
            WorldError::NotGiven { .. } => None,
            WorldError::HttpNotAsked { .. } => Some(
                "`[[http]]` in `plugin.toml` says to which hosts it may send requests; or build it without"
                    .to_owned(),
            ),
            WorldError::Wasi { .. } => Some("build the plugin for `wasm32-wasip2`".to_owned()),
            WorldError::NotInWorld { looks_like: Some(world), .. }
            | WorldError::NotExported { looks_like: Some(world), .. } => Some(format!(
                "it looks like a plugin of world `{world}`: `world` in `plugin.toml` says what it is"
            )),
            WorldError::NotInWorld { others, .. } => {
                Some(format!("plugins of {} get it", listed(others.iter().map(|world| world.as_str()))))
            }
            WorldError::NotExported { .. } => Some("the SDK's `export!` exports all of a world".to_owned()),
            WorldError::NoInterface { .. } | WorldError::NoItem { .. } | WorldError::Differs { .. } => {
                Some(format!(
                    "both say version {}, so the plugin was built from a draft: {}",
                    contract_version(),
                    rebuild()
                ))
            }
            WorldError::Undecodable(_) => None,
        }
    }
}

/// An interface's whole name, in parts.
struct Name<'a> {
    package: &'a str,
    interface: &'a str,
    version: Option<semver::Version>,
}

impl Name<'_> {
    /// Reads `ns:package/interface@version`; none for any other name.
    fn of(text: &str) -> Option<Name<'_>> {
        let (path, version) = match text.split_once('@') {
            Some((path, version)) => (path, Some(version.parse().ok()?)),
            None => (text, None),
        };
        let (package, interface) = path.split_once('/')?;
        Some(Name { package, interface, version })
    }
}

/// Checks a component against the world that its manifest names: every import is one that the
/// world has or that WASI's allow-list has, every export of the world is there, and every function
/// and type that both sides have is the same.
pub fn check(file: &PluginFile) -> Result<(), WorldError> {
    let contract = contract();
    let world = file.manifest().world;
    same_version(Some(&file.manifest().contract))?;
    // All versions first: under another version any other difference is a consequence.
    let names = file.imports().iter().chain(file.exports());
    for name in names.filter_map(|item| Name::of(&item.name)).filter(|name| name.package == PACKAGE) {
        same_version(name.version.as_ref())?;
    }
    // From the file's own list, before anything is decoded: what no plugin gets is refused even
    // where it is no WIT.
    let missing_of = |world| missing_exports(contract, world, file);
    let looks_like =
        World::ALL.into_iter().find(|other| missing_of(*other).is_empty()).filter(|other| *other != world);
    let asks_http = !file.manifest().http.is_empty();
    for import in file.imports() {
        check_import_name(contract, world, looks_like, asks_http, &import.name)?;
    }
    let missing = missing_of(world);
    if !missing.is_empty() {
        return Err(WorldError::NotExported { world, missing, looks_like });
    }
    let (resolve, root) = decode(file.bytes())?;
    let root = &resolve.worlds[root];
    let imports = (contract.imports(world), file.imports(), &root.imports, "imports");
    let exports = (contract.exports(world), file.exports(), &root.exports, "exports");
    for (hosts, externs, items, has) in [imports, exports] {
        for name in externs.iter().map(|item| item.name.as_str()) {
            let Some(Name { package: PACKAGE, interface, .. }) = Name::of(name) else { continue };
            let Some((_, host)) = hosts.iter().find(|(other, _)| *other == interface) else { continue };
            let decoded = items.iter().filter_map(|(key, item)| interface_of(&resolve, key, item));
            let Some((_, plugin)) = decoded.into_iter().find(|(other, _)| other == name) else {
                return Err(WorldError::Undecodable(format!("`{}` is no interface", shown(name, 200))));
            };
            if has == "exports" {
                let absent =
                    host.functions.keys().filter(|function| !plugin.functions.contains_key(*function));
                let missing: Vec<String> = absent.map(|function| format!("{interface}.{function}")).collect();
                if !missing.is_empty() {
                    return Err(WorldError::NotExported { world, missing, looks_like: None });
                }
            }
            compare(&resolve, plugin, &contract.resolve, host, name, has)?;
        }
    }
    Ok(())
}

/// The interfaces that a plugin of `world` exports and this file does not.
fn missing_exports(contract: &Contract, world: World, file: &PluginFile) -> Vec<String> {
    let has = |interface: &str| {
        let mut names = file.exports().iter().filter_map(|export| Name::of(&export.name));
        names.any(|name| name.package == PACKAGE && name.interface == interface)
    };
    contract
        .exports(world)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !has(name))
        .map(str::to_owned)
        .collect()
}

fn same_version(plugin: Option<&semver::Version>) -> Result<(), WorldError> {
    let host = contract_version();
    let plugin = plugin.cloned().unwrap_or_else(|| semver::Version::new(0, 0, 0));
    if plugin == host { Ok(()) } else { Err(WorldError::Contract { plugin, host }) }
}

fn check_import_name(
    contract: &Contract,
    world: World,
    looks_like: Option<World>,
    asks_http: bool,
    text: &str,
) -> Result<(), WorldError> {
    let not_given = || WorldError::NotGiven { import: shown(text.split('@').next().unwrap_or(text), 200) };
    let Some(name) = Name::of(text) else { return Err(not_given()) };
    if name.package == PACKAGE {
        let interface = name.interface;
        if contract.imports(world).iter().any(|(other, _)| *other == interface) {
            return Ok(());
        }
        let others: Vec<World> = World::ALL
            .into_iter()
            .filter(|other| contract.imports(*other).iter().any(|(other, _)| *other == interface))
            .collect();
        let interface = format!("mst:plugin/{}", shown(interface, 80));
        return Err(if others.is_empty() || !contract.has(name.interface) {
            WorldError::NoInterface { interface }
        } else {
            WorldError::NotInWorld { interface, world, others, looks_like }
        });
    }
    let http = name.package == "wasi:http" && HTTP.contains(&name.interface);
    match name.package.strip_prefix("wasi:") {
        Some(package) if WASI.contains(&package) || http => match name.version {
            Some(version) if (version.major, version.minor) != (0, 2) || !version.pre.is_empty() => {
                Err(WorldError::Wasi { import: shown(text, 200) })
            }
            None => Err(WorldError::Wasi { import: shown(text, 200) }),
            Some(_) if http && !asks_http => {
                Err(WorldError::HttpNotAsked { import: format!("wasi:http/{}", name.interface) })
            }
            Some(_) => Ok(()),
        },
        _ => Err(not_given()),
    }
}

/// `wit-component` reads what its own tools wrote, and asserts much about it. A stranger's file is
/// valid by now and may still be what it did not expect: that is the file's fault, not mst's end.
fn decode(bytes: &[u8]) -> Result<(Resolve, WorldId), WorldError> {
    match std::panic::catch_unwind(|| wit_component::decode(bytes)) {
        Ok(Ok(DecodedWasm::Component(resolve, world))) => Ok((resolve, world)),
        Ok(Ok(DecodedWasm::WitPackage(..))) => {
            Err(WorldError::Undecodable("it is a WIT package, which has types and no code".to_owned()))
        }
        Ok(Err(error)) => Err(WorldError::Undecodable(shown(&format!("{error:#}"), 400))),
        Err(_) => Err(WorldError::Undecodable("they are not as any known tool writes them".to_owned())),
    }
}

fn interface_of<'a>(
    resolve: &'a Resolve,
    key: &WorldKey,
    item: &WorldItem,
) -> Option<(String, &'a Interface)> {
    let WorldItem::Interface { id, .. } = item else { return None };
    let name = match key {
        WorldKey::Name(name) => name.clone(),
        WorldKey::Interface(id) => resolve.id_of(*id)?,
    };
    Some((name, &resolve.interfaces[*id]))
}

/// Holds what the plugin has of an interface to what the contract has.
fn compare(
    plugin_side: &Resolve,
    plugin: &Interface,
    host_side: &Resolve,
    host: &Interface,
    name: &str,
    has: &'static str,
) -> Result<(), WorldError> {
    let interface = shown(name, 200);
    let differs = |item: &str, plugin: String, host: String| WorldError::Differs {
        interface: interface.clone(),
        item: item.to_owned(),
        plugin: shown(&plugin, 1000),
        host: shown(&host, 1000),
    };
    // Types first: a function may differ by a type alone, and would read the same on both sides.
    for (item, id) in &plugin.types {
        let Some(other) = host.types.get(item) else {
            return Err(WorldError::NoItem { interface, item: shown(item, 80), has });
        };
        if signature::full_definition(plugin_side, *id) != signature::full_definition(host_side, *other) {
            let texts = (signature::definition(plugin_side, *id), signature::definition(host_side, *other));
            // The difference may lie deeper, in a type of another name.
            return Err(if texts.0 == texts.1 {
                differs(
                    item,
                    signature::full_definition(plugin_side, *id),
                    signature::full_definition(host_side, *other),
                )
            } else {
                differs(item, texts.0, texts.1)
            });
        }
    }
    for (item, function) in &plugin.functions {
        let Some(other) = host.functions.get(item) else {
            return Err(WorldError::NoItem { interface, item: shown(item, 80), has });
        };
        if signature::full_function(plugin_side, function) != signature::full_function(host_side, other) {
            let texts = (signature::function(plugin_side, function), signature::function(host_side, other));
            return Err(if texts.0 == texts.1 {
                differs(
                    item,
                    signature::full_function(plugin_side, function),
                    signature::full_function(host_side, other),
                )
            } else {
                differs(item, texts.0, texts.1)
            });
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
