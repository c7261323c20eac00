//! The caller's ends of a child's stdin and stdout.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;

/// A child's stdin. The child sees its end when this is dropped or shut down.
#[derive(Debug)]
pub struct ChildStdin {
    /// None from the shutdown on.
    pipe: Option<Sender>,
}

impl ChildStdin {
    pub(crate) fn new(pipe: Sender) -> ChildStdin {
        ChildStdin { pipe: Some(pipe) }
    }
}

impl AsyncWrite for ChildStdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.pipe {
            Some(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            None => Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
        }
    }

    /// There is nothing to flush: a pipe has no buffer on this side.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe = None;
        Poll::Ready(Ok(()))
    }
}

/// A child's stdout. It ends when nobody can write to it any more, and at the latest when the
/// child's end has been seen to: a process that hid from its group can hold the pipe open, not
/// the reader.
#[derive(Debug)]
pub struct ChildStdout {
    pipe: Receiver,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Resolves, or is closed, when the child's end has been seen to.
    Live(oneshot::Receiver<()>),
    /// What was written is in the pipe.
    Over,
    Ended,
}

impl ChildStdout {
    pub(crate) fn new(pipe: Receiver, over: oneshot::Receiver<()>) -> ChildStdout {
        ChildStdout { pipe, state: State::Live(over) }
    }

    /// What the pipe still holds. Past tokio, whose word that it is empty may be an old one.
    fn read_rest(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        loop {
            match rustix::io::read(&self.pipe, buf.initialize_unfilled()) {
                Ok(0) | Err(Errno::AGAIN) => {
                    self.state = State::Ended;
                    return Ok(());
                }
                Ok(read) => {
                    buf.advance(read);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsyncRead for ChildStdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let State::Live(over) = &mut this.state {
            if let Poll::Ready(read) = Pin::new(&mut this.pipe).poll_read(cx, buf) {
                return Poll::Ready(read);
            }
            let _said_or_closed = ready!(Pin::new(over).poll(cx));
            this.state = State::Over;
        }
        Poll::Ready(match this.state {
            State::Ended => Ok(()),
            _ => this.read_rest(buf),
        })
    }
}
