//! Actions, in the canonical form that Open vSwitch reads back over OpenFlow 1.5.
//!
//! Where the protocol knows several spellings (`load`, `mod_dl_src`, `set_tunnel`, Nicira's and
//! OpenFlow's `move`) there is one here, so that what a switch returns compares equal to what was
//! sent. Actions of others that we have no type for are kept whole as [`Action::Opaque`].

mod controller;
mod ct;
mod learn;
mod nicira;
mod set_field;
mod standard;

pub use controller::{Controller, PacketInReason};
pub use ct::{Alg, Ct, Nat, NatKind, NatRange, Zone};
pub use learn::{Learn, LearnDst, LearnFlags, LearnSpec, LearnSrc};
pub use set_field::{SetField, SetFieldError};

use crate::field::Field;
use crate::port_no::PortNo;
use crate::subfield::Subfield;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// Actions nest (`clone`, `ct`); deeper than this nobody means it.
pub const MAX_DEPTH: usize = 16;

/// What to do with a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send it out of a port. `max_len` is how much of it goes to the controller, and 0 for
    /// every other port.
    Output {
        /// The port.
        port: PortNo,
        /// Bytes for the controller; `0xffff` for all.
        max_len: u16,
    },
    /// Send at most `max_len` bytes of it out of a port.
    OutputTruncated {
        /// The port.
        port: PortNo,
        /// How much of the packet.
        max_len: u32,
    },
    /// Send it out of the port whose number is in a field.
    OutputReg {
        /// Where the number is.
        src: Subfield,
        /// Bytes for the controller.
        max_len: u16,
    },
    /// Process it by a group.
    Group(u32),
    /// Measure it by a meter, which may drop it.
    Meter(u32),
    /// Use this queue for later outputs.
    SetQueue(u32),
    /// Use the default queue again.
    PopQueue,
    /// Set a field, or some bits of it.
    SetField(SetField),
    /// Copy bits from one field to another.
    Move {
        /// From here.
        src: Subfield,
        /// To here, of the same width.
        dst: Subfield,
    },
    /// Push bits on the stack.
    Push(Subfield),
    /// Pop bits from the stack.
    Pop(Subfield),
    /// Add a VLAN tag with this TPID.
    PushVlan(u16),
    /// Remove the outermost VLAN tag.
    PopVlan,
    /// Add an MPLS label with this Ethernet type.
    PushMpls(u16),
    /// Remove the outermost MPLS label; the packet then is of this Ethernet type.
    PopMpls(u16),
    /// Set the MPLS TTL.
    SetMplsTtl(u8),
    /// Count the MPLS TTL down.
    DecMplsTtl,
    /// Set the IP TTL or hop limit.
    SetTtl(u8),
    /// Count the IP TTL or hop limit down.
    DecTtl,
    /// Count it down, and tell these controllers where it runs out.
    DecTtlControllers(Vec<u16>),
    /// Look the packet up again.
    Resubmit {
        /// As if it came in here; its own port if `None`.
        port: Option<PortNo>,
        /// In this table; the current one if `None`.
        table: Option<u8>,
        /// With source and destination as before address translation.
        ct: bool,
    },
    /// Track its connection.
    Ct(Box<Ct>),
    /// Translate addresses; only inside of [`Action::Ct`].
    Nat(Nat),
    /// Forget the tracking state.
    CtClear,
    /// Add a flow made from this packet.
    Learn(Box<Learn>),
    /// One dimension of a conjunctive match.
    Conjunction {
        /// The `conj_id` that matches once all dimensions do.
        id: u32,
        /// Which dimension, from 1.
        clause: u8,
        /// How many there are.
        clauses: u8,
    },
    /// Send it to the controller, with what the controller needs to go on.
    Controller(Box<Controller>),
    /// Do this on a copy.
    Clone(Vec<Action>),
    /// Set a bit if the packet is longer than this.
    CheckPktLarger {
        /// The limit in bytes.
        len: u16,
        /// The bit.
        dst: Subfield,
    },
    /// Bytes that do nothing.
    Note(Vec<u8>),
    /// Remove a tunnel metadata field.
    DeleteField(Field),
    /// Stop; the action set still runs.
    Exit,
    /// Shorten the flow's timeouts on TCP FIN or RST.
    FinTimeout {
        /// Idle timeout in seconds, 0 for unchanged.
        idle: u16,
        /// Hard timeout in seconds, 0 for unchanged.
        hard: u16,
    },
    /// An action of somebody else's, whole, header included.
    Opaque(Box<[u8]>),
}

// === impl Action ===

impl Action {
    /// Output to a port.
    pub fn output(port: impl Into<PortNo>) -> Self {
        let port = port.into();
        Self::Output { port, max_len: if port == PortNo::CONTROLLER { u16::MAX } else { 0 } }
    }

    /// `resubmit(,table)`.
    pub fn resubmit(table: u8) -> Self {
        Self::Resubmit { port: None, table: Some(table), ct: false }
    }

    /// A note, padded as the wire needs it.
    pub fn note(bytes: &[u8]) -> Self {
        let mut bytes = bytes.to_vec();
        // Ten bytes of header stand before the note, and the whole is a multiple of eight.
        let padded = (bytes.len() + 10).next_multiple_of(8).max(16) - 10;
        bytes.resize(padded, 0);
        Self::Note(bytes)
    }

    /// Writes the action, padding included.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        if standard::encode(self, w)? {
            return Ok(());
        }
        nicira::encode(self, w)
    }

    /// Reads one action, padding included.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        decode_at(r, 0)
    }
}

impl From<u32> for PortNo {
    fn from(port: u32) -> Self {
        Self(port)
    }
}

/// Writes a list of actions.
pub(crate) fn encode_list(actions: &[Action], w: &mut Writer) -> Result<(), EncodeError> {
    actions.iter().try_for_each(|a| a.encode(w))
}

/// Reads a list of actions up to the end of `r`.
pub(crate) fn decode_list(r: Reader<'_>) -> Result<Vec<Action>, DecodeError> {
    decode_list_at(r, 0)
}

fn decode_list_at(mut r: Reader<'_>, depth: usize) -> Result<Vec<Action>, DecodeError> {
    if depth > MAX_DEPTH {
        return Err(r.error("actions", Problem::TooDeep(MAX_DEPTH)));
    }
    let mut actions = Vec::with_capacity(4);
    while !r.is_empty() {
        actions.push(decode_at(&mut r, depth)?);
    }
    Ok(actions)
}

/// Experimenter of the Nicira extensions.
pub(crate) const NICIRA: u32 = 0x0000_2320;
/// Action type of experimenters.
const EXPERIMENTER: u16 = 0xffff;

/// ```text
///  0      2      4
/// +------+------+------------------ ··· --+
/// | type | len  | body                    |   struct ofp_action_header, 7.2.6
/// +------+------+------------------ ··· --+   len: header included, a multiple of 8
/// ```
fn decode_at(r: &mut Reader<'_>, depth: usize) -> Result<Action, DecodeError> {
    const WHAT: &str = "action";
    let start = r.clone();
    let len = usize::from(start.peek_u16(2).unwrap_or(0));
    if len < 8 || len % 8 != 0 {
        let expected = "a multiple of 8, at least 8";
        return Err(start.error(WHAT, Problem::Length { found: len, expected }));
    }
    let mut whole = r.sub(WHAT, len)?;
    let opaque = || Action::Opaque(whole.rest().into());
    let body = {
        let mut body = whole.clone();
        body.skip(WHAT, 4)?;
        body
    };
    let decoded = match whole.clone().u16(WHAT)? {
        EXPERIMENTER => {
            let mut body = body;
            match body.u32(WHAT)? {
                NICIRA => nicira::decode(body, depth)?,
                _ => None,
            }
        }
        kind => standard::decode(kind, body)?,
    };
    let action = decoded.unwrap_or_else(opaque);
    whole.skip(WHAT, len)?;
    Ok(action)
}
