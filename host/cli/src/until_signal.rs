//! A worker's stdin, which also ends with a signal: what it began it then ends, and its tokens go.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::signal::unix::{SignalKind, signal};

/// Ends by SIGTERM, SIGHUP and SIGINT too.
pub(crate) struct UntilSignal<R> {
    inner: R,
    signalled: Pin<Box<dyn Future<Output = ()> + Send>>,
    over: bool,
}

impl<R> UntilSignal<R> {
    /// Listens for the signals from here on. To be called within a runtime.
    pub(crate) fn new(inner: R) -> io::Result<UntilSignal<R>> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let signalled = Box::pin(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        Ok(UntilSignal { inner, signalled, over: false })
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilSignal<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.over = self.over || self.signalled.as_mut().poll(cx).is_ready();
        if self.over { Poll::Ready(Ok(())) } else { Pin::new(&mut self.inner).poll_read(cx, buf) }
    }
}
