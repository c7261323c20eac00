//! `mst/judge/text`: compares what the client left with what the case expects.
//!
//! For: comparisons that need no judgement. Not for: running anything, or reading more of the
//! evidence than the one entry that the user named.
//!
//! A wrong configuration (no pattern, no expected value) is an error, so that it is found
//! before anybody reads a column of failures. What the client did wrong (no report, no such
//! file, no JSON) is a failure with its reason.

mod exact;
mod expected;
mod json;
mod number;
mod options;
mod pattern;
mod quote;
mod subject;

use mst_sdk::judge::{Error, Judge, Trial, Verdict};

use crate::expected::Expected;
use crate::options::Mode;
pub use crate::options::Options;
use crate::subject::Subject;

/// The judge.
pub struct Text;

impl Judge for Text {
    type Options = Options;

    fn judge(trial: &Trial<'_>, options: Options) -> Result<Verdict, Error> {
        options.check()?;
        let case = trial.case()?;
        let expected = Expected::find(&case, &options);
        // What is expected is read first: that it is missing is true of every trial, and must
        // not hide behind a client that gave no report.
        match options.mode {
            Mode::Exact | Mode::Contains => {
                let expected = expected.text()?;
                if options.mode == Mode::Contains && options.trimmed(&expected).is_empty() {
                    return Err(Error::invalid(
                        "the expected text is empty, and every text contains it; use the mode `exact`",
                    ));
                }
                with_subject(trial, &options, |subject| Ok(exact::compare(subject, &expected, &options)))
            }
            Mode::Regex => {
                let regex = pattern::compile(expected, &options)?;
                with_subject(trial, &options, |subject| Ok(pattern::compare(subject, &regex)))
            }
            Mode::JsonEqual => {
                let expected = expected.value()?;
                with_subject(trial, &options, |subject| {
                    Ok(json::compare(subject, &expected, options.tolerance()))
                })
            }
            Mode::Number => {
                let expected = expected.number()?;
                with_subject(trial, &options, |subject| Ok(number::compare(subject, expected, &options)))
            }
        }
    }
}

mst_sdk::export_judge!(Text);

fn with_subject(
    trial: &Trial<'_>,
    options: &Options,
    compare: impl FnOnce(&Subject) -> Result<Verdict, Error>,
) -> Result<Verdict, Error> {
    match Subject::read(trial, &options.against, options.trim)? {
        Ok(subject) => compare(&subject),
        Err(why) => Ok(Verdict::fail(why)),
    }
}

#[cfg(test)]
mod tests;
