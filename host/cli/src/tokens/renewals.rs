//! Renewals under way. With its answer a server may end the refresh token that it was sent: mst does not
//! end between the two, though nobody waits for the token any more.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For what is to be done once the server has answered, or has not.
const AFTER: Duration = Duration::from_secs(2);

/// The renewals of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Renewals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// When the last of them has ended at the latest.
    until: Option<Instant>,
    over: bool,
}

/// One that is under way until this is dropped.
pub(super) struct UnderWay<'a>(&'a Shared);

impl Renewals {
    /// Begins one that takes no longer than this, unless mst is about to end.
    pub(super) fn begin(&self, time: Duration) -> Option<UnderWay<'_>> {
        let mut state = self.0.state();
        if state.over {
            return None;
        }
        state.under_way += 1;
        state.until = state.until.max(Some(Instant::now() + time + AFTER));
        Some(UnderWay(&self.0))
    }

    /// Whether none begins any more.
    pub(super) fn is_over(&self) -> bool {
        self.0.state().over
    }

    /// Lets none begin any more. Whether none is under way.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.0.state();
        state.over = true;
        state.under_way == 0
    }

    /// Waits for those under way, for no longer than this where there is a limit, and never for longer than
    /// they may take. Whether all have ended. Blocks the thread.
    pub(crate) fn settle(&self, limit: Option<Duration>) -> bool {
        let limit = limit.map(|limit| Instant::now() + limit);
        let mut state = self.0.state();
        while state.under_way > 0 {
            let until = [state.until, limit].into_iter().flatten().min();
            let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
            let Some(left) = left else { return false };
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn what_is_under_way_is_waited_for_and_nothing_begins_after() {
        let renewals = Renewals::default();
        let one = renewals.begin(HOUR).expect("it goes on");
        assert!(!renewals.end());
        assert!(renewals.is_over() && renewals.begin(HOUR).is_none());
        assert!(!renewals.settle(Some(Duration::ZERO)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| renewals.settle(None));
            drop(one);
            assert!(waits.join().expect("it ends"));
        });
        assert!(renewals.end());
    }
}
