//! Reading a component file: what it is, what it says of itself, what it imports and exports.

use mst_model::Digest;
use serde::Serialize;
use wasm_encoder::CustomSection;
use wasmparser::component_types::ComponentEntityType;
use wasmparser::{BinaryReader, Parser, Payload, Validator, WasmFeatures};

use crate::legible::shown;
use crate::manifest::{Manifest, ManifestError, SECTION};

/// The largest component that is read, in bytes. A Python one has about 18 MB.
pub const MAX_BYTES: usize = 128 * 1024 * 1024;

/// A plugin's file, read and validated, with nothing in it executed.
#[derive(Debug, Clone)]
pub struct PluginFile {
    bytes: Vec<u8>,
    digest: Digest,
    manifest: Manifest,
    imports: Vec<Extern>,
    exports: Vec<Extern>,
}

/// One thing that a component imports or exports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Extern {
    /// Its whole name, as `wasi:cli/stdout@0.2.6`.
    pub name: String,
    /// What it is.
    pub kind: ExternKind,
    /// An interface's functions, as the component uses them or has them.
    pub functions: Vec<String>,
}

/// What a component can import and export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExternKind {
    /// An interface: the usual case.
    Interface,
    /// A single function.
    Function,
    /// A single type.
    Type,
    /// Anything else, which no plugin has a use for.
    Other,
}

/// Why a file is no plugin.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No bytes.
    #[error("the file is empty")]
    Empty,
    /// Too many bytes.
    #[error("the file has {size_bytes} bytes; at most {MAX_BYTES} are admitted")]
    TooLarge {
        /// Its size.
        size_bytes: usize,
    },
    /// Something else than WebAssembly.
    #[error("the file is no WebAssembly component: it looks like {looks_like}")]
    NotWasm {
        /// What it looks like.
        looks_like: &'static str,
    },
    /// A WebAssembly module that is no component.
    #[error("the file is a core WebAssembly module, and a plugin is a component")]
    CoreModule,
    /// A binary format that is none of ours.
    #[error(
        "the file is WebAssembly of version {version} and layer {layer}, and this mst reads components of version 13, layer 1"
    )]
    Format {
        /// The version field.
        version: u16,
        /// The layer field.
        layer: u16,
    },
    /// The end is missing.
    #[error("the file is cut off: at byte {offset} of {size_bytes} more was to come: {what}")]
    Truncated {
        /// Where more was wanted.
        offset: usize,
        /// How long the file is.
        size_bytes: usize,
        /// What the validator said.
        what: String,
    },
    /// The component is not valid.
    #[error("the component is damaged or invalid at byte {offset}: {what}")]
    Invalid {
        /// Where.
        offset: usize,
        /// What the validator said.
        what: String,
    },
    /// Nothing says what it is.
    #[error("the component has no manifest: no custom section `{SECTION}`")]
    NoManifest,
    /// Two things say what it is.
    #[error("the component has {count} manifests: custom sections `{SECTION}`")]
    Manifests {
        /// How many.
        count: usize,
    },
    /// What it says of itself is not to be read.
    #[error("the component's manifest can't be read")]
    Manifest(#[source] Box<ManifestError>),
}

impl FileError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            FileError::Empty | FileError::Truncated { .. } => {
                "get the file again: it was not written to its end".to_owned()
            }
            FileError::NotWasm { looks_like: GZIP } => "unpack it first".to_owned(),
            FileError::NotWasm { looks_like: WAT } => {
                "translate it with `wasm-tools parse`, or build with `mst plugin build`".to_owned()
            }
            FileError::NotWasm { .. } => {
                "a plugin is the `.wasm` file that `mst plugin build` writes".to_owned()
            }
            FileError::CoreModule => "build it for `wasm32-wasip2`, or with `mst plugin build`".to_owned(),
            FileError::NoManifest => "`mst plugin build` writes it from `plugin.toml`".to_owned(),
            FileError::Manifests { .. } => {
                "build it again from its source with `mst plugin build`".to_owned()
            }
            FileError::Manifest(error) => return error.hint(),
            FileError::TooLarge { .. } | FileError::Format { .. } | FileError::Invalid { .. } => return None,
        })
    }
}

const GZIP: &str = "a gzip archive";
const WAT: &str = "the text form of WebAssembly";

fn looks_like(bytes: &[u8]) -> &'static str {
    let text = || bytes.iter().take(512).all(|&c| c >= 0x20 || matches!(c, b'\n' | b'\r' | b'\t' | 0x1b));
    match bytes {
        [0x1f, 0x8b, ..] => GZIP,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "a zstd archive",
        [b'P', b'K', 3, 4, ..] => "a zip archive",
        [0x7f, b'E', b'L', b'F', ..] => "an ELF program",
        [b'M', b'Z', ..] => "a Windows program",
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => "a macOS program",
        [b'#', b'!', ..] => "a script",
        [b'<', ..] => "an HTML or XML page",
        _ if bytes.get(257..262) == Some(b"ustar") => "a tar archive",
        _ if bytes.trim_ascii_start().starts_with(b"(component")
            || bytes.trim_ascii_start().starts_with(b"(module") =>
        {
            WAT
        }
        _ if bytes.starts_with(b"version https://git-lfs") => "a Git LFS pointer",
        _ if text() => "text",
        _ => "data",
    }
}

impl PluginFile {
    /// Reads and validates a component with its manifest. Whether it fits its world is
    /// `world::check`'s to say; `mst_plugin::open` does both.
    pub fn read(bytes: Vec<u8>) -> Result<PluginFile, FileError> {
        let Parts { manifests, imports, exports } = parts(&bytes)?;
        let manifest = match manifests.as_slice() {
            [] => return Err(FileError::NoManifest),
            [one] => Manifest::from_json(one).map_err(|error| FileError::Manifest(Box::new(error)))?,
            many => return Err(FileError::Manifests { count: many.len() }),
        };
        Ok(PluginFile { digest: Digest::of(&bytes), manifest, imports, exports, bytes })
    }

    /// The component's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The component's bytes, to keep.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// SHA-256 over all of the bytes: what a grant is bound to.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What it says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Everything that it imports, in the file's order.
    pub fn imports(&self) -> &[Extern] {
        &self.imports
    }

    /// Everything that it exports, in the file's order.
    pub fn exports(&self) -> &[Extern] {
        &self.exports
    }
}

/// What a valid component holds at its top level.
pub(crate) struct Parts {
    pub(crate) manifests: Vec<Vec<u8>>,
    pub(crate) imports: Vec<Extern>,
    pub(crate) exports: Vec<Extern>,
}

pub(crate) fn parts(bytes: &[u8]) -> Result<Parts, FileError> {
    sniff(bytes)?;
    let invalid = |error: wasmparser::BinaryReaderError| {
        let (offset, what) = (error.offset(), shown(error.message(), 400));
        if offset >= bytes.len() || what.contains("unexpected end") {
            FileError::Truncated { offset, size_bytes: bytes.len(), what }
        } else {
            FileError::Invalid { offset, what }
        }
    };
    // The default features are what WebAssembly 3 and the component model of WASI 0.2 have: what
    // the sandbox runs. A component with anything newer is told so here and not at run time.
    let types = Validator::new_with_features(WasmFeatures::default()).validate_all(bytes).map_err(invalid)?;
    let types = types.as_ref();
    let functions = |ty: &ComponentEntityType| match ty {
        ComponentEntityType::Instance(id) => types[*id]
            .exports
            .iter()
            .filter(|(_, item)| matches!(item.ty, ComponentEntityType::Func(_)))
            .map(|(name, _)| name.clone())
            .collect(),
        _ => Vec::new(),
    };
    let described = |name: &str, ty: Option<&ComponentEntityType>| Extern {
        name: name.to_owned(),
        kind: match ty {
            Some(ComponentEntityType::Instance(_)) => ExternKind::Interface,
            Some(ComponentEntityType::Func(_)) => ExternKind::Function,
            Some(ComponentEntityType::Type { .. }) => ExternKind::Type,
            _ => ExternKind::Other,
        },
        functions: ty.map(functions).unwrap_or_default(),
    };
    let mut parts = Parts { manifests: Vec::new(), imports: Vec::new(), exports: Vec::new() };
    // Only the outermost component speaks for the plugin: what stands deeper may be anybody's.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(invalid)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::CustomSection(section) if depth == 0 && section.name() == SECTION => {
                parts.manifests.push(section.data().to_vec());
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let name = import.map_err(invalid)?.name.name;
                    parts
                        .imports
                        .push(described(name, types.component_item_for_import(name).map(|item| &item.ty)));
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let name = export.map_err(invalid)?.name.name;
                    parts
                        .exports
                        .push(described(name, types.component_item_for_export(name).map(|item| &item.ty)));
                }
            }
            _ => {}
        }
    }
    Ok(parts)
}

/// Tells what is no component at all from what is a bad one.
fn sniff(bytes: &[u8]) -> Result<(), FileError> {
    if bytes.is_empty() {
        return Err(FileError::Empty);
    }
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLarge { size_bytes: bytes.len() });
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(FileError::NotWasm { looks_like: looks_like(bytes) });
    }
    let Some(&[a, b, c, d]) = bytes.get(4..8) else {
        return Err(FileError::Truncated {
            offset: bytes.len(),
            size_bytes: bytes.len(),
            what: "the header".to_owned(),
        });
    };
    let (version, layer) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    if Parser::is_component(bytes) {
        Ok(())
    } else if layer == 0 {
        Err(FileError::CoreModule)
    } else {
        Err(FileError::Format { version, layer })
    }
}

/// The component with `manifest` as its custom section, in place of any that it had.
pub(crate) fn with_manifest(component: &[u8], manifest: &Manifest) -> Result<Vec<u8>, FileError> {
    use wasm_encoder::ComponentSection as _;

    sniff(component)?;
    let invalid = |error: wasmparser::BinaryReaderError| FileError::Invalid {
        offset: error.offset(),
        what: shown(error.message(), 400),
    };
    let (header, sections) = component.split_at(8);
    let mut out = header.to_vec();
    let mut reader = BinaryReader::new(sections, header.len());
    while !reader.eof() {
        let from = reader.original_position() - header.len();
        let id = reader.read_u8().map_err(invalid)?;
        let size = reader.read_var_u32().map_err(invalid)? as usize;
        let at = reader.original_position();
        let body = reader.read_bytes(size).map_err(invalid)?;
        let is_manifest =
            id == 0 && BinaryReader::new(body, at).read_string().is_ok_and(|name| name == SECTION);
        if !is_manifest {
            out.extend_from_slice(&sections[from..reader.original_position() - header.len()]);
        }
    }
    let data = manifest.to_json().to_string();
    CustomSection { name: SECTION.into(), data: data.as_bytes().into() }.append_to_component(&mut out);
    Ok(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::world::tests::component_of;

    /// A judge's manifest, as JSON.
    pub(crate) fn judge_manifest() -> Manifest {
        Manifest::from_toml(
            "id='acme/judge/tone'\nversion='1.0.0'\nworld='judge'\ndescription='Grades tone.'",
        )
        .expect("valid")
    }

    fn with_section(component: &[u8], data: &[u8]) -> Vec<u8> {
        use wasm_encoder::ComponentSection as _;
        let mut out = component.to_vec();
        CustomSection { name: SECTION.into(), data: data.into() }.append_to_component(&mut out);
        out
    }

    fn judge() -> Vec<u8> {
        with_manifest(&component_of("judge", None), &judge_manifest()).expect("embedded")
    }

    #[test]
    fn a_component_with_its_manifest_is_read() {
        let bytes = judge();
        let file = PluginFile::read(bytes.clone()).expect("read");
        assert_eq!(file.digest(), Digest::of(&bytes));
        assert_eq!(file.manifest(), &judge_manifest());
        let import = file
            .imports()
            .iter()
            .find(|import| import.name == "mst:plugin/evidence@0.1.0")
            .expect("imported");
        assert_eq!(import.kind, ExternKind::Interface);
        assert!(
            import.functions.iter().any(|function| function == "[method]trial.read"),
            "{:?}",
            import.functions
        );
        assert!(
            file.exports()
                .iter()
                .any(|export| export.name == "mst:plugin/grading@0.1.0" && export.functions == ["judge"])
        );
    }

    #[test]
    fn embedding_again_replaces() {
        let once = judge();
        let twice = with_manifest(&once, &judge_manifest()).expect("embedded");
        assert_eq!(once, twice);
    }

    #[test]
    fn what_is_no_component_is_named() {
        let look = |bytes: &[u8]| match PluginFile::read(bytes.to_vec()) {
            Err(FileError::NotWasm { looks_like }) => looks_like,
            other => panic!("{other:?}"),
        };
        assert_eq!(look(&[0x1f, 0x8b, 8, 0]), GZIP);
        assert_eq!(look(b"\x7fELF\x02\x01"), "an ELF program");
        assert_eq!(look(b"#!/bin/sh\n"), "a script");
        assert_eq!(look(b"(component)"), WAT);
        assert_eq!(look(b"version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer");
        assert_eq!(look(b"hello\n"), "text");
        assert_eq!(look(&[0, 1, 2]), "data");
        assert!(matches!(PluginFile::read(Vec::new()), Err(FileError::Empty)));
        let module = PluginFile::read(b"\0asm\x01\0\0\0".to_vec()).expect_err("a module");
        assert!(matches!(module, FileError::CoreModule));
        assert!(module.hint().is_some_and(|hint| hint.contains("wasm32-wasip2")));
        assert!(matches!(
            PluginFile::read(b"\0asm\x0e\0\x01\0".to_vec()),
            Err(FileError::Format { version: 14, layer: 1 })
        ));
        assert!(matches!(PluginFile::read(b"\0asm\x0d".to_vec()), Err(FileError::Truncated { .. })));
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let whole = judge();
        for end in (1..whole.len()).step_by(7) {
            match PluginFile::read(whole[..end].to_vec()) {
                // Cut between two sections it is a component, and has lost the last one: the manifest.
                Err(
                    FileError::Truncated { .. }
                    | FileError::Invalid { .. }
                    | FileError::NoManifest
                    | FileError::NotWasm { .. },
                ) => {}
                other => panic!("cut at {end}: {other:?}"),
            }
        }
        let cut = PluginFile::read(whole[..whole.len() / 2].to_vec()).expect_err("cut");
        assert!(matches!(cut, FileError::Truncated { .. }), "{cut}");
    }

    #[test]
    fn manifests_that_are_missing_double_broken_or_newer() {
        let plain = component_of("judge", None);
        assert!(matches!(PluginFile::read(plain.clone()), Err(FileError::NoManifest)));
        let double = with_section(&judge(), judge_manifest().to_json().to_string().as_bytes());
        assert!(matches!(PluginFile::read(double), Err(FileError::Manifests { count: 2 })));
        let broken = PluginFile::read(with_section(&plain, b"{\"schema\":"));
        assert!(
            matches!(broken, Err(FileError::Manifest(error)) if matches!(*error, ManifestError::Json(_)))
        );
        let newer = PluginFile::read(with_section(&plain, b"{\"schema\":\"mst.manifest/v2\",\"x\":1}"))
            .expect_err("newer");
        assert_eq!(newer.hint().as_deref(), Some("upgrade mst"));
        let large = PluginFile::read(with_section(&plain, &vec![b' '; 64 * 1024 + 1]));
        assert!(
            matches!(large, Err(FileError::Manifest(error)) if matches!(*error, ManifestError::TooLarge { .. }))
        );
    }

    #[test]
    fn a_manifest_inside_a_nested_module_speaks_for_nobody() {
        use wasm_encoder::{Component, Module, ModuleSection};
        let mut module = Module::new();
        module.section(&CustomSection { name: SECTION.into(), data: b"{}".as_slice().into() });
        let mut component = Component::new();
        component.section(&ModuleSection(&module));
        assert!(matches!(PluginFile::read(component.finish()), Err(FileError::NoManifest)));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

        /// No panic, whatever is flipped; the world check included.
        #[test]
        fn a_flipped_byte_is_read_or_refused(flips in proptest::collection::vec((proptest::prelude::any::<u16>(), proptest::prelude::any::<u8>()), 1..4)) {
            let mut bytes = judge();
            for (at, to) in flips {
                let at = usize::from(at) % bytes.len();
                bytes[at] = to;
            }
            let _ = crate::open(bytes);
        }
    }
}
