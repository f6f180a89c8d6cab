//! The chart's values: `values.schema.json` says which there are, what they mean and what they are
//! unless told otherwise. The rest is written from it: `values.yaml`, and the table in
//! `docs/install.md`. Sorted by name, whatever order JSON's maps have in this build.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// All values as they are unless told otherwise.
pub(super) fn defaults(schema: &Value) -> Result<Value> {
    if let Some(value) = schema.get("default") {
        return Ok(sorted(value));
    }
    let mut all = Map::new();
    for (name, inner) in properties(schema)? {
        all.insert(name.clone(), defaults(inner).with_context(|| name.clone())?);
    }
    Ok(Value::Object(all))
}

/// Sets one of them: `agent.bridge=br0`. What is JSON is taken as such, the rest as text.
pub(super) fn set(values: &mut Value, assignment: &str) -> Result<()> {
    let (path, value) = assignment.split_once('=').context("a value is set by name=value")?;
    let mut place = values;
    for name in path.split('.') {
        place = place.get_mut(name).with_context(|| format!("there is no value {path}"))?;
    }
    *place = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok(())
}

/// `values.yaml`, with each value's meaning above it.
pub(super) fn yaml(schema: &Value) -> Result<String> {
    let mut out = String::from(
        "# Written by `cargo xtask deploy` from values.schema.json: what can be set, and what it is\n\
         # unless you do.\n",
    );
    write_yaml(&mut out, schema, 0)?;
    Ok(out)
}

fn write_yaml(out: &mut String, schema: &Value, depth: usize) -> Result<()> {
    let indent = "  ".repeat(depth);
    for (name, inner) in properties(schema)? {
        if depth == 0 {
            out.push('\n');
        }
        writeln!(out, "{indent}# {}", description(inner)?)?;
        match inner.get("default") {
            None => {
                writeln!(out, "{indent}{name}:")?;
                write_yaml(out, inner, depth + 1)?;
            }
            Some(value) if is_nested(value) => {
                let text = serde_saphyr::to_string(&sorted(value))?;
                let line = format!("\n{indent}  ");
                writeln!(out, "{indent}{name}:{line}{}", text.trim_end().replace('\n', &line))?;
            }
            Some(value) => writeln!(out, "{indent}{name}: {value}")?,
        }
    }
    Ok(())
}

/// The table of `docs/install.md`.
pub(super) fn table(schema: &Value) -> Result<String> {
    let mut out = String::from("| value | default | meaning |\n|---|---|---|\n");
    write_table(&mut out, schema, "")?;
    Ok(out)
}

fn write_table(out: &mut String, schema: &Value, above: &str) -> Result<()> {
    for (name, inner) in properties(schema)? {
        let path = format!("{above}{name}");
        match inner.get("default") {
            None => write_table(out, inner, &format!("{path}."))?,
            Some(value) => {
                let shown = match value {
                    Value::Array(list) if list.len() > 1 => "see values.yaml".to_owned(),
                    value => format!("`{value}`"),
                };
                writeln!(out, "| `{path}` | {shown} | {} |", description(inner)?)?;
            }
        }
    }
    Ok(())
}

fn properties(schema: &Value) -> Result<BTreeMap<&String, &Value>> {
    let found = schema.get("properties").and_then(Value::as_object);
    Ok(found.context("a value has neither a default nor values of its own")?.iter().collect())
}

/// With the names of all maps in order.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(sorted).collect(),
        Value::Object(map) => {
            let map: BTreeMap<&String, &Value> = map.iter().collect();
            map.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        other => other.clone(),
    }
}

fn description(schema: &Value) -> Result<&str> {
    match schema.get("description").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text),
        _ => bail!("a value without a description: {schema}"),
    }
}

fn is_nested(value: &Value) -> bool {
    match value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_set_by_name() {
        let mut values = json!({"a": {"b": "x", "n": 1}});
        set(&mut values, "a.b=y").unwrap();
        set(&mut values, "a.n=2").unwrap();
        assert_eq!(values, json!({"a": {"b": "y", "n": 2}}));
        assert!(set(&mut values, "a.c=1").is_err() && set(&mut values, "a").is_err());
    }

    #[test]
    fn values_have_a_meaning() {
        let schema = json!({"properties": {"a": {"description": "A.", "properties": {
            "b": {"default": [1, 2], "description": "B."}}}}});
        assert_eq!(defaults(&schema).unwrap(), json!({"a": {"b": [1, 2]}}));
        let text = yaml(&schema).unwrap();
        assert!(text.ends_with("\n# A.\na:\n  # B.\n  b:\n    - 1\n    - 2\n"), "{text}");
        let back: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, defaults(&schema).unwrap());
        assert!(table(&json!({"properties": {"a": {"default": 1}}})).is_err());
    }
}
