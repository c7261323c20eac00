//! What the command printed, as a verdict: `result = "json"`.

use std::collections::BTreeMap;

use mst_sdk::judge::{Error, ExitStatus, Finding, Output, Verdict};
use serde::Deserialize;

use crate::exit;
use crate::tail::{head, what_was_printed};

/// The object that a check prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    pass: Option<bool>,
    score: Option<f64>,
    abstain: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    measures: BTreeMap<String, Measure>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Measure {
    Bare(f64),
    WithUnit(WithUnit),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WithUnit {
    value: f64,
    unit: String,
}

pub(crate) fn verdict(output: &Output) -> Result<Verdict, Error> {
    exit::ran(output)?;
    // A check that says its verdict in JSON has no verdict to say with a code: one that ends
    // with another code broke on the way.
    if output.status != ExitStatus::Code(0) {
        let ended = match output.status {
            ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
            ExitStatus::Code(code) => format!("ended with code {code}"),
            ExitStatus::TimedOut => "ran out of time".to_owned(),
        };
        let printed = what_was_printed(output);
        return Err(Error::failed(format!(
            "the check {ended}, where `result: json` wants code 0 and a JSON object{printed}"
        )));
    }
    read(&output.stdout).and_then(to_verdict).map_err(|why| {
        Error::failed(format!(
            "what the check printed is no verdict: {why}; stdout begins: `{}`",
            head(&output.stdout)
        ))
    })
}

/// The whole of stdout, or its last line that is not blank.
fn read(stdout: &[u8]) -> Result<Printed, String> {
    let text = std::str::from_utf8(stdout).map_err(|_| "it is not UTF-8".to_owned())?.trim();
    if text.is_empty() {
        return Err("stdout is empty".to_owned());
    }
    let last = text.lines().next_back().unwrap_or(text).trim();
    // Which of the two was meant: a whole text that is JSON is the answer, wrong or right.
    let meant = if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() { text } else { last };
    serde_json::from_str(meant).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => error.to_string(),
        _ => format!("neither the whole of it nor its last line is a JSON object ({error})"),
    })
}

fn to_verdict(printed: Printed) -> Result<Verdict, String> {
    let finding = match (printed.pass, printed.score, printed.abstain) {
        (Some(true), None, None) => Finding::Pass,
        (Some(false), None, None) => Finding::Fail,
        (None, Some(score), None) if (0.0..=1.0).contains(&score) => Finding::Score(score),
        (None, Some(score), None) => return Err(format!("`score` is {score}, and must be from 0.0 to 1.0")),
        (None, None, Some(why)) => Finding::Abstain(why),
        _ => return Err("it must have exactly one of `pass`, `score` and `abstain`".to_owned()),
    };
    let reason = printed.reason.unwrap_or_else(|| match &finding {
        Finding::Pass => "the check says that it passes".to_owned(),
        Finding::Fail => "the check says that it fails".to_owned(),
        Finding::Score(score) => format!("the check scores it {score}"),
        Finding::Abstain(why) => why.clone(),
    });
    let mut verdict = Verdict::new(finding, reason);
    for (name, measure) in printed.measures {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(word) {
            return Err(format!(
                "the measure `{}` must have a name of at most 64 characters in `[a-z0-9_.-]`",
                name.escape_debug()
            ));
        }
        let (value, unit) = match measure {
            Measure::Bare(value) => (value, String::new()),
            Measure::WithUnit(WithUnit { value, unit }) => (value, unit),
        };
        verdict = verdict.measure(name, value, unit);
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(stdout: &str) -> Result<Verdict, Error> {
        verdict(&Output { status: ExitStatus::Code(0), stdout: stdout.into(), stderr: Vec::new(), cut: 0 })
    }

    #[test]
    fn verdicts_are_read_from_the_whole_or_the_last_line() {
        assert_eq!(printed(r#"{"pass": true}"#), Ok(Verdict::pass("the check says that it passes")));
        assert_eq!(printed("{\n  \"score\": 0.5\n}\n"), Ok(Verdict::score(0.5, "the check scores it 0.5")));
        assert_eq!(
            printed("building…\n{}\n{\"pass\": false, \"reason\": \"no\"}\n\n"),
            Ok(Verdict::fail("no"))
        );
        assert_eq!(printed(r#"{"abstain": "no network"}"#), Ok(Verdict::abstain("no network")));
        let measured = printed(
            r#"{"score": 1, "reason": "r", "measures": {"n": 2, "took": {"value": 3.5, "unit": "ms"}}}"#,
        );
        assert_eq!(measured, Ok(Verdict::score(1.0, "r").measure("n", 2.0, "").measure("took", 3.5, "ms")));
    }

    #[test]
    fn malformed_output_is_the_checks_error_and_is_shown() {
        for (stdout, why) in [
            ("", "stdout is empty"),
            ("fine", "neither the whole of it nor its last line"),
            ("{}", "exactly one of"),
            (r#"{"pass": true, "score": 1}"#, "exactly one of"),
            (r#"{"score": 1.5}"#, "`score` is 1.5"),
            (r#"{"score": -0.1}"#, "`score` is -0.1"),
            (r#"{"score": NaN}"#, "neither"),
            (r#"{"pass": "yes"}"#, "invalid type"),
            (r#"{"passed": true}"#, "unknown field `passed`"),
            (r#"[1]"#, "invalid"),
            (r#"{"pass": true, "measures": {"Ä": 1}}"#, "measure"),
        ] {
            let error = printed(stdout).expect_err(stdout);
            let Error::Failed(text) = error else { panic!("{stdout}: {error:?}") };
            assert!(text.contains(why) && text.contains(&format!("`{stdout}`")), "{stdout}: {text}");
        }
    }

    #[test]
    fn another_code_is_the_checks_error() {
        let output = Output {
            status: ExitStatus::Code(1),
            stdout: br#"{"pass": true}"#.to_vec(),
            stderr: b"oops".to_vec(),
            cut: 0,
        };
        assert!(
            matches!(verdict(&output), Err(Error::Failed(text)) if text.contains("code 1") && text.contains("oops"))
        );
    }
}
