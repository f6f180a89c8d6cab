//! Files of resources: YAML of many documents, or JSON.
//!
//! Text is read to a tree that remembers lines, so that whatever is found wrong later, by the
//! types or by the model, is told with its file, line and field. All documents are looked at, and
//! every wrong one is reported.

use crate::resource::Resource;
use crate::tree::{Node, Place, documents};
use serde_json::Value;
use std::fmt;
use thiserror::Error;

/// The largest file.
pub const MAX_FILE: usize = 64 << 20;

/// What is wrong with a field of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{}{said}", field, if field.is_empty() { "" } else { ": " })]
pub struct Fault {
    /// Which, such as `spec.subnets[0].cidr`; empty for the whole of it.
    pub field: String,
    /// What.
    pub said: String,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ParseError {
    /// The file, as the caller calls it.
    pub file: String,
    /// Where in it, if that is known.
    pub place: Option<Place>,
    /// Which resource, such as `Network blue`, if that is known.
    pub resource: Option<String>,
    /// What.
    #[source]
    pub fault: Fault,
}

/// A resource, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The resource.
    pub resource: Resource,
    /// Where it begins.
    pub place: Place,
}

// === impl Fault ===

impl Fault {
    pub(crate) fn new(field: impl Into<String>, said: impl Into<String>) -> Self {
        Self { field: field.into(), said: said.into() }
    }
}

// === impl ParseError ===

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(place) = self.place {
            write!(f, "{}:{}:", place.line, place.column)?;
        }
        if let Some(resource) = &self.resource {
            write!(f, " {resource}:")?;
        }
        write!(f, " {}", self.fault)
    }
}

/// Reads all resources of a file, in their order. A document of kind `List` stands for its items.
pub fn parse(file: &str, text: &str) -> Result<Vec<Parsed>, Vec<ParseError>> {
    let error =
        |place, resource, fault| ParseError { file: file.to_owned(), place, resource, fault };
    if text.len() > MAX_FILE {
        let said = format!("{} bytes are too many: at most {MAX_FILE}", text.len());
        return Err(vec![error(None, None, Fault::new("", said))]);
    }
    let (mut parsed, mut errors) = (Vec::new(), Vec::new());
    for document in documents(text) {
        let node = match document {
            Ok(node) => node,
            Err((place, said)) => {
                errors.push(error(place, None, Fault::new("", said)));
                continue;
            }
        };
        for node in items(node) {
            let value = node.to_value();
            let read = Resource::from_value(&value).and_then(|resource| {
                resource.validate()?;
                Ok(resource)
            });
            match read {
                Ok(resource) => parsed.push(Parsed { resource, place: node.place }),
                Err(fault) => {
                    let place = node.find(&fault.field).unwrap_or(node.place);
                    errors.push(error(Some(place), called(&value), fault));
                }
            }
        }
    }
    if errors.is_empty() { Ok(parsed) } else { Err(errors) }
}

/// The items of a list, or the one document.
fn items(node: Node) -> Vec<Node> {
    let is_list = node.get("kind").and_then(Node::text).is_some_and(|k| k.ends_with("List"));
    match node.get("items").and_then(Node::list) {
        Some(items) if is_list => items.to_vec(),
        _ => vec![node],
    }
}

/// How users would call a document that may be wrong.
fn called(value: &Value) -> Option<String> {
    let kind = value.get("kind")?.as_str()?;
    let name = value.pointer("/metadata/name")?.as_str()?;
    Some(format!("{kind} {name}"))
}
