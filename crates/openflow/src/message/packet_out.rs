//! Packets from the controller.

use crate::action::{Action, decode_list, encode_list};
use crate::field::{Field, IntoValue};
use crate::flow::NO_BUFFER;
use crate::matching::Match;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// A packet to send.
///
/// ```text
///  8        12            14   16
/// +--------+-------------+----+---------------+---------+-------- ··
/// | buffer | actions len | 0  | match, padded | actions | packet     struct ofp_packet_out, 7.3.6
/// +--------+-------------+----+---------------+---------+-------- ··
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketOut {
    /// Where it seems to come from, and the other metadata that it starts with.
    pub metadata: Match,
    /// What to do with it.
    pub actions: Vec<Action>,
    /// The packet.
    pub packet: Vec<u8>,
}

// === impl PacketOut ===

impl PacketOut {
    /// A packet that comes from nowhere.
    pub fn new(actions: Vec<Action>, packet: Vec<u8>) -> Self {
        Self::from_port(PortNo::CONTROLLER, actions, packet)
    }

    /// A packet that seems to come in at a port.
    pub fn from_port(in_port: PortNo, actions: Vec<Action>, packet: Vec<u8>) -> Self {
        let mut metadata = Match::any();
        let value = in_port.0.into_value(Field::IN_PORT).expect("a port number has 32 bits");
        metadata.insert(Field::IN_PORT, &value, None).expect("the match is still empty");
        Self { metadata, actions, packet }
    }

    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u32(NO_BUFFER);
        let at = w.len();
        w.zeros(4);
        self.metadata.encode(w)?;
        let start = w.len();
        encode_list(&self.actions, w)?;
        w.patch_len("packet-out actions", start, at)?;
        w.put(&self.packet);
        Ok(())
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "packet-out";
        r.skip(WHAT, 4)?;
        let actions_len = usize::from(r.u16(WHAT)?);
        r.skip(WHAT, 2)?;
        let metadata = Match::decode(r)?;
        let actions = decode_list(r.sub(WHAT, actions_len)?)?;
        Ok(Self { metadata, actions, packet: r.rest().to_vec() })
    }
}
