//! Fields of packets and of their metadata: what they are called, how wide they are, what they
//! need, and which OXM or NXM code names them on the wire.
//!
//! A [`Field`] is one byte. Everything about it is a row of one table (`table.rs`); codec, text
//! and validation read that row and contain no knowledge of single fields, save the few that
//! OpenFlow treats apart (`vlan_vid`, `tun_metadata`).

mod needs;
mod table;
mod value;

pub use needs::Needs;
pub(crate) use needs::{ethertype, ip_proto};
pub(crate) use value::to_u128;
pub use value::{FieldValueError, IntoValue, Mac, ParseMacError, Value};

use crate::wire::{DecodeError, Problem, Reader, Writer};
use table::{COUNT, FIELDS, REGS_AT, SCALARS_AT, TUN_METADATA_AT, XREGS_AT, XXREGS_AT};

/// A field of a packet or of its metadata.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field(pub(in crate::field) u8);

/// How text shows a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in ovs-fields(7)")]
pub enum Format {
    Decimal,
    Hexadecimal,
    Ethernet,
    Ipv4,
    Ipv6,
    Port,
    Fragment,
    TunnelFlags,
    TcpFlags,
    CtState,
    PacketType,
}

/// An OXM or NXM code point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) name: &'static str,
    class: u16,
    number: u8,
    /// Behind class 0xffff, the organisation whose code this is; else 0.
    experimenter: u32,
}

/// What is known of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldInfo {
    pub(crate) name: &'static str,
    pub(crate) alias: &'static str,
    bytes: u8,
    bits: u16,
    maskable: bool,
    writable: bool,
    pub(crate) format: Format,
    pub(crate) needs: Needs,
    nxm: Option<Code>,
    oxm: Option<Code>,
}

/// The largest value of any field: a Geneve option behind `tun_metadata`.
pub const MAX_VALUE: usize = 124;

/// Codes by class and number: `u8::MAX` where there is none.
static CODES: [[u8; 128]; 4] = {
    let mut codes = [[u8::MAX; 128]; 4];
    let mut i = 0;
    while i < COUNT {
        let mut which = 0;
        while which < 2 {
            let code = if which == 0 { FIELDS[i].nxm } else { FIELDS[i].oxm };
            if let Some(Code { class, number, .. }) = code
                && let Some(row) = class_row(class)
            {
                #[allow(clippy::cast_possible_truncation, reason = "COUNT is below 256")]
                let index = i as u8;
                codes[row][number as usize] = index;
            }
            which += 1;
        }
        i += 1;
    }
    codes
};

const fn class_row(class: u16) -> Option<usize> {
    match class {
        0x0000 => Some(0),
        0x0001 => Some(1),
        0x8000 => Some(2),
        0x8001 => Some(3),
        _ => None,
    }
}

// === impl Code ===

impl Code {
    fn header(self, has_mask: bool, len: u8) -> u32 {
        u32::from(self.class) << 16
            | u32::from(self.number) << 9
            | u32::from(has_mask) << 8
            | u32::from(len)
    }
}

/// A decoded OXM header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) field: Field,
    pub(crate) has_mask: bool,
    /// Bytes of the payload: the value, and the mask if there is one.
    pub(crate) payload: usize,
}

// === impl Field ===

impl Field {
    /// `reg0` to `reg15`.
    pub const fn reg(n: u8) -> Self {
        assert!(n < 16, "there are 16 registers");
        Self(REGS_AT + n)
    }

    /// `xreg0` to `xreg7`: pairs of registers.
    pub const fn xreg(n: u8) -> Self {
        assert!(n < 8, "there are 8 double registers");
        Self(XREGS_AT + n)
    }

    /// `xxreg0` to `xxreg3`: four registers each.
    pub const fn xxreg(n: u8) -> Self {
        assert!(n < 4, "there are 4 quadruple registers");
        Self(XXREGS_AT + n)
    }

    /// `tun_metadata0` to `tun_metadata63`.
    pub const fn tun_metadata(n: u8) -> Self {
        assert!(n < 64, "there are 64 tunnel metadata fields");
        Self(TUN_METADATA_AT + n)
    }

    /// All fields, in canonical order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..FIELDS.len()).map(|i| Self(u8::try_from(i).expect("fewer than 256 fields")))
    }

    /// The field of this name: ovs-fields(7)'s, its alias, or its OXM or NXM name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|f| {
            let info = f.info();
            let coded = |code: Option<Code>| code.is_some_and(|c| c.name == name);
            info.name == name
                || (!info.alias.is_empty() && info.alias == name)
                || coded(info.nxm)
                || coded(info.oxm)
        })
    }

    pub(crate) fn info(self) -> &'static FieldInfo {
        &FIELDS[usize::from(self.0)]
    }

    /// The name in ovs-fields(7).
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The OXM or NXM name, as text shows it in `move`, `output` and the like.
    pub fn oxm_name(self) -> &'static str {
        let info = self.info();
        info.nxm.or(info.oxm).map_or(info.name, |code| code.name)
    }

    /// Size of the value on the wire. For `tun_metadata` the most that it can be.
    pub fn bytes(self) -> usize {
        usize::from(self.info().bytes)
    }

    /// How many of the value's low bits are the field's.
    pub fn bits(self) -> u16 {
        self.info().bits
    }

    /// Whether a match may mask it.
    pub fn maskable(self) -> bool {
        self.info().maskable
    }

    /// Whether actions may change it.
    pub fn writable(self) -> bool {
        self.info().writable
    }

    /// How text shows it.
    pub fn format(self) -> Format {
        self.info().format
    }

    /// What a match must say before it may name this field.
    pub fn needs(self) -> Needs {
        self.info().needs
    }

    /// Whether it is one of `tun_metadata0` to `tun_metadata63`, whose size is set at run time.
    pub fn is_tun_metadata(self) -> bool {
        (TUN_METADATA_AT..SCALARS_AT).contains(&self.0)
    }

    /// The 32-bit registers behind a double or quadruple register: the first, and how many.
    pub(crate) fn registers(self) -> Option<(u8, u8)> {
        let n = |at: u8, each: u8| Some(((self.0 - at) * each, each));
        match self.0 {
            XREGS_AT..XXREGS_AT => n(XREGS_AT, 2),
            XXREGS_AT..TUN_METADATA_AT => n(XXREGS_AT, 4),
            _ => None,
        }
    }

    /// The bits that a value may have, for fields of up to 16 bytes.
    pub(crate) fn valid_bits(self) -> u128 {
        match self {
            // OpenFlow puts "has a VLAN tag" above the 12 bits of the id.
            Self::VLAN_VID => 0x1fff,
            // Open vSwitch has eight state bits.
            Self::CT_STATE => 0xff,
            _ => match self.bits() {
                128.. => u128::MAX,
                bits => (1 << bits) - 1,
            },
        }
    }

    /// Writes the OXM header; `len` is the size of the value alone.
    pub(crate) fn put_header(self, w: &mut Writer, has_mask: bool, len: usize) {
        let info = self.info();
        let Some(code) = info.oxm.or(info.nxm) else { unreachable!("every field has a code") };
        let payload = if has_mask { 2 * len } else { len };
        let extra = if code.experimenter == 0 { 0 } else { 4 };
        let payload = u8::try_from(payload + extra).expect("a value and its mask are at most 252");
        w.u32(code.header(has_mask, payload));
        if code.experimenter != 0 {
            w.u32(code.experimenter);
        }
    }

    /// Reads an OXM header.
    pub(crate) fn read_header(r: &mut Reader<'_>) -> Result<Header, DecodeError> {
        const WHAT: &str = "OXM header";
        let start = r.clone();
        let header = r.u32(WHAT)?;
        let class = (header >> 16) as u16;
        let number = (header >> 9 & 0x7f) as u8;
        let has_mask = header & 0x100 != 0;
        let mut payload = (header & 0xff) as usize;
        let field = if class == 0xffff {
            let experimenter = r.u32(WHAT)?;
            if payload < 4 {
                let expected = "at least the 4 of the experimenter";
                return Err(start.error(WHAT, Problem::Length { found: payload, expected }));
            }
            payload -= 4;
            Self::by_code(class, number, experimenter)
        } else if let Some(row) = class_row(class) {
            Some(CODES[row][usize::from(number)]).filter(|i| *i != u8::MAX).map(Self)
        } else {
            Self::by_code(class, number, 0)
        };
        let field = field.ok_or_else(|| start.error(WHAT, Problem::Unknown(header.into())))?;
        Ok(Header { field, has_mask, payload })
    }

    /// The slow way, for the few codes outside of the four common classes.
    fn by_code(class: u16, number: u8, experimenter: u32) -> Option<Self> {
        match (experimenter, number) {
            (table::ONF, 42) => return Some(Self::TCP_FLAGS),
            (table::ONF, 43) => return Some(Self::ACTSET_OUTPUT),
            _ => {}
        }
        Self::all().find(|f| {
            f.info().nxm.is_some_and(|c| {
                c.class == class && c.number == number && c.experimenter == experimenter
            })
        })
    }
}

impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_unique() {
        let mut names = std::collections::HashSet::new();
        for f in Field::all() {
            for name in [f.info().name, f.info().alias] {
                assert!(name.is_empty() || names.insert(name), "{name} stands twice");
                assert!(name.is_empty() || Field::by_name(name) == Some(f), "{name}");
            }
            assert_eq!(Field::by_name(f.oxm_name()), Some(f));
            let mut w = Writer::new();
            f.put_header(&mut w, false, f.bytes());
            let header = Field::read_header(&mut Reader::new(w.as_slice())).unwrap();
            assert_eq!((header.field, header.payload), (f, f.bytes()));
        }
    }

    #[test]
    fn a_prerequisite_stands_before_its_field() {
        for f in Field::all() {
            if let Some(of) = f.needs().field() {
                assert!(of < f, "{f} needs {of}");
            }
        }
    }
}
