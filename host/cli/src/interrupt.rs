//! Ctrl-C, SIGTERM, and SIGHUP where the terminal goes: the first starts nothing new, the second ends what
//! runs, the third ends mst itself.

use mst_coordinator::Stop;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::Failure;
use crate::exit::Exit;
use crate::leave::Leave;

/// Listens for the signals as long as the runtime lives, and says each stop on stderr.
pub(crate) fn listen(say: impl Fn(&str) + Send + 'static, leave: Leave) -> Result<Stop, Failure> {
    let failed = |error: std::io::Error| Failure::because("can't listen for signals", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let stop = Stop::default();
    let told = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if !told.finish.is_cancelled() {
                say("stopping: nothing new starts, what runs may end; once more to end it now");
                told.finish.cancel();
            } else if !told.cancel.is_cancelled() {
                say("ending what runs; once more to end at once");
                told.cancel.cancel();
            } else {
                say(&leave.at_once());
                std::process::exit(Exit::Interrupted.code().into());
            }
        }
    });
    Ok(stop)
}
