//! Cases with which nothing is wrong.

use mst_sdk::dataset::bindings::exports::mst::plugin::cases::{EvalCase, Message};

pub(crate) fn with_id(id: &str) -> EvalCase {
    EvalCase {
        id: id.to_owned(),
        prompt: vec![Message { role: "user".to_owned(), content: format!("Say {id}.") }],
        files: Vec::new(),
        expected: Some(serde_json::Value::from(id).to_string()),
        tags: Vec::new(),
        metadata: "{}".to_owned(),
        deadline_ms: None,
    }
}

pub(crate) fn numbered(n: u64) -> EvalCase {
    EvalCase { expected: Some(n.to_string()), ..with_id(&format!("case-{n}")) }
}
