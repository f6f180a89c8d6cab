//! Schemas back to JSON: for the in-memory server, and to keep what a server once had.

use serde_json::{Map, Value as Json, json};

use super::{BaseType, ColumnSchema, ColumnType, Constraint, Schema, TableSchema};

impl Schema {
    /// The `<database-schema>`.
    pub fn to_json(&self) -> Json {
        let tables: Map<_, _> =
            self.tables.iter().map(|(name, table)| (name.to_string(), table_json(table))).collect();
        json!({ "name": self.name, "version": self.version, "tables": tables })
    }
}

fn table_json(table: &TableSchema) -> Json {
    let columns: Map<_, _> = table
        .columns
        .iter()
        .map(|(name, column)| (name.to_string(), column_json(column)))
        .collect();
    let indexes: Vec<Vec<&str>> =
        table.indexes.iter().map(|columns| columns.iter().map(AsRef::as_ref).collect()).collect();
    let mut json = json!({ "columns": columns, "isRoot": table.is_root, "indexes": indexes });
    if let Some(max) = table.max_rows {
        json["maxRows"] = max.into();
    }
    json
}

fn column_json(column: &ColumnSchema) -> Json {
    let mut json = json!({ "type": type_json(&column.ty) });
    if column.ephemeral {
        json["ephemeral"] = true.into();
    }
    if !column.mutable {
        json["mutable"] = false.into();
    }
    json
}

fn type_json(ty: &ColumnType) -> Json {
    let max = if ty.max == u32::MAX { json!("unlimited") } else { ty.max.into() };
    let mut json = json!({ "key": base_json(&ty.key), "min": ty.min, "max": max });
    if let Some(value) = &ty.value {
        json["value"] = base_json(value);
    }
    json
}

fn base_json(base: &BaseType) -> Json {
    let atomic = base.atomic.to_string();
    match &base.constraint {
        Constraint::Any => json!({ "type": atomic }),
        Constraint::Enum(values) => json!({ "type": atomic, "enum": ["set", values] }),
        Constraint::Integers(min, max) => {
            json!({ "type": atomic, "minInteger": min, "maxInteger": max })
        }
        Constraint::Reals(min, max) => {
            json!({ "type": atomic, "minReal": min.get(), "maxReal": max.get() })
        }
        Constraint::Length(min, max) => {
            json!({ "type": atomic, "minLength": min, "maxLength": max })
        }
        Constraint::Row(to) => {
            let strength = if to.strong { "strong" } else { "weak" };
            json!({ "type": atomic, "refTable": &*to.table, "refType": strength })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_survives_writing() {
        for text in [
            include_str!("../../schemas/vswitch.ovsschema"),
            include_str!("../../schemas/ovn-nb.ovsschema"),
        ] {
            let schema: Schema = text.parse().unwrap();
            assert_eq!(schema.to_json().to_string().parse::<Schema>().unwrap(), schema);
        }
    }
}
