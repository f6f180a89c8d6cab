//! What travels: the messages, as `build.rs` makes them from `proto/fleet.proto`, and the numbers
//! that both sides must agree on.

use bytes::Bytes;
use osier_model::{Fabric, Key, Object};
use osier_span::{Payload, Shared};
use serde::Serialize;

#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::pedantic,
    reason = "it is generated"
)]
pub mod proto {
    tonic::include_proto!("osier.fleet.v1");
}

/// The protocol's version, and the oldest that is still spoken.
pub const VERSION: u32 = 1;
/// The oldest version that is still spoken.
pub const OLDEST_VERSION: u32 = 1;

/// The longest message from an agent, in bytes.
pub const MAX_FROM_AGENT: usize = 1 << 20;
/// The longest message from the controller, in bytes.
pub const MAX_FROM_CONTROLLER: usize = 4 << 20;
/// The longest part of an answer, in bytes.
pub const MAX_ANSWER_PART: usize = 32 << 10;
/// A part of a batch is closed when it has so many bytes.
pub(crate) const PART: usize = 256 << 10;

/// Where an agent is in the history of its view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Which history of the model the revision is of.
    pub epoch: u64,
    /// The revision.
    pub revision: u64,
    /// Of the view's content, whatever its history.
    pub digest: Digest,
}

/// A number for the content of a view: that of each object and of the fabric, added without carry,
/// so that a change costs what it changes. It finds accidents; forgeries are TLS's to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest(pub u128);

// === impl Digest ===

impl Digest {
    /// Of some content.
    pub fn of(bytes: &[u8]) -> Self {
        let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
        let mut low = [0; 16];
        low.copy_from_slice(&hash.as_ref()[..16]);
        Self(u128::from_be_bytes(low))
    }

    /// With this content too, or without it: the same thing.
    pub fn toggle(&mut self, other: Self) {
        self.0 ^= other.0;
    }

    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
    }
}

// === impl Position ===

impl Position {
    pub(crate) fn to_proto(self) -> proto::Position {
        let Self { epoch, revision, digest } = self;
        proto::Position { epoch, revision, digest: digest.to_bytes() }
    }

    pub(crate) fn from_proto(position: &proto::Position) -> Option<Self> {
        let digest = Digest::from_bytes(&position.digest)?;
        Some(Self { epoch: position.epoch, revision: position.revision, digest })
    }
}

fn json(value: &impl Serialize) -> Bytes {
    // Names and numbers only: there is nothing in the model that JSON cannot say.
    Bytes::from(serde_json::to_vec(value).expect("the model has no map with keys that are no text"))
}

/// The object's bytes, made once for all who send them.
pub(crate) fn payload(shared: &Shared) -> &Payload {
    shared.payload(|object: &Object| {
        let bytes = json(object);
        let digest = Digest::of(&bytes).0;
        Payload { bytes, digest }
    })
}

pub(crate) fn key_bytes(key: &Key) -> Bytes {
    json(key)
}

pub(crate) fn fabric_bytes(fabric: &Fabric) -> Bytes {
    json(fabric)
}
