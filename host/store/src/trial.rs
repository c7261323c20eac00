//! A finished trial's directory, read back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use mst_model::digest::Digester;
use mst_model::transcript::Transcript;
use mst_model::{Digest, TrialKey};

use crate::layout::{FILES, REPORT, STDERR, TRANSCRIPT};
use crate::{Result, StoreError, json, tree};

/// The largest `transcript.json` that is believed, in bytes: it lists 10,000 files at most.
const MAX_TRANSCRIPT: u64 = 64 << 20;

/// The transcript in a trial's directory and the digest of its file; none where there is none.
pub fn read_transcript(dir: &Path) -> Result<Option<(Transcript, Digest)>> {
    let path = dir.join(TRANSCRIPT);
    let Some(bytes) = json::bytes(&path)? else {
        return Ok(None);
    };
    let transcript = json::parse(&path, &bytes)?;
    Ok(Some((transcript, Digest::of(&bytes))))
}

/// [`read_transcript`] of a directory that must be the one of `key`.
pub(crate) fn read_for(dir: &Path, key: &TrialKey) -> Result<Option<(Transcript, Digest)>> {
    let read = read_transcript(dir)?;
    match &read {
        Some((transcript, _)) if transcript.trial != *key => Err(StoreError::Misplaced {
            path: dir.join(TRANSCRIPT),
            found: transcript.trial.to_string(),
            expected: key.to_string(),
        }),
        _ => Ok(read),
    }
}

/// Holds the directory `dir` to be all of trial `key`: its transcript is that trial's, each file
/// that it lists is there byte for byte, and there is nothing else. Reads every byte.
pub fn verify_trial(dir: &Path, key: &TrialKey) -> Result<(Transcript, Digest)> {
    let missing = |relative: &str| StoreError::Missing { path: dir.join(relative) };
    // Before it is opened: a link could lead anywhere, `/dev/zero` too, and a FIFO never ends.
    let path = dir.join(TRANSCRIPT);
    match fs::symlink_metadata(&path) {
        Ok(found) if !found.is_file() => return Err(StoreError::NotPlain { path }),
        Ok(found) if found.len() > MAX_TRANSCRIPT => {
            return Err(StoreError::WrongSize { path, found: found.len(), expected: MAX_TRANSCRIPT });
        }
        _ => {}
    }
    let (transcript, digest) = read_for(dir, key)?.ok_or_else(|| missing(TRANSCRIPT))?;
    let streams = [(REPORT, &transcript.report), (STDERR, &transcript.stderr)];
    let mut listed: BTreeMap<String, (Digest, u64)> = streams
        .into_iter()
        .filter_map(|(name, stream)| {
            stream.as_ref().map(|stream| (name.to_owned(), (stream.sha256, stream.size_bytes)))
        })
        .collect();
    for entry in &transcript.files {
        listed.insert(format!("{FILES}/{}", entry.path), (entry.sha256, entry.size_bytes));
    }
    tree::files(dir, |relative, path| {
        if relative == TRANSCRIPT {
            return Ok(());
        }
        let Some((expected, size)) = listed.remove(relative) else {
            return Err(StoreError::Unlisted { path: path.to_owned() });
        };
        // Before it is read: a hole of a terabyte costs its maker nothing.
        let length = fs::symlink_metadata(path).map_err(StoreError::io("read", path))?.len();
        if length != size {
            return Err(StoreError::WrongSize { path: path.to_owned(), found: length, expected: size });
        }
        let found = digest_of(path)?;
        if found == expected {
            Ok(())
        } else {
            Err(StoreError::Altered { path: path.to_owned(), found, expected })
        }
    })?;
    match listed.keys().next() {
        Some(relative) => Err(missing(relative)),
        None => Ok((transcript, digest)),
    }
}

/// The digest of the file at `path`, read in pieces.
pub(crate) fn digest_of(path: &Path) -> Result<Digest> {
    let read = |error| StoreError::io("read", path)(error);
    let mut file = File::open(path).map_err(read)?;
    let mut digester = Digester::default();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece).map_err(read)? {
            0 => return Ok(digester.finish()),
            size => digester.update(&piece[..size]),
        }
    }
}
