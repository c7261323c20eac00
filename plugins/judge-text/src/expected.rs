//! What is expected: the option `value`, or the case's `expected` or a part of it.

use std::borrow::Cow;

use mst_sdk::judge::{Case, Error};
use serde_json::Value;

use crate::number;
use crate::options::Options;
use crate::quote::quote;

/// The expected value, or why there is none; that matters only to who asks for it.
pub(crate) struct Expected<'a>(Result<(&'a Value, Cow<'static, str>), Error>);

impl<'a> Expected<'a> {
    pub(crate) fn find(case: &'a Case, options: &'a Options) -> Self {
        if let Some(value) = &options.value {
            return Self(Ok((value, "the option `value`".into())));
        }
        let pointer = &options.expected_pointer;
        let Some(expected) = &case.expected else {
            return Self(Err(Error::invalid(
                "the case has no `expected`; set the option `value`, or tell the dataset where `expected` is",
            )));
        };
        if pointer.is_empty() {
            return Self(Ok((expected, "the case's `expected`".into())));
        }
        Self(match expected.pointer(pointer) {
            Some(value) => Ok((value, format!("the case's `expected` at `{pointer}`").into())),
            None => Err(Error::invalid(format!(
                "the case's `expected` has nothing at `{pointer}`, which the option `expected_pointer` names; it is {}",
                quote(&expected.to_string())
            ))),
        })
    }

    pub(crate) fn value(self) -> Result<Value, Error> {
        self.0.map(|(value, _)| value.clone())
    }

    /// A string as it is, a number or a boolean as JSON writes it.
    pub(crate) fn text(self) -> Result<String, Error> {
        let (value, place) = self.0?;
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => Err(Error::invalid(format!(
                "{place} is {}, and this mode needs a text; use `expected_pointer` for a part of it, or the mode `json-equal`",
                quote(&value.to_string())
            ))),
        }
    }

    /// A number, or a string that is one.
    pub(crate) fn number(self) -> Result<f64, Error> {
        let (value, place) = self.0?;
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => number::whole(text.trim()),
            _ => None,
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| {
            Error::invalid(format!(
                "{place} is {}, and the mode `number` needs a finite number",
                quote(&value.to_string())
            ))
        })
    }
}
