//! What the client left, as text.

use mst_sdk::judge::{Error, Trial, Verdict};

use crate::quote::cited;

/// Bytes of an entry that are compared. More fails: an answer of that size is none.
const LIMIT: u64 = 16 << 20;

/// The report, or a file.
pub(crate) struct Subject {
    entry: String,
    text: String,
    /// Whether `text` is the entry's bytes as they are, so that its words can be cited.
    verbatim: bool,
    trim: bool,
}

impl Subject {
    /// Reads the entry; `Ok(Err(_))` says why the trial fails for want of it.
    pub(crate) fn read(trial: &Trial<'_>, entry: &str, trim: bool) -> Result<Result<Self, String>, Error> {
        let Some(found) = trial.entry(entry) else {
            return Ok(Err(match entry.strip_prefix("files/") {
                Some(path) => format!("the client left no file `{path}`"),
                None => "the client gave no report".to_owned(),
            }));
        };
        if found.size > LIMIT {
            return Ok(Err(format!(
                "`{entry}` is {} bytes, more than the {LIMIT} that are compared",
                found.size
            )));
        }
        let (text, verbatim) = match String::from_utf8(trial.read_all(entry)?) {
            Ok(text) => (text, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        };
        Ok(Ok(Self { entry: entry.to_owned(), text, verbatim, trim }))
    }

    /// Its text, trimmed where the user wants that.
    pub(crate) fn text(&self) -> &str {
        if self.trim { self.text.trim() } else { &self.text }
    }

    /// Its name in a reason.
    pub(crate) fn name(&self) -> String {
        match self.entry.strip_prefix("files/") {
            Some(path) => format!("the file `{path}`"),
            None => "the report".to_owned(),
        }
    }

    /// Adds a piece of its text to a verdict, where it stands in the entry word by word.
    pub(crate) fn cite(&self, verdict: Verdict, piece: &str) -> Verdict {
        let quote = cited(piece.trim());
        if self.verbatim && !quote.is_empty() { verdict.cite(&self.entry, quote) } else { verdict }
    }
}
