//! JSON schemas as the API server wants them: structural, with its own rules in CEL.
//!
//! What our types' schemas say in words of JSON Schema 2020-12 that Kubernetes does not know is said
//! in its words here; what they cannot say at all (an address, a prefix) becomes a rule.

use serde_json::{Map, Value, json};

/// Items of a list at most: rules of lists are counted before they are accepted.
const MOST_ITEMS: usize = 64;
/// The longest text of an address, and of a prefix.
const ADDRESS: usize = 45;
const PREFIX: usize = 49;

/// A schema without references, as a structural one.
pub(super) fn structural(schema: &Value) -> Value {
    let Value::Object(said) = schema else { return json!({"type": "object"}) };
    let mut out = Map::new();
    if let Some(description) = said.get("description") {
        out.insert("description".to_owned(), description.clone());
    }
    if let Some(default) = said.get("default").filter(|default| !default.is_null()) {
        out.insert("default".to_owned(), default.clone());
    }
    alternatives(said, &mut out);
    kind(said, &mut out);
    number(said, &mut out);
    for word in ["pattern", "maxLength", "minLength", "required", "enum"] {
        if let Some(value) = said.get(word) {
            out.entry(word).or_insert_with(|| value.clone());
        }
    }
    if let Some(Value::Object(properties)) = said.get("properties") {
        let each = properties.iter().map(|(name, inner)| (name.clone(), structural(inner)));
        out.insert("properties".to_owned(), Value::Object(each.collect()));
    } else if let Some(more @ Value::Object(_)) = said.get("additionalProperties") {
        out.insert("additionalProperties".to_owned(), structural(more));
    }
    if let Some(items) = said.get("items") {
        out.insert("items".to_owned(), structural(items));
        out.insert("maxItems".to_owned(), MOST_ITEMS.into());
    }
    texts(said, &mut out);
    Value::Object(out)
}

/// `anyOf` with nothing is `nullable`; `oneOf` constants is an `enum`.
fn alternatives(said: &Map<String, Value>, out: &mut Map<String, Value>) {
    let list = |word: &str| said.get(word).and_then(Value::as_array);
    let is_null = |one: &&Value| one["type"] == "null";
    if let Some(any) = list("anyOf") {
        let some: Vec<&Value> = any.iter().filter(|one| !is_null(one)).collect();
        if let ([one], true) = (&some[..], some.len() < any.len())
            && let Value::Object(inner) = structural(one)
        {
            for (word, value) in inner {
                out.entry(word).or_insert(value);
            }
            out.insert("nullable".to_owned(), true.into());
        }
    }
    if let Some(one) = list("oneOf") {
        let words: Vec<Value> = one.iter().filter_map(|one| one.get("const").cloned()).collect();
        if words.len() == one.len() {
            out.insert("type".to_owned(), "string".into());
            out.insert("enum".to_owned(), words.into());
        }
    }
    if let Some(word) = said.get("const") {
        out.insert("type".to_owned(), "string".into());
        out.insert("enum".to_owned(), json!([word]));
    }
}

fn kind(said: &Map<String, Value>, out: &mut Map<String, Value>) {
    match said.get("type") {
        Some(Value::Array(kinds)) => {
            if let Some(kind) = kinds.iter().find(|kind| *kind != "null") {
                out.insert("type".to_owned(), kind.clone());
            }
            if kinds.iter().any(|kind| kind == "null") {
                out.insert("nullable".to_owned(), true.into());
            }
        }
        Some(kind) => drop(out.insert("type".to_owned(), kind.clone())),
        None => {}
    }
}

/// Kubernetes knows signed numbers only.
fn number(said: &Map<String, Value>, out: &mut Map<String, Value>) {
    let (format, most) = match said.get("format").and_then(Value::as_str) {
        Some("uint8") => ("int32", Some(u64::from(u8::MAX))),
        Some("uint16") => ("int32", Some(u64::from(u16::MAX))),
        Some("uint32") => ("int64", Some(u64::from(u32::MAX))),
        Some("uint64") => ("int64", None),
        _ if out.get("type").is_some_and(|kind| kind == "integer") => ("int64", None),
        _ => return,
    };
    out.insert("format".to_owned(), format.into());
    out.insert("minimum".to_owned(), said.get("minimum").cloned().unwrap_or(0.into()));
    if let Some(most) = said.get("maximum").cloned().or(most.map(Value::from)) {
        out.insert("maximum".to_owned(), most);
    }
}

/// Addresses and prefixes are judged by the API server itself.
fn texts(said: &Map<String, Value>, out: &mut Map<String, Value>) {
    let is_address = said.get("anyOf").is_some_and(|any| any[0]["format"] == "ipv4");
    let is_prefix =
        said.get("pattern").is_some_and(|p| p.as_str().is_some_and(|p| p.contains('/')));
    let (longest, rule, message) = match (is_address, is_prefix) {
        (true, _) => (ADDRESS, "isIP(self)", "this is no IP address"),
        (_, true) => (PREFIX, "isCIDR(self)", "this is no prefix, such as 10.5.0.0/24"),
        _ => return,
    };
    out.remove("pattern");
    out.insert("maxLength".to_owned(), longest.into());
    out.insert("x-kubernetes-validations".to_owned(), json!([rule_of(rule, message)]));
}

/// A rule in CEL, and what users hear when it does not hold.
pub(super) fn rule_of(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}
