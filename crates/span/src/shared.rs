//! Objects that are kept once, however many nodes hear of them.

use bytes::Bytes;
use osier_model::Object;
use std::sync::OnceLock;

/// An object as it travels. Who sends it decides how it looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Its bytes.
    pub bytes: Bytes,
    /// A number for its content.
    pub digest: u128,
}

/// An object, and its bytes once somebody has needed them.
#[derive(Debug)]
pub struct Shared {
    object: Object,
    payload: OnceLock<Payload>,
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(object: Object) -> Self {
        Self { object, payload: OnceLock::new() }
    }

    /// The object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Its bytes; `encode` makes them the first time, for everyone.
    pub fn payload(&self, encode: impl FnOnce(&Object) -> Payload) -> &Payload {
        self.payload.get_or_init(|| encode(&self.object))
    }
}
