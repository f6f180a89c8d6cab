//! What must hold when a transaction commits (RFC 7047 section 3.2): weak references vanish with
//! their rows, rows that nobody refers to are collected, strong references do not dangle, tables
//! stay within their size, indexes are unique.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::database::Tables;
use super::transaction::Failure;
use crate::Uuid;
use crate::row::Row;
use crate::schema::{BaseType, ColumnType, Reference, Schema};
use crate::value::{Atom, Value};

type References = BTreeMap<(Arc<str>, Uuid), usize>;

/// In the order of ovsdb-server, so that of several errors the same one is found.
pub(super) fn enforce(
    schema: &Schema,
    before: &Tables,
    tables: &mut Tables,
    deleted: &BTreeSet<(Arc<str>, Uuid)>,
) -> Result<(), Failure> {
    // New references must not dangle even in rows that are about to be collected.
    check_references(schema, tables, |row| {
        before[row.table()].get(&row.uuid()).is_none_or(|old| !Arc::ptr_eq(old, row))
    })?;
    let strong = loop {
        let strong = strong_references(schema, tables);
        if !collect(schema, tables, &strong) {
            break strong;
        }
    };
    check_deleted(tables, &strong, deleted)?;
    check_references(schema, tables, |_| true)?;
    drop_weak_references(schema, tables)?;
    for table in schema.tables.values() {
        let rows = &tables[&table.name];
        if let Some(max) = table.max_rows
            && rows.len() as u64 > max
        {
            return Err(Failure::new(
                "constraint violation",
                format!(
                    "transaction causes \"{}\" table to contain {} rows, greater than the schema-defined limit of {max} row(s)",
                    table.name,
                    rows.len()
                ),
            ));
        }
        for index in &table.indexes {
            check_unique(&table.name, index, rows)?;
        }
    }
    Ok(())
}

/// The references that a value of a type makes.
fn references<'a>(
    ty: &'a ColumnType,
    value: &'a Value,
) -> impl Iterator<Item = (&'a Reference, Uuid)> {
    let uuid = |base: &'a BaseType, atom: &'a Atom| match (base.reference(), atom) {
        (Some(reference), Atom::Uuid(uuid)) => Some((reference, *uuid)),
        _ => None,
    };
    let atoms = value.atoms().iter().filter_map(move |atom| uuid(&ty.key, atom));
    let keys = value.pairs().iter().filter_map(move |(key, _)| uuid(&ty.key, key));
    let seconds = value
        .pairs()
        .iter()
        .filter_map(move |(_, second)| ty.value.as_ref().and_then(|base| uuid(base, second)));
    atoms.chain(keys).chain(seconds)
}

fn row_references(row: &Row) -> impl Iterator<Item = (&str, &Reference, Uuid)> {
    row.layout().columns().iter().enumerate().flat_map(move |(index, (name, column))| {
        references(&column.ty, row.value(index)).map(move |(to, uuid)| (&**name, to, uuid))
    })
}

fn strong_references(schema: &Schema, tables: &Tables) -> References {
    let mut counts = References::new();
    for table in schema.tables.keys() {
        for row in tables[table].values() {
            // A row does not keep itself.
            let others = |to: &Reference, uuid| to.table != *table || uuid != row.uuid();
            let strong = row_references(row).filter(|(_, to, uuid)| to.strong && others(to, *uuid));
            for (_, to, uuid) in strong {
                *counts.entry((Arc::clone(&to.table), uuid)).or_default() += 1;
            }
        }
    }
    counts
}

fn collect(schema: &Schema, tables: &mut Tables, strong: &References) -> bool {
    let mut collected = false;
    for table in schema.tables.values().filter(|table| !table.is_root) {
        let Some(rows) = tables.get_mut(&table.name) else { continue };
        rows.retain(|uuid, _| {
            let kept = strong.contains_key(&(Arc::clone(&table.name), *uuid));
            collected |= !kept;
            kept
        });
    }
    collected
}

fn drop_weak_references(schema: &Schema, tables: &mut Tables) -> Result<(), Failure> {
    let mut edits = Vec::new();
    for table in schema.tables.keys() {
        for row in tables[table].values() {
            let exists = |to: &Reference, uuid: Uuid| {
                tables.get(&to.table).is_some_and(|rows| rows.contains_key(&uuid))
            };
            if row_references(row).any(|(_, to, uuid)| !to.strong && !exists(to, uuid)) {
                edits.push((Arc::clone(table), without_dangling(row, &exists)?));
            }
        }
    }
    for (table, row) in edits {
        tables.entry(table).or_default().insert(row.uuid(), Arc::new(row));
    }
    Ok(())
}

fn without_dangling(row: &Row, exists: &impl Fn(&Reference, Uuid) -> bool) -> Result<Row, Failure> {
    let mut copy = row.clone();
    for (index, (name, column)) in row.layout().columns().iter().enumerate() {
        let keeps = |base: &BaseType, atom: &Atom| match (base.reference(), atom) {
            (Some(to), Atom::Uuid(uuid)) if !to.strong => exists(to, *uuid),
            _ => true,
        };
        let held = row.value(index);
        let value = match &column.ty.value {
            None => Value::set(held.atoms().iter().filter(|a| keeps(&column.ty.key, a)).cloned()),
            Some(second) => {
                let kept = held
                    .pairs()
                    .iter()
                    .filter(|(k, v)| keeps(&column.ty.key, k) && keeps(second, v));
                Value::map(kept.cloned())
            }
        };
        if value.len() < column.ty.min as usize {
            return Err(Failure::new(
                "constraint violation",
                format!(
                    "Deletion of weak reference(s) to deleted row(s) from column \"{name}\" in \"{}\" row {} causes the column to become empty, but constraints on the column disallow an empty column.",
                    row.table(),
                    row.uuid()
                ),
            ));
        }
        copy.set(index, value);
    }
    Ok(copy)
}

fn check_deleted(
    tables: &Tables,
    strong: &References,
    deleted: &BTreeSet<(Arc<str>, Uuid)>,
) -> Result<(), Failure> {
    for row in deleted {
        if let Some(count) = strong.get(row).filter(|_| !tables[&row.0].contains_key(&row.1)) {
            return Err(violation(format!(
                "cannot delete {} row {} because of {count} remaining reference(s)",
                row.0, row.1
            )));
        }
    }
    Ok(())
}

fn violation(details: String) -> Failure {
    Failure::new("referential integrity violation", details)
}

fn check_references(
    schema: &Schema,
    tables: &Tables,
    concerns: impl Fn(&Arc<Row>) -> bool,
) -> Result<(), Failure> {
    for table in schema.tables.keys() {
        for row in tables[table].values().filter(|row| concerns(row)) {
            for (column, to, uuid) in row_references(row).filter(|(_, to, _)| to.strong) {
                if !tables.get(&to.table).is_some_and(|rows| rows.contains_key(&uuid)) {
                    return Err(violation(format!(
                        "Table {table} column {column} row {} references nonexistent row {uuid} in table {}.",
                        row.uuid(),
                        to.table
                    )));
                }
            }
        }
    }
    Ok(())
}

fn check_unique(
    table: &str,
    index: &[Arc<str>],
    rows: &BTreeMap<Uuid, Arc<Row>>,
) -> Result<(), Failure> {
    let mut seen: BTreeMap<Vec<&Value>, Uuid> = BTreeMap::new();
    for row in rows.values() {
        let key: Vec<_> = index.iter().filter_map(|column| row.get(column)).collect();
        let words: Vec<_> = key.iter().map(|value| crate::text::print_bare(value)).collect();
        if let Some(other) = seen.insert(key, row.uuid()) {
            let columns: Vec<_> = index.iter().map(|column| format!("\"{column}\"")).collect();
            let plural = if index.len() == 1 { "column" } else { "columns" };
            return Err(Failure::new(
                "constraint violation",
                format!(
                    "Transaction causes multiple rows in \"{table}\" table to have identical values ({}) for index on {plural} {}.  First row, with UUID {other}, was inserted by this transaction.  Second row, with UUID {}, was inserted by this transaction.",
                    words.join(", "),
                    columns.join(", "),
                    row.uuid()
                ),
            ));
        }
    }
    Ok(())
}
