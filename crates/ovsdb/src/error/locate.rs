//! Where an error happened. ovsdb-server names table, column and row only inside its sentences, and
//! for a bad value names none: then the operation and the schema tell which column it was.

use std::sync::Arc;

use super::{ErrorKind, Location};
use crate::op::{Condition, Operation};
use crate::schema::{ColumnType, Schema, Violation};
use crate::value::Value;

/// What the server's sentence tells.
pub(super) fn from_details(details: &str) -> Location {
    let mut words = details.split([' ', ',', '.']).filter(|word| !word.is_empty()).peekable();
    let mut at = Location::default();
    let mut previous = "";
    while let Some(word) = words.next() {
        let next = words.peek().map(|next| next.trim_matches('"'));
        let following = || next.map(Arc::from);
        match word {
            // "Table T column C row U references …", "… column C in table T", "No table named T"
            "Table" | "table" if next == Some("to") => at.table = Some(unquoted(previous)),
            "Table" | "table" if at.table.is_none() && next != Some("named") => {
                at.table = following();
            }
            "column" | "columns" if at.column.is_none() => at.column = following(),
            // "cannot delete T row U because …"
            "row" | "UUID" => {
                if previous != "nonexistent" && (at.row.is_none() || word == "UUID") {
                    at.row = next.and_then(|next| next.parse().ok()).or(at.row);
                }
                if details.starts_with("cannot delete") && at.table.is_none() {
                    at.table = Some(unquoted(previous));
                }
            }
            _ => {}
        }
        previous = word;
    }
    at
}

fn unquoted(word: &str) -> Arc<str> {
    Arc::from(word.trim_matches('"'))
}

/// What the failed operation tells beside.
pub(super) fn from_operation(
    operation: &Operation,
    kind: &ErrorKind,
    schema: Option<&Schema>,
    told: Location,
) -> Location {
    let table = operation.table().map(|table| Arc::from(&**table));
    let schema = schema.and_then(|schema| schema.table(table.as_deref()?));
    // Neither a mutation's value nor a condition's need have the column's size.
    let sized = !matches!(operation, Operation::Mutate { .. });
    let written = operation.written().map(|(column, value)| (column, value, sized));
    let compared = operation.conditions().iter().filter_map(|condition| match condition {
        Condition::Column { column, value, .. } => Some((column, value, false)),
        Condition::Always(_) => None,
    });
    let misfit = schema.and_then(|schema| {
        let mut misfits = written.chain(compared).filter_map(|(column, value, sized)| {
            let found = misfit(schema.column_type(column), value, sized)?;
            Some((found, Arc::from(&**column)))
        });
        let first = misfits.next()?;
        // Of several, the one that makes this kind of error.
        let (_, column) = if first.0 == *kind {
            first
        } else {
            misfits.find(|(found, _)| found == kind).unwrap_or(first)
        };
        Some(column)
    });
    Location {
        table: table.or(told.table),
        row: operation.row().or(told.row),
        column: misfit.or(told.column),
    }
}

/// The error that a value makes in a column.
fn misfit(ty: Option<&ColumnType>, value: &Value, sized: bool) -> Option<ErrorKind> {
    let Some(ty) = ty else { return Some(ErrorKind::UnknownColumn) };
    let Ok(value) = ty.conform(value.clone()) else { return Some(ErrorKind::SyntaxError) };
    match ty.check(&value) {
        Err(Violation::Atom { .. }) => Some(ErrorKind::ConstraintViolation),
        Err(Violation::Count { .. }) if sized => Some(ErrorKind::SyntaxError),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;

    fn at(table: &str, column: Option<&str>, row: Option<&str>) -> Location {
        Location {
            table: Some(table.into()),
            column: column.map(Into::into),
            row: row.map(|row| row.parse::<Uuid>().unwrap()),
        }
    }

    /// Sentences of ovsdb-server 3.1.
    #[test]
    fn sentences() {
        let first = "a8061ab7-ea06-4c82-8a1f-7104db680b47";
        let second = "8c57a72e-fb0f-4e2f-bdd7-250cbea6c6a3";
        for (details, expected) in [
            (
                format!("Table Port column interfaces row {first} references nonexistent row {second} in table Interface."),
                at("Port", Some("interfaces"), Some(first)),
            ),
            (
                format!("Transaction causes multiple rows in \"Bridge\" table to have identical values (br0) for index on column \"name\".  First row, with UUID {first}, existed in the database before this transaction and was not modified by the transaction.  Second row, with UUID {second}, was inserted by this transaction."),
                at("Bridge", Some("name"), Some(second)),
            ),
            (
                format!("cannot delete Port row {first} because of 1 remaining reference(s)"),
                at("Port", None, Some(first)),
            ),
            (
                "transaction causes \"Open_vSwitch\" table to contain 2 rows, greater than the schema-defined limit of 1 row(s)".to_owned(),
                at("Open_vSwitch", None, None),
            ),
            (
                "Cannot mutate immutable column name in table Bridge.".to_owned(),
                at("Bridge", Some("name"), None),
            ),
        ] {
            assert_eq!(from_details(&details), expected, "{details}");
        }
        assert_eq!(from_details("Division by zero."), Location::default());
    }
}
