//! `ct(…)` and `nat(…)` as text.

use super::action_parse::{parse_list, parse_subfield};
use super::action_print::write_list;
use super::token::{Items, ParseError};
use super::value::{bounded, ipv6_address};
use super::{Commas, TableNames, WriteText};
use crate::action::{Action, Alg, Ct, Nat, NatKind, NatRange, Zone};
use std::fmt;
use std::net::IpAddr;

super::display_as_text!(Ct, Nat);

impl WriteText for Ct {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        out.write_str("ct(")?;
        let mut commas = Commas::new();
        if self.commit {
            commas.next(out)?;
            out.write_str("commit")?;
        }
        if self.force {
            commas.next(out)?;
            out.write_str("force")?;
        }
        if let Some(table) = self.table {
            commas.next(out)?;
            out.write_str("table=")?;
            names.write(out, table)?;
        }
        match self.zone {
            Zone::Value(0) => {}
            Zone::Value(zone) => {
                commas.next(out)?;
                write!(out, "zone={zone}")?;
            }
            Zone::Field(src) => {
                commas.next(out)?;
                write!(out, "zone={src}")?;
            }
        }
        if let Some(nat) = &self.nat {
            commas.next(out)?;
            nat.write_text(out, names)?;
        }
        if !self.exec.is_empty() {
            commas.next(out)?;
            out.write_str("exec(")?;
            write_list(&self.exec, out, names)?;
            out.write_char(')')?;
        }
        if let Some(alg) = self.alg {
            commas.next(out)?;
            match alg {
                Alg::Ftp => out.write_str("alg=ftp")?,
                Alg::Tftp => out.write_str("alg=tftp")?,
                Alg::Port(port) => write!(out, "alg={port}")?,
            }
        }
        out.write_char(')')
    }
}

impl WriteText for Nat {
    fn write_text(&self, out: &mut dyn fmt::Write, _: &TableNames) -> fmt::Result {
        out.write_str("nat")?;
        let Some(kind) = self.kind else { return Ok(()) };
        out.write_str(match kind {
            NatKind::Src => "(src",
            NatKind::Dst => "(dst",
        })?;
        if let Some((min, max)) = self.range.addresses {
            out.write_char('=')?;
            // Brackets set an IPv6 address apart from its port.
            let bracketed = self.range.ports.is_some();
            address(out, min, bracketed)?;
            if let Some(max) = max {
                out.write_char('-')?;
                address(out, max, bracketed)?;
            }
        }
        if let Some((min, max)) = self.range.ports {
            write!(out, ":{min}")?;
            if let Some(max) = max {
                write!(out, "-{max}")?;
            }
        }
        let flags =
            [(self.persistent, ",persistent"), (self.hash, ",hash"), (self.random, ",random")];
        for (set, name) in flags {
            if set {
                out.write_str(name)?;
            }
        }
        out.write_char(')')
    }
}

fn address(out: &mut dyn fmt::Write, address: IpAddr, bracketed: bool) -> fmt::Result {
    match address {
        IpAddr::V4(v4) => write!(out, "{v4}"),
        IpAddr::V6(v6) if bracketed => {
            out.write_char('[')?;
            ipv6_address(out, v6.to_bits())?;
            out.write_char(']')
        }
        IpAddr::V6(v6) => ipv6_address(out, v6.to_bits()),
    }
}

/// What stands in the parentheses of `ct`.
pub(super) fn parse_ct(text: &str, names: &TableNames, depth: usize) -> Result<Ct, ParseError> {
    let mut ct = Ct::default();
    for item in Items::new(text).all()? {
        match item.key {
            "commit" => ct.commit = true,
            "force" => ct.force = true,
            "table" => {
                let unknown = || ParseError::new(format!("there is no table {:?}", item.value));
                ct.table = Some(names.table(item.value).ok_or_else(unknown)?);
            }
            "zone" => {
                ct.zone = match bounded("zone", item.value) {
                    Ok(zone) => Zone::Value(zone),
                    Err(_) => Zone::Field(parse_subfield(item.value)?),
                }
            }
            "nat" => ct.nat = Some(parse_nat(item.value)?),
            "exec" => ct.exec = parse_list(item.value, names, depth + 1)?,
            "alg" => {
                ct.alg = match item.value {
                    "ftp" => Some(Alg::Ftp),
                    "tftp" => Some(Alg::Tftp),
                    port => Alg::from_port(bounded("alg", port)?),
                }
            }
            key => return Err(ParseError::new(format!("ct has no {key:?}"))),
        }
    }
    if ct.exec.iter().any(|a| !matches!(a, Action::SetField(_) | Action::Move { .. })) {
        return Err(ParseError::new("ct(exec) takes set_field and move only"));
    }
    Ok(ct)
}

/// What stands in the parentheses of `nat`.
pub(super) fn parse_nat(text: &str) -> Result<Nat, ParseError> {
    let mut nat = Nat::default();
    for item in Items::new(text).all()? {
        match item.key {
            "src" | "dst" if nat.kind.is_some() => {
                return Err(ParseError::new("nat takes src or dst, once"));
            }
            "src" | "dst" => {
                nat.kind = Some(if item.key == "src" { NatKind::Src } else { NatKind::Dst });
                if !item.value.is_empty() {
                    nat.range = parse_range(item.value).map_err(|e| e.within("nat"))?;
                }
            }
            "persistent" => nat.persistent = true,
            "hash" => nat.hash = true,
            "random" => nat.random = true,
            key => return Err(ParseError::new(format!("nat has no {key:?}"))),
        }
    }
    if nat.kind.is_none() && (nat.persistent || nat.hash || nat.random) {
        return Err(ParseError::new("nat: persistent, hash and random need src or dst"));
    }
    if nat.hash && nat.random {
        return Err(ParseError::new("nat takes hash or random, not both"));
    }
    Ok(nat)
}

/// `a[-b][:p[-q]]`, with IPv6 addresses in brackets where ports follow.
fn parse_range(text: &str) -> Result<NatRange, ParseError> {
    let (first, rest) = take_address(text)?;
    let (last, rest) = match rest.strip_prefix('-') {
        Some(rest) => {
            let (last, rest) = take_address(rest)?;
            (Some(last), rest)
        }
        None => (None, rest),
    };
    let ports = match rest.strip_prefix(':') {
        Some(ports) => Some(match ports.split_once('-') {
            Some((min, max)) => (bounded("port", min)?, Some(bounded("port", max)?)),
            None => (bounded("port", ports)?, None),
        }),
        None if rest.is_empty() => None,
        None => return Err(ParseError::new(format!("{rest:?} behind an address"))),
    };
    Ok(NatRange { addresses: Some((first, last)), ports })
}

fn take_address(text: &str) -> Result<(IpAddr, &str), ParseError> {
    let bad = |t: &str| ParseError::new(format!("{t:?} is not an address"));
    if let Some(inner) = text.strip_prefix('[') {
        let (address, rest) = inner.split_once(']').ok_or_else(|| bad(text))?;
        return Ok((address.parse().map_err(|_| bad(address))?, rest));
    }
    // Without brackets an IPv6 address goes on to the end, or to the range's dash.
    let is_v6 = text.matches(':').count() > 1;
    let ends: &[char] = if is_v6 { &['-'] } else { &['-', ':'] };
    let end = text.find(ends).unwrap_or(text.len());
    let (address, rest) = text.split_at(end);
    Ok((address.parse().map_err(|_| bad(address))?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_to_choose_needs_something_to_choose() {
        // Found by fuzzing: what was read so printed as another action.
        let e = parse_nat("persistent").unwrap_err();
        assert_eq!(e.to_string(), "nat: persistent, hash and random need src or dst");
        assert_eq!(parse_nat(""), Ok(Nat::default()));
        assert!(parse_nat("src=10.0.0.1,persistent").unwrap().persistent);
    }
}
