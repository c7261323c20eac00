//! Ctrl-C, SIGTERM, and SIGHUP where the terminal goes: the first starts nothing new, the second ends what
//! runs, the third ends mst itself.

use std::sync::Arc;
use std::time::Duration;

use mst_coordinator::Stop;
use tokio::signal::unix::{Signal, SignalKind, signal};
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
    let mut signals = Signals::new().map_err(failed)?;
    let stop = Stop::default();
    let told = stop.clone();
    tokio::spawn(async move {
        // Each is said first: what comes of it has words of its own, and they come after.
        signals.next().await;
        progress.tell("stopping: nothing new starts, what runs may end; once more to end it now");
        let once_more = signals.come_before(&progress).await;
        told.finish.cancel();
        if !once_more {
            signals.next().await;
        }
        progress.tell("ending what runs; once more to end at once");
        let once_more = signals.come_before(&progress).await;
        told.cancel.cancel();
        if !once_more {
            signals.next().await;
        }
        // From here on nothing else is to run, or to be said: this thread waits for what it needs.
        leave.begin();
        progress.mute();
        progress.last_word(&leave.at_once(), WORD);
        std::process::exit(Exit::Interrupted.code().into());
    });
    Ok(stop)
}

struct Signals([Signal; 3]);

impl Signals {
    fn new() -> std::io::Result<Signals> {
        let [interrupt, terminate, hangup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Signals([interrupt?, terminate?, hangup?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits a little until all is shown that was said, and says whether another signal came before that.
    /// Whoever is told may not read: that holds up no stop.
    async fn come_before(&mut self, progress: &Progress) -> bool {
        tokio::select! {
            biased;
            () = self.next() => true,
            _ = timeout(WORD, progress.shown()) => false,
        }
    }
}
