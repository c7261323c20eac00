//! What a plugin may want beyond what was granted to an earlier version of it.

use std::cmp::Ordering;
use std::fmt;

use mst_model::Digest;

use super::Pinned;
use crate::legible::{shown, wrapped};
use crate::manifest::Manifest;
use crate::request::{Key, Request};
use crate::risk::{self, Mark};

/// Two versions of a plugin, side by side. What narrowed is taken over; what widened is a person's
/// to approve.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The version that was pinned, and the one that is to be.
    pub versions: (semver::Version, semver::Version),
    /// Their bytes.
    pub digests: (Digest, Digest),
    /// What no earlier request covers.
    pub widened: Vec<Change>,
    /// What is wider and is no request.
    pub wider: Vec<Wider>,
    /// What is asked for no more.
    pub dropped: Vec<Key>,
    /// What asks for less than before.
    pub narrowed: Vec<Change>,
}

/// A request that is another than it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What is asked for now.
    pub now: Request,
    /// What the same key stood for; none for a new key.
    pub was: Option<Request>,
    /// What to know about it.
    pub risks: Vec<Mark>,
}

/// Something beside the requests that is wider than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wider {
    /// As it is called in a manifest.
    pub name: &'static str,
    /// What it was, where the lock says it.
    pub was: Option<String>,
    /// What it is.
    pub now: String,
}

impl Diff {
    /// From an earlier version to a later one.
    pub(super) fn of(earlier: &Pinned, later: &Pinned) -> Diff {
        let mut diff = Diff {
            versions: (earlier.version.clone(), later.version.clone()),
            digests: (earlier.sha256, later.sha256),
            widened: Vec::new(),
            wider: wider(earlier, later),
            dropped: Vec::new(),
            narrowed: Vec::new(),
        };
        for (key, asked) in &later.requests {
            let was = earlier.requests.get(key).map(|asked| &asked.request);
            let change = || Change { now: asked.request.clone(), was: was.cloned(), risks: Vec::new() };
            let covered = earlier.requests.values().any(|old| asked.request.is_within(&old.request));
            if !covered {
                diff.widened.push(change());
            } else if was.is_some_and(|was| !was.is_within(&asked.request)) {
                diff.narrowed.push(change());
            }
        }
        diff.dropped =
            earlier.requests.keys().filter(|key| !later.requests.contains_key(key)).cloned().collect();
        diff
    }

    /// With what to know about each request that widened. The manifest is the later one's.
    pub fn explained(mut self, manifest: &Manifest) -> Diff {
        for change in &mut self.widened {
            change.risks = risk::of(manifest, &change.now);
        }
        self
    }

    /// Whether somebody has to approve of it.
    pub fn widens(&self) -> bool {
        !self.widened.is_empty() || !self.wider.is_empty()
    }

    /// Whether it is another file at all.
    pub fn is_another_file(&self) -> bool {
        self.digests.0 != self.digests.1
    }

    /// The keys of what widened.
    pub fn widened_keys(&self) -> impl Iterator<Item = Key> {
        self.widened.iter().map(|change| change.now.key())
    }
}

/// The same bytes say the same, whatever an older lock does not have.
fn wider(earlier: &Pinned, later: &Pinned) -> Vec<Wider> {
    let mut out = Vec::new();
    if earlier.sha256 == later.sha256 {
        return out;
    }
    if let Some(now) = later.max_shards
        && earlier.max_shards.is_none_or(|was| now > was)
    {
        let was = earlier.max_shards.map(|was| was.to_string());
        out.push(Wider { name: "max_shards", was, now: now.to_string() });
    }
    if later.forward_port == Some(true) && earlier.forward_port != Some(true) {
        let was = earlier.forward_port.map(|was| was.to_string());
        out.push(Wider { name: "forward_port", was, now: true.to_string() });
    }
    out
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_another_file() {
            let (was, now) = &self.versions;
            let word = match now.cmp_precedence(was) {
                Ordering::Less => ": an older version",
                Ordering::Equal => ": the same version, and another file",
                Ordering::Greater => "",
            };
            writeln!(f, "version {was} -> {now}{word}")?;
            writeln!(f, "file {}\n  -> {}", self.digests.0, self.digests.1)?;
        }
        for Wider { name, was, now } in &self.wider {
            writeln!(f, "~ {name} {} -> {now}", was.as_deref().unwrap_or("(not in the lock)"))?;
        }
        for change in &self.widened {
            writeln!(f, "{} {}", if change.was.is_some() { '~' } else { '+' }, change.now.key())?;
            change.lines(f)?;
            change.risks.iter().try_for_each(|mark| f.write_str(&wrapped("  ! ", "      ", &mark.text)))?;
        }
        for change in &self.narrowed {
            writeln!(f, "  {} asks for less than before", change.now.key())?;
            change.lines(f)?;
        }
        self.dropped.iter().try_for_each(|key| writeln!(f, "- {key}"))
    }
}

impl Change {
    /// What is there no more, and what is there now.
    fn lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let old = self.was.as_ref().map(Request::lines).unwrap_or_default();
        let new = self.now.lines();
        for (sign, these, others) in [('-', &old, &new), ('+', &new, &old)] {
            for (name, text) in these.iter().filter(|line| !others.contains(line)) {
                // Whole: what is cut off is what nobody reads. A line of the page's own width can't be made
                // to look like two.
                let text = shown(text, usize::MAX);
                f.write_str(&wrapped(&format!("  {sign} {name} "), "      ", &text))?;
            }
        }
        Ok(())
    }
}
