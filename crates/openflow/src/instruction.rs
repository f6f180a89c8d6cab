//! Instructions of a flow, in the one order that OpenFlow executes them (1.5.1, 5.5 and 7.2.5).

use crate::action::{Action, decode_list, encode_list};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

/// What a flow does with the packets that it matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Instructions {
    /// Done at once, in order.
    pub apply: Vec<Action>,
    /// Then the action set is emptied.
    pub clear: bool,
    /// Then these go into the action set.
    pub write: Vec<Action>,
    /// Then metadata is written: value and mask.
    pub write_metadata: Option<(u64, u64)>,
    /// Then the packet goes on in this table.
    pub goto_table: Option<u8>,
}

mod kind {
    pub(super) const GOTO_TABLE: u16 = 1;
    pub(super) const WRITE_METADATA: u16 = 2;
    pub(super) const WRITE_ACTIONS: u16 = 3;
    pub(super) const APPLY_ACTIONS: u16 = 4;
    pub(super) const CLEAR_ACTIONS: u16 = 5;
}

impl From<Vec<Action>> for Instructions {
    fn from(apply: Vec<Action>) -> Self {
        Self { apply, ..Self::default() }
    }
}

// === impl Instructions ===

impl Instructions {
    /// Drops the packet.
    pub fn drop() -> Self {
        Self::default()
    }

    /// Goes on in a table.
    pub fn goto(table: u8) -> Self {
        Self { goto_table: Some(table), ..Self::default() }
    }

    /// Whether nothing is done.
    pub fn is_drop(&self) -> bool {
        *self == Self::default()
    }

    /// Writes the instructions.
    ///
    /// ```text
    /// +------+-----+-----------------------------------------------+
    /// | 1    | 8   | table 8, pad 24                               |  goto_table
    /// | 2    | 24  | pad 32, metadata 64, mask 64                  |  write_metadata
    /// | 3, 4 | len | pad 32, actions                               |  write, apply
    /// | 5    | 8   | pad 32                                        |  clear_actions
    /// +------+-----+-----------------------------------------------+
    /// ```
    pub fn encode(&self, w: &mut Writer) -> Result<(), EncodeError> {
        put_actions(w, kind::APPLY_ACTIONS, &self.apply)?;
        if self.clear {
            w.u16(kind::CLEAR_ACTIONS);
            w.u16(8);
            w.zeros(4);
        }
        put_actions(w, kind::WRITE_ACTIONS, &self.write)?;
        if let Some((metadata, mask)) = self.write_metadata {
            w.u16(kind::WRITE_METADATA);
            w.u16(24);
            w.zeros(4);
            w.u64(metadata);
            w.u64(mask);
        }
        if let Some(table) = self.goto_table {
            w.u16(kind::GOTO_TABLE);
            w.u16(8);
            w.u8(table);
            w.zeros(3);
        }
        Ok(())
    }

    /// Reads instructions up to the end of `r`.
    pub fn decode(mut r: Reader<'_>) -> Result<Self, DecodeError> {
        const WHAT: &str = "instruction";
        let mut i = Self::default();
        while !r.is_empty() {
            let start = r.clone();
            let (kind, mut body) = r.tlv(WHAT)?;
            match kind {
                kind::APPLY_ACTIONS | kind::WRITE_ACTIONS => {
                    body.skip(WHAT, 4)?;
                    let actions = decode_list(body)?;
                    match kind {
                        kind::APPLY_ACTIONS => i.apply = actions,
                        _ => i.write = actions,
                    }
                }
                kind::CLEAR_ACTIONS => i.clear = true,
                kind::WRITE_METADATA => {
                    body.skip(WHAT, 4)?;
                    let (metadata, mask) = (body.u64(WHAT)?, body.u64(WHAT)?);
                    i.write_metadata = Some((metadata & mask, mask));
                }
                kind::GOTO_TABLE => i.goto_table = Some(body.u8(WHAT)?),
                _ => return Err(start.error(WHAT, Problem::Unknown(kind.into()))),
            }
        }
        Ok(i)
    }
}

fn put_actions(w: &mut Writer, kind: u16, actions: &[Action]) -> Result<(), EncodeError> {
    if actions.is_empty() {
        return Ok(());
    }
    let start = w.len();
    w.u16(kind);
    w.u16(0);
    w.zeros(4);
    encode_list(actions, w)?;
    w.patch_len("actions", start, start + 2)
}
