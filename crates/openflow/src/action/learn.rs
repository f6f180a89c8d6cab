//! `learn(…)`: a flow that is made from the packet that hits this one.

use crate::field::Value;
use crate::subfield::{Subfield, put_field, read_field};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use bitflags::bitflags;

bitflags! {
    /// How the learned flow behaves.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct LearnFlags: u16 {
        /// Tell the controller when it goes.
        const SEND_FLOW_REM = 1;
        /// Learned flows go when this flow goes.
        const DELETE_LEARNED = 2;
        /// Write whether a flow was learned into `result_dst`.
        const WRITE_RESULT = 4;
    }
}

/// A template for a flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Seconds without a packet after which it goes; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0 for never.
    pub hard_timeout: u16,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its table.
    pub table: u8,
    /// How it behaves.
    pub flags: LearnFlags,
    /// Idle timeout after TCP FIN or RST; 0 for unchanged.
    pub fin_idle_timeout: u16,
    /// Hard timeout after TCP FIN or RST; 0 for unchanged.
    pub fin_hard_timeout: u16,
    /// How many flows may be learned; 0 for no limit.
    pub limit: u32,
    /// The bit to write the result to.
    pub result_dst: Option<Subfield>,
    /// What it matches and does.
    pub specs: Vec<LearnSpec>,
}

impl Default for Learn {
    fn default() -> Self {
        Self {
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0x8000,
            cookie: 0,
            table: 1,
            flags: LearnFlags::empty(),
            fin_idle_timeout: 0,
            fin_hard_timeout: 0,
            limit: 0,
            result_dst: None,
            specs: Vec::new(),
        }
    }
}

/// One match or action of the learned flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LearnSpec {
    /// Where its value comes from.
    pub src: LearnSrc,
    /// What it becomes.
    pub dst: LearnDst,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LearnSrc {
    /// Bits of the packet.
    Field(Subfield),
    /// A constant, in whole bytes.
    Value(Value),
}

/// What a value becomes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LearnDst {
    /// A match on these bits.
    Match(Subfield),
    /// These bits are set.
    Load(Subfield),
    /// Output to the port of this number; the source has so many bits.
    Output,
}

const SRC_VALUE: u16 = 0x2000;
const DST_LOAD: u16 = 0x0800;
const DST_OUTPUT: u16 = 0x1000;
const DST_BITS: u16 = 0x1800;
const N_BITS: u16 = 0x07ff;

// === impl Learn ===

impl Learn {
    /// Whether it needs NXAST_LEARN2.
    pub(super) fn needs_limit(&self) -> bool {
        self.limit != 0
            || self.result_dst.is_some()
            || self.flags.contains(LearnFlags::WRITE_RESULT)
    }

    /// ```text
    /// 10     12     14     16       24      26     27  28      30
    /// +------+------+------+--------+-------+------+---+-------+-------+------- ··
    /// | idle | hard | prio | cookie | flags | table| 0 | fin_i | fin_h | specs     nx_action_learn
    /// +------+------+------+--------+-------+------+---+-------+-------+------- ··
    /// nx_action_learn2 adds before the specs: limit 32, result_dst_ofs 16, pad 16, result_dst OXM
    /// ```
    pub(super) fn put(&self, w: &mut Writer) -> Result<(), EncodeError> {
        w.u16(self.idle_timeout);
        w.u16(self.hard_timeout);
        w.u16(self.priority);
        w.u64(self.cookie);
        let mut flags = self.flags;
        flags.set(LearnFlags::WRITE_RESULT, self.result_dst.is_some());
        w.u16(flags.bits());
        w.u8(self.table);
        w.zeros(1);
        w.u16(self.fin_idle_timeout);
        w.u16(self.fin_hard_timeout);
        if self.needs_limit() {
            w.u32(self.limit);
            w.u16(self.result_dst.map_or(0, Subfield::offset));
            w.zeros(2);
            if let Some(dst) = self.result_dst {
                if dst.bits() != 1 {
                    let why = "a result is one bit";
                    return Err(EncodeError::Inexpressible { what: "learn", why });
                }
                dst.put_field(w);
            }
        }
        self.specs.iter().try_for_each(|s| s.put(w))
    }

    pub(super) fn read(r: &mut Reader<'_>, has_limit: bool) -> Result<Self, DecodeError> {
        const WHAT: &str = "learn";
        let idle_timeout = r.u16(WHAT)?;
        let hard_timeout = r.u16(WHAT)?;
        let priority = r.u16(WHAT)?;
        let cookie = r.u64(WHAT)?;
        let start = r.clone();
        let flags = r.u16(WHAT)?;
        let unknown = || start.error("learn flags", Problem::Unknown(flags.into()));
        let flags = LearnFlags::from_bits(flags).ok_or_else(unknown)?;
        let table = r.u8(WHAT)?;
        r.skip(WHAT, 1)?;
        let fin_idle_timeout = r.u16(WHAT)?;
        let fin_hard_timeout = r.u16(WHAT)?;
        let (mut limit, mut result_dst) = (0, None);
        if has_limit {
            limit = r.u32(WHAT)?;
            let offset = r.u16(WHAT)?;
            r.skip(WHAT, 2)?;
            if flags.contains(LearnFlags::WRITE_RESULT) {
                let field = read_field(r)?;
                result_dst = Some(Subfield::checked(r, WHAT, field, offset, 1)?);
            }
        }
        let mut specs = Vec::new();
        // A header of zero is padding.
        while r.left() >= 2 && r.peek_u16(0) != Some(0) {
            specs.push(LearnSpec::read(r)?);
        }
        // `result_dst` says it already.
        let flags = flags - LearnFlags::WRITE_RESULT;
        Ok(Self {
            idle_timeout,
            hard_timeout,
            priority,
            cookie,
            table,
            flags,
            fin_idle_timeout,
            fin_hard_timeout,
            limit,
            result_dst,
            specs,
        })
    }
}

// === impl LearnSpec ===

impl LearnSpec {
    /// ```text
    /// +------------------------------+------------------------+------------------+
    /// | src 1 bit, dst 2, n_bits 11  | value, or OXM + offset | OXM + offset     |
    /// +------------------------------+------------------------+------------------+
    /// ```
    fn put(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let inexpressible = |why| Err(EncodeError::Inexpressible { what: "learn", why });
        let (kind, dst) = match self.dst {
            LearnDst::Match(dst) => (0, Some(dst)),
            LearnDst::Load(dst) => (DST_LOAD, Some(dst)),
            LearnDst::Output => (DST_OUTPUT, None),
        };
        let bits = match (&self.src, dst) {
            (LearnSrc::Field(src), Some(dst)) if src.bits() != dst.bits() => {
                return inexpressible("source and destination have different widths");
            }
            (LearnSrc::Field(src), _) => src.bits(),
            (LearnSrc::Value(_), Some(dst)) => dst.bits(),
            (LearnSrc::Value(_), None) => return inexpressible("output takes a field"),
        };
        match &self.src {
            LearnSrc::Field(src) => {
                w.u16(kind | bits);
                src.put_field(w);
                w.u16(src.offset());
            }
            LearnSrc::Value(value) => {
                w.u16(SRC_VALUE | kind | bits);
                // Values stand in whole 16-bit words, at the low end.
                let len = usize::from(bits.div_ceil(16)) * 2;
                let bytes = value.as_bytes();
                let skip = bytes.len().saturating_sub(len);
                if bytes[..skip].iter().any(|b| *b != 0) {
                    return inexpressible("a value is wider than its destination");
                }
                w.zeros(len - (bytes.len() - skip));
                w.put(&bytes[skip..]);
            }
        }
        if let Some(dst) = dst {
            put_field(dst.field(), w);
            w.u16(dst.offset());
        }
        Ok(())
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "learn";
        let start = r.clone();
        let header = r.u16(WHAT)?;
        let bits = header & N_BITS;
        let subfield = |r: &mut Reader<'_>| {
            let field = read_field(r)?;
            let offset = r.u16(WHAT)?;
            Subfield::checked(r, WHAT, field, offset, bits)
        };
        let src = if header & SRC_VALUE == 0 {
            LearnSrc::Field(subfield(r)?)
        } else {
            let bytes = r.take(WHAT, usize::from(bits.div_ceil(16)) * 2)?;
            // One length for one width, so that values compare.
            LearnSrc::Value(Value::from_bytes(
                &bytes[bytes.len() - usize::from(bits.div_ceil(8))..],
            ))
        };
        let dst = match header & DST_BITS {
            0 => LearnDst::Match(subfield(r)?),
            DST_LOAD => LearnDst::Load(subfield(r)?),
            DST_OUTPUT if matches!(src, LearnSrc::Field(_)) => LearnDst::Output,
            _ => return Err(start.error(WHAT, Problem::Unknown(header.into()))),
        };
        Ok(Self { src, dst })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `learn` action with these flags and one specification of this header, from reg0's 16 bits.
    fn learn(flags: u16, header: u16) -> Result<Learn, DecodeError> {
        let mut w = Writer::new();
        w.zeros(14);
        w.u16(flags);
        w.zeros(6);
        w.u16(header);
        w.put(&[0, 1, 0, 4, 0, 0]);
        Learn::read(&mut Reader::new(w.as_slice()), false)
    }

    #[test]
    fn what_cannot_be_written_is_not_read() {
        assert_eq!(learn(1, DST_OUTPUT | 16).unwrap().specs.len(), 1);
        // Both found by fuzzing.
        let e = learn(0x20, DST_OUTPUT | 16).unwrap_err();
        assert_eq!(e.to_string(), "learn flags at byte 14: unknown value 0x20");
        assert!(learn(0, SRC_VALUE | DST_OUTPUT | 16).is_err(), "output to a constant");
    }
}
