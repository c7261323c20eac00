//! Ctrl-C, SIGTERM, and SIGHUP where the terminal goes: the first starts nothing new, the second ends what
//! runs, the third ends mst itself.

use std::sync::Arc;
use std::time::Duration;

use mst_coordinator::Stop;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::Failure;
use crate::exit::Exit;
use crate::leave::Leave;

/// How long a word may take before what it says is done all the same.
const WORD: Duration = Duration::from_millis(500);

/// Listens for the signals as long as the runtime lives, and says each stop.
pub(crate) fn listen(say: impl Fn(&str) + Send + Sync + 'static, leave: Leave) -> Result<Stop, Failure> {
    let failed = |error: std::io::Error| Failure::because("can't listen for signals", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let stop = Stop::default();
    let told = stop.clone();
    let say = Arc::new(say);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            // Each is said first: what comes of it has words of its own, and they come after.
            if !told.finish.is_cancelled() {
                tell(&say, "stopping: nothing new starts, what runs may end; once more to end it now").await;
                told.finish.cancel();
            } else if !told.cancel.is_cancelled() {
                tell(&say, "ending what runs; once more to end at once").await;
                told.cancel.cancel();
            } else {
                tell(&say, leave.at_once()).await;
                std::process::exit(Exit::Interrupted.code().into());
            }
        }
    });
    Ok(stop)
}

/// Says it, and waits a little for its end. Whoever is told may not read: that holds up a thread of its
/// own, and no stop.
async fn tell<S: Fn(&str) + Send + Sync + 'static>(say: &Arc<S>, text: impl Into<String>) {
    let (say, text, (said, heard)) = (say.clone(), text.into(), oneshot::channel());
    // Where there is no room for a thread nobody is told, and all stops the same.
    let _ = std::thread::Builder::new().spawn(move || {
        say(&text);
        let _ = said.send(());
    });
    let _ = timeout(WORD, heard).await;
}
