//! Actions of the Nicira extensions (`nicira-ext.h`, ovs-actions(7)).
//!
//! ```text
//!  0        2     4          8         10
//! +--------+-----+----------+---------+------------------ ··
//! | 0xffff | len | 0x2320   | subtype | body
//! +--------+-----+----------+---------+------------------ ··
//! ```

use super::{Action, Controller, Ct, Learn, NICIRA, Nat, SetField, decode_list_at, encode_list};
use crate::field::Field;
use crate::port_no::PortNo;
use crate::subfield::{Subfield, put_field, read_field};
use crate::wire::{DecodeError, EncodeError, Problem, Reader, Writer};

mod subtype {
    pub(super) const RESUBMIT: u16 = 1;
    pub(super) const SET_TUNNEL: u16 = 2;
    pub(super) const SET_QUEUE: u16 = 4;
    pub(super) const POP_QUEUE: u16 = 5;
    pub(super) const REG_MOVE: u16 = 6;
    pub(super) const REG_LOAD: u16 = 7;
    pub(super) const NOTE: u16 = 8;
    pub(super) const SET_TUNNEL64: u16 = 9;
    pub(super) const RESUBMIT_TABLE: u16 = 14;
    pub(super) const OUTPUT_REG: u16 = 15;
    pub(super) const LEARN: u16 = 16;
    pub(super) const EXIT: u16 = 17;
    pub(super) const DEC_TTL: u16 = 18;
    pub(super) const FIN_TIMEOUT: u16 = 19;
    pub(super) const CONTROLLER: u16 = 20;
    pub(super) const DEC_TTL_CNT_IDS: u16 = 21;
    pub(super) const STACK_PUSH: u16 = 27;
    pub(super) const STACK_POP: u16 = 28;
    pub(super) const OUTPUT_REG2: u16 = 32;
    pub(super) const REG_LOAD2: u16 = 33;
    pub(super) const CONJUNCTION: u16 = 34;
    pub(super) const CT: u16 = 35;
    pub(super) const NAT: u16 = 36;
    pub(super) const CONTROLLER2: u16 = 37;
    pub(super) const OUTPUT_TRUNC: u16 = 39;
    pub(super) const CLONE: u16 = 42;
    pub(super) const CT_CLEAR: u16 = 43;
    pub(super) const RESUBMIT_TABLE_CT: u16 = 44;
    pub(super) const LEARN2: u16 = 45;
    pub(super) const CHECK_PKT_LARGER: u16 = 49;
    pub(super) const DELETE_FIELD: u16 = 50;
}

/// "In the current table."
const NO_TABLE: u8 = 0xff;

/// Writes the action with its header; `min` is the least size that the switch accepts.
fn framed(
    w: &mut Writer,
    subtype: u16,
    min: usize,
    body: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = w.len();
    w.u16(0xffff);
    w.u16(0);
    w.u32(NICIRA);
    w.u16(subtype);
    body(w)?;
    w.zeros(min.saturating_sub(w.len() - start));
    w.align8(start);
    w.patch_len("action", start, start + 2)
}

/// Writes an action that `standard` left.
pub(super) fn encode(action: &Action, w: &mut Writer) -> Result<(), EncodeError> {
    use subtype as s;
    let plain = |w: &mut Writer, subtype| framed(w, subtype, 16, |_| Ok(()));
    match action {
        Action::OutputTruncated { port, max_len } => framed(w, s::OUTPUT_TRUNC, 16, |w| {
            w.u16(port_16("output(port)", *port)?);
            w.u32(*max_len);
            Ok(())
        }),
        Action::OutputReg { src, max_len } => put_output_reg(w, *src, *max_len),
        Action::PopQueue => plain(w, s::POP_QUEUE),
        Action::Push(src) => put_stack(w, s::STACK_PUSH, *src),
        Action::Pop(dst) => put_stack(w, s::STACK_POP, *dst),
        Action::DecTtlControllers(ids) => put_dec_ttl(w, ids),
        Action::Resubmit { port, table, ct } => put_resubmit(w, *port, *table, *ct),
        Action::Ct(ct) => framed(w, s::CT, 24, |w| ct.put(w)),
        Action::Nat(nat) => framed(w, s::NAT, 16, |w| nat.put(w)),
        Action::CtClear => plain(w, s::CT_CLEAR),
        Action::Learn(learn) if learn.needs_limit() => framed(w, s::LEARN2, 40, |w| learn.put(w)),
        Action::Learn(learn) => framed(w, s::LEARN, 32, |w| learn.put(w)),
        Action::Conjunction { id, clause, clauses } => put_conjunction(w, *id, *clause, *clauses),
        Action::Controller(c) if c.needs_properties() => framed(w, s::CONTROLLER2, 16, |w| {
            w.zeros(6);
            c.put_properties(w)
        }),
        Action::Controller(c) => framed(w, s::CONTROLLER, 16, |w| {
            c.put_simple(w);
            Ok(())
        }),
        Action::Clone(actions) => framed(w, s::CLONE, 16, |w| {
            w.zeros(6);
            encode_list(actions, w)
        }),
        Action::CheckPktLarger { len, dst } => put_check_pkt_larger(w, *len, *dst),
        Action::Note(bytes) => framed(w, s::NOTE, 16, |w| {
            w.put(bytes);
            Ok(())
        }),
        Action::DeleteField(field) => framed(w, s::DELETE_FIELD, 24, |w| {
            put_field(*field, w);
            Ok(())
        }),
        Action::Exit => plain(w, s::EXIT),
        Action::FinTimeout { idle, hard } => framed(w, s::FIN_TIMEOUT, 16, |w| {
            w.u16(*idle);
            w.u16(*hard);
            Ok(())
        }),
        Action::Opaque(bytes) => {
            w.put(bytes);
            Ok(())
        }
        other => unreachable!("{other:?} is one of OpenFlow's own"),
    }
}

fn port_16(what: &'static str, port: PortNo) -> Result<u16, EncodeError> {
    let range = EncodeError::Range { what, value: port.0.into(), max: 0xfeff };
    port.to_16().ok_or(range)
}

fn put_output_reg(w: &mut Writer, src: Subfield, max_len: u16) -> Result<(), EncodeError> {
    let Some(bits) = src.ofs_nbits() else {
        let why = "a port number has at most 64 bits, and starts below bit 1024";
        return Err(EncodeError::Inexpressible { what: "output from a field", why });
    };
    let mut field = Writer::new();
    src.put_field(&mut field);
    // The older action has room for a header of four bytes and no more.
    if field.len() == 4 {
        return framed(w, subtype::OUTPUT_REG, 24, |w| {
            w.u16(bits);
            w.put(field.as_slice());
            w.u16(max_len);
            Ok(())
        });
    }
    framed(w, subtype::OUTPUT_REG2, 24, |w| {
        w.u16(bits);
        w.u16(max_len);
        w.put(field.as_slice());
        Ok(())
    })
}

/// Body: offset 16, field OXM, n_bits 16.
fn put_stack(w: &mut Writer, subtype: u16, bits: Subfield) -> Result<(), EncodeError> {
    framed(w, subtype, 24, |w| {
        w.u16(bits.offset());
        bits.put_field(w);
        w.u16(bits.bits());
        Ok(())
    })
}

/// Body: n 16, pad 32, ids 16 each.
fn put_dec_ttl(w: &mut Writer, ids: &[u16]) -> Result<(), EncodeError> {
    framed(w, subtype::DEC_TTL_CNT_IDS, 16, |w| {
        w.u16(crate::wire::fit("dec_ttl controllers", ids.len() as u64, u16::MAX.into())?);
        w.zeros(4);
        for id in ids {
            w.u16(*id);
        }
        Ok(())
    })
}

/// Body: in_port 16, table 8, pad 24.
fn put_resubmit(
    w: &mut Writer,
    port: Option<PortNo>,
    table: Option<u8>,
    ct: bool,
) -> Result<(), EncodeError> {
    let subtype = match (table, ct) {
        (_, true) => subtype::RESUBMIT_TABLE_CT,
        (None, false) => subtype::RESUBMIT,
        (Some(_), false) => subtype::RESUBMIT_TABLE,
    };
    if table == Some(NO_TABLE) {
        let why = "table 255 means the current one";
        return Err(EncodeError::Inexpressible { what: "resubmit", why });
    }
    framed(w, subtype, 16, |w| {
        w.u16(port_16("resubmit", port.unwrap_or(PortNo::IN_PORT))?);
        if subtype != subtype::RESUBMIT {
            w.u8(table.unwrap_or(NO_TABLE));
        }
        Ok(())
    })
}

/// Body: clause 8 (from 0), clauses 8, id 32.
fn put_conjunction(w: &mut Writer, id: u32, clause: u8, clauses: u8) -> Result<(), EncodeError> {
    if !(2..=64).contains(&clauses) || !(1..=clauses).contains(&clause) {
        let why = "clauses are 2 to 64, and a clause is one of them, from 1";
        return Err(EncodeError::Inexpressible { what: "conjunction", why });
    }
    framed(w, subtype::CONJUNCTION, 16, |w| {
        w.u8(clause - 1);
        w.u8(clauses);
        w.u32(id);
        Ok(())
    })
}

/// Body: pkt_len 16, offset 16, field OXM.
fn put_check_pkt_larger(w: &mut Writer, len: u16, dst: Subfield) -> Result<(), EncodeError> {
    if dst.bits() != 1 {
        let why = "the result is one bit";
        return Err(EncodeError::Inexpressible { what: "check_pkt_larger", why });
    }
    framed(w, subtype::CHECK_PKT_LARGER, 24, |w| {
        w.u16(len);
        w.u16(dst.offset());
        dst.put_field(w);
        Ok(())
    })
}

/// Reads the body behind the experimenter; `None` if it is not one of ours.
pub(super) fn decode(mut r: Reader<'_>, depth: usize) -> Result<Option<Action>, DecodeError> {
    use subtype as s;
    const WHAT: &str = "Nicira action";
    let r = &mut r;
    Ok(Some(match r.u16(WHAT)? {
        s::RESUBMIT => Action::Resubmit { port: resubmit_port(r)?, table: None, ct: false },
        s::RESUBMIT_TABLE => read_resubmit(r, false)?,
        s::RESUBMIT_TABLE_CT => read_resubmit(r, true)?,
        s::SET_TUNNEL => {
            r.skip("set_tunnel", 2)?;
            set(Field::TUN_ID, r.u32("set_tunnel")?.into())
        }
        s::SET_TUNNEL64 => {
            r.skip("set_tunnel64", 6)?;
            set(Field::TUN_ID, r.u64("set_tunnel64")?.into())
        }
        s::SET_QUEUE => {
            r.skip("set_queue", 2)?;
            Action::SetQueue(r.u32("set_queue")?)
        }
        s::POP_QUEUE => Action::PopQueue,
        s::REG_MOVE => read_move(r)?,
        s::REG_LOAD => read_load(r)?,
        s::REG_LOAD2 => {
            r.skip("load", 6)?;
            Action::SetField(SetField::read(r)?)
        }
        s::NOTE => Action::Note(r.rest().to_vec()),
        s::OUTPUT_REG => {
            let bits = r.u16("output")?;
            let field = read_field(r)?;
            let src = Subfield::from_ofs_nbits(r, "output", field, bits)?;
            Action::OutputReg { src, max_len: r.u16("output")? }
        }
        s::OUTPUT_REG2 => {
            let (bits, max_len) = (r.u16("output")?, r.u16("output")?);
            let field = read_field(r)?;
            let src = Subfield::from_ofs_nbits(r, "output", field, bits)?;
            Action::OutputReg { src, max_len }
        }
        s::OUTPUT_TRUNC => {
            let port = PortNo::from_16(r.u16("output")?);
            Action::OutputTruncated { port, max_len: r.u32("output")? }
        }
        s::LEARN => Action::Learn(Box::new(Learn::read(r, false)?)),
        s::LEARN2 => Action::Learn(Box::new(Learn::read(r, true)?)),
        s::EXIT => Action::Exit,
        s::DEC_TTL => Action::DecTtl,
        s::DEC_TTL_CNT_IDS => {
            let n = r.u16("dec_ttl")?;
            r.skip("dec_ttl", 4)?;
            let ids = (0..n).map(|_| r.u16("dec_ttl")).collect::<Result<_, _>>()?;
            Action::DecTtlControllers(ids)
        }
        s::FIN_TIMEOUT => {
            Action::FinTimeout { idle: r.u16("fin_timeout")?, hard: r.u16("fin_timeout")? }
        }
        s::CONTROLLER => Controller::read_simple(r)?.into_action(),
        s::CONTROLLER2 => Controller::read_properties(r)?.into_action(),
        s::STACK_PUSH => Action::Push(read_stack(r)?),
        s::STACK_POP => Action::Pop(read_stack(r)?),
        s::CONJUNCTION => read_conjunction(r)?,
        s::CT => Action::Ct(Box::new(Ct::read(r, depth)?)),
        s::NAT => Action::Nat(Nat::read(r)?),
        s::CLONE => {
            r.skip("clone", 6)?;
            Action::Clone(decode_list_at(r.sub("clone", r.left())?, depth + 1)?)
        }
        s::CT_CLEAR => Action::CtClear,
        s::CHECK_PKT_LARGER => {
            let (len, offset) = (r.u16("check_pkt_larger")?, r.u16("check_pkt_larger")?);
            let field = read_field(r)?;
            let dst = Subfield::checked(r, "check_pkt_larger", field, offset, 1)?;
            Action::CheckPktLarger { len, dst }
        }
        s::DELETE_FIELD => Action::DeleteField(read_field(r)?),
        _ => return Ok(None),
    }))
}

fn set(field: Field, value: u128) -> Action {
    let set = SetField::load(Subfield::whole(field), value);
    Action::SetField(set.expect("the field is writable and as wide as its action's value"))
}

fn resubmit_port(r: &mut Reader<'_>) -> Result<Option<PortNo>, DecodeError> {
    let port = PortNo::from_16(r.u16("resubmit")?);
    Ok(Some(port).filter(|p| *p != PortNo::IN_PORT))
}

fn read_resubmit(r: &mut Reader<'_>, ct: bool) -> Result<Action, DecodeError> {
    let port = resubmit_port(r)?;
    let table = Some(r.u8("resubmit")?).filter(|t| *t != NO_TABLE);
    Ok(Action::Resubmit { port, table, ct })
}

fn read_move(r: &mut Reader<'_>) -> Result<Action, DecodeError> {
    const WHAT: &str = "move";
    let bits = r.u16(WHAT)?;
    let (src_offset, dst_offset) = (r.u16(WHAT)?, r.u16(WHAT)?);
    let field = read_field(r)?;
    let src = Subfield::checked(r, WHAT, field, src_offset, bits)?;
    let field = read_field(r)?;
    let dst = Subfield::checked(r, WHAT, field, dst_offset, bits)?;
    Ok(Action::Move { src, dst })
}

fn read_load(r: &mut Reader<'_>) -> Result<Action, DecodeError> {
    const WHAT: &str = "load";
    let start = r.clone();
    let bits = r.u16(WHAT)?;
    let field = read_field(r)?;
    let dst = Subfield::from_ofs_nbits(r, WHAT, field, bits)?;
    let value = r.u64(WHAT)?;
    let set = SetField::load(dst, value.into()).map_err(|_| {
        start.error(WHAT, Problem::Value { found: value, expected: "a value for these bits" })
    })?;
    Ok(Action::SetField(set))
}

fn read_stack(r: &mut Reader<'_>) -> Result<Subfield, DecodeError> {
    const WHAT: &str = "stack";
    let offset = r.u16(WHAT)?;
    let field = read_field(r)?;
    let bits = r.u16(WHAT)?;
    Subfield::checked(r, WHAT, field, offset, bits)
}

fn read_conjunction(r: &mut Reader<'_>) -> Result<Action, DecodeError> {
    const WHAT: &str = "conjunction";
    let start = r.clone();
    let (clause, clauses) = (r.u8(WHAT)?, r.u8(WHAT)?);
    if !(2..=64).contains(&clauses) || clause >= clauses {
        let found = u64::from(clause) << 8 | u64::from(clauses);
        let expected = "2 to 64 clauses, and one of them";
        return Err(start.error(WHAT, Problem::Value { found, expected }));
    }
    Ok(Action::Conjunction { id: r.u32(WHAT)?, clause: clause + 1, clauses })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conjunction_has_two_clauses_or_more() {
        let read = |clause, clauses| {
            let bytes = [0, 34, clause, clauses, 0, 0, 0, 7];
            decode(Reader::new(&bytes), 0)
        };
        let first_of_two = Action::Conjunction { id: 7, clause: 1, clauses: 2 };
        assert_eq!(read(0, 2), Ok(Some(first_of_two)));
        // Found by fuzzing: it was read and could not be written.
        for (clause, clauses) in [(0, 1), (2, 2), (0, 65)] {
            assert!(read(clause, clauses).is_err(), "{clause} of {clauses}");
        }
    }
}
