//! Ports of a switch: what it tells of them, and what can be changed.

mod stats;

pub use stats::{EthernetStats, PortStats};

use crate::field::Mac;
use crate::port_no::PortNo;
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use bitflags::bitflags;

bitflags! {
    /// How a port behaves (7.2.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PortConfig: u32 {
        /// It is down.
        const PORT_DOWN = 1;
        /// What it receives is dropped.
        const NO_RECV = 1 << 2;
        /// Nothing is sent there.
        const NO_FWD = 1 << 5;
        /// What it receives does not come to the controller.
        const NO_PACKET_IN = 1 << 6;
    }

    /// What a port is like now.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PortState: u32 {
        /// It has no link.
        const LINK_DOWN = 1;
        /// Something else blocks it.
        const BLOCKED = 2;
        /// It counts as live for fast failover groups.
        const LIVE = 4;
    }
}

/// A port.
///
/// ```text
///  0      4     6    8          14   16     32       36      40
/// +------+-----+----+----------+----+------+--------+-------+--------------+
/// | port | len | 0  | Ethernet | 0  | name | config | state | properties … |
/// +------+-----+----+----------+----+------+--------+-------+--------------+
///                                                  struct ofp_port, 7.2.1
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: PortNo,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its name: at most 15 bytes; longer ones come cut.
    pub name: String,
    /// How it behaves.
    pub config: PortConfig,
    /// What it is like now.
    pub state: PortState,
    /// What its link can do, if the switch tells.
    pub ethernet: Option<EthernetLink>,
}

/// What a link can do: `struct ofp_port_desc_prop_ethernet`, type 0, length 32: pad 32, then the
/// six below, 32 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EthernetLink {
    /// Speeds and media now.
    pub current: u32,
    /// What it advertises.
    pub advertised: u32,
    /// What it supports.
    pub supported: u32,
    /// What its peer advertises.
    pub peer: u32,
    /// Its speed in kbit/s.
    pub current_speed: u32,
    /// The most it can do, in kbit/s.
    pub max_speed: u32,
}

/// What happened to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortReason {
    /// It came.
    Add,
    /// It went.
    Delete,
    /// It changed.
    Modify,
}

/// A port came, went or changed: reason 8, pad 56, port (`struct ofp_port_status`, 7.4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port.
    pub port: Port,
}

/// Changes a port.
///
/// ```text
///  8      12   16         22   24       28     32
/// +------+----+----------+----+--------+------+--------------+
/// | port | 0  | Ethernet | 0  | config | mask | properties … |   struct ofp_port_mod, 7.3.4.4
/// +------+----+----------+----+--------+------+--------------+   property 0: advertise 32
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortMod {
    /// Which.
    pub port: PortNo,
    /// Its address: the switch refuses another, so that a reused number is noticed.
    pub mac: Mac,
    /// How it shall behave.
    pub config: PortConfig,
    /// Which bits of that count.
    pub mask: PortConfig,
    /// What its link shall advertise; unchanged if `None`.
    pub advertise: Option<u32>,
}

/// The property of Ethernet links, in descriptions, changes and counters.
const ETHERNET: u16 = 0;
const NAME_LEN: usize = 16;

// === impl EthernetLink ===

impl EthernetLink {
    fn encode(self, w: &mut Writer) {
        w.u16(ETHERNET);
        w.u16(32);
        w.zeros(4);
        w.u32(self.current);
        w.u32(self.advertised);
        w.u32(self.supported);
        w.u32(self.peer);
        w.u32(self.current_speed);
        w.u32(self.max_speed);
    }

    fn decode(mut r: Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "Ethernet property";
        r.skip(WHAT, 4)?;
        Ok(Self {
            current: r.u32(WHAT)?,
            advertised: r.u32(WHAT)?,
            supported: r.u32(WHAT)?,
            peer: r.u32(WHAT)?,
            current_speed: r.u32(WHAT)?,
            max_speed: r.u32(WHAT)?,
        })
    }
}

// === impl Port ===

impl Port {
    pub(crate) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.u32(self.number.0);
        w.zeros(4);
        w.put(&self.mac.0);
        w.zeros(2);
        w.text("port name", &self.name, NAME_LEN)?;
        w.u32(self.config.bits());
        w.u32(self.state.bits());
        if let Some(link) = self.ethernet {
            link.encode(w);
        }
        w.patch_len("port", start, start + 4)
    }

    /// Properties that we do not know are left out.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "port";
        let mut r = r.sized(WHAT, 4, 40)?;
        let number = PortNo(r.u32(WHAT)?);
        r.skip(WHAT, 4)?;
        let mac = Mac(r.array(WHAT)?);
        r.skip(WHAT, 2)?;
        let name = r.text(WHAT, NAME_LEN)?;
        let config = PortConfig::from_bits_retain(r.u32(WHAT)?);
        let state = PortState::from_bits_retain(r.u32(WHAT)?);
        let mut ethernet = None;
        while !r.is_empty() {
            let (kind, body) = r.tlv(WHAT)?;
            if kind == ETHERNET {
                ethernet = Some(EthernetLink::decode(body)?);
            }
        }
        Ok(Self { number, mac, name, config, state, ethernet })
    }
}

// === impl PortStatus ===

impl PortStatus {
    pub(crate) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u8(self.reason as u8);
        w.zeros(7);
        self.port.encode(w)
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "port-status";
        let start = r.clone();
        let reason = match r.u8(WHAT)? {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            other => return Err(start.error(WHAT, Problem::Unknown(other.into()))),
        };
        r.skip(WHAT, 7)?;
        Ok(Self { reason, port: Port::decode(r)? })
    }
}

// === impl PortMod ===

impl PortMod {
    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.port.0);
        w.zeros(4);
        w.put(&self.mac.0);
        w.zeros(2);
        w.u32(self.config.bits());
        w.u32(self.mask.bits());
        if let Some(advertise) = self.advertise {
            w.u16(ETHERNET);
            w.u16(8);
            w.u32(advertise);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "port-mod";
        let port = PortNo(r.u32(WHAT)?);
        r.skip(WHAT, 4)?;
        let mac = Mac(r.array(WHAT)?);
        r.skip(WHAT, 2)?;
        let config = PortConfig::from_bits_retain(r.u32(WHAT)?);
        let mask = PortConfig::from_bits_retain(r.u32(WHAT)?);
        let mut advertise = None;
        while !r.is_empty() {
            let (kind, mut body) = r.tlv(WHAT)?;
            if kind == ETHERNET {
                advertise = Some(body.u32(WHAT)?);
            }
        }
        Ok(Self { port, mac, config, mask, advertise })
    }
}
