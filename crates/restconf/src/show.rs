//! Data to bodies.

use crate::path::{Flavour, Step};
use crate::schema::Node;
use serde_json::{Map, Value};

/// Data of a target as a body: of RFC 8040 with the module's name in front (RFC 7951, section 4), of
/// draft-02 without, as its clients know it. An entry of a list stands in an array.
pub fn show(flavour: Flavour, target: &Step, data: Value) -> Value {
    let data = match target.node.is_list() && !data.is_array() {
        true => Value::Array(vec![data]),
        false => data,
    };
    let mut body = Map::new();
    body.insert(name(flavour, target.node), data);
    Value::Object(body)
}

/// Containers at the top, in one body.
pub fn show_all<'a>(flavour: Flavour, all: impl IntoIterator<Item = (&'a Node, Value)>) -> Value {
    let members: Map<String, Value> = all
        .into_iter()
        // Two containers may have the same name: without modules they could not be told apart.
        .map(|(node, value)| (format!("{}:{}", node.module, node.name), value))
        .collect();
    match flavour {
        Flavour::Draft02 => serde_json::json!({"data": members}),
        Flavour::Rfc8040 => serde_json::json!({"ietf-restconf:data": members}),
    }
}

fn name(flavour: Flavour, node: &Node) -> String {
    match flavour {
        Flavour::Draft02 => node.name.clone(),
        Flavour::Rfc8040 => format!("{}:{}", node.module, node.name),
    }
}
