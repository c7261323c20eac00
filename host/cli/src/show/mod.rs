//! Everything that a person or a program reads: results on stdout, the rest on stderr.

mod progress;
mod shown;
mod table;

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::error::Failure;
use crate::exit::Exit;

pub(crate) use progress::Progress;
pub(crate) use shown::How;
pub(crate) use table::summary;

/// `text` as a terminal may get it. Ids of cases and words of errors are a dataset's or a
/// plugin's own, and could hold what turns text round or hides it.
pub(crate) fn safe(text: &str) -> String {
    mst_sandbox::clean(text, usize::MAX, true)
}

/// Prints a failure.
pub(crate) fn failure(failure: &Failure) {
    // What is quoted of others may have lines: none of them begins like one of these.
    let within = |text: &str| text.replace('\n', "\n    ");
    let mut text = format!("error: {}\n", within(&failure.message));
    for cause in &failure.causes {
        text.push_str(&format!("  - {}\n", within(cause)));
    }
    if let Some(hint) = &failure.hint {
        text.push_str(&format!("hint: {}\n", within(hint)));
    }
    let _ = io::stderr().lock().write_all(safe(&text).as_bytes());
}

/// Prints a result.
pub(crate) fn result(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever read has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::because("can't write to stdout", &error)),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as indented JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::from_error(&error))?;
    result(&format!("{text}\n"))?;
    Ok(Exit::Done)
}

/// So many of something, in words: `1 case`, `2 cases`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Prints a line beside the results. A stderr that is gone is no reason to lose a trial.
pub(crate) fn aside(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", safe(text));
}

/// Whether a person looks at stderr.
pub(crate) fn on_terminal() -> bool {
    io::stderr().is_terminal()
}
