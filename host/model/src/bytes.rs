//! Bytes in JSON: text where they are UTF-8, base64 where they are not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are mostly text. In JSON a string, or `{"base64": "…"}` where they are no UTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire<'a> {
    Text(std::borrow::Cow<'a, str>),
    Binary { base64: String },
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Wire::Text(text.into()),
            Err(_) => Wire::Binary { base64: STANDARD.encode(&self.0) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Wire::deserialize(deserializer)? {
            Wire::Text(text) => Ok(Bytes(text.into_owned().into_bytes())),
            Wire::Binary { base64 } => STANDARD.decode(base64).map(Bytes).map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive() {
        for bytes in [&b"text"[..], b"nul\0", b"\xff\xfe", b""] {
            let json = serde_json::to_string(&Bytes(bytes.to_vec())).expect("writes");
            assert_eq!(serde_json::from_str::<Bytes>(&json).expect("reads").0, bytes);
        }
    }
}
