//! Bundles: messages that a switch collects and then applies as one.

use super::{HEADER, Message, header, kind};
use crate::flow::FlowMod;
use crate::group::GroupMod;
use crate::meter::MeterMod;
use crate::port::PortMod;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use bitflags::bitflags;

bitflags! {
    /// How a bundle is applied (7.3.9.2). All its messages must name the same.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct BundleFlags: u16 {
        /// All or nothing, and no packet sees a part of it.
        const ATOMIC = 1;
        /// In the order in which the messages came.
        const ORDERED = 2;
        /// At a set time.
        const TIME = 4;
    }
}

/// What happens to a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named as in the specification")]
pub enum BundleStep {
    OpenRequest,
    OpenReply,
    CloseRequest,
    CloseReply,
    CommitRequest,
    CommitReply,
    DiscardRequest,
    DiscardReply,
}

/// Opens, closes, commits or discards a bundle.
///
/// ```text
///  8           12      14      16
/// +-----------+-------+-------+--------------+
/// | bundle id | type  | flags | properties … |   struct ofp_bundle_ctrl_msg, 7.3.9.1
/// +-----------+-------+-------+--------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleControl {
    /// Which bundle.
    pub bundle_id: u32,
    /// What happens.
    pub step: BundleStep,
    /// How it is applied.
    pub flags: BundleFlags,
}

/// Adds a message to a bundle.
///
/// ```text
///  8           12    14      16
/// +-----------+-----+-------+---------------------------+
/// | bundle id | 0   | flags | a message, xid as outside |   struct ofp_bundle_add_msg, 7.3.9.3
/// +-----------+-----+-------+---------------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleAdd {
    /// Which bundle.
    pub bundle_id: u32,
    /// How it is applied.
    pub flags: BundleFlags,
    /// The message.
    pub message: Box<Message>,
}

/// A body that switches take in a bundle.
pub trait BundleBody {
    /// The type of its message.
    const KIND: u8;
    /// Writes the body of the message.
    fn encode_body(&self, w: &mut Writer) -> Result<(), EncodeError>;
}

impl BundleBody for FlowMod {
    const KIND: u8 = kind::FLOW_MOD;

    fn encode_body(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.encode(w)
    }
}

impl BundleBody for GroupMod {
    const KIND: u8 = kind::GROUP_MOD;

    fn encode_body(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.encode(w)
    }
}

impl BundleBody for MeterMod {
    const KIND: u8 = kind::METER_MOD;

    fn encode_body(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.encode(w)
    }
}

impl BundleBody for PortMod {
    const KIND: u8 = kind::PORT_MOD;

    fn encode_body(&self, w: &mut Writer) -> Result<(), EncodeError> {
        self.encode(w);
        Ok(())
    }
}

/// Writes what comes before the message that is added.
pub(crate) fn put_prefix(bundle_id: u32, flags: BundleFlags, w: &mut Writer) {
    w.u32(bundle_id);
    w.zeros(2);
    w.u16(flags.bits());
}

// === impl BundleStep ===

impl BundleStep {
    fn from_u16(code: u16) -> Option<Self> {
        Some(match code {
            0 => Self::OpenRequest,
            1 => Self::OpenReply,
            2 => Self::CloseRequest,
            3 => Self::CloseReply,
            4 => Self::CommitRequest,
            5 => Self::CommitReply,
            6 => Self::DiscardRequest,
            7 => Self::DiscardReply,
            _ => return None,
        })
    }
}

// === impl BundleControl ===

impl BundleControl {
    pub(super) fn encode(self, w: &mut Writer) {
        w.u32(self.bundle_id);
        w.u16(self.step as u16);
        w.u16(self.flags.bits());
    }

    /// Properties are left out: only the execution time and experimenters' exist.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "bundle control";
        let bundle_id = r.u32(WHAT)?;
        let start = r.clone();
        let step = r.u16(WHAT)?;
        let unknown = || start.error(WHAT, Problem::Unknown(step.into()));
        let step = BundleStep::from_u16(step).ok_or_else(unknown)?;
        Ok(Self { bundle_id, step, flags: BundleFlags::from_bits_retain(r.u16(WHAT)?) })
    }
}

// === impl BundleAdd ===

impl BundleAdd {
    pub(super) fn encode(&self, xid: u32, w: &mut Writer) -> Result<(), EncodeError> {
        if is_bundle(self.message.kind()) {
            let why = "a bundle cannot hold bundle messages";
            return Err(EncodeError::Inexpressible { what: "bundle add", why });
        }
        put_prefix(self.bundle_id, self.flags, w);
        self.message.encode(xid, w)
    }

    pub(super) fn decode(xid: u32, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "bundle add";
        let bundle_id = r.u32(WHAT)?;
        r.skip(WHAT, 2)?;
        let flags = BundleFlags::from_bits_retain(r.u16(WHAT)?);
        let mut inner = r.sized(WHAT, 2, HEADER)?;
        let header = header::Header::decode(&inner.array(WHAT)?)?;
        header.check_version()?;
        // Without this, a message of 64 KiB could nest 4,000 deep.
        if is_bundle(header.kind) {
            let expected = "a message other than of bundles";
            let problem = Problem::Value { found: header.kind.into(), expected };
            return Err(r.error(WHAT, problem));
        }
        if header.xid != xid {
            let expected = "the xid of the message around it";
            return Err(r.error(WHAT, Problem::Value { found: header.xid.into(), expected }));
        }
        let message = Box::new(Message::decode_body(header, &mut inner)?);
        Ok(Self { bundle_id, flags, message })
    }
}

fn is_bundle(kind: u8) -> bool {
    matches!(kind, kind::BUNDLE_CONTROL | kind::BUNDLE_ADD_MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_do_not_nest() {
        let (bundle_id, flags) = (1, BundleFlags::empty());
        let inner = BundleAdd { bundle_id, flags, message: Box::new(Message::BarrierRequest) };
        let message = Box::new(Message::BundleAdd(inner));
        let outer = Message::BundleAdd(BundleAdd { bundle_id, flags, message });
        assert!(outer.encode(1, &mut Writer::new()).is_err());

        let mut bytes = Vec::new();
        for depth in (1..4000_u16).rev() {
            bytes.extend([6, 34]);
            bytes.extend((depth * 16).to_be_bytes());
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
        }
        let e = Message::decode(&bytes).unwrap_err();
        assert_eq!(e.what, "bundle add");
    }
}
