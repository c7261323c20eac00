//! `[[dir]]`: a directory that a plugin sees.

use std::fmt;

use serde::Serialize;

/// A directory that a plugin asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dir {
    /// What the plugin calls it.
    pub name: String,
    /// What it may do there.
    pub access: Access,
    /// The option that says where it is; otherwise the user binds it in the grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
}

/// What a plugin may do in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Only read.
    Read,
    /// Read, write, make and remove.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::ReadWrite => "read-write",
        })
    }
}

impl Dir {
    /// No more access, and to no other place: an option of the user's own or a binding.
    pub(super) fn is_within(&self, granted: &Dir) -> bool {
        self.name == granted.name && self.option == granted.option && self.access <= granted.access
    }
}
