//! One program, run to its end.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Mutex;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;
use tokio::time::{Instant, sleep};

use crate::RunError;
use crate::capture::{Capture, Head, Outputs};
use crate::see_out::see_out;
use crate::spawn::spawn;
use crate::spec::{Cause, Finished, Spec, Stdin, Stream};

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
    let bytes = match &spec.stdin {
        Stdin::Null => None,
        Stdin::Bytes(bytes) => Some(&bytes[..]),
    };
    let (tree, watch, pipes) = spawn(&spec, bytes.is_some())?;
    let watched = |source| RunError::Watch { program: spec.program.clone(), source };
    let mut outputs = Outputs {
        stdout: Some(Capture::new(pipes.stdout, Head::new(spec.max_stdout_bytes))),
        stderr: Capture::new(pipes.stderr, Head::new(spec.max_stderr_bytes)),
    };
    let enough = async {
        tokio::select! {
            biased;
            () = sleep(spec.time) => Cause::TimeUp,
            never = feed(pipes.stdin, bytes.unwrap_or_default()) => match never {},
        }
    };
    let seen = see_out(&Mutex::new(tree), &watch, &mut outputs, enough, spec.cleanup).await;
    let seen = seen.map_err(watched)?;
    Ok(Finished {
        exit: seen.exit,
        timed_out: seen.cause == Cause::TimeUp,
        stdout: outputs.stdout.map_or_else(Stream::default, Capture::into_stream),
        stderr: outputs.stderr.into_stream(),
        took: started.elapsed(),
        left: seen.left,
    })
}

/// Writes, closes, and never returns.
async fn feed(stdin: Option<Sender>, bytes: &[u8]) -> Infallible {
    if let Some(mut stdin) = stdin {
        // A child that does not want its stdin (EPIPE) is within its rights.
        let _ = stdin.write_all(bytes).await;
    }
    pending().await
}
