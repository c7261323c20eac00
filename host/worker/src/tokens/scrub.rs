//! Takes tokens out of what is kept of a trial.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use memchr::memmem;
use mst_model::transcript::{Omitted, Scrubbed};
use mst_model::{Digest, TokenId};
use mst_process::Stream;
use mst_protocol::Secret;

use crate::export::{Exported, remove_emptied};

/// A shorter beginning of a value is no part of one that anybody can know.
const MIN_PART: usize = 4;

/// The values to be taken out.
#[derive(Debug, Default)]
pub(crate) struct Scrubber {
    values: Vec<(TokenId, Secret)>,
}

impl Scrubber {
    pub(crate) fn new(values: Vec<(TokenId, Secret)>) -> Scrubber {
        Scrubber { values }
    }

    /// Takes them out of a stream that is kept as `entry`. Where its end was dropped, a value may have
    /// been cut in two: what is left of it goes too.
    pub(crate) fn stream(&self, entry: &str, stream: &mut Stream, scrubbed: &mut Vec<Scrubbed>) {
        if let Some(clean) = self.clean(entry, &stream.bytes, stream.cut > 0, scrubbed) {
            stream.bytes = clean;
        }
    }

    /// Takes them out of the files below `dir`, and leaves out files that have one in their name.
    pub(crate) fn files(
        &self,
        dir: &Path,
        exported: &mut Exported,
        scrubbed: &mut Vec<Scrubbed>,
    ) -> io::Result<()> {
        if self.values.is_empty() {
            return Ok(());
        }
        let named = |text: &str| {
            let (clean, counts) = self.replace(text.as_bytes(), false);
            (!counts.is_empty()).then(|| String::from_utf8_lossy(&clean).into_owned())
        };
        for omitted in &mut exported.omitted {
            if let Some(clean) = named(&omitted.path) {
                omitted.path = clean;
            }
        }
        let mut kept = Vec::new();
        for mut file in std::mem::take(&mut exported.files) {
            let path = dir.join(&file.path);
            if let Some(clean) = named(&file.path) {
                fs::remove_file(&path)?;
                // It may stand in a directory's name, which is to go with its last file.
                remove_emptied(&path, dir);
                let why = "a token stands in its name".to_owned();
                exported.omitted.push(Omitted { path: clean, why });
                continue;
            }
            let bytes = fs::read(&path)?;
            if let Some(clean) = self.clean(&format!("files/{}", file.path), &bytes, false, scrubbed) {
                file.size_bytes = clean.len() as u64;
                file.sha256 = Digest::of(&clean);
                fs::write(&path, clean)?;
            }
            kept.push(file);
        }
        exported.files = kept;
        Ok(())
    }

    fn clean(&self, entry: &str, bytes: &[u8], cut: bool, scrubbed: &mut Vec<Scrubbed>) -> Option<Vec<u8>> {
        let (clean, counts) = self.replace(bytes, cut);
        if counts.is_empty() {
            return None;
        }
        let said = |(token, times): (&TokenId, u64)| Scrubbed {
            entry: entry.to_owned(),
            token: token.clone(),
            times,
        };
        scrubbed.extend(counts.into_iter().map(said));
        Some(clean)
    }

    /// The bytes without the values, and how often each stood there. Values that overlap go together.
    fn replace(&self, bytes: &[u8], cut: bool) -> (Vec<u8>, BTreeMap<&TokenId, u64>) {
        let mut found: Vec<(Range<usize>, &TokenId)> = Vec::new();
        for (token, value) in &self.values {
            let value = value.reveal().as_bytes();
            if value.is_empty() {
                continue;
            }
            // One after the other also where they overlap themselves.
            let finder = memmem::Finder::new(value);
            let mut from = 0;
            while let Some(at) = finder.find(&bytes[from..]) {
                let at = from + at;
                found.push((at..at + value.len(), token));
                from = at + 1;
            }
            if cut {
                let most = value.len().saturating_sub(1).min(bytes.len());
                let part = (MIN_PART..=most).rev().find(|part| bytes.ends_with(&value[..*part]));
                found.extend(part.map(|part| (bytes.len() - part..bytes.len(), token)));
            }
        }
        found.sort_by_key(|(range, _)| (range.start, usize::MAX - range.end));
        let (mut clean, mut counts) = (Vec::new(), BTreeMap::new());
        let mut done = 0;
        for (range, token) in found {
            if range.start >= done {
                clean.extend_from_slice(&bytes[done..range.start]);
                clean.extend_from_slice(format!("[token {token}]").as_bytes());
                *counts.entry(token).or_default() += 1;
            }
            done = done.max(range.end);
        }
        clean.extend_from_slice(&bytes[done..]);
        (clean, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubber(values: &[(&str, &str)]) -> Scrubber {
        let value =
            |(name, value): &(&str, &str)| (name.parse().expect("a name"), Secret::new((*value).to_owned()));
        Scrubber::new(values.iter().map(value).collect())
    }

    fn scrub(values: &[(&str, &str)], text: &str, cut: u64) -> (String, Vec<(String, u64)>) {
        let mut stream = Stream { bytes: text.as_bytes().to_vec(), cut };
        let mut scrubbed = Vec::new();
        scrubber(values).stream("report", &mut stream, &mut scrubbed);
        let said = scrubbed.into_iter().map(|one| (one.token.to_string(), one.times)).collect();
        (String::from_utf8(stream.bytes).expect("UTF-8"), said)
    }

    #[test]
    fn every_value_goes_wherever_it_stands() {
        let values = [("a", "hunter2-secret"), ("b", "secret-of-b")];
        assert_eq!(scrub(&values, "nothing here", 0), ("nothing here".to_owned(), vec![]));
        assert_eq!(
            scrub(&values, "hunter2-secret,hunter2-secret;secret-of-b", 0),
            ("[token a],[token a];[token b]".to_owned(), vec![("a".to_owned(), 2), ("b".to_owned(), 1)])
        );
        // One in the other: no end of either is left.
        assert_eq!(scrub(&values, "hunter2-secret-of-b!", 0).0, "[token a]!");
        assert_eq!(scrub(&[("a", "xyxyxyxy")], "xyxyxyxyxy.", 0).0, "[token a].");
    }

    #[test]
    fn half_a_value_at_a_cut_goes_too() {
        let values = [("a", "hunter2-secret")];
        assert_eq!(scrub(&values, "it is hunter2-sec", 9).0, "it is [token a]");
        assert_eq!(scrub(&values, "it is hunter2-sec", 0).0, "it is hunter2-sec");
        assert_eq!(scrub(&values, "it is hun", 9).0, "it is hun");
    }

    #[test]
    fn files_are_rewritten_and_those_that_are_called_so_left_out() {
        let dir = tempfile::tempdir().expect("made");
        fs::create_dir_all(dir.path().join("c/hunter2-secret/d")).expect("made");
        let file = |path: &str, text: &str| {
            fs::write(dir.path().join(path), text).expect("written");
            mst_model::transcript::FileEntry {
                path: path.to_owned(),
                size_bytes: text.len() as u64,
                sha256: Digest::of(text.as_bytes()),
                executable: false,
            }
        };
        let mut exported = Exported {
            files: vec![
                file("a", "hunter2-secret\n"),
                file("b", "plain"),
                file("hunter2-secret", ""),
                file("c/hunter2-secret/d/one", ""),
                file("c/hunter2-secret/d/two", ""),
            ],
            omitted: Vec::new(),
        };
        let mut scrubbed = Vec::new();
        scrubber(&[("a", "hunter2-secret")]).files(dir.path(), &mut exported, &mut scrubbed).expect("scrubs");
        assert_eq!(fs::read_to_string(dir.path().join("a")).expect("reads"), "[token a]\n");
        assert_eq!(exported.files[0], file("a", "[token a]\n"));
        assert_eq!(exported.files.len(), 2);
        assert_eq!(exported.omitted[0].path, "[token a]");
        assert_eq!(exported.omitted[2].path, "c/[token a]/d/two");
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).expect("lists").map(|entry| entry.expect("reads").file_name()).collect();
        left.sort();
        assert_eq!(left, ["a", "b"], "no directory is called so either");
        assert_eq!((scrubbed.len(), scrubbed[0].entry.as_str()), (1, "files/a"));
    }
}
