//! What a person is told when a command fails: what, why, and how to mend it.

use std::error::Error;

use mst_model::schema::Problem;

use crate::exit::Exit;

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// With which the process ends.
    pub(crate) exit: Exit,
    /// What failed.
    pub(crate) message: String,
    /// Why, outermost first.
    pub(crate) causes: Vec<String>,
    /// How to mend it.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// Nothing could start.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::NotStarted, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Nothing could start, because of `error`.
    pub(crate) fn because(message: impl Into<String>, error: &dyn Error) -> Failure {
        let mut failure = Failure::new(message);
        let mut cause = Some(error);
        while let Some(error) = cause {
            failure.causes.push(error.to_string());
            cause = error.source();
        }
        failure
    }

    /// `error` itself is the message.
    pub(crate) fn from_error(error: &dyn Error) -> Failure {
        let mut failure = Failure::because(String::new(), error);
        failure.message = failure.causes.remove(0);
        failure
    }

    /// A value with problems.
    pub(crate) fn problems(message: impl Into<String>, problems: &[Problem]) -> Failure {
        let mut failure = Failure::new(message);
        failure.causes = problems.iter().map(ToString::to_string).collect();
        failure
    }

    /// Message and causes on one line.
    pub(crate) fn one_line(&self) -> String {
        self.causes.iter().fold(self.message.clone(), |text, cause| format!("{text}: {cause}"))
    }

    /// With a way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// With a way out, where there is one.
    pub(crate) fn hint_if(self, hint: Option<String>) -> Failure {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// With another exit code.
    pub(crate) fn exit(mut self, exit: Exit) -> Failure {
        self.exit = exit;
        self
    }
}
