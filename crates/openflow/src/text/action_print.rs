//! Actions and instructions as text.

use super::value::{self, hex};
use super::{Commas, TableNames, WriteText};
use crate::action::{Action, Controller, PacketInReason};
use crate::instruction::Instructions;
use crate::port_no::PortNo;
use std::fmt;

super::display_as_text!(Action, Instructions);

impl WriteText for Instructions {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        if self.is_drop() {
            return out.write_str("drop");
        }
        let mut commas = Commas::new();
        for action in &self.apply {
            commas.next(out)?;
            action.write_text(out, names)?;
        }
        if self.clear {
            commas.next(out)?;
            out.write_str("clear_actions")?;
        }
        if !self.write.is_empty() {
            commas.next(out)?;
            out.write_str("write_actions(")?;
            write_list(&self.write, out, names)?;
            out.write_char(')')?;
        }
        if let Some((metadata, mask)) = self.write_metadata {
            commas.next(out)?;
            out.write_str("write_metadata:")?;
            hex(out, metadata.into())?;
            if mask != u64::MAX {
                out.write_char('/')?;
                hex(out, mask.into())?;
            }
        }
        if let Some(table) = self.goto_table {
            commas.next(out)?;
            out.write_str("goto_table:")?;
            names.write(out, table)?;
        }
        Ok(())
    }
}

/// Actions with commas; `drop` for none.
pub(super) fn write_list(
    actions: &[Action],
    out: &mut dyn fmt::Write,
    names: &TableNames,
) -> fmt::Result {
    if actions.is_empty() {
        return out.write_str("drop");
    }
    let mut commas = Commas::new();
    for action in actions {
        commas.next(out)?;
        action.write_text(out, names)?;
    }
    Ok(())
}

impl WriteText for Action {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        match self {
            Self::Output { port, max_len } => output(out, *port, *max_len),
            Self::OutputTruncated { port, max_len } => {
                write!(out, "output(port={port},max_len={max_len})")
            }
            Self::OutputReg { src, .. } => write!(out, "output:{src}"),
            Self::Group(group) => write!(out, "group:{group}"),
            Self::Meter(meter) => write!(out, "meter:{meter}"),
            Self::SetQueue(queue) => write!(out, "set_queue:{queue}"),
            Self::PopQueue => out.write_str("pop_queue"),
            Self::SetField(set) => {
                out.write_str("set_field:")?;
                let mask = set.mask().map(crate::field::Value::as_bytes);
                value::write(out, set.field(), set.value().as_bytes(), mask)?;
                write!(out, "->{}", set.field())
            }
            Self::Move { src, dst } => write!(out, "move:{src}->{dst}"),
            Self::Push(src) => write!(out, "push:{src}"),
            Self::Pop(dst) => write!(out, "pop:{dst}"),
            Self::PushVlan(tpid) => write!(out, "push_vlan:{tpid:#06x}"),
            Self::PopVlan => out.write_str("pop_vlan"),
            Self::PushMpls(ethertype) => write!(out, "push_mpls:{ethertype:#06x}"),
            Self::PopMpls(ethertype) => write!(out, "pop_mpls:{ethertype:#06x}"),
            Self::SetMplsTtl(ttl) => write!(out, "set_mpls_ttl({ttl})"),
            Self::DecMplsTtl => out.write_str("dec_mpls_ttl"),
            Self::SetTtl(ttl) => write!(out, "mod_nw_ttl:{ttl}"),
            Self::DecTtl => out.write_str("dec_ttl"),
            Self::DecTtlControllers(ids) => dec_ttl(out, ids),
            Self::Resubmit { port, table, ct } => resubmit(out, names, *port, *table, *ct),
            Self::Ct(ct) => ct.write_text(out, names),
            Self::Nat(nat) => nat.write_text(out, names),
            Self::CtClear => out.write_str("ct_clear"),
            Self::Learn(learn) => learn.write_text(out, names),
            Self::Conjunction { id, clause, clauses } => {
                write!(out, "conjunction({id},{clause}/{clauses})")
            }
            Self::Controller(c) => controller(out, c),
            Self::Clone(actions) => {
                out.write_str("clone(")?;
                write_list(actions, out, names)?;
                out.write_char(')')
            }
            Self::CheckPktLarger { len, dst } => write!(out, "check_pkt_larger({len})->{dst}"),
            Self::Note(bytes) => {
                out.write_str("note:")?;
                dotted(out, bytes)
            }
            Self::DeleteField(field) => write!(out, "delete_field:{field}"),
            Self::Exit => out.write_str("exit"),
            Self::FinTimeout { idle, hard } => fin_timeout(out, *idle, *hard),
            // `ovs-ofctl` knows what it is; we keep it whole and show it as bytes.
            Self::Opaque(bytes) => {
                out.write_str("opaque(")?;
                dotted(out, bytes)?;
                out.write_char(')')
            }
        }
    }
}

/// Bytes with dots between.
pub(super) fn dotted(out: &mut dyn fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().enumerate().try_for_each(|(i, b)| match i {
        0 => write!(out, "{b:02x}"),
        _ => write!(out, ".{b:02x}"),
    })
}

fn output(out: &mut dyn fmt::Write, port: PortNo, max_len: u16) -> fmt::Result {
    match port {
        PortNo::CONTROLLER => write!(out, "CONTROLLER:{max_len}"),
        _ if port.name().is_some() => write!(out, "{port}"),
        _ => write!(out, "output:{port}"),
    }
}

fn dec_ttl(out: &mut dyn fmt::Write, ids: &[u16]) -> fmt::Result {
    out.write_str("dec_ttl(")?;
    let mut commas = Commas::new();
    for id in ids {
        commas.next(out)?;
        write!(out, "{id}")?;
    }
    out.write_char(')')
}

fn resubmit(
    out: &mut dyn fmt::Write,
    names: &TableNames,
    port: Option<PortNo>,
    table: Option<u8>,
    ct: bool,
) -> fmt::Result {
    if let (Some(port), None, false) = (port, table, ct) {
        return write!(out, "resubmit:{port}");
    }
    out.write_str("resubmit(")?;
    if let Some(port) = port {
        write!(out, "{port}")?;
    }
    out.write_char(',')?;
    if let Some(table) = table {
        names.write(out, table)?;
    }
    out.write_str(if ct { ",ct)" } else { ")" })
}

fn controller(out: &mut dyn fmt::Write, c: &Controller) -> fmt::Result {
    out.write_str("controller(")?;
    let mut commas = Commas::new();
    if c.reason != PacketInReason::Action {
        commas.next(out)?;
        write!(out, "reason={}", c.reason.name())?;
    }
    if c.max_len != u16::MAX {
        commas.next(out)?;
        write!(out, "max_len={}", c.max_len)?;
    }
    if c.id != 0 {
        commas.next(out)?;
        write!(out, "id={}", c.id)?;
    }
    if !c.userdata.is_empty() {
        commas.next(out)?;
        out.write_str("userdata=")?;
        dotted(out, &c.userdata)?;
    }
    if c.pause {
        commas.next(out)?;
        out.write_str("pause")?;
    }
    if let Some(meter) = c.meter {
        commas.next(out)?;
        write!(out, "meter_id={meter}")?;
    }
    out.write_char(')')
}

fn fin_timeout(out: &mut dyn fmt::Write, idle: u16, hard: u16) -> fmt::Result {
    out.write_str("fin_timeout(")?;
    let mut commas = Commas::new();
    for (name, seconds) in [("idle_timeout", idle), ("hard_timeout", hard)] {
        if seconds != 0 {
            commas.next(out)?;
            write!(out, "{name}={seconds}")?;
        }
    }
    out.write_char(')')
}
