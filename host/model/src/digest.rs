//! SHA-256, written `sha256:` and 64 hex digits, wherever a digest stands.

use std::fmt;
use std::str::FromStr;

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest([u8; 32]);

const PREFIX: &str = "sha256:";

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no digest: it must be `sha256:` and 64 hex digits")]
pub struct DigestError(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The digest of a value's JSON. Two equal values have one text: maps are sorted by key.
    pub fn of_json<T: Serialize>(value: &T) -> Result<Digest, serde_json::Error> {
        // Through `Value`, whose maps are sorted, so that the order of a struct's fields in the
        // source is no part of an identity.
        let text = serde_json::to_vec(&serde_json::to_value(value)?)?;
        Ok(Digest::of(&text))
    }

    /// The 64 hex digits.
    pub fn hex(&self) -> String {
        self.text()[PREFIX.len()..].iter().copied().map(char::from).collect()
    }

    // Each line of an audit has one, so that it is worth not to go by way of a formatter.
    fn text(&self) -> [u8; PREFIX.len() + 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; PREFIX.len() + 64];
        let (prefix, digits) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        text
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A digest over bytes that come in pieces.
#[derive(Debug, Default, Clone)]
pub struct Digester(Sha256);

impl Digester {
    /// The next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let refused = || DigestError(text.chars().take(80).collect());
        let hex = text.strip_prefix(PREFIX).ok_or_else(refused)?;
        // One spelling a digest: they are compared as text too, where they stand in files.
        if hex.len() != 64 || !hex.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)) {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).map_err(|_| refused())?;
        }
        Ok(Digest(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.text()).map_err(S::Error::custom)?)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for bad in
            [digest.hex(), digest.to_string().to_uppercase(), format!("sha256:+{}", &digest.hex()[1..])]
        {
            assert!(bad.parse::<Digest>().is_err(), "`{bad}`");
        }
    }

    #[test]
    fn equal_values_have_one_digest_however_their_maps_were_ordered() {
        // Holds only while no crate turns on serde_json's `preserve_order`.
        let read = |text| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        let (a, b) = (read(r#"{"a":1,"b":2}"#), read(r#"{"b":2,"a":1}"#));
        assert_eq!(Digest::of_json(&a).expect("digests"), Digest::of_json(&b).expect("digests"));
        assert_eq!(a.to_string(), b.to_string());
    }
}
