//! Operations to their JSON (RFC 7047 section 5.2), streamed.

use serde::ser::{SerializeMap, SerializeTuple};
use serde::{Serialize, Serializer};

use super::{Condition, Function, Mutation, Mutator, Operation, Until};
use crate::row::{Fields, Name};
use crate::value::Value;

/// Fields as a JSON object.
pub(crate) struct Object<'a>(pub(crate) &'a [(Name, Value)]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(column, value)| (column, value)))
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("op", self.kind())?;
        if let Some(table) = self.table() {
            map.serialize_entry("table", table)?;
        }
        match self {
            Self::Insert { row, name, uuid, .. } => {
                map.serialize_entry("row", &Object(row))?;
                optional(&mut map, "uuid-name", name.as_ref())?;
                optional(&mut map, "uuid", uuid.as_ref())?;
            }
            Self::Select { conditions, columns, .. } => {
                map.serialize_entry("where", conditions)?;
                optional(&mut map, "columns", columns.as_ref())?;
            }
            Self::Update { conditions, row, .. } => {
                map.serialize_entry("where", conditions)?;
                map.serialize_entry("row", &Object(row))?;
            }
            Self::Mutate { conditions, mutations, .. } => {
                map.serialize_entry("where", conditions)?;
                map.serialize_entry("mutations", mutations)?;
            }
            Self::Delete { conditions, .. } => map.serialize_entry("where", conditions)?,
            Self::Wait { timeout, conditions, columns, until, rows, .. } => {
                optional(&mut map, "timeout", timeout.as_ref())?;
                map.serialize_entry("where", conditions)?;
                optional(&mut map, "columns", columns.as_ref())?;
                map.serialize_entry("until", until.symbol())?;
                map.serialize_entry("rows", &Rows(rows))?;
            }
            Self::Commit { durable } => map.serialize_entry("durable", durable)?,
            Self::Abort => {}
            Self::Comment(text) => map.serialize_entry("comment", text)?,
            Self::Assert { lock } => map.serialize_entry("lock", lock)?,
        }
        map.end()
    }
}

fn optional<M: SerializeMap, T: Serialize>(
    map: &mut M,
    key: &'static str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

struct Rows<'a>(&'a [Fields]);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|row| Object(row)))
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Always(truth) => serializer.serialize_bool(*truth),
            Self::Column { column, function, value } => {
                triple(serializer, column, function.symbol(), value)
            }
        }
    }
}

impl Serialize for Mutation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        triple(serializer, &self.column, self.mutator.symbol(), &self.value)
    }
}

fn triple<S: Serializer>(
    serializer: S,
    column: &str,
    symbol: &str,
    value: &Value,
) -> Result<S::Ok, S::Error> {
    let mut tuple = serializer.serialize_tuple(3)?;
    tuple.serialize_element(column)?;
    tuple.serialize_element(symbol)?;
    tuple.serialize_element(value)?;
    tuple.end()
}

impl Until {
    /// As on the wire.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
        }
    }
}

impl Function {
    /// All, for reading.
    pub const ALL: [Self; 8] = [
        Self::Less,
        Self::LessOrEqual,
        Self::Equal,
        Self::NotEqual,
        Self::GreaterOrEqual,
        Self::Greater,
        Self::Includes,
        Self::Excludes,
    ];

    /// As on the wire.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::GreaterOrEqual => ">=",
            Self::Greater => ">",
            Self::Includes => "includes",
            Self::Excludes => "excludes",
        }
    }
}

impl Mutator {
    /// All, for reading.
    pub const ALL: [Self; 7] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Remainder,
        Self::Insert,
        Self::Delete,
    ];

    /// As on the wire.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+=",
            Self::Subtract => "-=",
            Self::Multiply => "*=",
            Self::Divide => "/=",
            Self::Remainder => "%=",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(operation: &Operation) -> String {
        serde_json::to_string(operation).unwrap()
    }

    #[test]
    fn operations_as_ovs_vsctl_writes_them() {
        let insert = Operation::Insert {
            table: "Port".into(),
            row: vec![("name".into(), "p1".into())],
            name: Some("row1".into()),
            uuid: None,
        };
        assert_eq!(
            json(&insert),
            r#"{"op":"insert","table":"Port","row":{"name":"p1"},"uuid-name":"row1"}"#
        );
        let mutate = Operation::Mutate {
            table: "Bridge".into(),
            conditions: vec![Condition::equal("name", "br0")],
            mutations: vec![Mutation::insert("ports", crate::Atom::NamedUuid("row1".into()))],
        };
        assert_eq!(
            json(&mutate),
            r#"{"op":"mutate","table":"Bridge","where":[["name","==","br0"]],"mutations":[["ports","insert",["named-uuid","row1"]]]}"#
        );
        let wait = Operation::Wait {
            table: "Bridge".into(),
            timeout: Some(0),
            conditions: vec![],
            columns: Some(vec!["name".into()]),
            until: Until::Equal,
            rows: vec![vec![("name".into(), "br0".into())]],
        };
        assert_eq!(
            json(&wait),
            r#"{"op":"wait","table":"Bridge","timeout":0,"where":[],"columns":["name"],"until":"==","rows":[{"name":"br0"}]}"#
        );
    }
}
