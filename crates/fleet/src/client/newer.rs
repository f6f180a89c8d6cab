//! Objects of a controller that is newer than the agent.
//!
//! A field that the agent does not know is left out, and the rest of the object is used: without a node's
//! zone packets still find it, without the node they do not. Not so with what policies are made of,
//! where a field that is left out may open what it was to close: that is read whole, or not at all.

use bytes::Bytes;
use osier_model::Object;
use serde::Deserialize;
use serde_json::{Error, Value};

/// What policies are made of.
const STRICT: [&str; 4] = ["selection", "policy", "guard", "workload"];
/// Unknown fields that may be left out of one object.
const MOST: usize = 16;

/// Reads an object, without what is not known of it.
pub(super) fn read(bytes: &Bytes) -> Result<Object, Error> {
    serde_json::from_slice(bytes).or_else(|strict| without_unknown(bytes).ok_or(strict))
}

fn without_unknown(bytes: &Bytes) -> Option<Object> {
    let mut value: Value = serde_json::from_slice(bytes).ok()?;
    if value["kind"].as_str().is_none_or(|kind| STRICT.contains(&kind)) {
        return None;
    }
    for _ in 0..=MOST {
        match Object::deserialize(&value) {
            Ok(object) => return Some(object),
            Err(error) => forget(&mut value, &unknown_field(&error)?),
        }
    }
    None
}

/// The field that serde complains of.
fn unknown_field(error: &Error) -> Option<String> {
    let text = error.to_string();
    let name = text.strip_prefix("unknown field `")?.split_once('`')?.0;
    Some(name.to_owned())
}

/// Takes a field away, wherever it is. One that is known elsewhere is missed there, and the object is
/// not read then.
fn forget(value: &mut Value, field: &str) {
    match value {
        Value::Object(map) => {
            map.remove(field);
            map.values_mut().for_each(|value| forget(value, field));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| forget(value, field)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Result<Object, Error> {
        super::read(&Bytes::from(value.to_string()))
    }

    #[test]
    fn a_node_with_news_is_a_node() {
        let mut node = json!({"kind": "node", "name": "a", "tunnel": "192.0.2.1"});
        let known = read(&node).unwrap();
        node["zodiac"] = json!({"sign": "ram", "name": 3});
        node["moons"] = json!([1, 2]);
        assert_eq!(read(&node).unwrap(), known);
        for n in 0..=MOST {
            node[format!("more-{n}")] = json!(n);
        }
        assert!(read(&node).is_err());
        let other = json!({"kind": "comet", "name": "a"});
        assert!(read(&other).is_err());
    }

    #[test]
    fn what_may_open_something_is_read_whole_or_not_at_all() {
        let mut guard = json!({"kind": "guard", "namespace": "shop"});
        let is_known = read(&guard).is_ok();
        guard["except"] = json!("everybody");
        let error = read(&guard).unwrap_err().to_string();
        assert!(is_known && error.starts_with("unknown field `except`"), "{error}");
    }
}
