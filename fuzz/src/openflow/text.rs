//! Text of a person or a file: what can be read, prints to a text that reads as the same value.

use osier_openflow::action::Action;
use osier_openflow::field::Field;
use osier_openflow::flow::{Flow, FlowCommand, FlowFlags, FlowMod};
use osier_openflow::group::{Group, GroupCommand, GroupMod};
use osier_openflow::meter::Meter;
use osier_openflow::text::{ParseError, TableNames};
use osier_openflow::wire::{Reader, Writer};
use std::fmt::{Debug, Display};

/// Reads, prints and reads again; returns the value if there is one.
fn round_trip<T: PartialEq + Debug + Display>(
    bytes: &[u8],
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> Option<T> {
    let text = std::str::from_utf8(bytes).ok()?;
    let value = parse(text).ok()?;
    let printed = value.to_string();
    let again = parse(&printed);
    let again = again.unwrap_or_else(|e| panic!("{e}\n{text:?} prints as\n{printed}\n{value:?}"));
    assert_eq!(value, again, "{text:?} prints as\n{printed}");
    Some(value)
}

/// A flow that came by wire prints as a text that means it, or that cannot be read: a switch may
/// hold what text has no words for.
pub fn agrees(flow: &Flow) {
    // No switch takes a match without what its fields need; its text could leave them out.
    if flow.matching.check_prerequisites().is_err() {
        return;
    }
    // "No" and "later" said with one bit are other flows to a switch, but the same words in text.
    if matches!(flow.matching.get_u128(Field::IP_FRAG), Some((0, 1) | (2, 2 | 3))) {
        return;
    }
    // Neither `ovs-ofctl` nor we have words for flags that nobody defined.
    let flags = FlowFlags::from_bits_truncate(flow.flags.bits());
    let flow = &Flow { flags, ..flow.clone() };
    let printed = flow.to_string();
    if says_all(&flow.instructions.apply)
        && says_all(&flow.instructions.write)
        && let Ok(read) = Flow::parse(&printed, TableNames::NONE)
    {
        assert_eq!(*flow, read, "prints as\n{printed}");
    }
}

/// Whether text tells everything of these actions. Like `ovs-ofctl`'s, ours does not tell how much
/// of a packet goes to a port from a field, and `dec_ttl()` tells controller 0.
fn says_all(actions: &[Action]) -> bool {
    actions.iter().all(|action| match action {
        Action::OutputReg { max_len, .. } => *max_len == u16::MAX,
        Action::DecTtlControllers(ids) => !ids.is_empty(),
        Action::Clone(inner) => says_all(inner),
        Action::Ct(ct) => says_all(&ct.exec),
        _ => true,
    })
}

/// A flow, and patterns of flows. What fits the wire comes back from there.
pub fn flow(bytes: &[u8]) {
    if let Some(flow) = round_trip(bytes, |text| Flow::parse(text, TableNames::NONE)) {
        let (m, mut w) = (FlowMod::add(flow), Writer::new());
        if m.encode(&mut w).is_ok() {
            assert_eq!(FlowMod::decode(&mut Reader::new(w.as_slice())), Ok(m));
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let names = [(0, "classifier"), (7, "7up"), (220, "egress")].into_iter().collect();
        for command in [FlowCommand::ModifyStrict, FlowCommand::Delete] {
            let _ = FlowMod::parse(command, text, &names);
        }
    }
}

/// A group, and changes of buckets. What fits the wire comes back from there.
pub fn group(bytes: &[u8]) {
    if let Some(group) = round_trip(bytes, |text| Group::parse(text, TableNames::NONE)) {
        let mut w = Writer::new();
        if group.encode_desc(&mut w).is_ok() {
            assert_eq!(Group::decode_desc(&mut Reader::new(w.as_slice())), Ok(group));
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        for command in [GroupCommand::InsertBucket, GroupCommand::RemoveBucket] {
            let _ = GroupMod::parse(command, text, TableNames::NONE);
        }
    }
}

/// A meter. What fits the wire comes back from there.
pub fn meter(bytes: &[u8]) {
    if let Some(meter) = round_trip(bytes, str::parse::<Meter>) {
        let mut w = Writer::new();
        if meter.encode_desc(&mut w).is_ok() {
            assert_eq!(Meter::decode_desc(&mut Reader::new(w.as_slice())), Ok(meter));
        }
    }
}
