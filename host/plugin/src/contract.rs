//! The contract `mst:plugin` that this mst has, parsed.

use std::sync::OnceLock;

use wit_parser::{Interface, Resolve, SourceMap, WorldId, WorldItem};

use crate::world::World;

/// The contract's files. They are the repository's `wit/`, whole.
pub(crate) const CONTRACT: [(&str, &str); 6] = [
    ("dataset.wit", include_str!("../../../wit/dataset.wit")),
    ("judge.wit", include_str!("../../../wit/judge.wit")),
    ("process.wit", include_str!("../../../wit/process.wit")),
    ("runner.wit", include_str!("../../../wit/runner.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
    ("worlds.wit", include_str!("../../../wit/worlds.wit")),
];

/// The contract, parsed.
pub(crate) struct Contract {
    pub(crate) resolve: Resolve,
    version: semver::Version,
    worlds: Vec<(World, WorldId)>,
}

pub(crate) fn contract() -> &'static Contract {
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
pub(crate) fn contract_version() -> semver::Version {
    contract().version.clone()
}

/// An interface of the contract, by its name without package and version.
pub(crate) type Side<'a> = (&'a str, &'a Interface);

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

    pub(crate) fn imports(&self, world: World) -> Vec<Side<'_>> {
        self.sides(self.world(world).imports.values())
    }

    pub(crate) fn exports(&self, world: World) -> Vec<Side<'_>> {
        self.sides(self.world(world).exports.values())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.resolve.interfaces.iter().any(|(_, interface)| interface.name.as_deref() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
