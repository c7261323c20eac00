//! Takes tokens out of what is kept of a trial.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;

use memchr::memmem;
use mst_model::TokenId;
use mst_model::transcript::Scrubbed;
use mst_process::Stream;
use mst_protocol::Secret;

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

    /// A name in which they stood, without them; none where none did.
    pub(crate) fn name(&self, name: &str) -> Option<String> {
        let (clean, counts) = self.replace(name.as_bytes(), false);
        (!counts.is_empty()).then(|| String::from_utf8_lossy(&clean).into_owned())
    }

    /// What `from` gives, without them.
    pub(crate) fn reader<R: Read>(&self, from: R) -> Clean<'_, R> {
        let piece = vec![0; PIECE].into_boxed_slice();
        Clean { from, piece, ready: Vec::new(), given: 0, over: false, sieve: self.sieve() }
    }

    fn sieve(&self) -> Sieve<'_> {
        let values = self.values.iter().filter(|(_, value)| !value.reveal().is_empty());
        let finders = values.map(|(token, value)| (token, memmem::Finder::new(value.reveal().as_bytes())));
        let finders: Vec<_> = finders.collect();
        let longest = finders.iter().map(|(_, finder)| finder.needle().len()).max().unwrap_or_default();
        Sieve { finders, longest, held: Vec::new(), covered: 0, counts: BTreeMap::new() }
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

    /// The bytes without the values, and how often each stood there.
    fn replace<'a>(&'a self, bytes: &[u8], cut: bool) -> (Vec<u8>, Counts<'a>) {
        let (mut sieve, mut clean) = (self.sieve(), Vec::new());
        for piece in bytes.chunks(PIECE) {
            sieve.push(piece, &mut clean);
        }
        sieve.end(cut, &mut clean);
        (clean, sieve.counts)
    }
}

/// How often each value stood somewhere.
type Counts<'a> = BTreeMap<&'a TokenId, u64>;

/// So much is looked through at a time.
const PIECE: usize = 64 << 10;

/// Takes values out of bytes that come piece by piece. Values that overlap go together.
struct Sieve<'a> {
    finders: Vec<(&'a TokenId, memmem::Finder<'a>)>,
    longest: usize,
    /// The last bytes that came, in which a value may have begun.
    held: Vec<u8>,
    /// So many of them belong to a value that was counted.
    covered: usize,
    counts: Counts<'a>,
}

impl<'a> Sieve<'a> {
    fn push(&mut self, piece: &[u8], clean: &mut Vec<u8>) {
        self.held.extend_from_slice(piece);
        // What begins before this is seen whole.
        let safe = (self.held.len() + 1).saturating_sub(self.longest.max(1));
        let found = self.found(safe);
        self.pass(safe, found, clean);
    }

    /// Where the rest was dropped, a value may have been cut in two: what is left of it goes too.
    fn end(&mut self, cut: bool, clean: &mut Vec<u8>) {
        let safe = self.held.len();
        let mut found = self.found(safe);
        for (token, finder) in self.finders.iter().filter(|_| cut) {
            let value = finder.needle();
            let most = value.len().saturating_sub(1).min(safe);
            let part = (MIN_PART..=most).rev().find(|part| self.held.ends_with(&value[..*part]));
            found.extend(part.map(|part| (safe - part..safe, *token)));
        }
        self.pass(safe, found, clean);
    }

    /// The values that begin before `safe`.
    fn found(&self, safe: usize) -> Vec<(Range<usize>, &'a TokenId)> {
        let mut found = Vec::new();
        for (token, finder) in &self.finders {
            // One after the other also where they overlap themselves.
            let mut from = 0;
            while from < safe
                && let Some(at) = finder.find(&self.held[from..])
                && from + at < safe
            {
                let at = from + at;
                found.push((at..at + finder.needle().len(), *token));
                from = at + 1;
            }
        }
        found
    }

    /// Passes on what comes before `safe`, without what was found.
    fn pass(&mut self, safe: usize, mut found: Vec<(Range<usize>, &'a TokenId)>, clean: &mut Vec<u8>) {
        found.sort_by_key(|(range, _)| (range.start, usize::MAX - range.end));
        let mut done = self.covered;
        for (range, token) in found {
            if range.start >= done {
                clean.extend_from_slice(&self.held[done..range.start]);
                clean.extend_from_slice(format!("[token {token}]").as_bytes());
                *self.counts.entry(token).or_default() += 1;
            }
            done = done.max(range.end);
        }
        if done < safe {
            clean.extend_from_slice(&self.held[done..safe]);
            done = safe;
        }
        self.held.drain(..safe);
        self.covered = done - safe;
    }
}

/// A file without the values that stand in it: they are never on their way to a disk.
pub(crate) struct Clean<'a, R> {
    from: R,
    piece: Box<[u8]>,
    ready: Vec<u8>,
    given: usize,
    over: bool,
    sieve: Sieve<'a>,
}

impl<R> Clean<'_, R> {
    /// What it came from.
    pub(crate) fn source(&self) -> &R {
        &self.from
    }

    /// What was taken out, of what is kept as `entry`.
    pub(crate) fn scrubbed(&self, entry: &str) -> impl Iterator<Item = Scrubbed> {
        self.sieve.counts.iter().map(move |(token, times)| Scrubbed {
            entry: entry.to_owned(),
            token: (*token).clone(),
            times: *times,
        })
    }
}

impl<R: Read> Read for Clean<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() && !self.over {
            let read = self.from.read(&mut self.piece)?;
            (self.given, self.over) = (0, read == 0);
            self.ready.clear();
            match read {
                0 => self.sieve.end(false, &mut self.ready),
                read => self.sieve.push(&self.piece[..read], &mut self.ready),
            }
        }
        let some = into.len().min(self.ready.len() - self.given);
        into[..some].copy_from_slice(&self.ready[self.given..self.given + some]);
        self.given += some;
        Ok(some)
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

    /// Gives so many bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let some = self.1.min(into.len());
            self.0.read(&mut into[..some])
        }
    }

    #[test]
    fn piece_by_piece_is_as_at_once() {
        let values = [("a", "xyxyxyxy"), ("b", "yx-secret-of-b"), ("c", "z"), ("d", "")];
        let text = "..xyxyxyxyxyx-secret-of-b zz xyxyxyx yx-secret-of-xyxyxyxyxyxyxyxyxyxy-secret-of-b";
        let scrubber = scrubber(&values);
        let whole = scrubber.replace(text.as_bytes(), false);
        let shown = String::from_utf8_lossy(&whole.0);
        assert_eq!(shown, "..[token a] [token c][token c] xyxyxyx yx-secret-of-[token a]-secret-of-b");
        for size in 1..text.len() {
            let (mut reader, mut clean) = (scrubber.reader(Drops(text.as_bytes(), size)), Vec::new());
            reader.read_to_end(&mut clean).expect("reads");
            assert_eq!(String::from_utf8_lossy(&clean), shown, "{size} at a time");
            let counts: Vec<_> = reader.scrubbed("x").map(|one| (one.token.to_string(), one.times)).collect();
            assert_eq!(counts, [("a".to_owned(), 2), ("c".to_owned(), 2)], "{size} at a time");
        }
        // Over the edge of a piece, and held no longer than needed.
        let long = format!("{}xyxyxyxy{}", "-".repeat(PIECE - 3), "-".repeat(PIECE));
        let (clean, counts) = scrubber.replace(long.as_bytes(), false);
        assert_eq!(clean.len(), 2 * PIECE - 3 + "[token a]".len());
        assert_eq!(counts.values().sum::<u64>(), 1);
    }
}
