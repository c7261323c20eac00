//! `[[secret]]`: a value that a plugin can have put in, and never read.

use serde::Serialize;

use super::Destination;

/// What stands before a secret's name where its value is put in.
pub const SECRET_OPEN: &str = "{{secret:";
/// What stands behind it.
pub const SECRET_CLOSE: &str = "}}";

/// A secret that a plugin asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// What the plugin calls it, as in `{{secret:NAME}}`.
    pub name: String,
    /// What it is for, for who is to hand it out.
    pub about: String,
    /// Where it may go in a header of a request. Each is within an `[[http]]` of the manifest. Into
    /// which commands' environments it goes is said by these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Destination>,
}

impl Secret {
    /// To no other place. What it is said to be for is no part of what it can do.
    pub(super) fn is_within(&self, granted: &Secret) -> bool {
        self.name == granted.name && self.to.iter().all(|new| granted.to.iter().any(|old| old.covers(new)))
    }
}
