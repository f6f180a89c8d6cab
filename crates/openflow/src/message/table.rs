//! What a switch does when a table is full.

use crate::wire::{DecodeError, EncodeError, Reader, Writer};
use bitflags::bitflags;

bitflags! {
    /// How a table behaves (7.3.3).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct TableConfig: u32 {
        /// Less important flows make room.
        const EVICTION = 1 << 2;
        /// The switch tells how much room there is.
        const VACANCY_EVENTS = 1 << 3;
    }

    /// By what the switch chooses the flow that goes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Eviction: u32 {
        /// By something of its own.
        const OTHER = 1;
        /// By the flow's importance.
        const IMPORTANCE = 2;
        /// By the time that it has left.
        const LIFETIME = 4;
    }
}

/// When the switch tells how much room there is, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Vacancy {
    /// Tell when there is less.
    pub down: u8,
    /// Tell when there is more again.
    pub up: u8,
    /// How much there is now; 0 in a request.
    pub current: u8,
}

/// A table's properties; those that we do not know are left out.
///
/// ```text
/// +---+---+-------------------------------------+
/// | 2 | 8 | eviction flags 32                   |   struct ofp_table_mod_prop_eviction, 7.3.3
/// | 3 | 8 | down 8, up 8, current 8, pad 8      |   struct ofp_table_mod_prop_vacancy
/// +---+---+-------------------------------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TableProperties {
    /// How flows make room.
    pub eviction: Option<Eviction>,
    /// When the switch tells how much room there is.
    pub vacancy: Option<Vacancy>,
}

/// Changes a table: table 8, pad 24, config 32, properties (`struct ofp_table_mod`, 7.3.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableMod {
    /// Which; [`crate::flow::ALL_TABLES`] for all.
    pub table: u8,
    /// How it shall behave.
    pub config: TableConfig,
    /// And with what properties.
    pub properties: TableProperties,
}

mod property {
    pub(super) const EVICTION: u16 = 2;
    pub(super) const VACANCY: u16 = 3;
}

// === impl TableProperties ===

impl TableProperties {
    pub(super) fn encode(self, w: &mut Writer) -> Result<(), EncodeError> {
        const WHAT: &str = "table property";
        if let Some(flags) = self.eviction {
            w.tlv(WHAT, property::EVICTION, |w| {
                w.u32(flags.bits());
                Ok(())
            })?;
        }
        if let Some(v) = self.vacancy {
            w.tlv(WHAT, property::VACANCY, |w| {
                w.put(&[v.down, v.up, v.current, 0]);
                Ok(())
            })?;
        }
        Ok(())
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "table property";
        let mut properties = Self::default();
        while !r.is_empty() {
            let (kind, mut body) = r.tlv(WHAT)?;
            match kind {
                property::EVICTION => {
                    properties.eviction = Some(Eviction::from_bits_retain(body.u32(WHAT)?));
                }
                property::VACANCY => {
                    let [down, up, current] = body.array(WHAT)?;
                    properties.vacancy = Some(Vacancy { down, up, current });
                }
                _ => {}
            }
        }
        Ok(properties)
    }
}

// === impl TableMod ===

impl TableMod {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u8(self.table);
        w.zeros(3);
        w.u32(self.config.bits());
        self.properties.encode(w)
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "table-mod";
        let table = r.u8(WHAT)?;
        r.skip(WHAT, 3)?;
        let config = TableConfig::from_bits_retain(r.u32(WHAT)?);
        Ok(Self { table, config, properties: TableProperties::decode(r)? })
    }
}
