//! Extensions: Nicira's by their own types, others kept whole.

use super::{CtFlush, Message, PacketIn2, PacketInFormat, TlvTable, TlvTableMod};
use crate::action::NICIRA;
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// An extension that we have no type for.
///
/// ```text
///  8              12     16
/// +--------------+------+-------- ··
/// | experimenter | type | body        struct ofp_experimenter_msg, 7.5.5
/// +--------------+------+-------- ··
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Experimenter {
    /// Whose it is.
    pub experimenter: u32,
    /// Which of theirs.
    pub kind: u32,
    /// What is behind that.
    pub body: Vec<u8>,
}

/// Nicira's messages.
mod nicira {
    pub(super) const SET_PACKET_IN_FORMAT: u32 = 16;
    pub(super) const SET_CONTROLLER_ID: u32 = 20;
    pub(super) const TLV_TABLE_MOD: u32 = 24;
    pub(super) const TLV_TABLE_REQUEST: u32 = 25;
    pub(super) const TLV_TABLE_REPLY: u32 = 26;
    pub(super) const RESUME: u32 = 28;
    pub(super) const CT_FLUSH_ZONE: u32 = 29;
    pub(super) const PACKET_IN2: u32 = 30;
    pub(super) const CT_FLUSH: u32 = 32;
}

/// Writes the body of an extension; nothing for any other message.
pub(super) fn encode(message: &Message, w: &mut Writer) -> Result<(), EncodeError> {
    let mut head = |kind: u32| {
        w.u32(NICIRA);
        w.u32(kind);
    };
    match message {
        Message::SetPacketInFormat(format) => {
            head(nicira::SET_PACKET_IN_FORMAT);
            w.u32(*format as u32);
        }
        Message::SetControllerId(id) => {
            head(nicira::SET_CONTROLLER_ID);
            w.zeros(6);
            w.u16(*id);
        }
        Message::TlvTableMod(m) => {
            head(nicira::TLV_TABLE_MOD);
            m.encode(w)?;
        }
        Message::TlvTableRequest => head(nicira::TLV_TABLE_REQUEST),
        Message::TlvTableReply(m) => {
            head(nicira::TLV_TABLE_REPLY);
            m.encode(w);
        }
        Message::Resume(m) => {
            head(nicira::RESUME);
            m.encode(w)?;
        }
        Message::CtFlushZone(zone) => {
            head(nicira::CT_FLUSH_ZONE);
            w.zeros(6);
            w.u16(*zone);
        }
        Message::PacketIn2(m) => {
            head(nicira::PACKET_IN2);
            m.encode(w)?;
        }
        Message::CtFlush(m) => {
            head(nicira::CT_FLUSH);
            m.encode(w)?;
        }
        Message::Experimenter(m) => {
            w.u32(m.experimenter);
            w.u32(m.kind);
            w.put(&m.body);
        }
        _ => {}
    }
    Ok(())
}

/// Reads the body of an extension.
pub(super) fn decode(r: &mut Reader<'_>) -> Result<Message, DecodeError> {
    const WHAT: &str = "experimenter message";
    let experimenter = r.u32(WHAT)?;
    let kind = r.u32(WHAT)?;
    if experimenter == NICIRA
        && let Some(message) = decode_nicira(kind, r)?
    {
        return Ok(message);
    }
    Ok(Message::Experimenter(Experimenter { experimenter, kind, body: r.rest().to_vec() }))
}

fn decode_nicira(kind: u32, r: &mut Reader<'_>) -> Result<Option<Message>, DecodeError> {
    const WHAT: &str = "Nicira message";
    Ok(Some(match kind {
        nicira::SET_PACKET_IN_FORMAT => Message::SetPacketInFormat(PacketInFormat::read(r)?),
        nicira::SET_CONTROLLER_ID => {
            r.skip(WHAT, 6)?;
            Message::SetControllerId(r.u16(WHAT)?)
        }
        nicira::TLV_TABLE_MOD => Message::TlvTableMod(TlvTableMod::decode(r)?),
        nicira::TLV_TABLE_REQUEST => Message::TlvTableRequest,
        nicira::TLV_TABLE_REPLY => Message::TlvTableReply(TlvTable::decode(r)?),
        nicira::RESUME => Message::Resume(PacketIn2::decode(r)?),
        nicira::CT_FLUSH_ZONE => {
            r.skip(WHAT, 6)?;
            Message::CtFlushZone(r.u16(WHAT)?)
        }
        nicira::PACKET_IN2 => Message::PacketIn2(PacketIn2::decode(r)?),
        nicira::CT_FLUSH => Message::CtFlush(CtFlush::decode(r)?),
        _ => return Ok(None),
    }))
}
