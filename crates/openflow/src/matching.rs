//! Matches in one canonical form.
//!
//! A [`Match`] is kept as the OXM bytes that go on the wire, sorted by field, with values masked,
//! full masks and empty masks removed, and the fields that OpenFlow 1.5 can say in two ways
//! (`xreg`, `xxreg`, `vlan_tci`, `nw_tos`, the 16-bit `in_port`) reduced to one. So two matches
//! that mean the same are equal as bytes, hash alike, and encode by copying.
//!
//! ```text
//!  0       2       4                    length
//! +-------+-------+--------------------+------------------+
//! | 1=OXM | length| OXM, OXM, …        | zeros to 8 bytes |   struct ofp_match, 7.2.3
//! +-------+-------+--------------------+------------------+
//! OXM: class 16, field 7, has-mask 1, length 8, [experimenter 32], value, [mask]
//! ```

use crate::field::{Field, FieldValueError, IntoValue, Needs, Value, to_u128};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};
use smallvec::SmallVec;
use std::net::IpAddr;
use thiserror::Error;

/// Which packets a flow matches.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Match {
    oxms: SmallVec<[u8; 48]>,
}

/// One field of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The field.
    pub field: Field,
    /// Its value, where the mask is set.
    pub value: &'a [u8],
    /// Which bits count; all if `None`.
    pub mask: Option<&'a [u8]>,
}

/// Why a match is not one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MatchError {
    /// A value or mask that does not fit its field.
    #[error(transparent)]
    Value(#[from] FieldValueError),
    /// A mask on a field that has none.
    #[error("{0} cannot be masked")]
    NotMaskable(Field),
    /// A field named twice.
    #[error("{0} stands twice")]
    Twice(Field),
    /// A field without what it needs.
    #[error("{field} needs {}", needs.describe())]
    Prerequisite {
        /// The field.
        field: Field,
        /// What it needs.
        needs: Needs,
    },
    /// OpenFlow 1.5 matches the VLAN priority whole or not at all.
    #[error(
        "vlan_tci with a mask over part of the priority bits ({0:#06x}) has no OpenFlow 1.5 form"
    )]
    PartialPcp(u16),
    /// A prefix longer than its address.
    #[error("/{len} is longer than {field}, which has {bits} bits")]
    Prefix {
        /// The field.
        field: Field,
        /// The length asked for.
        len: u8,
        /// The field's width.
        bits: u16,
    },
}

/// Builds a match field by field; the first error is kept for [`MatchBuilder::build`].
#[derive(Debug, Clone)]
#[must_use]
pub struct MatchBuilder(Result<Match, MatchError>);

// === impl Match ===

impl Match {
    /// A match of every packet.
    pub fn any() -> Self {
        Self::default()
    }

    /// Starts a match.
    pub fn builder() -> MatchBuilder {
        MatchBuilder(Ok(Self::default()))
    }

    /// Whether it matches every packet.
    pub fn is_any(&self) -> bool {
        self.oxms.is_empty()
    }

    /// The fields, in canonical order.
    pub fn entries(&self) -> Entries<'_> {
        Entries(Reader::new(&self.oxms))
    }

    /// One field.
    pub fn get(&self, field: Field) -> Option<Entry<'_>> {
        self.entries().find(|e| e.field == field)
    }

    /// One field's value and mask as numbers.
    pub fn get_u128(&self, field: Field) -> Option<(u128, u128)> {
        self.get(field).map(Entry::to_u128)
    }

    /// Adds a field. `mask` of `None` means all bits.
    pub fn insert(
        &mut self,
        field: Field,
        value: &Value,
        mask: Option<&Value>,
    ) -> Result<(), MatchError> {
        self.insert_bytes(field, value.as_bytes(), mask.map(Value::as_bytes))
    }

    fn insert_bytes(
        &mut self,
        field: Field,
        value: &[u8],
        mask: Option<&[u8]>,
    ) -> Result<(), MatchError> {
        if field.is_tun_metadata() {
            return self.insert_tun_metadata(field, value, mask);
        }
        let valid = field.valid_bits();
        let mask = mask.map_or(valid, to_u128) & valid;
        if mask != valid && !field.maskable() {
            return Err(MatchError::NotMaskable(field));
        }
        let value = to_u128(value) & mask;
        match field {
            Field::VLAN_TCI => self.insert_vlan_tci(value, mask),
            // What a match without it means, too.
            Field::PACKET_TYPE if (value, mask) == (0, valid) => Ok(()),
            Field::IP_TOS => self.splice(Field::IP_DSCP, value >> 2, 0x3f),
            Field::IN_PORT_NXM => self.splice(Field::IN_PORT, port_from_16(value), u32::MAX.into()),
            _ => match field.registers() {
                None => self.splice(field, value, mask),
                Some((first, n)) => (0..n).try_for_each(|i| {
                    let shift = 32 * u32::from(n - 1 - i);
                    let word = |v: u128| v >> shift & u128::from(u32::MAX);
                    self.splice(Field::reg(first + i), word(value), word(mask))
                }),
            },
        }
    }

    /// `vlan_tci` is `vlan_vid` with `vlan_pcp` in its upper three bits.
    fn insert_vlan_tci(&mut self, value: u128, mask: u128) -> Result<(), MatchError> {
        let (vid_mask, pcp_mask) = (mask & 0x1fff, mask >> 13);
        self.splice(Field::VLAN_VID, value & 0x1fff, vid_mask)?;
        // Without a tag there is no priority to match.
        let untagged = vid_mask == 0x1fff && value & 0x1000 == 0;
        match pcp_mask {
            7 if !untagged => self.splice(Field::VLAN_PCP, value >> 13, 7),
            0 | 7 => Ok(()),
            _ => Err(MatchError::PartialPcp(u16::try_from(mask).unwrap_or(u16::MAX))),
        }
    }

    /// `tun_metadata` values are as long as their Geneve option, which only the switch knows:
    /// leading zeros are cut, and a mask stays a mask even where it is full.
    fn insert_tun_metadata(
        &mut self,
        field: Field,
        value: &[u8],
        mask: Option<&[u8]>,
    ) -> Result<(), MatchError> {
        let zeros = |bytes: &[u8]| bytes.iter().take_while(|b| **b == 0).count();
        let mut w = Writer::new();
        if let Some(mask) = mask {
            let cut = zeros(mask);
            let (value, mask) = (&value[cut..], &mask[cut..]);
            field.put_header(&mut w, true, mask.len());
            value.iter().zip(mask).for_each(|(v, m)| w.u8(v & m));
            w.put(mask);
        } else {
            let cut = zeros(value).min(value.len().saturating_sub(1));
            field.put_header(&mut w, false, value.len() - cut);
            w.put(&value[cut..]);
        }
        self.splice_oxm(field, w.as_slice())
    }

    /// Puts a canonical entry at its place.
    fn splice(&mut self, field: Field, value: u128, mask: u128) -> Result<(), MatchError> {
        if mask == 0 {
            return Ok(());
        }
        let len = field.bytes();
        let has_mask = mask != field.valid_bits();
        let mut w = Writer::appending(Vec::with_capacity(8 + 2 * len));
        field.put_header(&mut w, has_mask, len);
        w.put(&value.to_be_bytes()[16 - len..]);
        if has_mask {
            w.put(&mask.to_be_bytes()[16 - len..]);
        }
        self.splice_oxm(field, w.as_slice())
    }

    fn splice_oxm(&mut self, field: Field, oxm: &[u8]) -> Result<(), MatchError> {
        let mut entries = self.entries();
        let mut at = 0;
        while let Some(entry) = entries.next() {
            if entry.field == field {
                return Err(MatchError::Twice(field));
            }
            if entry.field > field {
                break;
            }
            at = entries.0.offset();
        }
        self.oxms.insert_from_slice(at, oxm);
        Ok(())
    }

    /// Checks that each field has its prerequisite.
    pub fn check_prerequisites(&self) -> Result<(), MatchError> {
        for Entry { field, .. } in self.entries() {
            let needs = field.needs();
            if !needs.met_by(&|f| self.get_u128(f)) {
                return Err(MatchError::Prerequisite { field, needs });
            }
        }
        Ok(())
    }

    /// Writes `struct ofp_match`, padding included.
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        let start = w.len();
        w.u16(1);
        w.u16(0);
        w.put(&self.oxms);
        w.patch_len("match", start, start + 2)?;
        w.align8(start);
        Ok(())
    }

    /// Reads `struct ofp_match`, padding included.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "match";
        let start = r.clone();
        let (kind, body) = r.tlv(WHAT)?;
        if kind != 1 {
            return Err(start.error(WHAT, Problem::Unknown(kind.into())));
        }
        Self::decode_fields(body)
    }

    /// Reads a list of OXM entries without the header of a match.
    pub fn decode_fields(mut r: Reader<'_>) -> Result<Self, DecodeError> {
        let mut m = Self::default();
        while !r.is_empty() {
            let start = r.clone();
            let entry = Entry::read(&mut r)?;
            let value = entry.check(&start)?;
            m.insert_bytes(entry.field, value, entry.mask).map_err(|_| {
                let header =
                    u32::from_be_bytes(start.clone().array("OXM header").unwrap_or([0; 4]));
                let expected = "each field once, with a mask that OpenFlow 1.5 can say";
                start.error("OXM", Problem::Value { found: header.into(), expected })
            })?;
        }
        Ok(m)
    }

    /// The OXM entries as bytes, without the header of a match.
    pub fn as_oxms(&self) -> &[u8] {
        &self.oxms
    }
}

impl std::fmt::Debug for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

/// OpenFlow 1.0's reserved ports are the upper end of 16 bits; later ones' of 32.
fn port_from_16(port: u128) -> u128 {
    if port >= 0xff00 { port | 0xffff_0000 } else { port }
}

/// The fields of a match, in canonical order.
#[derive(Debug, Clone)]
pub struct Entries<'a>(Reader<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        if self.0.is_empty() {
            return None;
        }
        // Only well-formed entries get into a match.
        Entry::read(&mut self.0).ok()
    }
}

// === impl Entry ===

impl<'a> Entry<'a> {
    /// Value and mask as numbers. Of `tun_metadata` the low 128 bits.
    pub fn to_u128(self) -> (u128, u128) {
        let mask = match self.mask {
            Some(mask) => to_u128(mask),
            None if self.field.is_tun_metadata() => u128::MAX,
            None => self.field.valid_bits(),
        };
        (to_u128(self.value), mask)
    }

    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        const WHAT: &str = "OXM";
        let start = r.clone();
        let header = Field::read_header(r)?;
        let payload = r.take(WHAT, header.payload)?;
        let (value, mask) = match header.has_mask {
            false => (payload, None),
            true if payload.len() % 2 == 0 => {
                let (value, mask) = payload.split_at(payload.len() / 2);
                (value, Some(mask))
            }
            true => {
                let expected = "an even size for value and mask";
                let problem = Problem::Length { found: payload.len(), expected };
                return Err(start.error(WHAT, problem));
            }
        };
        Ok(Self { field: header.field, value, mask })
    }

    /// Whether size and value are possible for the field; gives the value.
    fn check(&self, start: &Reader<'_>) -> Result<&'a [u8], DecodeError> {
        const WHAT: &str = "OXM value";
        let size = self.value.len();
        if self.field.is_tun_metadata() {
            if size > self.field.bytes() || (size == 0 && self.mask.is_none()) {
                let expected = "1 to 124 bytes";
                return Err(start.error(WHAT, Problem::Length { found: size, expected }));
            }
        } else if size != self.field.bytes() {
            let expected = "the size of the field";
            return Err(start.error(WHAT, Problem::Length { found: size, expected }));
        } else if self.mask.is_none() && to_u128(self.value) & !self.field.valid_bits() != 0 {
            let found = u64::try_from(to_u128(self.value)).unwrap_or(u64::MAX);
            let expected = "zeros above the bits of the field";
            return Err(start.error(WHAT, Problem::Value { found, expected }));
        }
        Ok(self.value)
    }
}

// === impl MatchBuilder ===

impl MatchBuilder {
    fn then(mut self, add: impl FnOnce(&mut Match) -> Result<(), MatchError>) -> Self {
        if let Ok(m) = &mut self.0
            && let Err(e) = add(m)
        {
            self.0 = Err(e);
        }
        self
    }

    /// The field has this value.
    pub fn eq(self, field: Field, value: impl IntoValue) -> Self {
        self.then(|m| m.insert(field, &value.into_value(field)?, None))
    }

    /// The field has this value where `mask` has ones.
    pub fn masked(self, field: Field, value: impl IntoValue, mask: impl IntoValue) -> Self {
        self.then(|m| {
            let (value, mask) = (value.into_value(field)?, mask.into_value(field)?);
            m.insert(field, &value, Some(&mask))
        })
    }

    /// The field starts with the first `len` bits of this address.
    pub fn prefix(self, field: Field, address: impl Into<IpAddr>, len: u8) -> Self {
        let address = address.into();
        self.then(|m| {
            let bits = field.bits();
            if u16::from(len) > bits {
                return Err(MatchError::Prefix { field, len, bits });
            }
            let ones = field.valid_bits();
            let wildcarded = ones.checked_shr(u32::from(len)).unwrap_or(0);
            let mask = Value::from_u128(ones & !wildcarded, field.bytes());
            m.insert(field, &address.into_value(field)?, Some(&mask))
        })
    }

    /// The match, if every field fits and has its prerequisite.
    pub fn build(self) -> Result<Match, MatchError> {
        let m = self.0?;
        m.check_prerequisites()?;
        Ok(m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn tcp() -> MatchBuilder {
        Match::builder().eq(Field::ETH_TYPE, 0x0800_u16).eq(Field::IP_PROTO, 6_u8)
    }

    #[test]
    fn order_of_building_does_not_matter() {
        let a = tcp().eq(Field::TCP_DST, 80_u16).eq(Field::reg(3), 7_u32).build().unwrap();
        let b = Match::builder()
            .eq(Field::TCP_DST, 80_u16)
            .eq(Field::reg(3), 7_u32)
            .eq(Field::IP_PROTO, 6_u8)
            .eq(Field::ETH_TYPE, 0x0800_u16)
            .build()
            .unwrap();
        assert_eq!(a, b);
    }

    #[test]
    fn wide_registers_become_registers() {
        let wide = Match::builder()
            .masked(Field::xxreg(1), 0x5_u128 << 96, 0xf_u128 << 96 | 0xff)
            .build()
            .unwrap();
        let narrow = Match::builder()
            .masked(Field::reg(4), 5_u32, 0xf_u32)
            .masked(Field::reg(7), 0_u32, 0xff_u32)
            .build()
            .unwrap();
        assert_eq!(wide, narrow);
    }

    #[test]
    fn the_vlan_tag_has_one_form() {
        let tci = Match::builder().eq(Field::VLAN_TCI, 0x7005_u16).build().unwrap();
        let parts = Match::builder()
            .eq(Field::VLAN_VID, 0x1005_u16)
            .eq(Field::VLAN_PCP, 3_u8)
            .build()
            .unwrap();
        assert_eq!(tci, parts);
        let partial = Match::builder().masked(Field::VLAN_TCI, 0x3000_u16, 0x3000_u16).build();
        assert_eq!(partial, Err(MatchError::PartialPcp(0x3000)));
    }

    #[test]
    fn empty_and_full_masks_vanish() {
        let m = tcp()
            .prefix(Field::IPV4_SRC, Ipv4Addr::new(10, 1, 2, 3), 0)
            .prefix(Field::IPV4_DST, Ipv4Addr::new(10, 1, 2, 3), 32)
            .build()
            .unwrap();
        assert!(m.get(Field::IPV4_SRC).is_none());
        assert_eq!(m.get(Field::IPV4_DST).unwrap().mask, None);
    }

    #[test]
    fn errors_name_the_field() {
        let e = Match::builder().eq(Field::TCP_DST, 80_u16).build().unwrap_err();
        assert_eq!(e.to_string(), "tcp_dst needs tcp or tcp6");
        let e = tcp().eq(Field::IP_PROTO, 6_u8).build().unwrap_err();
        assert_eq!(e.to_string(), "nw_proto stands twice");
        let e = Match::builder().masked(Field::ETH_TYPE, 0_u16, 1_u16).build().unwrap_err();
        assert_eq!(e.to_string(), "eth_type cannot be masked");
        let v4 = tcp().prefix(Field::IPV4_DST, Ipv4Addr::LOCALHOST, 33).build().unwrap_err();
        assert_eq!(v4.to_string(), "/33 is longer than ip_dst, which has 32 bits");
    }

    #[test]
    fn lying_lengths_are_refused_with_their_place() {
        // ip_src with a payload of 3, behind the 4 bytes of the match's header.
        let bytes = [0, 1, 0, 11, 0x80, 0, 0x16, 3, 1, 2, 3, 0, 0, 0, 0, 0];
        let e = Match::decode(&mut Reader::new(&bytes)).unwrap_err();
        let said = "OXM value at byte 4: length 3, expected the size of the field";
        assert_eq!(e.to_string(), said);
    }

    #[test]
    fn a_mask_on_a_field_that_has_none_is_refused_from_the_wire_too() {
        // nw_proto with a mask of four bits; found by fuzzing.
        let bytes = [0x80, 0, 10 << 1 | 1, 2, 6, 0x0f];
        assert!(Match::decode_fields(Reader::new(&bytes)).is_err());
        let full = [0x80, 0, 10 << 1 | 1, 2, 6, 0xff];
        let m = Match::decode_fields(Reader::new(&full)).unwrap();
        assert_eq!(m.get_u128(Field::IP_PROTO), Some((6, 0xff)));
    }

    #[test]
    fn ethernet_is_what_a_match_means_without_a_packet_type() {
        let m = Match::builder().eq(Field::PACKET_TYPE, 0_u32).build().unwrap();
        assert!(m.is_any());
        let m = Match::builder().eq(Field::PACKET_TYPE, 0x1_0800_u32).build().unwrap();
        assert!(!m.is_any());
    }
}
