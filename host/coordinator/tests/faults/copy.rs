//! What a channel does with files.

use std::path::Path;

/// Copies what lies in `from`; where `torn`, the last of each file is not there.
pub(crate) fn copy(from: &Path, to: &Path, torn: bool) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, torn)?;
        } else {
            let bytes = std::fs::read(entry.path())?;
            std::fs::write(target, &bytes[..bytes.len() - usize::from(torn && !bytes.is_empty())])?;
        }
    }
    Ok(())
}
