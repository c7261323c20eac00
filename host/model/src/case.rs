//! One question of an eval, as `mst.case/v1`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Bytes, CaseId, Digest};

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

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// Its text.
    pub content: String,
}

/// A file that stands in the workspace before the client starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseFile {
    /// Relative, with `/`, without `.` or `..`; [`check_path`] holds.
    pub path: String,
    /// Its bytes.
    pub content: Bytes,
    /// Whether its owner may execute it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Unique in the dataset.
    pub id: CaseId,
    /// At least one message.
    pub prompt: Vec<Message>,
    /// Placed in the workspace before the client starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<CaseFile>,
    /// What judges compare with. The client never sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// For selecting and grouping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whatever else is known. The client never sees it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// What the client may take here, where it differs from the eval's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

impl Case {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.case/v1";

    /// The digest of the case as a whole: a changed case is another case.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Digest::of_json(self)
    }

    /// The case without what is the judges' alone.
    pub fn for_client(self) -> Case {
        Case { expected: None, metadata: Map::new(), ..self }
    }

    /// The prompt as one text: a lone message as it is, several each under its role's name.
    pub fn prompt_text(&self) -> String {
        match &self.prompt[..] {
            [only] => only.content.clone(),
            messages => {
                let mut text = String::new();
                for message in messages {
                    let role = match message.role {
                        Role::System => "System",
                        Role::User => "User",
                        Role::Assistant => "Assistant",
                    };
                    text.push_str(&format!("{role}:\n{}\n\n", message.content));
                }
                text
            }
        }
    }
}

/// Why a file's path is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no path in a workspace: {why}", .path.escape_debug())]
pub struct PathError {
    path: String,
    why: &'static str,
}

/// Holds a workspace path to its rule: relative, `/` between parts, no `.`, `..`, empty part,
/// backslash, NUL or control character; at most 1024 bytes, a part at most 255.
pub fn check_path(path: &str) -> Result<(), PathError> {
    let refuse = |why| Err(PathError { path: path.chars().take(128).collect(), why });
    if path.is_empty() {
        return refuse("it is empty");
    }
    if path.starts_with('/') {
        return refuse("it must be relative");
    }
    if path.len() > 1024 {
        return refuse("it is longer than 1024 bytes");
    }
    if path.contains('\\') || path.chars().any(char::is_control) {
        return refuse("it holds a backslash or a control character");
    }
    for part in path.split('/') {
        match part {
            "" | "." | ".." => return refuse("it has an empty, `.` or `..` part"),
            _ if part.len() > 255 => return refuse("it has a part longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_paths() {
        for good in ["a", "src/main.rs", ".env.sample", "a b/é"] {
            assert!(check_path(good).is_ok(), "`{good}`");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//b",
            "./a",
            "a/.",
            "a\\b",
            "a\0",
            "a\nb",
            &"x/".repeat(600),
            &"x".repeat(256),
        ] {
            assert!(check_path(bad).is_err(), "`{bad:?}`");
        }
    }

    #[test]
    fn a_digest_does_not_depend_on_how_the_case_was_written() {
        let a: Case = serde_json::from_str(
            r#"{"id":"1","prompt":[{"role":"user","content":"q"}],"metadata":{"b":1,"a":2}}"#,
        )
        .expect("reads");
        let b: Case = serde_json::from_str(
            r#"{"metadata":{"a":2,"b":1},"prompt":[{"content":"q","role":"user"}],"id":"1","tags":[]}"#,
        )
        .expect("reads");
        assert_eq!(a.digest().expect("digests"), b.digest().expect("digests"));
    }
}
