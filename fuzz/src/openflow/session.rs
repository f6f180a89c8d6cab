//! A peer's stream, and where a peer is said to be.
//!
//! A session must end with the stream, tell the same of it however its bytes are cut, and leave no
//! request without an answer.

use osier_openflow::message::{Message, MultipartRequest};
use osier_openflow::session::{Endpoint, Event, Options, Session};
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

const HELLO: [u8; 16] = [6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x40];

/// Bytes that arrive a few at a time.
struct Arriving {
    bytes: Vec<u8>,
    at: usize,
    /// Bytes a read, in turn.
    sizes: [usize; 3],
    reads: usize,
}

impl AsyncRead for Arriving {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.sizes[self.reads % self.sizes.len()].max(1);
        let end = self.bytes.len().min(self.at + size.min(buffer.remaining()));
        buffer.put_slice(&self.bytes[self.at..end]);
        self.at = end;
        self.reads += 1;
        Poll::Ready(Ok(()))
    }
}

thread_local! {
    /// Time stands still, and leaps when everybody waits: deadlines cost nothing.
    static RUNTIME: RefCell<tokio::runtime::Runtime> = RefCell::new(
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing of the system"),
    );
}

/// What a session tells of a stream, and why it ended.
async fn listen(stream: Arriving) -> (Vec<Event>, String) {
    let peer = tokio::io::join(stream, tokio::io::sink());
    let (session, mut events) = match Session::over(peer, "fuzz", Options::default()).await {
        Ok(started) => started,
        Err(reason) => return (vec![], reason.to_string()),
    };
    let mut told = Vec::new();
    while let Some(event) = events.recv().await {
        told.push(event);
    }
    (told, session.closed().await.to_string())
}

/// Asks while the stream is read. Whatever comes, each request is answered or refused.
async fn ask(stream: Arriving) {
    let peer = tokio::io::join(stream, tokio::io::sink());
    let Ok((session, _events)) = Session::over(peer, "fuzz", Options::default()).await else {
        return;
    };
    let _ = tokio::join!(
        session.request(&Message::BarrierRequest),
        session.request(&Message::FeaturesRequest),
        session.collect(MultipartRequest::Desc),
    );
    session.closed().await;
}

/// A stream of bytes: the first four say how it is cut, the rest comes behind a hello, or alone.
pub fn session(bytes: &[u8]) {
    let Some(([how, sizes @ ..], rest)) = bytes.split_first_chunk::<4>() else { return };
    let hello: &[u8] = if how & 1 == 0 { &HELLO } else { &[] };
    let stream = |sizes| Arriving { bytes: [hello, rest].concat(), at: 0, sizes, reads: 0 };
    let cut = sizes.map(usize::from);
    RUNTIME.with_borrow(|runtime| {
        runtime.block_on(async {
            let (whole, why) = listen(stream([usize::MAX; 3])).await;
            let (parts, why_parts) = listen(stream(cut)).await;
            assert_eq!((whole, why), (parts, why_parts), "cut by {cut:?}");
            ask(stream(cut)).await;
        });
    });
}

/// An endpoint: its text reads as the same endpoint.
pub fn endpoint_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Endpoint>() {
        Ok(endpoint) => assert_eq!(endpoint.to_string().parse(), Ok(endpoint)),
        Err(e) => assert_eq!(e.text, text),
    }
}
