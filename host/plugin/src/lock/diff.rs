//! What a plugin may want beyond what was granted to an earlier version of it.

use std::fmt;

use super::Pinned;
use crate::legible::shown;
use crate::request::{Key, Request};

/// The permissions of two versions of a plugin, side by side. What narrowed is taken over; what
/// widened is a person's to approve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diff {
    /// What no earlier request covers.
    pub widened: Vec<Widened>,
    /// What is asked for no more.
    pub dropped: Vec<Key>,
    /// What asks for less than before.
    pub narrowed: Vec<Key>,
}

/// A request that no earlier one covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Widened {
    /// What is asked for now.
    pub now: Request,
    /// What the same key stood for; none for a new key.
    pub was: Option<Request>,
}

impl Diff {
    /// From an earlier version to a later one.
    pub(super) fn of(earlier: &Pinned, later: &Pinned) -> Diff {
        let mut diff = Diff::default();
        for (key, asked) in &later.requests {
            let was = earlier.requests.get(key).map(|asked| &asked.request);
            let covered = earlier.requests.values().any(|old| asked.request.is_within(&old.request));
            if !covered {
                diff.widened.push(Widened { now: asked.request.clone(), was: was.cloned() });
            } else if was.is_some_and(|was| !was.is_within(&asked.request)) {
                diff.narrowed.push(key.clone());
            }
        }
        diff.dropped =
            earlier.requests.keys().filter(|key| !later.requests.contains_key(key)).cloned().collect();
        diff
    }

    /// The keys of what widened.
    pub fn widened_keys(&self) -> impl Iterator<Item = Key> {
        self.widened.iter().map(|widened| widened.now.key())
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Widened { now, was } in &self.widened {
            match was {
                None => writeln!(f, "+ {}", now.key())?,
                Some(_) => writeln!(f, "~ {}", now.key())?,
            }
            let old = was.as_ref().map(Request::lines).unwrap_or_default();
            let new = now.lines();
            for (name, text) in &old {
                if !new.contains(&(*name, text.clone())) {
                    writeln!(f, "  - {name} {}", shown(text, 4096))?;
                }
            }
            for (name, text) in &new {
                if !old.contains(&(*name, text.clone())) {
                    writeln!(f, "  + {name} {}", shown(text, 4096))?;
                }
            }
        }
        for key in &self.narrowed {
            writeln!(f, "  {key} asks for less than before")?;
        }
        for key in &self.dropped {
            writeln!(f, "- {key}")?;
        }
        Ok(())
    }
}
