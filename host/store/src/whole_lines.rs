//! A file of lines that is added to: after an addition that failed it is as if nothing had been written.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use crate::{Result, StoreError, atomic};

#[derive(Debug)]
pub(crate) struct WholeLines {
    path: PathBuf,
    file: File,
    /// As far as the lines are whole.
    size: u64,
    /// Whether there may be something after that.
    torn: bool,
    /// Whether each addition is on the disk when it is done, or only with the system.
    synced: bool,
}

impl WholeLines {
    /// Of a file whose first `size` bytes are whole lines; what comes after them goes.
    pub(crate) fn open(path: PathBuf, file: File, size: u64, synced: bool) -> Result<WholeLines> {
        let mut lines = WholeLines { path, file, size, torn: false, synced };
        let length = lines.file.seek(SeekFrom::End(0)).map_err(StoreError::io("read", &lines.path))?;
        if length > size {
            lines.mend()?;
        }
        Ok(lines)
    }

    /// Adds lines, each with its newline.
    pub(crate) fn add(&mut self, lines: &[u8]) -> Result<()> {
        if self.torn {
            self.mend()?;
        }
        let written = self.write(lines);
        if written.is_err() {
            // A disk that is full may still be able to forget. Where it is not, the next call
            // tries again before it writes.
            let _ = self.mend();
        }
        written
    }

    fn write(&mut self, lines: &[u8]) -> Result<()> {
        // Whatever panics, the size counts whole lines alone.
        self.torn = true;
        self.file.write_all(lines).map_err(StoreError::io("write", &self.path))?;
        self.sync()?;
        self.size += lines.len() as u64;
        self.torn = false;
        Ok(())
    }

    fn mend(&mut self) -> Result<()> {
        let cut = self.file.set_len(self.size).and_then(|()| self.file.seek(SeekFrom::Start(self.size)));
        cut.map_err(StoreError::io("mend", &self.path))?;
        self.sync()?;
        self.torn = false;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        if self.synced { atomic::sync(&self.file, &self.path) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    fn lines(file: File, path: PathBuf, synced: bool) -> WholeLines {
        WholeLines { path, file, size: 0, torn: false, synced }
    }

    #[test]
    fn what_an_addition_that_failed_left_is_in_nobodys_way() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("lines");
        for synced in [false, true] {
            let mut lines = lines(File::create(&path).expect("makes"), path.clone(), synced);
            lines.add(b"a\n").expect("writes");
            // As if the disk had been full, and then not even been able to forget.
            lines.file.write_all(&[b'x'; 5000]).expect("writes");
            lines.torn = true;
            lines.add(b"b\n").expect("writes");
            assert_eq!(fs::read(&path).expect("reads"), b"a\nb\n");
        }
    }

    #[test]
    fn what_is_not_whole_goes() {
        let dir = tempfile::tempdir().expect("makes");
        let path = dir.path().join("lines");
        for (found, size) in [("", 0), ("cut", 0), ("a\n", 2), ("a\ncut", 2)] {
            fs::write(&path, found).expect("writes");
            let file = OpenOptions::new().read(true).write(true).open(&path).expect("opens");
            let mut lines = WholeLines::open(path.clone(), file, size, false).expect("opens");
            lines.add(b"b\n").expect("writes");
            assert_eq!(fs::read_to_string(&path).expect("reads"), found[..size as usize].to_owned() + "b\n");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
            return;
        };
        let error = lines(full, "/dev/full".into(), true).add(b"a\n").expect_err("is full");
        assert!(matches!(error, StoreError::Io { what: "write", .. }), "{error:?}");
    }
}
