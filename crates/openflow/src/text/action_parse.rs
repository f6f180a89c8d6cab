//! Actions and instructions from text.

use super::TableNames;
use super::ct::{parse_ct, parse_nat};
use super::learn::parse_learn;
use super::token::{Item, Items, MAX_DEPTH, ParseError};
use super::value::{self, bounded, number, parse_port};
use crate::action::{Action, Controller, PacketInReason, SetField};
use crate::field::{Field, IntoValue, Mac};
use crate::instruction::Instructions;
use crate::port_no::PortNo;
use crate::subfield::Subfield;
use std::net::IpAddr;

/// Instructions, from what stands behind `actions=`.
pub(super) fn parse_instructions(
    text: &str,
    names: &TableNames,
) -> Result<Instructions, ParseError> {
    let mut i = Instructions::default();
    for item in Items::new(text).all()? {
        match item.key {
            "clear_actions" => i.clear = true,
            "write_actions" => i.write = parse_list(item.value, names, 1)?,
            "apply_actions" => i.apply.extend(parse_list(item.value, names, 1)?),
            "write_metadata" => {
                let (value, mask) = match item.value.split_once('/') {
                    Some((v, m)) => (bounded::<u64>(item.key, v)?, bounded(item.key, m)?),
                    None => (bounded(item.key, item.value)?, u64::MAX),
                };
                i.write_metadata = Some((value & mask, mask));
            }
            "goto_table" => i.goto_table = Some(table(item.value, names)?),
            "drop" => {}
            _ => i.apply.extend(parse_action(item, names, 0)?),
        }
    }
    Ok(i)
}

/// A list of actions.
pub(super) fn parse_list(
    text: &str,
    names: &TableNames,
    depth: usize,
) -> Result<Vec<Action>, ParseError> {
    if depth > MAX_DEPTH {
        return Err(ParseError::new(format!("actions nest deeper than {MAX_DEPTH} levels")));
    }
    let mut actions = Vec::new();
    for item in Items::new(text).all()? {
        if item.key != "drop" {
            actions.extend(parse_action(item, names, depth)?);
        }
    }
    Ok(actions)
}

fn table(text: &str, names: &TableNames) -> Result<u8, ParseError> {
    names.table(text).ok_or_else(|| ParseError::new(format!("there is no table {text:?}")))
}

/// `NXM_NX_REG0[0..15]`, `reg0[3]`, `reg0[]`, `reg0`.
pub(super) fn parse_subfield(text: &str) -> Result<Subfield, ParseError> {
    let (name, range) = match text.split_once('[') {
        Some((name, rest)) => {
            let unclosed = || ParseError::new(format!("{text:?} has no closing bracket"));
            (name, rest.strip_suffix(']').ok_or_else(unclosed)?)
        }
        None => (text, ""),
    };
    let field = Field::by_name(name)
        .ok_or_else(|| ParseError::new(format!("there is no field {name:?}")))?;
    if range.is_empty() {
        return Ok(Subfield::whole(field));
    }
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let (first, last): (u16, u16) = (bounded("bit", first)?, bounded("bit", last)?);
    let backwards = || ParseError::new(format!("{text:?} ends before it starts"));
    let bits = last.checked_sub(first).ok_or_else(backwards)?.saturating_add(1);
    Subfield::new(field, first, bits).map_err(|e| ParseError::new(e.to_string()))
}

/// One action, which may be two of ours (`mod_vlan_vid` adds a tag).
fn parse_action(
    item: Item<'_>,
    names: &TableNames,
    depth: usize,
) -> Result<Vec<Action>, ParseError> {
    let v = item.value;
    let one = match item.key {
        "output" => parse_output(v)?,
        "CONTROLLER" | "controller" => parse_controller(v)?,
        "group" => Action::Group(bounded("group", v)?),
        "meter" => Action::Meter(bounded("meter", v)?),
        "set_queue" => Action::SetQueue(bounded("set_queue", v)?),
        "pop_queue" => Action::PopQueue,
        "move" => {
            let (src, dst) = arrow(item)?;
            Action::Move { src: parse_subfield(src)?, dst: parse_subfield(dst)? }
        }
        "load" => {
            let (value, dst) = arrow(item)?;
            set(SetField::load(parse_subfield(dst)?, number("load", value)?))?
        }
        "set_field" => parse_set_field(item)?,
        "push" => Action::Push(parse_subfield(v)?),
        "pop" => Action::Pop(parse_subfield(v)?),
        "push_vlan" => Action::PushVlan(bounded("push_vlan", v)?),
        "pop_vlan" | "strip_vlan" => Action::PopVlan,
        "push_mpls" => Action::PushMpls(bounded("push_mpls", v)?),
        "pop_mpls" => Action::PopMpls(bounded("pop_mpls", v)?),
        "set_mpls_ttl" => Action::SetMplsTtl(bounded("set_mpls_ttl", v)?),
        "dec_mpls_ttl" => Action::DecMplsTtl,
        "mod_nw_ttl" => Action::SetTtl(bounded("mod_nw_ttl", v)?),
        "dec_ttl" if v.is_empty() => Action::DecTtl,
        "dec_ttl" => {
            let ids = v.split(',').map(|id| bounded("dec_ttl", id.trim()));
            Action::DecTtlControllers(ids.collect::<Result<_, _>>()?)
        }
        "resubmit" => parse_resubmit(v, names)?,
        "ct" => Action::Ct(Box::new(parse_ct(v, names, depth)?)),
        "nat" => Action::Nat(parse_nat(v)?),
        "ct_clear" => Action::CtClear,
        "learn" => Action::Learn(Box::new(parse_learn(v, names)?)),
        "conjunction" => parse_conjunction(v)?,
        "clone" => Action::Clone(parse_list(v, names, depth + 1)?),
        "check_pkt_larger" => {
            let missing = || ParseError::new("check_pkt_larger needs ->FIELD[BIT]");
            let dst = parse_subfield(item.target.ok_or_else(missing)?)?;
            Action::CheckPktLarger { len: bounded("check_pkt_larger", v)?, dst }
        }
        "note" => Action::note(&parse_dotted("note", v)?),
        "delete_field" => Action::DeleteField(parse_subfield(v)?.field()),
        "exit" => Action::Exit,
        "fin_timeout" => parse_fin_timeout(v)?,
        _ => return parse_older(item),
    };
    Ok(vec![one])
}

/// Spellings of older versions, and ports by themselves.
fn parse_older(item: Item<'_>) -> Result<Vec<Action>, ParseError> {
    let v = item.value;
    let address = |field: [Field; 2]| {
        let bad = || ParseError::new(format!("{}: {v:?} is not an address", item.key));
        let ip: IpAddr = v.parse().map_err(|_| bad())?;
        let field = if ip.is_ipv4() { field[0] } else { field[1] };
        set(SetField::new(field, ip))
    };
    let ethernet = |field| {
        let mac: Mac = v.parse().map_err(|_| {
            ParseError::new(format!("{}: {v:?} is not an Ethernet address", item.key))
        })?;
        set(SetField::new(field, mac))
    };
    let plain = |field: Field| set(SetField::new(field, number(item.key, v)?));
    let one = match item.key {
        "mod_dl_src" | "set_dl_src" => ethernet(Field::ETH_SRC)?,
        "mod_dl_dst" | "set_dl_dst" => ethernet(Field::ETH_DST)?,
        "mod_nw_src" | "set_nw_src" => address([Field::IPV4_SRC, Field::IPV6_SRC])?,
        "mod_nw_dst" | "set_nw_dst" => address([Field::IPV4_DST, Field::IPV6_DST])?,
        "mod_nw_ecn" => plain(Field::IP_ECN)?,
        "mod_nw_tos" => set(SetField::new(Field::IP_DSCP, number(item.key, v)? >> 2))?,
        "set_tunnel" | "set_tunnel64" => plain(Field::TUN_ID)?,
        "mod_vlan_vid" | "set_vlan_vid" => {
            set(SetField::new(Field::VLAN_VID, number(item.key, v)? | 0x1000))?
        }
        "mod_vlan_pcp" | "set_vlan_pcp" => plain(Field::VLAN_PCP)?,
        key if v.is_empty() => match parse_port(key) {
            Ok(port) => Action::output(port),
            Err(_) => return Err(ParseError::new(format!("there is no action {key:?}"))),
        },
        key => return Err(ParseError::new(format!("there is no action {key:?}"))),
    };
    Ok(match item.key {
        "mod_vlan_vid" => vec![Action::PushVlan(0x8100), one],
        _ => vec![one],
    })
}

fn set(set: Result<SetField, crate::action::SetFieldError>) -> Result<Action, ParseError> {
    set.map(Action::SetField).map_err(|e| ParseError::new(e.to_string()))
}

/// `SRC->DST`.
fn arrow(item: Item<'_>) -> Result<(&str, &str), ParseError> {
    item.value
        .split_once("->")
        .ok_or_else(|| ParseError::new(format!("{}:{} has no ->", item.key, item.value)))
}

fn parse_set_field(item: Item<'_>) -> Result<Action, ParseError> {
    let (value, name) = arrow(item)?;
    let field = Field::by_name(name)
        .ok_or_else(|| ParseError::new(format!("there is no field {name:?}")))?;
    let (value, mask) = value::parse(field, value)?;
    let value = value.into_value(field).map_err(|e| ParseError::new(e.to_string()))?;
    match mask {
        Some(mask) => set(SetField::masked(field, value, mask)),
        None => set(SetField::new(field, value)),
    }
}

fn parse_output(text: &str) -> Result<Action, ParseError> {
    if text.contains('=') {
        let (mut port, mut max_len) = (None, None);
        for item in Items::new(text).all()? {
            match item.key {
                "port" => port = Some(parse_port(item.value)?),
                "max_len" => max_len = Some(bounded("max_len", item.value)?),
                key => return Err(ParseError::new(format!("output has no {key:?}"))),
            }
        }
        let (Some(port), Some(max_len)) = (port, max_len) else {
            return Err(ParseError::new("output(…) needs port and max_len"));
        };
        return Ok(Action::OutputTruncated { port, max_len });
    }
    match parse_port(text) {
        Ok(port) => Ok(Action::output(port)),
        Err(e) => match parse_subfield(text) {
            Ok(src) => Ok(Action::OutputReg { src, max_len: u16::MAX }),
            Err(_) if !text.contains('[') => Err(e),
            Err(e) => Err(e),
        },
    }
}

fn parse_controller(text: &str) -> Result<Action, ParseError> {
    if text.is_empty() {
        return Ok(Controller::default().into_action());
    }
    if let Ok(max_len) = bounded("controller", text) {
        return Ok(Controller { max_len, ..Controller::default() }.into_action());
    }
    let mut c = Controller::default();
    for item in Items::new(text).all()? {
        match item.key {
            "reason" => {
                let unknown = || ParseError::new(format!("there is no reason {:?}", item.value));
                c.reason = PacketInReason::by_name(item.value).ok_or_else(unknown)?;
            }
            "max_len" => c.max_len = bounded("max_len", item.value)?,
            "id" => c.id = bounded("id", item.value)?,
            "userdata" => c.userdata = parse_dotted("userdata", item.value)?,
            "pause" => c.pause = true,
            "meter_id" => c.meter = Some(bounded("meter_id", item.value)?),
            key => return Err(ParseError::new(format!("controller has no {key:?}"))),
        }
    }
    Ok(c.into_action())
}

/// Hexadecimal bytes with optional dots.
fn parse_dotted(what: &str, text: &str) -> Result<Vec<u8>, ParseError> {
    let bad = || ParseError::new(format!("{what}: {text:?} is not bytes in hexadecimal"));
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'.').collect();
    if digits.len() % 2 == 1 {
        return Err(bad());
    }
    let digit = |b: u8| char::from(b).to_digit(16).ok_or_else(bad);
    let byte = |pair: &[u8]| Ok((digit(pair[0])? << 4 | digit(pair[1])?).to_be_bytes()[3]);
    digits.chunks_exact(2).map(byte).collect()
}

fn parse_resubmit(text: &str, names: &TableNames) -> Result<Action, ParseError> {
    let mut parts = text.split(',').map(str::trim);
    let port = match parts.next() {
        None | Some("") => None,
        Some(port) => Some(parse_port(port)?).filter(|p| *p != PortNo::IN_PORT),
    };
    let table = match parts.next() {
        None | Some("") => None,
        Some(text) => Some(table(text, names)?),
    };
    let ct = match parts.next() {
        None => false,
        Some("ct") => true,
        Some(other) => return Err(ParseError::new(format!("resubmit has no {other:?}"))),
    };
    Ok(Action::Resubmit { port, table, ct })
}

fn parse_conjunction(text: &str) -> Result<Action, ParseError> {
    let bad = || ParseError::new(format!("conjunction({text}) is not (ID,CLAUSE/CLAUSES)"));
    let (id, rest) = text.split_once(',').ok_or_else(bad)?;
    let (clause, clauses) = rest.split_once('/').ok_or_else(bad)?;
    let (clause, clauses) =
        (bounded("clause", clause.trim())?, bounded("clauses", clauses.trim())?);
    if !(2..=64).contains(&clauses) || !(1..=clauses).contains(&clause) {
        return Err(bad());
    }
    Ok(Action::Conjunction { id: bounded("conjunction", id.trim())?, clause, clauses })
}

fn parse_fin_timeout(text: &str) -> Result<Action, ParseError> {
    let (mut idle, mut hard) = (0, 0);
    for item in Items::new(text).all()? {
        match item.key {
            "idle_timeout" => idle = bounded(item.key, item.value)?,
            "hard_timeout" => hard = bounded(item.key, item.value)?,
            key => return Err(ParseError::new(format!("fin_timeout has no {key:?}"))),
        }
    }
    Ok(Action::FinTimeout { idle, hard })
}
