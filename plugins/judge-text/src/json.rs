//! The mode `json-equal`.

use mst_sdk::judge::Verdict;
use serde_json::{Number, Value};

use crate::options::Tolerance;
use crate::quote::quote;
use crate::subject::Subject;

pub(crate) fn compare(subject: &Subject, expected: &Value, tolerance: Tolerance) -> Verdict {
    let (text, name) = (subject.text(), subject.name());
    let found: Value = match serde_json::from_str(text) {
        Ok(found) => found,
        Err(error) => return Verdict::fail(format!("{name} is {}, which is no JSON: {error}", quote(text))),
    };
    match difference(&found, expected, tolerance, "") {
        None => subject.cite(Verdict::pass(format!("{name} is the expected JSON")), text),
        Some(difference) => Verdict::fail(format!("{name} is JSON, but {difference}")),
    }
}

/// The first place where two values differ, in words.
fn difference(found: &Value, expected: &Value, tolerance: Tolerance, place: &str) -> Option<String> {
    let at = |place: &str| if place.is_empty() { "as a whole it".to_owned() } else { format!("`{place}`") };
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, expected) in expected {
                let place = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
                match found.get(name) {
                    Some(found) => {
                        if let Some(difference) = difference(found, expected, tolerance, &place) {
                            return Some(difference);
                        }
                    }
                    None => return Some(format!("`{place}` is missing")),
                }
            }
            let more = found.keys().find(|name| !expected.contains_key(*name))?;
            Some(format!("{} has a member {} that was not expected", at(place), quote(more)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            if found.len() != expected.len() {
                return Some(format!(
                    "{} has {} items where {} were expected",
                    at(place),
                    found.len(),
                    expected.len()
                ));
            }
            let mut pairs = found.iter().zip(expected).enumerate();
            pairs.find_map(|(index, (found, expected))| {
                difference(found, expected, tolerance, &format!("{place}/{index}"))
            })
        }
        (Value::Number(a), Value::Number(b)) if same_number(a, b, tolerance) => None,
        (found, expected) if found == expected => None,
        (found, expected) => Some(format!(
            "{} is {} where {} was expected",
            at(place),
            quote(&found.to_string()),
            quote(&expected.to_string())
        )),
    }
}

/// 1 and 1.0 are the same number. Integers are compared as such where no tolerance is asked
/// for: as floats, two that differ could be the same.
fn same_number(found: &Number, expected: &Number, tolerance: Tolerance) -> bool {
    let integer = |number: &Number| number.as_i128();
    if let (true, Some(found), Some(expected)) = (tolerance.is_zero(), integer(found), integer(expected)) {
        return found == expected;
    }
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => tolerance.admits(found, expected),
        _ => false,
    }
}
