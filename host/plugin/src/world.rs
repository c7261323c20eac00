//! The worlds of `mst:plugin`, and whether a component fits the one that its manifest names.
//!
//! A component is checked here and not at its first call, so that who installs a plugin learns
//! which function differs, which side is older, and who has to upgrade.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use mst_model::Kind;
use serde::{Serialize, Serializer};
use wit_component::DecodedWasm;
use wit_parser::{Interface, Resolve, SourceMap, WorldId, WorldItem, WorldKey};

use crate::component::PluginFile;
use crate::legible::{listed, shown};
use crate::signature;
use crate::template::Place;

/// The contract's files. They are the repository's `wit/`, whole.
const CONTRACT: [(&str, &str); 6] = [
    ("dataset.wit", include_str!("../../../wit/dataset.wit")),
    ("judge.wit", include_str!("../../../wit/judge.wit")),
    ("process.wit", include_str!("../../../wit/process.wit")),
    ("runner.wit", include_str!("../../../wit/runner.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
    ("worlds.wit", include_str!("../../../wit/worlds.wit")),
];

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

/// The contract, parsed.
struct Contract {
    resolve: Resolve,
    version: semver::Version,
    worlds: Vec<(World, WorldId)>,
}

fn contract() -> &'static Contract {
    static PARSED: OnceLock<Contract> = OnceLock::new();
    PARSED.get_or_init(|| parse_contract().expect("the contract's own files, which a test parses"))
}

fn parse_contract() -> Result<Contract, String> {
    let mut sources = SourceMap::new();
    for (name, text) in CONTRACT {
        sources.push(name.as_ref(), text);
    }
    let group = sources.parse().map_err(|(sources, error)| error.highlight(&sources))?;
    let mut resolve = Resolve::default();
    let package = resolve.push_group(group).map_err(|error| error.to_string())?;
    let package = &resolve.packages[package];
    let version = package.name.version.clone().ok_or("the contract has no version")?;
    let worlds = World::ALL
        .into_iter()
        .map(|world| {
            let id = package
                .worlds
                .get(world.as_str())
                .ok_or_else(|| format!("the contract has no world `{world}`"))?;
            Ok((world, *id))
        })
        .collect::<Result<_, String>>()?;
    Ok(Contract { resolve, version, worlds })
}

/// The version of the contract that this mst has.
pub fn contract_version() -> semver::Version {
    contract().version.clone()
}

/// An interface of the contract, by its name without package and version.
type Side<'a> = (&'a str, &'a Interface);

impl Contract {
    fn world(&self, world: World) -> &wit_parser::World {
        let (_, id) = self.worlds.iter().find(|(other, _)| *other == world).expect("every world is there");
        &self.resolve.worlds[*id]
    }

    fn sides<'a>(&'a self, items: impl Iterator<Item = &'a WorldItem>) -> Vec<Side<'a>> {
        let interfaces = items.filter_map(|item| match item {
            WorldItem::Interface { id, .. } => Some(&self.resolve.interfaces[*id]),
            WorldItem::Function(_) | WorldItem::Type { .. } => None,
        });
        interfaces.filter_map(|interface| Some((interface.name.as_deref()?, interface))).collect()
    }

    fn imports(&self, world: World) -> Vec<Side<'_>> {
        self.sides(self.world(world).imports.values())
    }

    fn exports(&self, world: World) -> Vec<Side<'_>> {
        self.sides(self.world(world).exports.values())
    }

    fn has(&self, name: &str) -> bool {
        self.resolve.interfaces.iter().any(|(_, interface)| interface.name.as_deref() == Some(name))
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
pub(crate) mod tests {
    use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
    use wit_parser::ManglingAndAbi;

    use super::*;
    use crate::component::{tests::judge_manifest, with_manifest};

    /// A component of `world` in the contract, changed by `edit` (from, to) in its text, or with
    /// more WIT after it.
    pub(crate) fn component_of(world: &str, edit: Option<(&str, &str)>) -> Vec<u8> {
        let mut text = String::from("package mst:plugin@0.1.0;\n");
        for (_, source) in CONTRACT {
            text += source.strip_prefix("package mst:plugin@0.1.0;").expect("each begins so");
        }
        if let Some((from, to)) = edit {
            assert!(text.contains(from), "`{from}` is in the contract");
            text = text.replace(from, to);
        }
        component(world, &text)
    }

    fn component(world: &str, text: &str) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let package = resolve.push_source("test.wit", text).expect("WIT");
        let world = resolve.select_world(&[package], Some(world)).expect("the world");
        let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("embedded");
        ComponentEncoder::default()
            .module(&module)
            .expect("a module")
            .validate(true)
            .encode()
            .expect("a component")
    }

    /// Checks a component that says it is of `claimed`.
    fn verdict(bytes: &[u8], claimed: World) -> Result<(), WorldError> {
        let mut manifest = judge_manifest();
        manifest.world = claimed;
        manifest.id = format!("acme/{}/x", claimed.kind()).parse().expect("an id");
        let bytes = with_manifest(bytes, &manifest).expect("embedded");
        check(&PluginFile::read(bytes).expect("read"))
    }

    #[track_caller]
    fn told(result: Result<(), WorldError>) -> String {
        let error = result.expect_err("refused");
        match error.hint() {
            Some(hint) => format!("{error}\n({hint})"),
            None => error.to_string(),
        }
    }

    fn judge_with(from: &str, to: &str) -> Result<(), WorldError> {
        verdict(&component_of("judge", Some((from, to))), World::Judge)
    }

    #[test]
    fn the_contract_here_is_the_repositorys_whole() {
        parse_contract().map(drop).expect("it parses");
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit"))
            .expect("wit/")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, CONTRACT.map(|(name, _)| name));
    }

    #[test]
    fn who_may_run_what_is_what_the_worlds_import() {
        for world in World::ALL {
            let imports = contract().imports(world);
            let has = |name: &str| imports.iter().any(|(other, _)| *other == name);
            assert_eq!(world.admits(Place::Exec), has("process"), "{world}");
            assert_eq!(world.admits(Place::Workspace), has("workspace"), "{world}");
        }
    }

    #[test]
    fn each_world_fits_itself() {
        for world in World::ALL {
            verdict(&component_of(world.as_str(), None), world)
                .unwrap_or_else(|error| panic!("{world}: {error}"));
        }
    }

    #[test]
    fn another_world_is_named() {
        insta::assert_snapshot!(told(verdict(&component_of("dataset", None), World::Judge)), @r"
        the plugin says that it is of world `judge`, and does not export `grading`
        (it looks like a plugin of world `dataset`: `world` in `plugin.toml` says what it is)
        ");
        insta::assert_snapshot!(told(verdict(&component_of("shard-runner", None), World::MachineRunner)), @r"
        the plugin imports `mst:plugin/shard`, which a plugin of world `machine-runner` does not get
        (it looks like a plugin of world `shard-runner`: `world` in `plugin.toml` says what it is)
        ");
        insta::assert_snapshot!(told(verdict(&component_of("machine-runner", None), World::Dataset)), @r"
        the plugin imports `mst:plugin/commands`, which a plugin of world `dataset` does not get
        (it looks like a plugin of world `machine-runner`: `world` in `plugin.toml` says what it is)
        ");
    }

    #[test]
    fn another_version_says_who_upgrades() {
        insta::assert_snapshot!(told(judge_with("package mst:plugin@0.1.0", "package mst:plugin@0.2.0")), @r"
        the plugin needs `mst:plugin@0.2.0`, and this mst has `mst:plugin@0.1.0`
        (upgrade mst)
        ");
        insta::assert_snapshot!(told(judge_with("package mst:plugin@0.1.0", "package mst:plugin@0.0.9")), @r"
        the plugin needs `mst:plugin@0.0.9`, and this mst has `mst:plugin@0.1.0`
        (rebuild the plugin with mst-sdk 0.1)
        ");
        insta::assert_snapshot!(told(judge_with("package mst:plugin@0.1.0", "package mst:plugin")), @r"
        the plugin needs `mst:plugin@0.0.0`, and this mst has `mst:plugin@0.1.0`
        (rebuild the plugin with mst-sdk 0.1)
        ");
        let mut manifest = judge_manifest();
        manifest.contract = semver::Version::new(0, 3, 0);
        let bytes = with_manifest(&component_of("judge", None), &manifest).expect("embedded");
        let error = check(&PluginFile::read(bytes).expect("read")).expect_err("newer");
        assert_eq!(error.hint().as_deref(), Some("upgrade mst"));
    }

    #[test]
    fn a_function_or_type_that_differs_is_shown_from_both_sides() {
        insta::assert_snapshot!(told(judge_with("trial-index: func() -> u32", "trial-index: func() -> u64")), @r"
        `[method]trial.trial-index` of `mst:plugin/evidence@0.1.0` differs:
          the plugin has `func(self: borrow<trial>) -> u64`
          this mst has   `func(self: borrow<trial>) -> u32`
        (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
        ");
        insta::assert_snapshot!(told(judge_with("judge: func(trial: borrow<trial>, options: json)", "judge: func(options: json, trial: borrow<trial>)")), @r"
        `judge` of `mst:plugin/grading@0.1.0` differs:
          the plugin has `func(options: json, trial: borrow<trial>) -> result<verdict, error>`
          this mst has   `func(trial: borrow<trial>, options: json) -> result<verdict, error>`
        (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
        ");
        // The function reads the same; a type inside of it does not.
        insta::assert_snapshot!(told(judge_with("score(f64)", "score(f32)")), @r"
        `finding` of `mst:plugin/grading@0.1.0` differs:
          the plugin has `variant { pass, fail, score(f32), abstain(string) }`
          this mst has   `variant { pass, fail, score(f64), abstain(string) }`
        (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
        ");
        insta::assert_snapshot!(told(judge_with("variant-id: func() -> string", "variant-id: func() -> string;\n    more: func()")), @r"
        the plugin imports `[method]trial.more` in `mst:plugin/evidence@0.1.0`, which `mst:plugin@0.1.0` does not have
        (both say version 0.1.0, so the plugin was built from a draft: rebuild the plugin with mst-sdk 0.1)
        ");
        insta::assert_snapshot!(told(judge_with("judge: func(", "grade: func(")), @r"
        the plugin says that it is of world `judge`, and does not export `grading.judge`
        (the SDK's `export!` exports all of a world)
        ");
        // Order is meaning: these two would pass each other's numbers.
        assert!(
            judge_with(
                "input-tokens: option<u64>,\n    /// Tokens that it got.\n    output-tokens: option<u64>",
                "output-tokens: option<u64>,\n    input-tokens: option<u64>"
            )
            .is_err()
        );
    }

    #[test]
    fn imports_are_what_the_world_and_the_allow_list_have() {
        let importing = |import: &str, more: &str| {
            let text = ["package test:guest;", "world guest {", import, "}", more].join("\n");
            verdict(&component("guest", &text), World::Judge)
        };
        let package = |name: &str| format!("package {name} {{ interface x {{ f: func(); }} }}");
        for (import, shown) in [
            ("wasi:sockets/x@0.2.6", "no plugin gets `wasi:sockets/x`"),
            ("wasi:http/x@0.2.6", "no plugin gets `wasi:http/x`"),
            ("wasi:keyvalue/x@0.2.0", "no plugin gets `wasi:keyvalue/x`"),
            ("acme:cli/x@0.2.0", "no plugin gets `acme:cli/x`"),
            ("wasi:cli/x@0.3.0", "needs `wasi:cli/x@0.3.0`, and this mst gives WASI 0.2"),
            ("wasi:cli/x@0.2.0-rc.1", "and this mst gives WASI 0.2"),
            ("mst:plugin/x@0.1.0", "imports `mst:plugin/x`, which `mst:plugin@0.1.0` does not have"),
            ("mst:other/x@0.1.0", "no plugin gets `mst:other/x`"),
            ("mst:plugin/x@0.1.1", "needs `mst:plugin@0.1.1`"),
        ] {
            let name = import.replace("/x", "");
            let told = told(importing(&format!("import {import};"), &package(&name)));
            assert!(told.contains(shown), "{import}: {told}");
        }
        let http = |interface: &str| {
            let package = format!("package wasi:http@0.2.6 {{ interface {interface} {{ f: func(); }} }}");
            told(importing(&format!("import wasi:http/{interface}@0.2.6;"), &package))
        };
        assert_eq!(
            http("types"),
            "the plugin imports `wasi:http/types`, and its manifest asks for no `[[http]]`\n\
             (`[[http]]` in `plugin.toml` says to which hosts it may send requests; or build it without)"
        );
        // To be sent requests is nobody's to ask for.
        assert!(http("incoming-handler").contains("no plugin gets `wasi:http/incoming-handler`"));
        let told = |import: &str| told(importing(import, ""));
        assert!(told("import f: func();").contains("no plugin gets `f`"));
        assert!(told("import i: interface { f: func(); }").contains("no plugin gets `i`"));
        // What is admitted is then held to the exports.
        assert!(matches!(
            importing("import wasi:cli/x@0.2.99;", &package("wasi:cli@0.2.99")),
            Err(WorldError::NotExported { .. })
        ));
    }

    #[test]
    fn a_judge_gets_no_process() {
        let told = told(judge_with("world judge {", "world judge {\n  import process;"));
        assert!(
            told.contains("imports `mst:plugin/process`, which a plugin of world `judge` does not get"),
            "{told}"
        );
        assert!(told.contains("`machine-runner`, `shard-runner`"), "{told}");
    }

    #[test]
    fn a_wit_package_is_no_plugin() {
        let mut resolve = Resolve::default();
        let package =
            resolve.push_source("test.wit", "package a:b; interface x { f: func(); }").expect("WIT");
        let bytes = wit_component::encode(&resolve, package).expect("encoded");
        assert!(matches!(
            verdict(&bytes, World::Judge),
            Err(WorldError::Undecodable(_) | WorldError::NotExported { .. })
        ));
    }
}
