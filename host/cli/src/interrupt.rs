//! Ctrl-C, SIGTERM, and SIGHUP where the terminal goes: the first starts nothing new, the second ends what
//! runs, the third ends mst itself.

use std::sync::Arc;
use std::time::Duration;

use mst_coordinator::Stop;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::error::Failure;
use crate::exit::Exit;
use crate::leave::Leave;
use crate::show::Progress;

/// How long a word may take before what it says is done all the same.
const WORD: Duration = Duration::from_millis(500);

/// Listens for the signals as long as the runtime lives, and says each stop.
pub(crate) fn listen(progress: Arc<Progress>, leave: Leave) -> Result<Stop, Failure> {
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
            // Each is said first: what comes of it has words of its own, and they come after.
            if !told.finish.is_cancelled() {
                tell(&progress, "stopping: nothing new starts, what runs may end; once more to end it now")
                    .await;
                told.finish.cancel();
            } else if !told.cancel.is_cancelled() {
                tell(&progress, "ending what runs; once more to end at once").await;
                told.cancel.cancel();
            } else {
                tell(&progress, &leave.at_once()).await;
                std::process::exit(Exit::Interrupted.code().into());
            }
        }
    });
    Ok(stop)
}

/// Says it, and waits a little until it is shown. Whoever is told may not read: that holds up no stop.
async fn tell(progress: &Progress, text: &str) {
    progress.tell(text);
    let _ = timeout(WORD, progress.shown()).await;
}
