//! Which Geneve option is which `tun_metadata` field (Open vSwitch's TLV table).

use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// One option and its field.
///
/// ```text
/// +----------+---------+---------+----------+----+
/// | class 16 | type 8  | size 8  | field 16 | 0  |   struct nx_tlv_map
/// +----------+---------+---------+----------+----+   size in bytes, without the option's header
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TlvMap {
    /// Who defines the option.
    pub class: u16,
    /// Which of theirs.
    pub kind: u8,
    /// Size of its value: a multiple of 4, at most 124.
    pub len: u8,
    /// n for `tun_metadata`n.
    pub index: u16,
}

/// What to do with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlvCommand {
    /// Add these.
    Add,
    /// Delete these.
    Delete,
    /// Delete all.
    Clear,
}

/// A change of the table: command 16, pad 48, maps (`struct nx_tlv_table_mod`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlvTableMod {
    /// What to do.
    pub command: TlvCommand,
    /// With these.
    pub maps: Vec<TlvMap>,
}

/// The table: option space 32, fields 16, pad 80, maps (`struct nx_tlv_table_reply`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlvTable {
    /// How many bytes all options of one packet may take.
    pub max_option_space: u32,
    /// How many fields there are.
    pub max_fields: u16,
    /// What is mapped.
    pub maps: Vec<TlvMap>,
}

// === impl TlvMap ===

const SIZES: &str = "the value of a Geneve option is a multiple of 4 and at most 124 bytes";

impl TlvMap {
    /// Whether an option can have its size.
    fn has_size(self) -> bool {
        self.len.is_multiple_of(4) && self.len <= 124
    }

    fn encode(self, w: &mut Writer) {
        w.u16(self.class);
        w.u8(self.kind);
        w.u8(self.len);
        w.u16(self.index);
        w.zeros(2);
    }

    fn decode_all(r: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        const WHAT: &str = "TLV map";
        let mut maps = Vec::with_capacity(r.left() / 8);
        while !r.is_empty() {
            let class = r.u16(WHAT)?;
            let kind = r.u8(WHAT)?;
            let len = r.u8(WHAT)?;
            let index = r.u16(WHAT)?;
            r.skip(WHAT, 2)?;
            maps.push(Self { class, kind, len, index });
        }
        Ok(maps)
    }
}

// === impl TlvTableMod ===

impl TlvTableMod {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u16(self.command as u16);
        w.zeros(6);
        for map in &self.maps {
            if !map.has_size() {
                return Err(EncodeError::Inexpressible { what: "TLV map", why: SIZES });
            }
            map.encode(w);
        }
        Ok(())
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "TLV table mod";
        let start = r.clone();
        let command = match r.u16(WHAT)? {
            0 => TlvCommand::Add,
            1 => TlvCommand::Delete,
            2 => TlvCommand::Clear,
            other => return Err(start.error(WHAT, Problem::Unknown(other.into()))),
        };
        r.skip(WHAT, 6)?;
        let maps = TlvMap::decode_all(r)?;
        if let Some(map) = maps.iter().find(|map| !map.has_size()) {
            let problem = Problem::Value { found: map.len.into(), expected: SIZES };
            return Err(start.error(WHAT, problem));
        }
        Ok(Self { command, maps })
    }
}

// === impl TlvTable ===

impl TlvTable {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u32(self.max_option_space);
        w.u16(self.max_fields);
        w.zeros(10);
        self.maps.iter().for_each(|map| map.encode(w));
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "TLV table";
        let max_option_space = r.u32(WHAT)?;
        let max_fields = r.u16(WHAT)?;
        r.skip(WHAT, 10)?;
        Ok(Self { max_option_space, max_fields, maps: TlvMap::decode_all(r)? })
    }
}
