//! Options: JSON from the user to the author's own type.
use serde::de::DeserializeOwned;

use crate::Error;

/// Reads a plugin's options; [`Error::Invalid`](crate::Error::Invalid) with serde's words where
/// they are not a `T`. For who exports the bare bindings: `Judge`, `Dataset` and `MachineRunner` get theirs so.
// By way of a `Value`, because the text is the host's, and "line 1 column 37" of it would mean
// nothing to the person who wrote the eval.
pub fn parse_options<T: DeserializeOwned>(json: &str) -> Result<T, Error> {
    let value: serde_json::Value = serde_json::from_str(json).map_err(refuse)?;
    serde_json::from_value(value).map_err(refuse)
}

fn refuse(error: serde_json::Error) -> Error {
    Error::invalid(format!("the plugin can't use these options: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only its shape is tested")]
    struct Options {
        limit: u32,
    }

    #[test]
    fn what_serde_says_is_handed_on_without_a_place() {
        let error = parse_options::<Options>("{}").expect_err("a field is missing");
        assert_eq!(error, Error::invalid("the plugin can't use these options: missing field `limit`"));
    }
}
