//! Packets for the controller, in Open vSwitch's form: with user data, and with what the switch
//! needs to go on with a paused packet.

use super::packet_in::metadata;
use crate::action::PacketInReason;
use crate::matching::Match;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// A packet for the controller; sent back as [`super::Message::Resume`], the packet goes on.
///
/// ```text
/// +---------+-----------+------+---------+
/// | type 16 | length 16 | body | zeros   |   a property each, padded to 8 bytes
/// +---------+-----------+------+---------+
/// 0 packet    1 full length 32    2 buffer 32      3 table 8         4 cookie 64
/// 5 reason 8  6 metadata (OXM)    7 user data      8 continuation
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PacketIn2 {
    /// The packet, as much as was asked for.
    pub packet: Vec<u8>,
    /// How long it was, if it was cut.
    pub full_len: Option<u32>,
    /// The table of the flow that sent it.
    pub table: Option<u8>,
    /// The cookie of the flow that sent it.
    pub cookie: Option<u64>,
    /// Why it comes.
    pub reason: PacketInReason,
    /// Its ingress port, registers and so on.
    pub metadata: Match,
    /// The bytes that the `controller` action gave.
    pub userdata: Vec<u8>,
    /// What the switch needs to go on, if the packet is paused. Its content is the switch's own.
    pub continuation: Option<Vec<u8>>,
}

/// In which form packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketInFormat {
    /// OpenFlow's own.
    Standard = 0,
    /// Nicira's first, of OpenFlow 1.0.
    Nxm = 1,
    /// With user data and continuations: [`PacketIn2`].
    PacketIn2 = 2,
}

mod property {
    pub(super) const PACKET: u16 = 0;
    pub(super) const FULL_LEN: u16 = 1;
    pub(super) const TABLE: u16 = 3;
    pub(super) const COOKIE: u16 = 4;
    pub(super) const REASON: u16 = 5;
    pub(super) const METADATA: u16 = 6;
    pub(super) const USERDATA: u16 = 7;
    pub(super) const CONTINUATION: u16 = 8;
}

// === impl PacketInFormat ===

impl PacketInFormat {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "packet-in format";
        let start = r.clone();
        Ok(match r.u32(WHAT)? {
            0 => Self::Standard,
            1 => Self::Nxm,
            2 => Self::PacketIn2,
            other => return Err(start.error(WHAT, Problem::Unknown(other.into()))),
        })
    }
}

// === impl PacketIn2 ===

impl PacketIn2 {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let mut property = |kind: u16, body: &[u8]| {
            w.tlv("packet-in2 property", kind, |w| {
                w.put(body);
                Ok(())
            })
        };
        property(property::PACKET, &self.packet)?;
        if let Some(len) = self.full_len {
            property(property::FULL_LEN, &len.to_be_bytes())?;
        }
        if let Some(table) = self.table {
            property(property::TABLE, &[table])?;
        }
        if let Some(cookie) = self.cookie {
            // OpenFlow aligns 64-bit values to eight bytes.
            let body = [[0; 4].as_slice(), &cookie.to_be_bytes()].concat();
            property(property::COOKIE, &body)?;
        }
        property(property::REASON, &[self.reason.to_u8()])?;
        property(property::METADATA, self.metadata.as_oxms())?;
        if let Some(continuation) = &self.continuation {
            property(property::CONTINUATION, continuation)?;
        }
        if !self.userdata.is_empty() {
            property(property::USERDATA, &self.userdata)?;
        }
        Ok(())
    }

    /// Properties that we do not know are left out.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "packet-in2 property";
        let mut m = Self::default();
        while !r.is_empty() {
            let (kind, mut body) = r.tlv(WHAT)?;
            match kind {
                property::PACKET => m.packet = body.rest().to_vec(),
                property::FULL_LEN => m.full_len = Some(body.u32(WHAT)?),
                property::TABLE => m.table = Some(body.u8(WHAT)?),
                property::COOKIE => {
                    body.skip(WHAT, 4)?;
                    m.cookie = Some(body.u64(WHAT)?);
                }
                property::REASON => m.reason = PacketInReason::read(&mut body)?,
                property::METADATA => m.metadata = metadata(body)?,
                property::USERDATA => m.userdata = body.rest().to_vec(),
                property::CONTINUATION => m.continuation = Some(body.rest().to_vec()),
                _ => {}
            }
        }
        Ok(m)
    }
}
