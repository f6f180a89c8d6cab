//! Connections of agents that count what comes, behind TLS: frames and messages.

use futures_util::future::BoxFuture;
use osier_fleet::client::{BoxIo, TlsTransport, Transport};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// See the module.
pub(crate) struct Counted {
    pub(crate) transport: TlsTransport,
    /// In bytes, of all that share it.
    pub(crate) received: Arc<AtomicU64>,
}

struct CountedIo {
    io: BoxIo,
    received: Arc<AtomicU64>,
}

impl Transport for Counted {
    fn connect(&self) -> BoxFuture<'static, io::Result<BoxIo>> {
        let (connecting, received) = (self.transport.connect(), Arc::clone(&self.received));
        Box::pin(async move {
            let io = connecting.await?;
            Ok(Box::new(CountedIo { io, received }) as BoxIo)
        })
    }
}

impl AsyncRead for CountedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        let more = buffer.filled().len() - before;
        self.received.fetch_add(more as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for CountedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
