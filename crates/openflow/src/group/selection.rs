//! How a select group selects a bucket (Netronome's extension, which Open vSwitch speaks).

use crate::field::{Field, Value};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// How a select group selects.
///
/// ```text
///  0        2     4          8    12   16            32          40
/// +--------+-----+----------+----+----+-------------+-----------+----------+
/// | 0xffff | len | 0x0000154d | 1  | 0  | method name | parameter | fields … |
/// +--------+-----+----------+----+----+-------------+-----------+----------+
///          struct ntr_group_prop_selection_method; fields: OXM, the value says which bits count
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selection {
    /// `hash` or `dp_hash`; at most 15 bytes.
    pub method: String,
    /// The start value of the hash.
    pub param: u64,
    /// Which fields are hashed; the method's own if none.
    pub fields: Vec<SelectField>,
}

/// A field that is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SelectField {
    /// The field.
    pub field: Field,
    /// Which of its bits.
    pub mask: Value,
}

const EXPERIMENTER: u16 = 0xffff;
const NETRONOME: u32 = 0x0000_154d;
const SELECTION_METHOD: u32 = 1;
const METHOD_LEN: usize = 16;

// === impl Selection ===

impl Selection {
    pub(super) fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        const WHAT: &str = "selection method";
        w.tlv(WHAT, EXPERIMENTER, |w| {
            w.u32(NETRONOME);
            w.u32(SELECTION_METHOD);
            w.zeros(4);
            w.text(WHAT, &self.method, METHOD_LEN)?;
            w.u64(self.param);
            for SelectField { field, mask } in &self.fields {
                field.put_header(w, false, mask.as_bytes().len());
                w.put(mask.as_bytes());
            }
            Ok(())
        })
    }

    /// Reads the properties of a group. Others' are left out.
    pub(super) fn decode_properties(r: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        const WHAT: &str = "group property";
        let mut selection = None;
        while !r.is_empty() {
            let (kind, mut body) = r.tlv(WHAT)?;
            if kind != EXPERIMENTER || body.u32(WHAT)? != NETRONOME {
                continue;
            }
            if body.u32(WHAT)? == SELECTION_METHOD {
                selection = Some(Self::decode(body)?);
            }
        }
        Ok(selection)
    }

    fn decode(mut r: Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "selection method";
        r.skip(WHAT, 4)?;
        let method = r.text(WHAT, METHOD_LEN)?;
        let param = r.u64(WHAT)?;
        let mut fields = Vec::new();
        while !r.is_empty() {
            let start = r.clone();
            let header = Field::read_header(&mut r)?;
            let mask = r.take(WHAT, header.payload)?;
            let fits = header.field.is_tun_metadata() || mask.len() == header.field.bytes();
            if header.has_mask || !fits {
                let expected = "the size of the field, without a mask of its own";
                return Err(start.error(WHAT, Problem::Length { found: mask.len(), expected }));
            }
            fields.push(SelectField { field: header.field, mask: Value::from_bytes(mask) });
        }
        Ok(Self { method, param, fields })
    }
}
