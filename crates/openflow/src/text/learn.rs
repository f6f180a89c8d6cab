//! `learn(…)` as text.

use super::action_parse::parse_subfield;
use super::token::{Item, Items, ParseError};
use super::value::{self, bounded, hex, hex_bytes};
use super::{TableNames, WriteText};
use crate::action::{Learn, LearnDst, LearnFlags, LearnSpec, LearnSrc};
use crate::field::{Field, Value};
use crate::subfield::Subfield;
use std::fmt;

super::display_as_text!(Learn);

impl WriteText for Learn {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        let default = Self::default();
        out.write_str("learn(table=")?;
        names.write(out, self.table)?;
        for (name, value) in [
            ("idle_timeout", self.idle_timeout),
            ("hard_timeout", self.hard_timeout),
            ("fin_idle_timeout", self.fin_idle_timeout),
            ("fin_hard_timeout", self.fin_hard_timeout),
        ] {
            if value != 0 {
                write!(out, ",{name}={value}")?;
            }
        }
        if self.priority != default.priority {
            write!(out, ",priority={}", self.priority)?;
        }
        if self.flags.contains(LearnFlags::SEND_FLOW_REM) {
            out.write_str(",send_flow_rem")?;
        }
        if self.flags.contains(LearnFlags::DELETE_LEARNED) {
            out.write_str(",delete_learned")?;
        }
        if self.cookie != 0 {
            out.write_str(",cookie=")?;
            hex(out, self.cookie.into())?;
        }
        if self.limit != 0 {
            write!(out, ",limit={}", self.limit)?;
        }
        if let Some(dst) = self.result_dst {
            write!(out, ",result_dst={dst}")?;
        }
        for spec in &self.specs {
            out.write_char(',')?;
            write_spec(out, spec)?;
        }
        out.write_char(')')
    }
}

fn write_spec(out: &mut dyn fmt::Write, spec: &LearnSpec) -> fmt::Result {
    match (&spec.src, &spec.dst) {
        (LearnSrc::Field(src), LearnDst::Match(dst)) if src == dst => write!(out, "{dst}"),
        (LearnSrc::Field(src), LearnDst::Match(dst)) => write!(out, "{dst}={src}"),
        (LearnSrc::Value(value), LearnDst::Match(dst)) if dst.is_whole() => {
            write!(out, "{}=", dst.field())?;
            value::write(out, dst.field(), value.as_bytes(), None)
        }
        (LearnSrc::Value(value), LearnDst::Match(dst)) => {
            write!(out, "{dst}=")?;
            hex_bytes(out, value.as_bytes())
        }
        (LearnSrc::Field(src), LearnDst::Load(dst)) => write!(out, "load:{src}->{dst}"),
        (LearnSrc::Value(value), LearnDst::Load(dst)) => {
            out.write_str("load:")?;
            hex_bytes(out, value.as_bytes())?;
            write!(out, "->{dst}")
        }
        (LearnSrc::Field(src), LearnDst::Output) => write!(out, "output:{src}"),
        (LearnSrc::Value(value), LearnDst::Output) => write!(out, "output:{}", value.to_u128()),
    }
}

/// What stands in the parentheses of `learn`.
pub(super) fn parse_learn(text: &str, names: &TableNames) -> Result<Learn, ParseError> {
    let mut learn = Learn::default();
    for item in Items::new(text).all()? {
        match item.key {
            "table" => {
                let unknown = || ParseError::new(format!("there is no table {:?}", item.value));
                learn.table = names.table(item.value).ok_or_else(unknown)?;
            }
            "idle_timeout" => learn.idle_timeout = bounded(item.key, item.value)?,
            "hard_timeout" => learn.hard_timeout = bounded(item.key, item.value)?,
            "fin_idle_timeout" => learn.fin_idle_timeout = bounded(item.key, item.value)?,
            "fin_hard_timeout" => learn.fin_hard_timeout = bounded(item.key, item.value)?,
            "priority" => learn.priority = bounded(item.key, item.value)?,
            "cookie" => learn.cookie = bounded(item.key, item.value)?,
            "send_flow_rem" => learn.flags |= LearnFlags::SEND_FLOW_REM,
            "delete_learned" => learn.flags |= LearnFlags::DELETE_LEARNED,
            "limit" => learn.limit = bounded(item.key, item.value)?,
            "result_dst" => learn.result_dst = Some(parse_subfield(item.value)?),
            _ => learn.specs.push(parse_spec(item)?),
        }
    }
    Ok(learn)
}

fn parse_spec(item: Item<'_>) -> Result<LearnSpec, ParseError> {
    match item.key {
        "output" => {
            let src = LearnSrc::Field(parse_subfield(item.value)?);
            Ok(LearnSpec { src, dst: LearnDst::Output })
        }
        "load" => {
            let missing = || ParseError::new(format!("load:{} has no ->", item.value));
            let (src, dst) = item.value.split_once("->").ok_or_else(missing)?;
            let dst = parse_subfield(dst)?;
            let src = match parse_subfield(src) {
                Ok(src) => LearnSrc::Field(src),
                Err(_) => LearnSrc::Value(number_for(dst, src)?),
            };
            Ok(LearnSpec { src, dst: LearnDst::Load(dst) })
        }
        name => {
            let dst = parse_subfield(name)?;
            let src = match item.value {
                "" => LearnSrc::Field(dst),
                text => match parse_subfield(text) {
                    Ok(src) => LearnSrc::Field(src),
                    Err(_) => LearnSrc::Value(constant(dst, text)?),
                },
            };
            Ok(LearnSpec { src, dst: LearnDst::Match(dst) })
        }
    }
}

/// A constant for a match: of a whole field in the field's own notation.
fn constant(dst: Subfield, text: &str) -> Result<Value, ParseError> {
    if !dst.is_whole() {
        return number_for(dst, text);
    }
    let (value, mask) = value::parse(dst.field(), text)?;
    if mask.is_some() {
        return Err(ParseError::new(format!("learn: {} cannot be masked", dst.field())));
    }
    Ok(sized(dst, value.to_u128()))
}

fn number_for(dst: Subfield, text: &str) -> Result<Value, ParseError> {
    let v = value::number(dst.field().name(), text)?;
    if dst.bits() < 128 && v >> dst.bits() != 0 {
        return Err(ParseError::new(format!("learn: {text} does not fit {dst}")));
    }
    Ok(sized(dst, v))
}

fn sized(dst: Subfield, v: u128) -> Value {
    // `vlan_vid` has a bit more on the wire than it has width.
    let bits = if dst.field() == Field::VLAN_VID { 16 } else { dst.bits() };
    Value::from_u128(v, usize::from(bits.div_ceil(8)))
}
