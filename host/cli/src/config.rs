//! Reading an eval's file.

use std::fs;
use std::path::{Path, PathBuf};

use mst_model::eval::Eval;
use mst_model::strict_json;
use serde_json::Value;

use crate::error::Failure;

/// The largest eval file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// An eval, and where it stands.
#[derive(Debug)]
pub(crate) struct EvalFile {
    pub(crate) eval: Eval,
    /// Its file.
    pub(crate) path: PathBuf,
    /// The directory that its paths are relative to.
    pub(crate) dir: PathBuf,
}

pub(crate) fn read(path: &Path) -> Result<EvalFile, Failure> {
    let shown = path.display();
    let failed =
        |error: &dyn std::error::Error| Failure::because(format!("can't read the eval `{shown}`"), error);
    let meta = fs::metadata(path).map_err(|error| failed(&error))?;
    if meta.is_dir() {
        return Err(
            Failure::new(format!("`{shown}` is a directory")).hint("name the eval's file, as eval.yaml")
        );
    }
    if !meta.is_file() {
        return Err(Failure::new(format!("`{shown}` is no file")).hint("name the eval's file, as eval.yaml"));
    }
    if meta.len() > MAX_BYTES {
        return Err(Failure::new(format!(
            "`{shown}` has {} bytes; an eval has at most {MAX_BYTES}",
            meta.len()
        )));
    }
    let bytes = fs::read(path).map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let mut failure = Failure::new(format!("the eval `{shown}` is no text"));
        failure.causes.push(format!("the byte {:#04x} at {at} is not UTF-8", error.as_bytes()[at]));
        failure.hint("save the file as UTF-8")
    })?;
    let value = parse(path, &text)?;
    let eval = Eval::read(&value).map_err(|problems| {
        Failure::problems(format!("the eval `{shown}` is not valid"), &problems)
            .hint("`mst schema eval` prints the schema")
    })?;
    let path = fs::canonicalize(path).map_err(|error| failed(&error))?;
    let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(EvalFile { eval, path, dir })
}

fn parse(path: &Path, text: &str) -> Result<Value, Failure> {
    let shown = path.display();
    let failed = |format: &str, error: String| {
        let mut failure = Failure::new(format!("the eval `{shown}` is no {format}"));
        failure.causes.push(error.trim_end().to_owned());
        failure
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => serde_saphyr::from_str(text).map_err(|error| {
            // In this file's words: the reader's own name its input and its options.
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let text = error.to_string().replace("<input>", &name);
            failed("YAML", text.replace(", set DuplicateKeyPolicy in Options if acceptable", ""))
        }),
        Some("json") => {
            strict_json::from_slice(text.as_bytes()).map_err(|error| failed("JSON", error.to_string()))
        }
        Some("toml") => toml::from_str(text).map_err(|error| failed("TOML", error.to_string())),
        _ => Err(Failure::new(format!("`{shown}` has no ending that tells its format"))
            .hint("an eval is a `.yaml`, `.json` or `.toml` file")),
    }
}
