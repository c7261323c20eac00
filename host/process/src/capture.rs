//! A child's output, read as it comes.

use std::io;

use tokio::net::unix::pipe::Receiver;

use crate::spec::Stream;

/// Bytes taken from a pipe at a time; no pipe is by default larger than four of them.
const CHUNK: usize = 16 << 10;

/// How many chunks are taken before others have their turn: a child that writes without end must
/// not keep its own deadline from being seen.
const TURN: usize = 16;

/// What is kept of a stream.
pub(crate) trait Keep {
    fn keep(&mut self, bytes: &[u8]);
}

/// The first bytes, byte for byte up to a bound; what comes after it is counted.
pub(crate) struct Head {
    bound: u64,
    stream: Stream,
}

impl Head {
    pub(crate) fn new(bound: u64) -> Head {
        Head { bound, stream: Stream::default() }
    }
}

impl Keep for Head {
    fn keep(&mut self, bytes: &[u8]) {
        let room = self.bound - self.stream.bytes.len() as u64;
        let kept = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.stream.bytes.extend_from_slice(&bytes[..kept]);
        self.stream.cut += (bytes.len() - kept) as u64;
    }
}

/// One stream under capture.
pub(crate) struct Capture<K> {
    /// None from the end of the stream on.
    pipe: Option<Receiver>,
    kept: K,
}

impl<K: Keep> Capture<K> {
    pub(crate) fn new(pipe: Receiver, kept: K) -> Capture<K> {
        Capture { pipe: Some(pipe), kept }
    }

    /// Whether nobody can write any more.
    pub(crate) fn at_end(&self) -> bool {
        self.pipe.is_none()
    }

    /// Reads until nobody can write any more. Nothing is lost if this is dropped on the way.
    pub(crate) async fn drain(&mut self) {
        while let Some(pipe) = &self.pipe {
            if pipe.readable().await.is_err() {
                self.pipe = None;
            } else if !self.take_turn() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes what is there. False where there was more than one turn's worth.
    fn take_turn(&mut self) -> bool {
        let mut chunk = [0; CHUNK];
        for _ in 0..TURN {
            let Some(pipe) = &self.pipe else { return true };
            match pipe.try_read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(read) => self.kept.keep(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A pipe that can't be read has ended: there is nothing else to be had from it.
                Err(_) => self.pipe = None,
            }
        }
        false
    }
}

impl Capture<Head> {
    pub(crate) fn into_stream(self) -> Stream {
        self.kept.stream
    }
}

/// The streams that are read while a child is watched.
pub(crate) struct Outputs<K> {
    /// None where somebody else reads it.
    pub(crate) stdout: Option<Capture<K>>,
    pub(crate) stderr: Capture<K>,
}

impl<K: Keep> Outputs<K> {
    /// Whether nobody can write any more.
    pub(crate) fn at_end(&self) -> bool {
        self.stderr.at_end() && self.stdout.as_ref().is_none_or(Capture::at_end)
    }

    /// Reads until nobody can write any more. Nothing is lost if this is dropped on the way.
    pub(crate) async fn drain(&mut self) {
        let stdout = async {
            if let Some(stdout) = &mut self.stdout {
                stdout.drain().await;
            }
        };
        tokio::join!(stdout, self.stderr.drain());
    }
}
