//! Flows and changes of flows as text.

use super::action_parse::parse_instructions;
use super::matching::MatchText;
use super::token::{Items, ParseError};
use super::value::{bounded, hex, parse_port};
use super::{TableNames, WriteText};
use crate::flow::{ANY_GROUP, DEFAULT_PRIORITY, Flow, FlowCommand, FlowDesc, FlowFlags, FlowMod};
use crate::port_no::PortNo;
use std::fmt;
use std::time::Duration;

super::display_as_text!(Flow, FlowDesc, FlowMod);

const FLAGS: [(FlowFlags, &str); 5] = [
    (FlowFlags::SEND_FLOW_REM, "send_flow_rem"),
    (FlowFlags::CHECK_OVERLAP, "check_overlap"),
    (FlowFlags::RESET_COUNTS, "reset_counts"),
    (FlowFlags::NO_PACKET_COUNTS, "no_packet_counts"),
    (FlowFlags::NO_BYTE_COUNTS, "no_byte_counts"),
];

/// As `ovs-ofctl dump-flows --no-stats` prints it.
impl WriteText for Flow {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        if self.cookie != 0 {
            write!(out, "cookie={:#x}, ", self.cookie)?;
        }
        if self.table != 0 || names.name(0).is_some() {
            out.write_str("table=")?;
            names.write(out, self.table)?;
            out.write_str(", ")?;
        }
        self.write_timeouts(out)?;
        self.write_behaviour(out, names)
    }
}

/// As `ovs-ofctl dump-flows` prints it.
impl WriteText for FlowDesc {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        let FlowDesc { flow, stats } = self;
        write!(out, "cookie=")?;
        write!(out, "{:#x}, duration=", flow.cookie)?;
        write_duration(out, stats.duration.unwrap_or_default())?;
        out.write_str("s, table=")?;
        names.write(out, flow.table)?;
        let (packets, bytes) = (stats.packets.unwrap_or(0), stats.bytes.unwrap_or(0));
        write!(out, ", n_packets={packets}, n_bytes={bytes}, ")?;
        flow.write_timeouts(out)?;
        if let Some(idle) = stats.idle {
            write!(out, "idle_age={}, ", idle.as_secs())?;
        }
        flow.write_behaviour(out, names)
    }
}

/// Seconds, with as many decimals as are not zero.
fn write_duration(out: &mut dyn fmt::Write, d: Duration) -> fmt::Result {
    write!(out, "{}", d.as_secs())?;
    let millis = d.subsec_millis();
    if d.subsec_nanos() == 0 {
        return Ok(());
    }
    if d.subsec_nanos().is_multiple_of(1_000_000) {
        return write!(out, ".{millis:03}");
    }
    write!(out, ".{:09}", d.subsec_nanos())
}

// === impl Flow ===

impl Flow {
    fn write_timeouts(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        if self.idle_timeout != 0 {
            write!(out, "idle_timeout={}, ", self.idle_timeout)?;
        }
        if self.hard_timeout != 0 {
            write!(out, "hard_timeout={}, ", self.hard_timeout)?;
        }
        write_flags(out, self.flags)?;
        if self.importance != 0 {
            write!(out, "importance={}, ", self.importance)?;
        }
        Ok(())
    }

    /// Priority, match and actions.
    fn write_behaviour(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        if self.write_match(out)? {
            out.write_char(' ')?;
        }
        out.write_str("actions=")?;
        self.instructions.write_text(out, names)
    }

    /// Priority and match; whether there was anything to say.
    fn write_match(&self, out: &mut dyn fmt::Write) -> Result<bool, fmt::Error> {
        let has_priority = self.priority != DEFAULT_PRIORITY;
        if has_priority {
            write!(out, "priority={}", self.priority)?;
            if !self.matching.is_any() {
                out.write_char(',')?;
            }
        }
        self.matching.write_text(out, TableNames::NONE)?;
        Ok(has_priority || !self.matching.is_any())
    }

    /// Reads a flow as `ovs-ofctl add-flow` does; counters of a dump are passed over.
    pub fn parse(text: &str, names: &TableNames) -> Result<Self, ParseError> {
        let flow_mod = FlowMod::parse(FlowCommand::Add, text, names)?;
        Ok(flow_mod.flow)
    }
}

fn write_flags(out: &mut dyn fmt::Write, flags: FlowFlags) -> fmt::Result {
    for (flag, name) in FLAGS {
        if flags.contains(flag) {
            write!(out, "{name} ")?;
        }
    }
    Ok(())
}

impl std::str::FromStr for Flow {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, TableNames::NONE)
    }
}

// === impl FlowMod ===

/// As `ovs-ofctl ofp-print` prints it, behind the header.
impl WriteText for FlowMod {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        let f = &self.flow;
        out.write_str(match self.command {
            FlowCommand::Add => "ADD",
            FlowCommand::Modify => "MOD",
            FlowCommand::ModifyStrict => "MOD_STRICT",
            FlowCommand::Delete => "DEL",
            FlowCommand::DeleteStrict => "DEL_STRICT",
        })?;
        if f.table != 0 {
            out.write_str(" table:")?;
            names.write(out, f.table)?;
        }
        out.write_char(' ')?;
        if f.write_match(out)? {
            out.write_char(' ')?;
        }
        if f.cookie != 0 || self.cookie_mask != 0 {
            out.write_str("cookie:")?;
            hex(out, f.cookie.into())?;
            if self.cookie_mask != 0 {
                out.write_char('/')?;
                hex(out, self.cookie_mask.into())?;
            }
            out.write_char(' ')?;
        }
        if f.idle_timeout != 0 {
            write!(out, "idle:{} ", f.idle_timeout)?;
        }
        if f.hard_timeout != 0 {
            write!(out, "hard:{} ", f.hard_timeout)?;
        }
        if f.importance != 0 {
            write!(out, "importance:{} ", f.importance)?;
        }
        if self.out_port != PortNo::ANY {
            write!(out, "out_port:{} ", self.out_port)?;
        }
        write_flags(out, f.flags)?;
        out.write_str("actions=")?;
        f.instructions.write_text(out, names)
    }
}

impl FlowMod {
    /// Reads a flow, or a pattern of flows, as `ovs-ofctl`'s commands take it.
    pub fn parse(command: FlowCommand, text: &str, names: &TableNames) -> Result<Self, ParseError> {
        let mut m = Self::new(command, Flow::default());
        if command.is_delete() {
            m.flow.table = crate::flow::ALL_TABLES;
        }
        let mut matching = MatchText::default();
        let mut items = Items::new(text);
        loop {
            let rest = items.rest().trim_start_matches([',', ' ', '\t', '\r', '\n']);
            if let Some(actions) =
                rest.strip_prefix("actions=").or_else(|| rest.strip_prefix("action="))
            {
                m.flow.instructions = parse_instructions(actions, names)?;
                break;
            }
            let Some(item) = items.next()? else {
                if command.is_delete() {
                    break;
                }
                return Err(ParseError::new("a flow needs actions= (actions=drop for none)"));
            };
            if !m.take(item.key, item.value, names)? {
                matching.take(item);
            }
        }
        m.flow.matching = matching.build()?;
        Ok(m)
    }

    /// Takes what is not of the match.
    fn take(&mut self, key: &str, value: &str, names: &TableNames) -> Result<bool, ParseError> {
        let f = &mut self.flow;
        if let Some((flag, _)) = FLAGS.iter().find(|(_, name)| *name == key) {
            f.flags |= *flag;
            return Ok(true);
        }
        match key {
            "table" => {
                let unknown = || ParseError::new(format!("there is no table {value:?}"));
                f.table = names.table(value).ok_or_else(unknown)?;
            }
            "priority" => f.priority = bounded(key, value)?,
            "idle_timeout" => f.idle_timeout = bounded(key, value)?,
            "hard_timeout" => f.hard_timeout = bounded(key, value)?,
            "importance" => f.importance = bounded(key, value)?,
            "cookie" => match value.split_once('/') {
                Some((cookie, mask)) => {
                    let all = || Ok(u64::MAX);
                    self.cookie_mask = if mask == "-1" { all() } else { bounded(key, mask) }?;
                    f.cookie = bounded(key, cookie)?;
                }
                None => f.cookie = bounded(key, value)?,
            },
            "out_port" => self.out_port = parse_port(value)?,
            "out_group" => {
                self.out_group = match value {
                    "ANY" | "any" => ANY_GROUP,
                    group => bounded(key, group)?,
                }
            }
            "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}
