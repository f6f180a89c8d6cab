//! Evaluates conditions (RFC 7047 section 5.1) on rows.

use serde_json::Value as Json;

use super::transaction::Failure;
use crate::op::{Condition, Function};
use crate::row::Row;
use crate::schema::TableSchema;
use crate::value::{Atom, Value};

/// Reads a `where` array.
pub(super) fn parse(
    table: &TableSchema,
    json: Option<&Json>,
    adopt: &mut dyn FnMut(Value) -> Value,
) -> Result<Vec<Condition>, Failure> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let list = json.as_array().ok_or_else(|| Failure::syntax("array expected"))?;
    list.iter().map(|clause| parse_one(table, clause, adopt)).collect()
}

fn parse_one(
    table: &TableSchema,
    json: &Json,
    adopt: &mut dyn FnMut(Value) -> Value,
) -> Result<Condition, Failure> {
    if let Some(truth) = json.as_bool() {
        return Ok(Condition::Always(truth));
    }
    let (column, symbol, value): (String, String, Value) = serde_json::from_value(json.clone())
        .map_err(|error| Failure::syntax(format!("condition: {error}")))?;
    let ty = table.column_type(&column).ok_or_else(|| {
        Failure::new("unknown column", format!("No column {column} in table {}.", table.name))
    })?;
    let function = Function::ALL.into_iter().find(|function| function.symbol() == symbol);
    let function =
        function.ok_or_else(|| Failure::syntax(format!("no function named {symbol}")))?;
    let value = ty.conform(adopt(value))?;
    match function {
        Function::Includes | Function::Excludes => ty.check_atoms(&value)?,
        _ => ty.check(&value)?,
    }
    Ok(Condition::Column { column: column.into(), function, value })
}

/// Whether all hold: for operations.
pub(super) fn all(conditions: &[Condition], row: &Row) -> bool {
    conditions.iter().all(|condition| holds(condition, row))
}

/// Whether one holds, or there is none: for monitors.
pub(super) fn any(conditions: &[Condition], row: &Row) -> bool {
    conditions.is_empty() || conditions.iter().any(|condition| holds(condition, row))
}

fn holds(condition: &Condition, row: &Row) -> bool {
    let (column, function, value) = match condition {
        Condition::Always(truth) => return *truth,
        Condition::Column { column, function, value } => (column, *function, value),
    };
    let uuid = Value::from(row.uuid());
    let Some(held) = (if column == "_uuid" { Some(&uuid) } else { row.get(column) }) else {
        return false;
    };
    let ordered = |test: fn(&Atom, &Atom) -> bool| match (held, value) {
        (Value::Atom(held), Value::Atom(value)) => test(held, value),
        _ => false,
    };
    match function {
        Function::Equal => held == value,
        Function::NotEqual => held != value,
        Function::Less => ordered(|a, b| a < b),
        Function::LessOrEqual => ordered(|a, b| a <= b),
        Function::Greater => ordered(|a, b| a > b),
        Function::GreaterOrEqual => ordered(|a, b| a >= b),
        Function::Includes => shared(held, value) == value.len(),
        Function::Excludes => shared(held, value) == 0,
    }
}

/// How many elements or pairs of `value` are in `held`.
fn shared(held: &Value, value: &Value) -> usize {
    let atoms = value.atoms().iter().filter(|atom| held.atoms().contains(atom)).count();
    let pairs = value.pairs().iter().filter(|(key, second)| held.get(key) == Some(second)).count();
    atoms + pairs
}
