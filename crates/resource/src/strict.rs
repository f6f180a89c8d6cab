//! Fields that nobody knows, found with the schemas, and what may have been meant.

use crate::kind::Kind;
use crate::parse::Fault;
use crate::schema;
use serde_json::Value;
use std::sync::OnceLock;

/// Looks for fields that the kind does not have.
pub(crate) fn check(kind: Kind, value: &Value) -> Result<(), Fault> {
    static SCHEMAS: OnceLock<Vec<(Kind, Value)>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| Kind::ALL.map(|k| (k, schema::inlined(k))).to_vec());
    match schemas.iter().find(|(k, _)| *k == kind) {
        Some((_, schema)) => walk(schema, value, &mut String::new()),
        None => Ok(()),
    }
}

fn walk(schema: &Value, value: &Value, path: &mut String) -> Result<(), Fault> {
    let end = path.len();
    match value {
        Value::Object(map) => {
            let Some(known) = properties(schema) else { return Ok(()) };
            for (field, inner) in map {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(field);
                let Some(schema) = known.get(field) else {
                    let meant = closest(field, known.keys().map(String::as_str));
                    let all = || known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                    let said = meant.map_or_else(
                        || format!("no such field: there are {}", all()),
                        |meant| format!("no such field: did you mean {meant}?"),
                    );
                    return Err(Fault::new(path.clone(), said));
                };
                walk(schema, inner, path)?;
                path.truncate(end);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return Ok(()) };
            for (i, item) in items.iter().enumerate() {
                path.extend(["[", &i.to_string(), "]"]);
                walk(schema, item, path)?;
                path.truncate(end);
            }
        }
        _ => {}
    }
    Ok(())
}

/// The fields of a map, also of one that may be null.
fn properties(schema: &Value) -> Option<&serde_json::Map<String, Value>> {
    let direct = |s: &'_ Value| s.get("properties").is_some();
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let schema = match direct(schema) {
        true => schema,
        false => choices?.iter().find(|s| direct(s))?,
    };
    schema.get("properties")?.as_object()
}

/// The word that was most likely meant.
pub(crate) fn closest<'a>(
    found: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = found.to_ascii_lowercase();
    let distance = |word: &str| strsim::damerau_levenshtein(&lower, &word.to_ascii_lowercase());
    let near = words.into_iter().map(|word| (distance(word), word));
    near.filter(|(distance, word)| *distance <= 1 + word.len() / 4).min().map(|(_, word)| word)
}
