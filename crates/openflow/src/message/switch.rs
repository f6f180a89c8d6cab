//! Who the switch is and how it treats packets as a whole.

use crate::wire::{DecodeError, Reader, Writer};
use bitflags::bitflags;

bitflags! {
    /// What the switch can do (7.3.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Capabilities: u32 {
        /// It counts by flow.
        const FLOW_STATS = 1;
        /// It counts by table.
        const TABLE_STATS = 1 << 1;
        /// It counts by port.
        const PORT_STATS = 1 << 2;
        /// It counts by group.
        const GROUP_STATS = 1 << 3;
        /// It reassembles fragments.
        const IP_REASM = 1 << 5;
        /// It counts by queue.
        const QUEUE_STATS = 1 << 6;
        /// It blocks looping ports by itself.
        const PORT_BLOCKED = 1 << 8;
        /// It has bundles.
        const BUNDLES = 1 << 9;
        /// It has flow monitors.
        const FLOW_MONITORING = 1 << 10;
    }

    /// What happens to fragments (7.3.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ConfigFlags: u16 {
        /// Fragments are dropped.
        const FRAG_DROP = 1;
        /// Fragments are reassembled.
        const FRAG_REASM = 2;
        /// Open vSwitch's own: the first piece of a packet tells its ports to flows, later ones have none.
        const FRAG_NX_MATCH = 3;
    }
}

/// Who the switch is.
///
/// ```text
///  8             16        20        21     22   24              28       32
/// +-------------+---------+---------+------+----+---------------+--------+
/// | datapath id | buffers | tables  | aux  | 0  | capabilities  | 0      |
/// +-------------+---------+---------+------+----+---------------+--------+
///                                                struct ofp_switch_features, 7.3.1
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Its id: a MAC address below 16 bits of the operator's.
    pub datapath_id: u64,
    /// How many packets it keeps for the controller.
    pub buffers: u32,
    /// How many tables it has.
    pub tables: u8,
    /// Which of several connections this is; 0 for the main one.
    pub auxiliary_id: u8,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// How the switch treats packets as a whole: flags 16, miss_send_len 16
/// (`struct ofp_switch_config`, 7.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// What happens to fragments.
    pub flags: ConfigFlags,
    /// How much of a packet comes to the controller; `0xffff` for all.
    pub miss_send_len: u16,
}

// === impl Features ===

impl Features {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.datapath_id);
        w.u32(self.buffers);
        w.u8(self.tables);
        w.u8(self.auxiliary_id);
        w.zeros(2);
        w.u32(self.capabilities.bits());
        w.zeros(4);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "features";
        let datapath_id = r.u64(WHAT)?;
        let buffers = r.u32(WHAT)?;
        let tables = r.u8(WHAT)?;
        let auxiliary_id = r.u8(WHAT)?;
        r.skip(WHAT, 2)?;
        let capabilities = Capabilities::from_bits_retain(r.u32(WHAT)?);
        r.skip(WHAT, 4)?;
        Ok(Self { datapath_id, buffers, tables, auxiliary_id, capabilities })
    }
}

// === impl SwitchConfig ===

impl SwitchConfig {
    pub(super) fn encode(self, w: &mut Writer) {
        w.u16(self.flags.bits());
        w.u16(self.miss_send_len);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "switch config";
        let flags = ConfigFlags::from_bits_retain(r.u16(WHAT)?);
        Ok(Self { flags, miss_send_len: r.u16(WHAT)? })
    }
}
