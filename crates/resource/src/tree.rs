//! YAML as a tree that remembers lines.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// Where something stands in a file; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: Place,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Scalar(Value),
    List(Vec<Node>),
    /// Each with the place of its key.
    Map(Vec<(String, Place, Node)>),
}

/// Documents of a text, or why one cannot be read. What is behind that one may be lost.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = Result<Node, (Option<Place>, String)>> {
    let read = serde_saphyr::from_multiple_with_options::<Node>(text, options());
    let (nodes, error) = match read {
        Ok(nodes) => (nodes, None),
        Err(error) => {
            let place = error.location().map(Place::from);
            (Vec::new(), Some((place, said(&error))))
        }
    };
    nodes.into_iter().map(Ok).chain(error.map(Err))
}

/// What an error says to users: on one line, less the place, which we tell ourselves, and less
/// what is for programmers.
fn said(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let text = text.split(", set ").next().unwrap_or_default();
    let place = text.rfind(" at line ").filter(|at| text[*at..].contains("column"));
    place.map_or(text, |at| &text[..at]).trim_end_matches([':', ',']).to_owned()
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_documents: 100_000,
            max_depth: 64,
        },
    }
}

// === impl Place ===

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

// === impl Node ===

impl Node {
    /// What stands under a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|(_, node)| node)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        match &self.content {
            Content::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::to_value).collect(),
            Content::Map(entries) => {
                entries.iter().map(|(key, _, node)| (key.clone(), node.to_value())).collect()
            }
        }
    }

    /// Where a field stands, or what is nearest above it.
    pub(crate) fn find(&self, field: &str) -> Option<Place> {
        let (mut node, mut place, mut rest) = (self, None, field);
        while !rest.is_empty() {
            rest = rest.trim_start_matches('.');
            if let Some((index, behind)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
                let Some(item) = node.list().and_then(|l| l.get(index.parse::<usize>().ok()?))
                else {
                    break;
                };
                (node, place, rest) = (item, Some(item.place), behind);
                continue;
            }
            // A key may have dots itself, so the longest that is there counts.
            let ends = rest.match_indices(['.', '[']).map(|(at, _)| at).chain([rest.len()]);
            let longest = ends.filter(|end| node.entry(&rest[..*end]).is_some()).max();
            let Some((key, inner)) = longest.and_then(|end| node.entry(&rest[..end])) else {
                break;
            };
            (node, place, rest) = (inner, Some(key), &rest[longest.unwrap_or(rest.len())..]);
        }
        place
    }

    fn entry(&self, key: &str) -> Option<(Place, &Self)> {
        match &self.content {
            Content::Map(entries) => {
                entries.iter().find(|(k, ..)| k == key).map(|(_, place, node)| (*place, node))
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self { place: spanned.referenced.into(), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Content, E> {
        let number = Number::from_f64(value);
        let number = number.ok_or_else(|| E::custom(format_args!("{value} is not a number")))?;
        Ok(Content::Scalar(number.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            entries.push((key.value, key.referenced.into(), map.next_value()?));
        }
        Ok(Content::Map(entries))
    }
}
