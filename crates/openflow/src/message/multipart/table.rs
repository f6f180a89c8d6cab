//! What a switch tells of its tables.

use crate::message::table::{TableConfig, TableProperties};
use crate::wire::{DecodeError, EncodeError, Reader, Writer};

/// Counters of a table: table 8, pad 24, flows 32, lookups 64, matches 64
/// (`struct ofp_table_stats`, 7.3.5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// Which table.
    pub table: u8,
    /// How many flows it has.
    pub active: u32,
    /// How many packets were looked up in it.
    pub lookups: u64,
    /// How many of them matched.
    pub matched: u64,
}

/// How a table behaves: length 16, table 8, pad 8, config 32, properties
/// (`struct ofp_table_desc`, 7.3.5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableDesc {
    /// Which table.
    pub table: u8,
    /// How it behaves.
    pub config: TableConfig,
    /// And with what properties.
    pub properties: TableProperties,
}

// === impl TableStats ===

impl TableStats {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u8(self.table);
        w.zeros(3);
        w.u32(self.active);
        w.u64(self.lookups);
        w.u64(self.matched);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "table_stats";
        let table = r.u8(WHAT)?;
        r.skip(WHAT, 3)?;
        Ok(Self { table, active: r.u32(WHAT)?, lookups: r.u64(WHAT)?, matched: r.u64(WHAT)? })
    }
}

// === impl TableDesc ===

impl TableDesc {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.zeros(2);
        w.u8(self.table);
        w.zeros(1);
        w.u32(self.config.bits());
        self.properties.encode(w)?;
        w.patch_len("table_desc", start, start)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "table_desc";
        let mut r = r.sized(WHAT, 0, 8)?;
        r.skip(WHAT, 2)?;
        let table = r.u8(WHAT)?;
        r.skip(WHAT, 1)?;
        let config = TableConfig::from_bits_retain(r.u32(WHAT)?);
        Ok(Self { table, config, properties: TableProperties::decode(&mut r)? })
    }
}
