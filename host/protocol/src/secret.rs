//! A value that nobody is to see.

use std::fmt;

use serde::{Deserialize, Deserializer, Serializer};
use zeroize::Zeroizing;

/// The value of a token. It shows itself nowhere, and its memory is overwritten when it is dropped.
/// It has no `Serialize` of its own: the one place where it is written is the frame `tokens`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a value over.
    pub fn new(value: String) -> Secret {
        Secret(Zeroizing::new(value))
    }

    /// The value itself, for whoever hands it on.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

pub(crate) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_show_itself() {
        let message = crate::FromCoordinator::Tokens {
            tokens: vec![crate::Token {
                name: "gateway".parse().expect("a name"),
                value: Secret::new("hunter2".to_owned()),
                expires_in_ms: None,
            }],
        };
        let shown = format!("{message:?} {message:#?}");
        assert!(shown.contains("gateway") && !shown.contains("hunter2"), "{shown}");
    }
}
