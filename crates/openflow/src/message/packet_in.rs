//! Packets for the controller, in OpenFlow's own form.

use crate::action::PacketInReason;
use crate::field::Value;
use crate::flow::NO_BUFFER;
use crate::matching::Match;
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// A packet for the controller.
///
/// ```text
///  8        12         14      15      16       24
/// +--------+----------+-------+-------+--------+---------------+----+-------- ··
/// | buffer | full len | reason| table | cookie | match, padded | 0  | packet
/// +--------+----------+-------+-------+--------+---------------+----+-------- ··
///                                                      struct ofp_packet_in, 7.4.1
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketIn {
    /// How long the packet was before it was cut.
    pub full_len: u16,
    /// Why it comes.
    pub reason: PacketInReason,
    /// The table of the flow that sent it.
    pub table: u8,
    /// The cookie of the flow that sent it; all ones if there was none.
    pub cookie: u64,
    /// Its ingress port, registers and so on.
    pub metadata: Match,
    /// The packet, as much as was asked for.
    pub packet: Vec<u8>,
}

// === impl PacketIn ===

impl PacketIn {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u32(NO_BUFFER);
        w.u16(self.full_len);
        w.u8(self.reason.to_u8());
        w.u8(self.table);
        w.u64(self.cookie);
        self.metadata.encode(w)?;
        w.zeros(2);
        w.put(&self.packet);
        Ok(())
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "packet-in";
        r.skip(WHAT, 4)?;
        let full_len = r.u16(WHAT)?;
        let reason = PacketInReason::read(r)?;
        let table = r.u8(WHAT)?;
        let cookie = r.u64(WHAT)?;
        let (_, fields) = r.tlv("match")?;
        let metadata = metadata(fields)?;
        r.skip(WHAT, 2)?;
        Ok(Self { full_len, reason, table, cookie, metadata, packet: r.rest().to_vec() })
    }
}

/// Reads the metadata of a packet. Unlike in a match, fields that we do not know are left out:
/// the switch tells all that it has, not what we asked for.
pub(super) fn metadata(fields: Reader<'_>) -> Result<Match, DecodeError> {
    const WHAT: &str = "packet metadata";
    if let Ok(all) = Match::decode_fields(fields.clone()) {
        return Ok(all);
    }
    let mut known = Match::any();
    let mut left = fields;
    while !left.is_empty() {
        // OXM: class 16, field 8, length of what follows 8.
        let len = left.clone().array::<4>(WHAT)?[3];
        let Ok(one) = Match::decode_fields(left.sub(WHAT, 4 + usize::from(len))?) else { continue };
        for entry in one.entries() {
            let mask = entry.mask.map(Value::from_bytes);
            let value = Value::from_bytes(entry.value);
            // Said twice: the first counts.
            let _ = known.insert(entry.field, &value, mask.as_ref());
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    #[test]
    fn unknown_metadata_is_left_out() {
        // in_port=1, an unknown field of class 0x7777, reg0=5.
        let fields = [
            0x80, 0x00, 0x00, 0x04, 0, 0, 0, 1, 0x77, 0x77, 0x00, 0x02, 9, 9, //
            0x00, 0x01, 0x00, 0x04, 0, 0, 0, 5,
        ];
        let known = metadata(Reader::new(&fields)).unwrap();
        assert_eq!(known.get_u128(Field::IN_PORT).unwrap().0, 1);
        assert_eq!(known.get_u128(Field::reg(0)).unwrap().0, 5);
        assert_eq!(known.entries().count(), 2);
        assert!(metadata(Reader::new(&fields[..13])).is_err());
    }
}
