//! A way between a worker and the coordinator on which everything takes its time, and which may die.

use std::time::Duration;

use mst_protocol::{FromCoordinator, Lines};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};

use crate::chance::Chance;

/// How a way is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    /// How many milliseconds what a worker says takes at the most.
    pub(crate) up_ms: usize,
    /// How many milliseconds what the coordinator says always takes.
    pub(crate) down_ms: u64,
    /// When nothing passes any more.
    pub(crate) dies: Option<Duration>,
}

/// Takes what a worker says to the coordinator.
pub(crate) fn up(to: WriteHalf<DuplexStream>, way: Way, seed: u64) -> UnboundedSender<Vec<u8>> {
    let (say, mut said) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (put, mut taken) = mpsc::unbounded_channel::<Vec<u8>>();
    let began = Instant::now();
    // When each arrives is known when it is said: one that is slow does not add to the next.
    tokio::spawn(async move {
        let mut chance = Chance(seed);
        while let Some(bytes) = taken.recv().await {
            let takes = Duration::from_millis(chance.below(way.up_ms + 1) as u64);
            let _ = say.send((Instant::now() + takes, bytes));
        }
    });
    tokio::spawn(async move {
        let mut to = to;
        while let Some((at, bytes)) = said.recv().await {
            sleep_until(at).await;
            if way.dies.is_some_and(|dies| began.elapsed() >= dies) {
                // It hangs, and is not closed.
                std::future::pending::<()>().await;
            }
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    });
    put
}

/// Takes what the coordinator says to a worker, who learns by the end of it that nobody listens.
pub(crate) fn down(
    mut from: ReadHalf<DuplexStream>,
    way: Way,
) -> UnboundedReceiver<(Instant, FromCoordinator)> {
    let (say, said) = mpsc::unbounded_channel();
    let began = Instant::now();
    tokio::spawn(async move {
        let (mut lines, mut buffer) = (Lines::default(), vec![0; 4096]);
        loop {
            let read = from.read(&mut buffer).await.unwrap_or(0);
            if way.dies.is_some_and(|dies| began.elapsed() >= dies) {
                std::future::pending::<()>().await;
            }
            if read == 0 {
                break;
            }
            lines.push(&buffer[..read]).expect("lines");
            let at = Instant::now() + Duration::from_millis(way.down_ms);
            while let Some(message) = lines.next().expect("messages") {
                let _ = say.send((at, message));
            }
        }
    });
    said
}
