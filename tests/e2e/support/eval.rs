//! Evals for tests: the least that runs, changed where a test wants it.

use serde_json::{Map, Value, json};

use super::Space;

/// An eval and its cases.
#[derive(Clone)]
pub(crate) struct Eval {
    value: Value,
    cases: Vec<Value>,
}

/// A case with this id, which expects what it asks.
pub(crate) fn case(id: &str) -> Value {
    json!({"id": id, "prompt": id, "expected": id})
}

/// The argv of a shell script.
pub(crate) fn sh(script: &str) -> Value {
    json!(["sh", "-c", script])
}

impl Eval {
    /// One case `a`, one variant `v`, the client `echo`, and the judge `text`, which passes it.
    pub(crate) fn new() -> Eval {
        let value = json!({
            "dataset": {"plugin": "mst/dataset/jsonl", "options": {"path": "cases.jsonl"}},
            "client": {"kind": "echo"},
            "variants": [{"id": "v"}],
            "judges": [{"plugin": "mst/judge/text", "options": {"mode": "exact"}}],
        });
        Eval { value, cases: vec![case("a")] }
    }

    /// With `value` at `path`, as `client.argv` or `judges.0.options`.
    pub(crate) fn set(mut self, path: &str, value: Value) -> Eval {
        let mut at = &mut self.value;
        for part in path.split('.') {
            at = match part.parse::<usize>() {
                Ok(index) => at.get_mut(index).expect("an element that is there"),
                Err(_) => {
                    if !at.is_object() {
                        *at = Value::Object(Map::new());
                    }
                    at.as_object_mut().expect("just made").entry(part).or_insert(Value::Null)
                }
            };
        }
        *at = value;
        self
    }

    /// With a client that is this shell script.
    pub(crate) fn client(self, script: &str) -> Eval {
        self.set("client", json!({"kind": "command", "argv": sh(script)}))
    }

    /// With these judges.
    pub(crate) fn judges(self, judges: Value) -> Eval {
        self.set("judges", judges)
    }

    /// With one judge, called `check`, that is this shell script in the workspace.
    pub(crate) fn check(self, script: &str) -> Eval {
        self.judges(
            json!([{"id": "check", "plugin": "mst/judge/command", "options": {"command": sh(script)}}]),
        )
    }

    /// With these cases.
    pub(crate) fn cases(mut self, cases: impl IntoIterator<Item = Value>) -> Eval {
        self.cases = cases.into_iter().collect();
        self
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Writes `eval.yaml` and `cases.jsonl`.
    pub(crate) fn write(&self, space: &Space) {
        // JSON is YAML.
        space.write("eval.yaml", format!("{:#}", self.value));
        let cases: String = self.cases.iter().map(|case| format!("{case}\n")).collect();
        space.write("cases.jsonl", cases);
    }

    /// Writes it and runs it.
    pub(crate) fn run(&self, space: &Space) -> super::Output {
        self.write(space);
        space.mst(["run", "eval.yaml"])
    }
}
