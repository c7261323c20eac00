//! Ctrl-C, SIGTERM, and SIGHUP where the terminal goes: the first starts nothing new, the second ends what
//! runs, the third ends mst itself.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use mst_coordinator::Stop;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::Failure;
use crate::exit::Exit;
use crate::leave::Leave;

/// How long the last word may take.
const LAST_WORD: Duration = Duration::from_millis(500);

/// Listens for the signals as long as the runtime lives, and says each stop.
pub(crate) fn listen(say: impl Fn(&str) + Send + Sync + 'static, leave: Leave) -> Result<Stop, Failure> {
    let failed = |error: std::io::Error| Failure::because("can't listen for signals", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let stop = Stop::default();
    let told = stop.clone();
    // Whoever is told may not read: it holds up a thread of its own, and no stop.
    let say = Arc::new(say);
    let say = move |text: String| {
        let (say, (said, heard)) = (say.clone(), mpsc::channel());
        // Where there is no room for a thread nobody is told, and all stops the same.
        let _ = std::thread::Builder::new().spawn(move || {
            say(&text);
            let _ = said.send(());
        });
        heard
    };
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if !told.finish.is_cancelled() {
                told.finish.cancel();
                say("stopping: nothing new starts, what runs may end; once more to end it now".to_owned());
            } else if !told.cancel.is_cancelled() {
                told.cancel.cancel();
                say("ending what runs; once more to end at once".to_owned());
            } else {
                let _ = say(leave.at_once()).recv_timeout(LAST_WORD);
                std::process::exit(Exit::Interrupted.code().into());
            }
        }
    });
    Ok(stop)
}
