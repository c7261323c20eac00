//! One question of an eval: `mst.case/v1`, as a judge reads it and as a dataset gives it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who says a message of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sets the scene.
    System,
    /// Asks.
    User,
    /// Answered before.
    Assistant,
}

impl Role {
    /// `system`, `user` or `assistant`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// Its text.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// A file that stands in the workspace before the client starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Relative, with `/`, without `.` or `..`.
    pub path: String,
    /// Its bytes.
    #[serde(with = "text_or_base64")]
    pub content: Vec<u8>,
    /// Whether its owner may execute it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// One question of an eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Unique in the dataset, stable from one resolve to the next, at most 256 bytes, without
    /// control characters.
    pub id: String,
    /// At least one message.
    pub prompt: Vec<Message>,
    /// Placed in the workspace before the client starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// What judges compare with; its shape is between the dataset and its judges. The client
    /// never sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// For selecting and grouping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whatever else is known of the case. The client never sees it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Milliseconds that the client may take; the eval's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

impl Case {
    /// A case with one user message and nothing else; the fields are public for the rest.
    pub fn new(id: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            prompt: vec![Message::new(Role::User, prompt)],
            files: Vec::new(),
            expected: None,
            tags: Vec::new(),
            metadata: Map::new(),
            deadline_ms: None,
        }
    }

    /// The same case with this expected value.
    pub fn with_expected(mut self, expected: impl Into<Value>) -> Self {
        self.expected = Some(expected.into());
        self
    }
}

/// Bytes in JSON as the host writes them: text where they are UTF-8, `{"base64": "…"}` where
/// they are not.
mod text_or_base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Wire {
        Text(String),
        Binary { base64: String },
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Wire::Binary { base64: STANDARD.encode(bytes) }.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        match Wire::deserialize(deserializer)? {
            Wire::Text(text) => Ok(text.into_bytes()),
            Wire::Binary { base64 } => STANDARD.decode(base64).map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_the_host_writes_it() {
        let json = r#"{
            "id": "a/1",
            "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
            "files": [{"path": "a.txt", "content": "text"}, {"path": "b", "content": {"base64": "//4="}, "executable": true}],
            "expected": {"n": 1},
            "deadline_ms": 1000,
            "some_later_field": true
        }"#;
        let case: Case = serde_json::from_str(json).expect("reads");
        assert_eq!(case.prompt[0], Message::new(Role::System, "s"));
        assert_eq!(case.files[0].content, b"text");
        assert_eq!((&case.files[1].content[..], case.files[1].executable), (&b"\xff\xfe"[..], true));
        assert_eq!(case.deadline_ms, Some(1000));
        let again: Case =
            serde_json::from_str(&serde_json::to_string(&case).expect("writes")).expect("reads");
        assert_eq!(again, case);
    }
}
