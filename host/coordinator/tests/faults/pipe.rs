//! Pipes that break at a byte of their own.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What happens to a worker's words at a byte of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Break {
    /// They end.
    Cut(usize),
    /// Reading fails.
    Fail(usize),
    /// Nothing more comes.
    Stall(usize),
    /// The byte is another.
    Garble(usize),
    /// They come later.
    Delay(usize, Duration),
    /// Reading panics.
    Panic(usize),
}

/// What happens to the coordinator's words at a byte of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Gag {
    /// Writing fails.
    Fail(usize),
    /// They are not taken.
    Block(usize),
}

/// All that was read.
pub(crate) type Heard = Arc<Mutex<Vec<u8>>>;

/// A worker's words, on their way to the coordinator.
pub(crate) struct Ear<R> {
    pub(crate) inner: R,
    pub(crate) fault: Option<Break>,
    pub(crate) heard: Heard,
    pub(crate) waits: Option<Pin<Box<Sleep>>>,
}

impl<R> Ear<R> {
    pub(crate) fn new(inner: R, fault: Option<Break>, heard: Heard) -> Ear<R> {
        Ear { inner, fault, heard, waits: None }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Ear<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(waits) = &mut this.waits {
            ready!(waits.as_mut().poll(cx));
            this.waits = None;
        }
        let at = this.heard.lock().expect("locks").len();
        // As far as the byte at which it breaks, and no farther.
        let mut room = buf.remaining();
        match this.fault {
            Some(Break::Cut(end)) if at >= end => return Poll::Ready(Ok(())),
            Some(Break::Fail(end)) if at >= end => {
                return Poll::Ready(Err(io::Error::other("the cable broke")));
            }
            Some(Break::Stall(end)) if at >= end => return Poll::Pending,
            Some(Break::Panic(end)) if at >= end => panic!("a bug in the channel"),
            Some(Break::Delay(end, time)) if at >= end => {
                this.fault = None;
                this.waits = Some(Box::pin(sleep(time)));
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(
                Break::Cut(end)
                | Break::Fail(end)
                | Break::Stall(end)
                | Break::Panic(end)
                | Break::Delay(end, _),
            ) => room = room.min(end - at),
            Some(Break::Garble(_)) | None => {}
        }
        let mut bytes = vec![0; room];
        let mut limited = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut this.inner).poll_read(cx, &mut limited))?;
        let got = limited.filled_mut();
        if let Some(Break::Garble(end)) = this.fault
            && (at..at + got.len()).contains(&end)
        {
            got[end - at] ^= 0x5a;
        }
        this.heard.lock().expect("locks").extend_from_slice(got);
        buf.put_slice(got);
        Poll::Ready(Ok(()))
    }
}

/// The coordinator's words, on their way to the worker.
pub(crate) struct Mouth<W> {
    pub(crate) inner: W,
    pub(crate) fault: Option<Gag>,
    pub(crate) said: usize,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Mouth<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let mut room = bytes.len();
        match this.fault {
            Some(Gag::Fail(end)) if this.said >= end => {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            Some(Gag::Block(end)) if this.said >= end => return Poll::Pending,
            Some(Gag::Fail(end) | Gag::Block(end)) => room = room.min(end - this.said),
            None => {}
        }
        let wrote = ready!(Pin::new(&mut this.inner).poll_write(cx, &bytes[..room]))?;
        this.said += wrote;
        Poll::Ready(Ok(wrote))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
