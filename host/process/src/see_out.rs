//! From a child's start until all that it started is gone.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Left;
use crate::capture::{Keep, Outputs};
use crate::spec::{Cause, Exit};
use crate::tree::Tree;
use crate::watch::Watch;

/// How it ended.
pub(crate) struct SeenOut {
    pub(crate) exit: Exit,
    pub(crate) cause: Cause,
    pub(crate) left: Option<Left>,
}

/// Waits until the program has ended or `enough` says why it is to end, then kills its group and
/// returns when that and its strays are gone, or after `cleanup`. Reads `outputs` all the while.
///
/// As soon as the program itself has ended, what it started is killed: a server that it left
/// behind can neither hold anybody up nor outlive it. What had been written until then is kept.
pub(crate) async fn see_out<K: Keep>(
    tree: &Mutex<Tree>,
    watch: &Watch,
    outputs: &mut Outputs<K>,
    enough: impl Future<Output = Cause>,
    cleanup: Duration,
) -> io::Result<SeenOut> {
    let cause = tokio::select! {
        biased;
        ended = watch.ended() => { ended?; Cause::Itself }
        cause = enough => cause,
        never = drain_on(outputs) => match never {},
    };
    locked(tree).kill();
    let left = clean_up(tree, outputs, cleanup).await;
    let exit = locked(tree).exit().unwrap_or(Exit::Signal(rustix::process::Signal::KILL.as_raw()));
    Ok(SeenOut { exit, cause, left })
}

pub(crate) fn locked(tree: &Mutex<Tree>) -> MutexGuard<'_, Tree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Never returns: a program that has closed its pipes has not ended.
async fn drain_on<K: Keep>(outputs: &mut Outputs<K>) -> Infallible {
    outputs.drain().await;
    pending().await
}

/// Waits until the killed tree is gone and its last output is read.
async fn clean_up<K: Keep>(tree: &Mutex<Tree>, outputs: &mut Outputs<K>, limit: Duration) -> Option<Left> {
    let until = Instant::now() + limit;
    let mut nap = Duration::from_millis(1);
    let mut gone = false;
    loop {
        gone = gone || locked(tree).step();
        let at_end = outputs.at_end();
        if gone && at_end {
            return None;
        }
        if Instant::now() >= until {
            let what = match gone {
                true => "a process that hid from its group holds the output open".to_owned(),
                false => locked(tree).left(),
            };
            return Some(Left { what, after: limit });
        }
        tokio::select! {
            biased;
            () = outputs.drain(), if !at_end => {}
            () = sleep(nap) => nap = (nap * 2).min(Duration::from_millis(50)),
        }
    }
}
