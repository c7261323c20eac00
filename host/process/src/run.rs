//! One program, from its start until all that it started is gone.

use std::future::pending;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep};

use crate::spawn::{Pipes, spawn};
use crate::spec::{Exit, Finished, Spec, Stdin};
use crate::tree::Tree;
use crate::watch::Watch;
use crate::{Left, RunError};

/// Runs a program to its end or to its deadline, whichever comes first, and returns when no
/// process of its group remains.
///
/// As soon as the program itself has ended, what it started is killed: a server that it left
/// behind can neither hold up the run nor outlive it. What had been written until then is kept.
///
/// Dropping the future kills the group and has it reaped in the background; [`settle`] waits for
/// that.
///
/// [`settle`]: crate::settle
pub async fn run(spec: Spec) -> Result<Finished, RunError> {
    let started = Instant::now();
    let (mut tree, mut pipes) = spawn(&spec)?;
    let watched = |source| RunError::Watch { program: spec.program.clone(), source };
    let watch = Watch::new(tree.leader()).map_err(watched)?;
    let stdin = match spec.stdin {
        Stdin::Null => Vec::new(),
        Stdin::Bytes(bytes) => bytes,
    };
    let timed_out = tokio::select! {
        biased;
        ended = watch.ended() => { ended.map_err(watched)?; false }
        () = sleep(spec.time) => true,
        () = talk(&mut pipes, &stdin) => unreachable!("talking is never over"),
    };
    tree.kill();
    let left = clean_up(&mut tree, &mut pipes, spec.cleanup).await;
    Ok(Finished {
        exit: tree.exit().unwrap_or(Exit::Signal(rustix::process::Signal::KILL.as_raw())),
        timed_out,
        stdout: pipes.stdout.into_stream(),
        stderr: pipes.stderr.into_stream(),
        took: started.elapsed(),
        left,
    })
}

/// Writes and reads at once, so that neither side can wait for the other, and never returns: a
/// program that has closed its pipes has not ended.
async fn talk(pipes: &mut Pipes, stdin: &[u8]) {
    let Pipes { stdin: pipe, stdout, stderr } = pipes;
    let feed = async {
        if let Some(mut pipe) = pipe.take() {
            // A child that does not want its stdin (EPIPE) is within its rights.
            let _ = pipe.write_all(stdin).await;
        }
    };
    tokio::join!(feed, stdout.drain(), stderr.drain());
    pending().await
}

/// Waits until the killed tree is gone and its last output is read.
async fn clean_up(tree: &mut Tree, pipes: &mut Pipes, limit: Duration) -> Option<Left> {
    let until = Instant::now() + limit;
    let mut nap = Duration::from_millis(1);
    let mut gone = false;
    loop {
        gone = gone || tree.step();
        let at_end = pipes.stdout.at_end() && pipes.stderr.at_end();
        if gone && at_end {
            return None;
        }
        if Instant::now() >= until {
            let what = match gone {
                true => "a process that hid from its group holds the output open".to_owned(),
                false => tree.left(),
            };
            return Some(Left { what, after: limit });
        }
        let drain = async { tokio::join!(pipes.stdout.drain(), pipes.stderr.drain()) };
        tokio::select! {
            biased;
            _ = drain, if !at_end => {}
            () = sleep(nap) => nap = (nap * 2).min(Duration::from_millis(50)),
        }
    }
}
