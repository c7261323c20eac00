//! A finished trial's directory, read back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mst_model::digest::Digester;
use mst_model::transcript::Transcript;
use mst_model::{Digest, TrialKey};

use crate::layout::{FILES, REPORT, STDERR, TRANSCRIPT};
use crate::{Result, StoreError, json, tree};

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
    let (transcript, digest) = read_for(dir, key)?.ok_or_else(|| missing(TRANSCRIPT))?;
    let streams = [(REPORT, &transcript.report), (STDERR, &transcript.stderr)];
    let mut listed: BTreeMap<String, Digest> = streams
        .into_iter()
        .filter_map(|(name, stream)| Some((name.to_owned(), stream.as_ref()?.sha256)))
        .collect();
    for entry in &transcript.files {
        listed.insert(format!("{FILES}/{}", entry.path), entry.sha256);
    }
    tree::files(dir, |relative, path| {
        if relative == TRANSCRIPT {
            return Ok(());
        }
        let Some(expected) = listed.remove(relative) else {
            return Err(StoreError::Unlisted { path: path.to_owned() });
        };
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
