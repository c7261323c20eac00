//! The mode `regex`.

use mst_sdk::judge::{Error, Verdict};
use regex_lite::{Regex, RegexBuilder};

use crate::expected::Expected;
use crate::options::Options;
use crate::quote::quote;
use crate::subject::Subject;

/// The option `pattern`, or what is expected.
pub(crate) fn compile(expected: Expected<'_>, options: &Options) -> Result<Regex, Error> {
    let pattern = match &options.pattern {
        Some(pattern) => pattern.clone(),
        None => expected.text().map_err(|error| {
            error.map_text(|text| {
                format!(
                    "the mode `regex` needs the option `pattern`, or an expected text that is one: {text}"
                )
            })
        })?,
    };
    RegexBuilder::new(&pattern)
        .case_insensitive(options.ignore_case)
        .build()
        .map_err(|error| Error::invalid(format!("{} is no pattern: {error}", quote(&pattern))))
}

pub(crate) fn compare(subject: &Subject, regex: &Regex) -> Verdict {
    let (text, name) = (subject.text(), subject.name());
    let pattern = quote(regex.as_str());
    match regex.find(text) {
        Some(found) => subject.cite(
            Verdict::pass(format!("{} of {name} matches {pattern}", quote(found.as_str()))),
            found.as_str(),
        ),
        None => Verdict::fail(format!("{name} is {}, and nothing in it matches {pattern}", quote(text))),
    }
}
