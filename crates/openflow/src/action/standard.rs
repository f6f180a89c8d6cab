//! Actions that OpenFlow 1.5.1 itself defines (7.2.6), where Open vSwitch uses them.

use super::{Action, SetField};
use crate::port_no::PortNo;
use crate::subfield::{Subfield, read_field};
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

mod kind {
    pub(super) const OUTPUT: u16 = 0;
    pub(super) const SET_MPLS_TTL: u16 = 15;
    pub(super) const DEC_MPLS_TTL: u16 = 16;
    pub(super) const PUSH_VLAN: u16 = 17;
    pub(super) const POP_VLAN: u16 = 18;
    pub(super) const PUSH_MPLS: u16 = 19;
    pub(super) const POP_MPLS: u16 = 20;
    pub(super) const SET_QUEUE: u16 = 21;
    pub(super) const GROUP: u16 = 22;
    pub(super) const SET_NW_TTL: u16 = 23;
    pub(super) const DEC_NW_TTL: u16 = 24;
    pub(super) const SET_FIELD: u16 = 25;
    pub(super) const COPY_FIELD: u16 = 28;
    pub(super) const METER: u16 = 29;
}

/// Writes the action if OpenFlow defines it, and says whether it did.
pub(super) fn encode(action: &Action, w: &mut Writer) -> Result<bool, EncodeError> {
    match action {
        Action::Output { port, max_len } => {
            // type 16, len 16, port 32, max_len 16, pad 48
            w.u16(kind::OUTPUT);
            w.u16(16);
            w.u32(port.0);
            w.u16(*max_len);
            w.zeros(6);
        }
        Action::SetMplsTtl(ttl) => short(w, kind::SET_MPLS_TTL, u32::from(*ttl) << 24),
        Action::DecMplsTtl => short(w, kind::DEC_MPLS_TTL, 0),
        Action::PushVlan(tpid) => short(w, kind::PUSH_VLAN, u32::from(*tpid) << 16),
        Action::PopVlan => short(w, kind::POP_VLAN, 0),
        Action::PushMpls(ethertype) => short(w, kind::PUSH_MPLS, u32::from(*ethertype) << 16),
        Action::PopMpls(ethertype) => short(w, kind::POP_MPLS, u32::from(*ethertype) << 16),
        Action::SetQueue(queue) => short(w, kind::SET_QUEUE, *queue),
        Action::Group(group) => short(w, kind::GROUP, *group),
        Action::SetTtl(ttl) => short(w, kind::SET_NW_TTL, u32::from(*ttl) << 24),
        Action::DecTtl => short(w, kind::DEC_NW_TTL, 0),
        Action::Meter(meter) => short(w, kind::METER, *meter),
        Action::SetField(set) => padded(w, kind::SET_FIELD, |w| set.put(w))?,
        Action::Move { src, dst } => put_copy_field(w, *src, *dst)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// ```text
///  0     2     4       6        8        10   12
/// +-----+-----+-------+--------+--------+----+---------+---------+
/// | 28  | len | n_bits| src_ofs| dst_ofs| 0  | src OXM | dst OXM |   ofp_action_copy_field
/// +-----+-----+-------+--------+--------+----+---------+---------+
/// ```
fn put_copy_field(w: &mut Writer, src: Subfield, dst: Subfield) -> Result<(), EncodeError> {
    if src.bits() != dst.bits() {
        let why = "source and destination have different widths";
        return Err(EncodeError::Inexpressible { what: "move", why });
    }
    padded(w, kind::COPY_FIELD, |w| {
        w.u16(src.bits());
        w.u16(src.offset());
        w.u16(dst.offset());
        w.zeros(2);
        src.put_field(w);
        dst.put_field(w);
    })
}

/// An action of eight bytes.
fn short(w: &mut Writer, kind: u16, value: u32) {
    w.u16(kind);
    w.u16(8);
    w.u32(value);
}

fn padded(w: &mut Writer, kind: u16, body: impl FnOnce(&mut Writer)) -> Result<(), EncodeError> {
    let start = w.len();
    w.u16(kind);
    w.u16(0);
    body(w);
    w.align8(start);
    w.patch_len("action", start, start + 2)
}

/// Reads the body of an action; `None` if it is not one of ours.
pub(super) fn decode(kind: u16, mut r: Reader<'_>) -> Result<Option<Action>, DecodeError> {
    const WHAT: &str = "action";
    let ethertype = |r: &mut Reader<'_>| r.u16("Ethernet type");
    Ok(Some(match kind {
        kind::OUTPUT => {
            let port = PortNo(r.u32("output")?);
            let max_len = r.u16("output")?;
            r.skip("output", 6)?;
            // Only the controller gets a part of a packet.
            let max_len = if port == PortNo::CONTROLLER { max_len } else { 0 };
            Action::Output { port, max_len }
        }
        kind::SET_MPLS_TTL => Action::SetMplsTtl(r.u8(WHAT)?),
        kind::DEC_MPLS_TTL => Action::DecMplsTtl,
        kind::PUSH_VLAN => Action::PushVlan(ethertype(&mut r)?),
        kind::POP_VLAN => Action::PopVlan,
        kind::PUSH_MPLS => Action::PushMpls(ethertype(&mut r)?),
        kind::POP_MPLS => Action::PopMpls(ethertype(&mut r)?),
        kind::SET_QUEUE => Action::SetQueue(r.u32(WHAT)?),
        kind::GROUP => Action::Group(r.u32(WHAT)?),
        kind::SET_NW_TTL => Action::SetTtl(r.u8(WHAT)?),
        kind::DEC_NW_TTL => Action::DecTtl,
        kind::METER => Action::Meter(r.u32(WHAT)?),
        kind::SET_FIELD => Action::SetField(SetField::read(&mut r)?),
        kind::COPY_FIELD => {
            const WHAT: &str = "copy_field";
            let bits = r.u16(WHAT)?;
            let (src_offset, dst_offset) = (r.u16(WHAT)?, r.u16(WHAT)?);
            r.skip(WHAT, 2)?;
            let src = read_field(&mut r)?;
            let src = Subfield::checked(&r, WHAT, src, src_offset, bits)?;
            let dst = read_field(&mut r)?;
            let dst = Subfield::checked(&r, WHAT, dst, dst_offset, bits)?;
            Action::Move { src, dst }
        }
        _ => return Ok(None),
    }))
}
