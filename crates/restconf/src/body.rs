//! Bodies to canonical data: members without prefixes, values in one spelling, keys complete.
//!
//! What the schema does not allow is refused, with the place. What real clients send all the same is
//! taken, brought into form, and counted by [`Rule`].

use crate::error::{ErrorTag, Problem};
use crate::schema::{LeafType, NONE, Node, NodeKind};
use ipnet::IpNet;
use serde_json::{Map, Number, Value};
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

/// What was taken although the schema says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// `null` for what is not there.
    Null,
    /// An empty text for an address, a UUID or a number that is not there.
    Empty,
    /// A number as text.
    TextForNumber,
    /// A text as number.
    NumberForText,
    /// One entry without the list around it.
    ObjectForList,
    /// A key that was left out.
    AbsentKey,
    /// Members of a container without the container, or with it where its members belong.
    Wrapping,
}

/// How often each rule was used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Normalised(BTreeMap<Rule, u32>);

/// The longest value of a leaf, in bytes.
const MAX_TEXT: usize = 4096;

// === impl Rule ===

impl Rule {
    /// As it stands in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Empty => "empty",
            Self::TextForNumber => "text-for-number",
            Self::NumberForText => "number-for-text",
            Self::ObjectForList => "object-for-list",
            Self::AbsentKey => "absent-key",
            Self::Wrapping => "wrapping",
        }
    }
}

// === impl Normalised ===

impl Normalised {
    pub(crate) fn note(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }

    /// Each rule that was used, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Rule, u32)> {
        self.0.iter().map(|(rule, count)| (*rule, *count))
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads a node: an entry of a list, a container, a leaf. `at` is where it stands.
pub fn read(
    node: &Node,
    value: &Value,
    at: &str,
    notes: &mut Normalised,
) -> Result<Value, Problem> {
    let wrong = |said: &str| Problem::new(ErrorTag::InvalidValue, at, said);
    match &node.kind {
        NodeKind::Leaf(leaf) => {
            let value = scalar(leaf, value, notes).map_err(|said| wrong(&said))?;
            value.ok_or_else(|| wrong("a value is missing"))
        }
        NodeKind::LeafList(leaf) => {
            let items = value.as_array().ok_or_else(|| wrong("this has to be a list"))?;
            leaf_list(leaf, items, at, notes)
        }
        NodeKind::Container(_) => read_members(node, value, at, notes),
        NodeKind::List { .. } => read_entry(node, value, 0, at, notes),
    }
}

/// Reads all entries of a list.
pub(crate) fn read_list(
    node: &Node,
    value: &Value,
    at: &str,
    notes: &mut Normalised,
) -> Result<Vec<Value>, Problem> {
    let one;
    let items = match value {
        Value::Array(items) => items.as_slice(),
        Value::Object(_) => {
            notes.note(Rule::ObjectForList);
            one = [value.clone()];
            &one
        }
        _ => return Err(Problem::new(ErrorTag::InvalidValue, at, "this has to be a list")),
    };
    let mut entries = Vec::with_capacity(items.len());
    let mut seen = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        let at = format!("{at}[{}]", i + 1);
        let entry = read_entry(node, item, i, &at, notes)?;
        if !seen.insert(keys_of(node, &entry)) {
            let said = format!("the keys {} stand twice", keys_of(node, &entry).join(", "));
            return Err(Problem::new(ErrorTag::InvalidValue, at, said));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The keys of an entry, as text.
pub(crate) fn keys_of(node: &Node, entry: &Value) -> Vec<String> {
    let text = |key: &String| match &entry[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    node.keys().iter().map(text).collect()
}

/// A key's value in its one spelling, from a path.
pub(crate) fn canonical_key(node: &Node, key: &str, value: &str) -> Result<String, String> {
    let Some(leaf) = node.member(key).and_then(Node::leaf_type) else {
        return Ok(value.to_owned());
    };
    let read = scalar(leaf, &Value::from(value), &mut Normalised::default())?;
    Ok(match read {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => return Err("it is empty".to_owned()),
    })
}

fn read_entry(
    node: &Node,
    value: &Value,
    index: usize,
    at: &str,
    notes: &mut Normalised,
) -> Result<Value, Problem> {
    let mut entry = read_members(node, value, at, notes)?;
    for key in node.keys() {
        if entry.get(key).is_some() {
            continue;
        }
        let filled = match node.member(key).and_then(Node::leaf_type) {
            Some(LeafType::Text) if node.keys().len() > 1 => Value::from(""),
            // An ordered list without names.
            Some(LeafType::Integer(..)) if key == "position" => Value::from(index),
            _ => {
                let said = format!("the key {key} is missing");
                return Err(Problem::new(ErrorTag::MissingElement, at, said));
            }
        };
        notes.note(Rule::AbsentKey);
        entry[key] = filled;
    }
    Ok(entry)
}

fn read_members(
    node: &Node,
    value: &Value,
    at: &str,
    notes: &mut Normalised,
) -> Result<Value, Problem> {
    let Some(object) = value.as_object() else {
        return Err(Problem::new(ErrorTag::InvalidValue, at, "this has to be an object"));
    };
    let mut members = Map::new();
    for (name, value) in object {
        let member = find(node, name, at)?;
        let at = format!("{at}/{}", member.name);
        let is_twice = members.contains_key(&member.name);
        if is_twice {
            return Err(Problem::new(ErrorTag::InvalidValue, at, "this stands twice"));
        }
        if value.is_null() {
            notes.note(Rule::Null);
            continue;
        }
        let read = match &member.kind {
            NodeKind::List { .. } => Some(Value::from(read_list(member, value, &at, notes)?)),
            NodeKind::Leaf(leaf) => scalar(leaf, value, notes)
                .map_err(|said| Problem::new(ErrorTag::InvalidValue, &at, said))?,
            _ => Some(read(member, value, &at, notes)?),
        };
        // A list without entries is none.
        let is_nothing = read.as_ref().is_none_or(|v| v.as_array().is_some_and(Vec::is_empty));
        if let Some(read) = read.filter(|_| !is_nothing) {
            members.insert(member.name.clone(), read);
        }
    }
    Ok(Value::Object(members))
}

/// A member by the name in a body, which may have its module's prefix.
pub(crate) fn find<'a>(node: &'a Node, name: &str, at: &str) -> Result<&'a Node, Problem> {
    let bare = match name.split_once(':') {
        Some((module, bare)) if module == node.module => bare,
        Some(_) => "",
        None => name,
    };
    node.member(bare).ok_or_else(|| {
        let known: Vec<&str> = node.members().iter().map(|m| m.name.as_str()).collect();
        let said =
            format!("{name:?} is no member of {}: there are {}", node.name, known.join(", "));
        Problem::new(ErrorTag::UnknownElement, at, said)
    })
}

fn leaf_list(
    leaf: &LeafType,
    items: &[Value],
    at: &str,
    notes: &mut Normalised,
) -> Result<Value, Problem> {
    let mut values: Vec<Value> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let read = scalar(leaf, item, notes).map_err(|said| {
            Problem::new(ErrorTag::InvalidValue, format!("{at}[{}]", i + 1), said)
        })?;
        values.extend(read.filter(|read| !values.contains(read)));
    }
    Ok(values.into())
}

/// A value in its one spelling; nothing for what stands for nothing.
fn scalar(leaf: &LeafType, value: &Value, notes: &mut Normalised) -> Result<Option<Value>, String> {
    match (leaf, value) {
        (_, Value::Null) => {
            notes.note(Rule::Null);
            Ok(None)
        }
        (LeafType::Integer(least, most), value) => integer(*least..=*most, value, notes),
        (LeafType::Boolean, Value::Bool(value)) => Ok(Some((*value).into())),
        (_, Value::String(text)) if text.len() > MAX_TEXT => {
            Err(format!("a text of {} bytes is too long: at most {MAX_TEXT}", text.len()))
        }
        (LeafType::Text, Value::String(text)) => Ok(Some(text.as_str().into())),
        (LeafType::Text, Value::Number(number)) => {
            notes.note(Rule::NumberForText);
            Ok(Some(number.to_string().into()))
        }
        (leaf, Value::String(text)) if text.is_empty() => {
            notes.note(Rule::Empty);
            // A watcher says so of a headless Service, and leaves nothing else empty there.
            Ok((*leaf == LeafType::AddressOrNone).then(|| NONE.into()))
        }
        (leaf, Value::String(text)) => spelled(leaf, text).map(|text| Some(text.into())),
        _ => Err("this has to be text".to_owned()),
    }
}

fn integer(
    range: std::ops::RangeInclusive<i64>,
    value: &Value,
    notes: &mut Normalised,
) -> Result<Option<Value>, String> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) if text.is_empty() => {
            notes.note(Rule::Empty);
            return Ok(None);
        }
        Value::String(text) => {
            notes.note(Rule::TextForNumber);
            text.parse().ok()
        }
        _ => None,
    };
    match number.filter(|number| range.contains(number)) {
        Some(number) => Ok(Some(Value::Number(Number::from(number)))),
        None => Err(format!("this has to be a number from {} to {}", range.start(), range.end())),
    }
}

fn spelled(leaf: &LeafType, text: &str) -> Result<String, String> {
    match leaf {
        LeafType::Uuid => match is_uuid(text) {
            true => Ok(text.to_ascii_lowercase()),
            false => Err("it has to be a UUID".to_owned()),
        },
        LeafType::AddressOrNone if text == NONE => Ok(text.to_owned()),
        LeafType::Address | LeafType::AddressOrNone => {
            address(text).ok_or_else(|| "it has to be an address".to_owned())
        }
        LeafType::Prefix => match text.parse::<IpNet>() {
            Ok(prefix) if prefix == prefix.trunc() => Ok(prefix.to_string()),
            Ok(prefix) => {
                Err(format!("it has bits behind its length: {} is meant", prefix.trunc()))
            }
            Err(_) => Err("it has to be an address and a length".to_owned()),
        },
        LeafType::Mac => match text.parse::<osier_model::Mac>() {
            Ok(mac) => Ok(mac.to_string()),
            Err(error) => Err(error.to_string()),
        },
        LeafType::Enumeration(words) => match words.iter().any(|word| word == text) {
            true => Ok(text.to_owned()),
            false => Err(format!("it has to be one of {}", words.join(", "))),
        },
        LeafType::Boolean => Err("it has to be true or false".to_owned()),
        LeafType::Text | LeafType::Integer(..) => Ok(text.to_owned()),
    }
}

/// The shape of a UUID: 8-4-4-4-12 digits.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |part: &&str| part.bytes().all(|b| b.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(digits)
}

/// An address, with a zone if it has one (RFC 6991).
fn address(text: &str) -> Option<String> {
    let (bare, zone) = match text.split_once('%') {
        Some((bare, zone)) => (bare, Some(zone)),
        None => (text, None),
    };
    match zone {
        None => bare.parse::<IpAddr>().ok().map(|address| address.to_string()),
        Some(zone) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_~".contains(c);
            let is_zone = !zone.is_empty() && zone.chars().all(is_plain);
            let address = bare.parse::<Ipv6Addr>().ok().filter(|_| is_zone)?;
            Some(format!("{address}%{zone}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use serde_json::json;

    fn endpoints() -> &'static Node {
        Schema::get().root("service", "endpoints-info").unwrap().member("endpoints").unwrap()
    }

    const UID: &str = "EEAFFFB7-d9fc-aaed-fbc9-8af8bfaacdd9";

    #[test]
    fn what_the_watcher_sends_is_brought_into_form() {
        let sent = json!({
            "service:uid": UID, "service:cluster-id": UID, "service:name": "db",
            "service:endpoint-addresses": [
                {"service:ip-address": "FD00:0::1", "service:host-name": "", "service:node-name": null}],
            "service:endpoint-ports": [{"service:port": "6443"}],
        });
        let mut notes = Normalised::default();
        let read = read(endpoints(), &sent, "", &mut notes).unwrap();
        assert_eq!(
            read,
            json!({
                "uid": UID.to_lowercase(), "cluster-id": UID.to_lowercase(), "name": "db",
                "endpoint-addresses": [{"ip-address": "fd00::1", "host-name": ""}],
                "endpoint-ports": [{"name": "", "port": 6443}],
            })
        );
        let used: Vec<_> = notes.iter().map(|(rule, count)| (rule.word(), count)).collect();
        assert_eq!(used, [("null", 1), ("text-for-number", 1), ("absent-key", 1)]);
    }

    #[test]
    fn nothing_where_an_address_may_be_none_is_none() {
        let services = Schema::get().root("service", "service-information").unwrap();
        let services = services.member("services").unwrap();
        let kept = |said: Value| {
            let body = json!({"uid": UID, "cluster-ip-address": said});
            let mut notes = Normalised::default();
            let read = read(services, &body, "", &mut notes)?;
            Ok::<_, Problem>((read["cluster-ip-address"].clone(), !notes.is_empty()))
        };
        assert_eq!(kept(json!("")).unwrap(), (json!("None"), true));
        assert_eq!(kept(json!("None")).unwrap(), (json!("None"), false));
        assert_eq!(kept(json!(null)).unwrap(), (json!(null), true));
        assert_eq!(kept(json!("FD00::1")).unwrap(), (json!("fd00::1"), false));
        kept(json!("none")).unwrap_err();
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        for (sent, said) in [
            (json!([]), "/x: this has to be an object"),
            (json!({}), "/x: the key uid is missing"),
            (json!({"uid": "1"}), "/x/uid: it has to be a UUID"),
            (json!({"uid": ""}), "/x: the key uid is missing"),
            (json!({"uid": UID, "service:uid": UID}), "/x/uid: this stands twice"),
            (json!({"uid": UID, "name": {}}), "/x/name: this has to be text"),
            (
                json!({"uid": UID, "endpoint-ports": [{"port": 1}, {"port": 1}]}),
                "/x/endpoint-ports[2]: the keys , 1 stand twice",
            ),
            (
                json!({"uid": UID, "endpoint-addresses": [{"ip-address": "fe80::1%"}]}),
                "/x/endpoint-addresses[1]/ip-address: it has to be an address",
            ),
            (
                json!({"uid": UID, "endpoint-ports": [{"port": 5_000_000_000_u64}]}),
                "/x/endpoint-ports[1]/port: this has to be a number from -2147483648 to 2147483647",
            ),
            (
                json!({"uid": UID, "pod:name": "x"}),
                "/x: \"pod:name\" is no member of endpoints: there are uid, cluster-id, name, \
                 network-NS, endpoint-addresses, endpoint-ports",
            ),
        ] {
            let refused = read(endpoints(), &sent, "/x", &mut Normalised::default()).unwrap_err();
            assert_eq!(refused.to_string(), said);
        }
    }
}
