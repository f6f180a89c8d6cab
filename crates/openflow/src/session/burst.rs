//! Many messages at once: encoded into large chunks by the one who sends them, with transaction
//! ids in a row, so that an error's id tells which message it is about.

use super::command::{Block, Collector, Command};
use super::error::RequestError;
use super::handle::Session;
use crate::flow::FlowMod;
use crate::group::GroupMod;
use crate::message::{BundleBody, Message, VERSION};
use crate::meter::MeterMod;
use crate::port::PortMod;
use crate::wire::{EncodeError, Writer};
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Size of a chunk.
const CHUNK: usize = 128 * 1024;
/// Transaction ids to ask the session for at a time.
const LEASE: NonZeroU32 = NonZeroU32::new(16 * 1024).expect("it is not zero");

/// Something that can be sent as one message of many.
pub trait Encode {
    /// Appends the whole message. On an error `w` is as it was.
    fn encode_message(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError>;
}

/// Messages on their way, and what the switch refuses of them.
#[derive(Debug)]
pub(super) struct Burst {
    session: Session,
    collector: Arc<Collector>,
    writer: Writer,
    /// Transaction ids not used yet.
    xids: Range<u32>,
    index: usize,
}

/// Why a message of a burst was not sent.
#[derive(Debug)]
pub(super) enum PutError {
    Encode(EncodeError),
    Session(RequestError),
}

// === impl Encode ===

impl Encode for Message {
    fn encode_message(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
        self.encode(xid, w)
    }
}

impl<M: Encode + ?Sized> Encode for &M {
    fn encode_message(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
        (**self).encode_message(xid, w)
    }
}

/// Bodies that need not become a [`Message`] first, which would cost a copy.
macro_rules! encode_bodies {
    ($($body:ty),*) => {$(
        impl Encode for $body {
            fn encode_message(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
                framed(<$body>::KIND, xid, w, |w| self.encode_body(w))
            }
        }
    )*};
}

encode_bodies!(FlowMod, GroupMod, MeterMod, PortMod);

/// Appends a message of this type. On an error `w` is as it was.
pub(super) fn framed(
    kind: u8,
    xid: u32,
    w: &mut Writer,
    body: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = w.len();
    w.put(&[VERSION, kind, 0, 0]);
    w.u32(xid);
    let done = body(w).and_then(|()| w.patch_len("message", start, start + 2));
    if done.is_err() {
        w.truncate(start);
    }
    done
}

// === impl Burst ===

impl Burst {
    pub(super) fn new(session: Session) -> Self {
        let writer = Writer::new();
        Self { session, collector: Arc::default(), writer, xids: 0..0, index: 0 }
    }

    /// How many messages were put.
    pub(super) fn len(&self) -> usize {
        self.index
    }

    pub(super) fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Adds a message, which `encode` writes with the transaction id that it is given.
    pub(super) async fn put(
        &mut self,
        encode: impl FnOnce(u32, &mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), PutError> {
        if self.xids.is_empty() {
            self.lease().await.map_err(PutError::Session)?;
        }
        encode(self.xids.start, &mut self.writer).map_err(PutError::Encode)?;
        self.xids.start += 1;
        self.index += 1;
        if self.writer.len() >= CHUNK {
            self.flush().await.map_err(PutError::Session)?;
        }
        Ok(())
    }

    /// Queues what is not queued yet.
    pub(super) async fn flush(&mut self) -> Result<(), RequestError> {
        if self.writer.is_empty() {
            return Ok(());
        }
        let next = Writer::appending(Vec::with_capacity(CHUNK + CHUNK / 8));
        let full = std::mem::replace(&mut self.writer, next);
        self.session.write(full.into_bytes()).await
    }

    async fn lease(&mut self) -> Result<(), RequestError> {
        let (first, leased) = oneshot::channel();
        let block = Block::new(self.index, &self.collector);
        self.session.command(Command::Lease { count: LEASE, block, first }).await?;
        let Ok(first) = leased.await else { return Err(self.session.ended().await) };
        // The last id of all has no end behind it; one less does not matter.
        self.xids = first..first.saturating_add(LEASE.get());
        Ok(())
    }
}
