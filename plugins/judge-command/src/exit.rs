//! How the command ended, as a verdict: `result = "exit"`.

use mst_sdk::judge::{Error, ExitStatus, Output, Verdict};

use crate::tail::what_was_printed;

pub(crate) fn verdict(output: &Output) -> Result<Verdict, Error> {
    ran(output)?;
    let printed = what_was_printed(output);
    Ok(match output.status {
        ExitStatus::Code(0) => Verdict::pass("the check ended with code 0"),
        ExitStatus::Code(code) => Verdict::fail(format!("the check ended with code {code}{printed}")),
        ExitStatus::Signal(signal) => Verdict::fail(format!("signal {signal} ended the check{printed}")),
        ExitStatus::TimedOut => return Err(timed_out(output)),
    })
}

/// Refuses the endings that say nothing about the trial: the check never started, or never
/// ended. 126 and 127 are what shells and `env` return for a program that is not executable
/// and one that is not there (POSIX, Shell Command Language, 2.8.2).
pub(crate) fn ran(output: &Output) -> Result<(), Error> {
    let printed = what_was_printed(output);
    match output.status {
        ExitStatus::Code(126) => Err(Error::failed(format!(
            "the check could not be run: something in it is not executable (code 126){printed}"
        ))),
        ExitStatus::Code(127) => Err(Error::failed(format!(
            "the check could not be run: a program in it was not found (code 127); is it installed where grading happens?{printed}"
        ))),
        ExitStatus::TimedOut => Err(timed_out(output)),
        ExitStatus::Code(_) | ExitStatus::Signal(_) => Ok(()),
    }
}

fn timed_out(output: &Output) -> Error {
    Error::failed(format!("the check ran out of time and was killed{}", what_was_printed(output)))
}

#[cfg(test)]
mod tests {
    use mst_sdk::judge::Finding;

    use super::*;

    fn ended(status: ExitStatus, stdout: &str, stderr: &str) -> Result<Verdict, Error> {
        verdict(&Output { status, stdout: stdout.into(), stderr: stderr.into(), cut: 0 })
    }

    #[test]
    fn codes_and_signals_decide() {
        let pass = ended(ExitStatus::Code(0), "fine", "").expect("a verdict");
        assert_eq!(pass, Verdict::pass("the check ended with code 0"));
        let fail = ended(ExitStatus::Code(1), "out", "err\n").expect("a verdict");
        assert_eq!(fail, Verdict::fail("the check ended with code 1; stderr: err; stdout: out"));
        let killed = ended(ExitStatus::Signal(11), "", "").expect("a verdict");
        assert_eq!((killed.finding, &killed.reason[..]), (Finding::Fail, "signal 11 ended the check"));
    }

    #[test]
    fn a_check_that_did_not_run_is_no_failed_trial() {
        for status in [ExitStatus::Code(126), ExitStatus::Code(127), ExitStatus::TimedOut] {
            assert!(
                matches!(ended(status, "", "sh: nope"), Err(Error::Failed(text)) if text.ends_with("; stderr: sh: nope"))
            );
        }
    }
}
