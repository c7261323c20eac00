//! What goes through a file that is open: the audit says how many bytes, once nobody uses it any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, InputStream, OutputStream, Pollable, StreamResult};

use crate::audit::Pass;

/// Of one file, its streams together.
pub(super) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
    line: Mutex<Option<Pass>>,
}

impl Traffic {
    pub(super) fn new(line: Pass) -> Arc<Traffic> {
        let line = Mutex::new(Some(line));
        Arc::new(Traffic { read: AtomicU64::new(0), written: AtomicU64::new(0), line })
    }

    pub(super) fn read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        let line = self.line.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match (line, *self.read.get_mut(), *self.written.get_mut()) {
            // That it was opened has its line.
            (Some(line), 0, 0) => line.untold(),
            (Some(line), read, written) => line.end("ok", read, written),
            (None, ..) => {}
        }
    }
}

/// A stream out of a file.
pub(super) struct Reading {
    pub(super) stream: DynInputStream,
    pub(super) traffic: Arc<Traffic>,
}

#[async_trait]
impl Pollable for Reading {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}

#[async_trait]
impl InputStream for Reading {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.stream.read(size)?;
        self.traffic.read(bytes.len());
        Ok(bytes)
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        let bytes = self.stream.blocking_read(size).await?;
        self.traffic.read(bytes.len());
        Ok(bytes)
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}

/// A stream into a file.
pub(super) struct Writing {
    pub(super) stream: DynOutputStream,
    pub(super) traffic: Arc<Traffic>,
}

#[async_trait]
impl Pollable for Writing {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}

#[async_trait]
impl OutputStream for Writing {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let length = bytes.len() as u64;
        self.stream.write(bytes)?;
        self.traffic.written(length);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.stream.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.stream.check_write()
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        let length = bytes.len() as u64;
        self.stream.blocking_write_and_flush(bytes).await?;
        self.traffic.written(length);
        Ok(())
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}
