//! What a plugin's schema certainly keeps the user's option to.

use serde_json::Value;

use crate::request::CommandTemplate;

/// Whether a schema lists what an option may be, or bounds all of its text.
pub(super) fn is_bounded(schema: &Value) -> bool {
    let is =
        |kinds: &[&str]| schema.get("type").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind));
    schema.get("enum").is_some()
        || schema.get("const").is_some()
        || is(&["boolean", "integer", "number"])
        // A pattern says nothing of a list.
        || (is(&["string"]) && schema.get("pattern").and_then(Value::as_str).is_some_and(holds_all))
}

/// Whether an option of a command's is always one word that begins no flag.
pub(super) fn is_word(command: &CommandTemplate, option: &str) -> bool {
    let Some(schema) = command.options.get(option) else { return false };
    let default = command.defaults.get(option);
    let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
    // What it begins with is one of a class of letters and digits.
    let class = pattern.strip_prefix("^[").and_then(|rest| rest.split_once(']'));
    let begins = class.is_some_and(|(class, behind)| {
        let plain = class.replace("A-Z", "").replace("a-z", "").replace("0-9", "");
        !plain.contains(['-', '^', '\\', '[', '&']) && !behind.starts_with(['*', '?', '{'])
    });
    schema.get("type").and_then(Value::as_str) == Some("string")
        && holds_all(pattern)
        && begins
        && default.is_none_or(|default| default.as_str().is_some_and(|text| !text.starts_with('-')))
}

/// Whether an option of a command's is always one word, to a shell too, and plain text to it.
pub(super) fn is_plain_word(command: &CommandTemplate, option: &str) -> bool {
    let pattern = command.options.get(option).and_then(|schema| schema.get("pattern"));
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "._/:@+=,%".contains(c));
    let default = command.defaults.get(option).and_then(Value::as_str).unwrap_or_default();
    is_word(command, option)
        && plain(default)
        && pattern.and_then(Value::as_str).is_some_and(has_plain_classes)
}

/// Whether a pattern is of classes of plain characters, and of letters and digits between them.
fn has_plain_classes(pattern: &str) -> bool {
    let Some(mut rest) = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')) else {
        return false;
    };
    loop {
        let (between, class) = rest.split_once('[').unwrap_or((rest, ""));
        if !between.chars().all(|c| c.is_ascii_alphanumeric() || "/:*+?(){},|".contains(c)) {
            return false;
        }
        if class.is_empty() {
            return between.len() == rest.len();
        }
        let Some((class, behind)) = class.split_once(']') else { return false };
        let signs =
            ["A-Z", "a-z", "0-9"].iter().fold(class.to_owned(), |class, range| class.replace(range, ""));
        let signs = signs.strip_suffix('-').unwrap_or(&signs);
        if class.is_empty() || !signs.chars().all(|c| c.is_ascii_alphanumeric() || "._/:@+=,%".contains(c)) {
            return false;
        }
        rest = behind;
    }
}

/// Whether a pattern is of a whole text: with both of its ends, and no choice that has but one of them.
fn holds_all(pattern: &str) -> bool {
    let Some(inner) = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')) else { return false };
    let (mut depth, mut in_class, mut escaped) = (0_usize, false, false);
    for c in inner.chars() {
        match c {
            _ if escaped => {
                escaped = false;
                continue;
            }
            '\\' => escaped = true,
            ']' if in_class => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return false,
            _ => {}
        }
    }
    !escaped && !in_class && !inner.replace("(?:", "(").contains("(?")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_pattern_of_the_whole_text_bounds_it() {
        for pattern in ["^[a-z]+$", "^(a|b)$", "^(?:a|b)[|]x$", r"^a\|b$"] {
            assert!(is_bounded(&json!({"type": "string", "pattern": pattern})), "{pattern}");
        }
        for pattern in ["", "x", "^x", "x$", "^a|b$", r"^a\$", "^[a$", "^(?m)a$"] {
            assert!(!is_bounded(&json!({"type": "string", "pattern": pattern})), "{pattern}");
        }
        assert!(!is_bounded(&json!({"type": "array", "pattern": "^x$"})));
        assert!(!is_bounded(&json!({"pattern": "^x$"})));
        assert!(is_bounded(&json!({"enum": ["a"]})) && is_bounded(&json!({"type": "integer"})));
    }

    #[test]
    fn only_plain_classes_are_plain_to_a_shell() {
        for pattern in ["^[A-Za-z0-9._/][A-Za-z0-9._/-]*$", "^[a-z]+(/[a-z]+)?$"] {
            assert!(has_plain_classes(pattern), "{pattern}");
        }
        for pattern in
            ["^.*$", "^[^;]*$", "^[a-z ]*$", "^[A-z]*$", "^[+-z]*$", r"^\S*$", "^[a-z;]$", "[a-z]", "^[]$"]
        {
            assert!(!has_plain_classes(pattern), "{pattern}");
        }
    }
}
