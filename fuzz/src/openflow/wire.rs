//! Bytes of a peer: what decodes, encodes; and that decodes to the same value.
//!
//! The bytes themselves may change once (padding, order, older spellings), because decoding yields
//! one canonical value. After that they must not.

use osier_openflow::action::Action;
use osier_openflow::field::Value;
use osier_openflow::flow::{FlowDesc, FlowMod};
use osier_openflow::group::{Group, GroupMod};
use osier_openflow::instruction::Instructions;
use osier_openflow::matching::Match;
use osier_openflow::message::{HEADER, Message, VERSION};
use osier_openflow::meter::{Meter, MeterMod};
use osier_openflow::wire::{DecodeError, EncodeError, Reader, Writer};
use std::fmt::Debug;

/// Types of messages, and Nicira's number in front of its own.
const ERROR: u8 = 1;
const EXPERIMENTER: u8 = 4;
const MULTIPART_REQUEST: u8 = 18;
const MULTIPART_REPLY: u8 = 19;
const BUNDLE_ADD: u8 = 34;
const NICIRA: [u8; 4] = 0x2320_u32.to_be_bytes();

/// Decodes, encodes and decodes again; returns the value if there is one.
fn round_trip<T: PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
    encode: impl Fn(&T, &mut Writer) -> Result<(), EncodeError>,
) -> Option<T> {
    let value = match decode(bytes) {
        Ok(value) => value,
        Err(e) => {
            assert!(e.offset <= bytes.len(), "{e}: behind the {} bytes", bytes.len());
            return None;
        }
    };
    let mut w = Writer::new();
    match encode(&value, &mut w) {
        Ok(()) => {}
        // The canonical form may take more bytes than a message has.
        Err(EncodeError::TooLong { .. }) if bytes.len() > 16 * 1024 => return None,
        Err(e) => panic!("decodes, but does not encode: {e}\n{value:?}"),
    }
    let again = decode(w.as_slice());
    let again = again.unwrap_or_else(|e| panic!("{e}\n{value:?}\nas {:02x?}", w.as_slice()));
    assert_eq!(value, again, "as {:02x?}", w.as_slice());
    Some(value)
}

fn whole<T>(
    decode: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> impl Fn(&[u8]) -> Result<T, DecodeError> {
    move |bytes| decode(&mut Reader::new(bytes))
}

/// A whole message.
pub fn message(bytes: &[u8]) {
    let decoded = round_trip(bytes, Message::decode, |(xid, message), w| message.encode(*xid, w));
    // Errors are shown to people.
    if let Some((_, Message::Error(e))) = decoded {
        let _ = e.to_string();
    }
}

/// A message of this type whose body starts with `prefix` and goes on with `bytes`.
fn message_of(kind: u8, prefix: &[u8], bytes: &[u8]) {
    let Ok(length) = u16::try_from(HEADER + prefix.len() + bytes.len()) else { return };
    let header = [&[VERSION, kind], length.to_be_bytes().as_slice(), &[0, 0, 0, 7]].concat();
    message(&[&header, prefix, bytes].concat());
}

/// `struct ofp_match`. Its canonical form does not depend on the order of its fields.
pub fn matching(bytes: &[u8]) {
    let Some(m) = round_trip(bytes, whole(Match::decode), Match::encode) else { return };
    let mut entries: Vec<_> = m.entries().collect();
    entries.reverse();
    let mut other = Match::any();
    for entry in entries {
        let value = Value::from_bytes(entry.value);
        let mask = entry.mask.map(Value::from_bytes);
        other.insert(entry.field, &value, mask.as_ref()).expect("fields of a match fit a match");
    }
    assert_eq!(m, other);
    let _ = m.check_prerequisites();
}

/// A list of actions.
pub fn actions(bytes: &[u8]) {
    let decode = |bytes: &[u8]| {
        let (mut r, mut actions) = (Reader::new(bytes), Vec::new());
        while !r.is_empty() {
            actions.push(Action::decode(&mut r)?);
        }
        Ok(actions)
    };
    let encode = |actions: &Vec<Action>, w: &mut Writer| {
        actions.iter().try_for_each(|action| action.encode(w))
    };
    round_trip(bytes, decode, encode);
}

/// A list of instructions.
pub fn instructions(bytes: &[u8]) {
    let decode = |bytes: &[u8]| Instructions::decode(Reader::new(bytes));
    round_trip(bytes, decode, Instructions::encode);
}

/// The body of a flow-mod; its text, if it can be read, means the same.
pub fn flow_mod(bytes: &[u8]) {
    if let Some(m) = round_trip(bytes, whole(FlowMod::decode), FlowMod::encode) {
        let _ = m.to_string();
        super::text::agrees(&m.flow);
    }
}

/// An entry of a flow description; its text, if it can be read, means the same.
pub fn flow_desc(bytes: &[u8]) {
    if let Some(desc) = round_trip(bytes, whole(FlowDesc::decode), FlowDesc::encode) {
        let _ = desc.to_string();
        super::text::agrees(&desc.flow);
    }
}

/// The body of a group-mod, and an entry of a group description.
pub fn group(bytes: &[u8]) {
    if let Some(m) = round_trip(bytes, whole(GroupMod::decode), GroupMod::encode) {
        let _ = m.to_string();
    }
    round_trip(bytes, whole(Group::decode_desc), Group::encode_desc);
}

/// The body of a meter-mod, and an entry of a meter description.
pub fn meter(bytes: &[u8]) {
    if let Some(m) = round_trip(bytes, whole(MeterMod::decode), MeterMod::encode) {
        let _ = m.to_string();
    }
    round_trip(bytes, whole(Meter::decode_desc), Meter::encode_desc);
}

/// The body of a multipart request.
pub fn multipart_request(bytes: &[u8]) {
    message_of(MULTIPART_REQUEST, &[], bytes);
}

/// The body of a multipart reply.
pub fn multipart_reply(bytes: &[u8]) {
    message_of(MULTIPART_REPLY, &[], bytes);
}

/// The body of an error.
pub fn error(bytes: &[u8]) {
    message_of(ERROR, &[], bytes);
}

/// The properties of a packet in Open vSwitch's form, and the same sent back.
pub fn packet_in2(bytes: &[u8]) {
    for subtype in [30_u32, 28] {
        message_of(EXPERIMENTER, &[NICIRA, subtype.to_be_bytes()].concat(), bytes);
    }
}

/// The change of a TLV table, and a reply with one.
pub fn tlv_table(bytes: &[u8]) {
    for subtype in [24_u32, 26] {
        message_of(EXPERIMENTER, &[NICIRA, subtype.to_be_bytes()].concat(), bytes);
    }
}

/// A message added to a bundle.
pub fn bundle(bytes: &[u8]) {
    message_of(BUNDLE_ADD, &[], bytes);
}
