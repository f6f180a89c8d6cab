//! Executes the operations of a transaction (RFC 7047 section 5.2) on a copy of the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::condition;
use super::database::{Database, Tables};
use super::{integrity, mutation};
use crate::Uuid;
use crate::op::{Condition, Mutator};
use crate::row::{Layout, Row};
use crate::schema::{Mismatch, TableSchema, Violation};
use crate::value::{Atom, Value};

/// Why an operation fails.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    error: &'static str,
    details: String,
}

/// What became of a transaction.
pub(super) enum Verdict {
    /// Results, and the rows to commit.
    Commit(Vec<Json>, Tables),
    /// Results, the last one an error.
    Fail(Vec<Json>),
    /// A `wait` does not hold yet; it may for this many milliseconds, or for ever.
    Wait(Option<u64>),
}

enum Stop {
    Failed(Failure),
    Waiting(Option<u64>),
}

impl Failure {
    pub(super) fn new(error: &'static str, details: impl Into<String>) -> Self {
        Self { error, details: details.into() }
    }

    pub(super) fn syntax(details: impl Into<String>) -> Self {
        Self::new("syntax error", details)
    }

    pub(super) fn json(&self) -> Json {
        json!({ "error": self.error, "details": self.details })
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        Self::syntax(mismatch.to_string())
    }
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        match violation {
            Violation::Count { .. } => Self::syntax(violation.to_string()),
            Violation::Atom { .. } => Self::new("constraint violation", violation.to_string()),
        }
    }
}

/// Runs a transaction. `holds` tells which locks the client has; `overdue` that its time to wait is up.
pub(super) fn run(
    database: &Database,
    operations: &[Json],
    holds: &dyn Fn(&str) -> bool,
    overdue: bool,
) -> Verdict {
    let mut run = Run {
        database,
        tables: database.tables.clone(),
        names: BTreeMap::new(),
        inserted: BTreeSet::new(),
        deleted: BTreeSet::new(),
        overdue,
    };
    let mut results = Vec::new();
    for operation in operations {
        match run.execute(operation, holds) {
            Ok(result) => results.push(result),
            Err(Stop::Waiting(timeout)) => return Verdict::Wait(timeout),
            Err(Stop::Failed(failure)) => {
                results.push(failure.json());
                // RFC 7047 section 4.1.3: operations after the failed one have null results.
                results.resize(operations.len(), Json::Null);
                return Verdict::Fail(results);
            }
        }
    }
    match integrity::enforce(&database.schema, &database.tables, &mut run.tables, &run.deleted) {
        Ok(()) => Verdict::Commit(results, run.tables),
        Err(failure) => {
            results.push(failure.json());
            Verdict::Fail(results)
        }
    }
}

struct Run<'a> {
    database: &'a Database,
    tables: Tables,
    names: BTreeMap<String, Uuid>,
    inserted: BTreeSet<String>,
    deleted: BTreeSet<(Arc<str>, Uuid)>,
    overdue: bool,
}

impl<'a> Run<'a> {
    fn execute(&mut self, json: &Json, holds: &dyn Fn(&str) -> bool) -> Result<Json, Stop> {
        let operation = json.as_object().ok_or_else(|| Failure::syntax("Object expected."))?;
        match text(operation, "op")? {
            "insert" => self.insert(operation),
            "select" => self.select(operation),
            "update" => self.update(operation),
            "mutate" => self.mutate(operation),
            "delete" => self.delete(operation),
            "wait" => self.wait(operation),
            "commit" | "comment" => Ok(json!({})),
            "abort" => Err(Failure::new("aborted", "aborted by request").into()),
            "assert" => match text(operation, "lock")? {
                lock if holds(lock) => Ok(json!({})),
                lock => {
                    Err(Failure::new("not owner", format!("Asserted lock {lock} not held.")).into())
                }
            },
            other => Err(Failure::syntax(format!("No operation \"{other}\"")).into()),
        }
    }

    fn table(
        &self,
        operation: &Map<String, Json>,
    ) -> Result<(&'a TableSchema, &'a Arc<Layout>), Failure> {
        let name = text(operation, "table")?;
        let table = self.database.schema.table(name);
        let table = table.ok_or_else(|| Failure::syntax(format!("No table named {name}.")))?;
        Ok((table, &self.database.layouts[&table.name]))
    }

    fn insert(&mut self, operation: &Map<String, Json>) -> Result<Json, Stop> {
        let (table, layout) = self.table(operation)?;
        let uuid = match (operation.get("uuid-name"), operation.get("uuid")) {
            (Some(Json::String(name)), _) => {
                if !self.inserted.insert(name.clone()) {
                    let details = "This \"uuid-name\" appeared on an earlier \"insert\" operation.";
                    return Err(Failure::new("duplicate uuid-name", details).into());
                }
                *self.names.entry(name.clone()).or_insert_with(Uuid::random)
            }
            (_, Some(Json::String(uuid))) => {
                uuid.parse().map_err(|_| Failure::syntax("not a valid UUID"))?
            }
            _ => Uuid::random(),
        };
        let key = (Arc::clone(&table.name), uuid);
        let mut row = layout.default_row(uuid);
        let revived =
            self.deleted.contains(&key) && self.database.tables[&table.name].contains_key(&uuid);
        if revived || self.tables[&table.name].contains_key(&uuid) {
            let details = "This UUID would duplicate a UUID already present within the table or deleted within the same transaction.";
            return Err(Failure::new("duplicate uuid", details).into());
        }
        for (index, value) in self.fields(layout, operation.get("row"))? {
            row.set(index, value);
        }
        for (index, (_, column)) in layout.columns().iter().enumerate() {
            column.ty.check(row.value(index)).map_err(Failure::from)?;
        }
        self.put(row);
        Ok(json!({ "uuid": ["uuid", uuid.to_string()] }))
    }

    fn select(&mut self, operation: &Map<String, Json>) -> Result<Json, Stop> {
        let rows = self.find(operation)?;
        let columns: Option<BTreeSet<String>> = columns(operation)?;
        let rows: Vec<_> = rows.iter().map(|row| row_json(row, columns.as_ref())).collect();
        Ok(json!({ "rows": rows }))
    }

    fn update(&mut self, operation: &Map<String, Json>) -> Result<Json, Stop> {
        let rows = self.find(operation)?;
        let (table, layout) = self.table(operation)?;
        let named = operation.get("row").and_then(Json::as_object).into_iter().flat_map(Map::keys);
        for column in named {
            if table.column(column).is_some_and(|column| !column.mutable) {
                let details =
                    format!("Cannot update immutable column {column} in table {}.", table.name);
                return Err(Failure::new("constraint violation", details).into());
            }
        }
        let fields = self.fields(layout, operation.get("row"))?;
        let count = rows.len();
        for row in rows {
            let mut row = Row::clone(&row);
            for (index, value) in &fields {
                row.set(*index, value.clone());
            }
            self.put(row);
        }
        Ok(json!({ "count": count }))
    }

    fn mutate(&mut self, operation: &Map<String, Json>) -> Result<Json, Stop> {
        let rows = self.find(operation)?;
        let (table, layout) = self.table(operation)?;
        let list = operation.get("mutations").and_then(Json::as_array);
        let list = list.ok_or_else(|| Failure::syntax("array of mutations expected"))?;
        let mut mutations = Vec::new();
        for json in list {
            let (column, symbol, value): (String, String, Value) =
                serde_json::from_value(json.clone())
                    .map_err(|error| Failure::syntax(format!("mutation: {error}")))?;
            let schema = table.column(&column).zip(layout.index(&column));
            let (schema, index) = schema.ok_or_else(|| no_column(&column, table))?;
            if !schema.mutable {
                let details =
                    format!("Cannot mutate immutable column {column} in table {}.", table.name);
                return Err(Failure::new("constraint violation", details).into());
            }
            let mutator = Mutator::ALL.into_iter().find(|mutator| mutator.symbol() == symbol);
            let mutator =
                mutator.ok_or_else(|| Failure::syntax(format!("no mutator named {symbol}")))?;
            let by = mutation::operand(&schema.ty, mutator, self.resolve(&value))?;
            mutations.push((index, &schema.ty, mutator, by));
        }
        let count = rows.len();
        for row in rows {
            let mut row = Row::clone(&row);
            for (index, ty, mutator, by) in &mutations {
                let value = mutation::apply(ty, row.value(*index), *mutator, by)?;
                ty.check(&value).map_err(|violation| {
                    Failure::new("constraint violation", violation.to_string())
                })?;
                row.set(*index, value);
            }
            self.put(row);
        }
        Ok(json!({ "count": count }))
    }

    fn delete(&mut self, operation: &Map<String, Json>) -> Result<Json, Stop> {
        let rows = self.find(operation)?;
        for row in &rows {
            self.deleted.insert((Arc::clone(row.table()), row.uuid()));
            if let Some(table) = self.tables.get_mut(row.table()) {
                table.remove(&row.uuid());
            }
        }
        Ok(json!({ "count": rows.len() }))
    }

    fn wait(&mut self, operation: &Map<String, Json>) -> Result<Json, Stop> {
        let rows = self.find(operation)?;
        let (_, layout) = self.table(operation)?;
        let columns = columns(operation)?;
        let projected = |row: &Row| -> Vec<Value> {
            let wanted = |name: &str| columns.as_ref().is_none_or(|columns| columns.contains(name));
            row.iter().filter(|(name, _)| wanted(name)).map(|(_, value)| value.clone()).collect()
        };
        let found: BTreeSet<_> = rows.iter().map(|row| projected(row)).collect();
        let mut given = BTreeSet::new();
        for json in operation.get("rows").and_then(Json::as_array).into_iter().flatten() {
            let mut row = layout.default_row(Uuid::ZERO);
            for (index, value) in self.fields(layout, Some(json))? {
                row.set(index, value);
            }
            given.insert(projected(&row));
        }
        let equal = found == given;
        if equal == (text(operation, "until")? == "==") {
            return Ok(json!({}));
        }
        match operation.get("timeout").and_then(Json::as_u64) {
            timeout if timeout != Some(0) && !self.overdue => Err(Stop::Waiting(timeout)),
            _ => Err(Failure::new("timed out", "\"where\" clause test failed").into()),
        }
    }

    fn find(&mut self, operation: &Map<String, Json>) -> Result<Vec<Arc<Row>>, Failure> {
        let (table, _) = self.table(operation)?;
        let mut names = std::mem::take(&mut self.names);
        let conditions = condition::parse(table, operation.get("where"), &mut |value| {
            resolve(&mut names, &value)
        });
        self.names = names;
        let conditions = conditions?;
        let rows = &self.tables[&table.name];
        // One row by its identity is what most operations are about.
        if let [Condition::Column { column, value: Value::Atom(Atom::Uuid(uuid)), .. }] =
            &*conditions
            && column == "_uuid"
        {
            let row = rows.get(uuid).filter(|row| condition::all(&conditions, row));
            return Ok(row.cloned().into_iter().collect());
        }
        Ok(rows.values().filter(|row| condition::all(&conditions, row)).cloned().collect())
    }

    /// Reads the columns of a row.
    fn fields(
        &mut self,
        layout: &Layout,
        json: Option<&Json>,
    ) -> Result<Vec<(usize, Value)>, Failure> {
        let json = json.and_then(Json::as_object).ok_or_else(|| Failure::syntax("row expected"))?;
        let mut fields = Vec::new();
        for (name, json) in json {
            let Some(index) = layout.index(name) else {
                let details = format!("No column {name} in table {}.", layout.table());
                return Err(Failure::new("unknown column", details));
            };
            let value: Value = serde_json::from_value(json.clone())
                .map_err(|error| Failure::syntax(error.to_string()))?;
            let ty = &layout.columns()[index].1.ty;
            let value = ty.conform(self.resolve(&value))?;
            ty.check(&value)?;
            fields.push((index, value));
        }
        Ok(fields)
    }

    fn put(&mut self, row: Row) {
        if let Some(table) = self.tables.get_mut(row.table()) {
            table.insert(row.uuid(), Arc::new(row));
        }
    }

    fn resolve(&mut self, value: &Value) -> Value {
        resolve(&mut self.names, value)
    }
}

/// Names become the identities of the rows that are, or will be, inserted under them.
fn resolve(names: &mut BTreeMap<String, Uuid>, value: &Value) -> Value {
    let mut atom = |atom: &Atom| match atom {
        Atom::NamedUuid(name) => {
            Atom::Uuid(*names.entry(name.to_string()).or_insert_with(Uuid::random))
        }
        other => other.clone(),
    };
    match value {
        Value::Map(_) => Value::map(value.pairs().iter().map(|(k, v)| (atom(k), atom(v)))),
        Value::Atom(_) | Value::Set(_) => Value::set(value.atoms().iter().map(atom)),
    }
}

pub(super) fn row_json(row: &Row, columns: Option<&BTreeSet<String>>) -> Json {
    let wanted = |name: &str| columns.is_none_or(|columns| columns.contains(name));
    let mut json: Map<_, _> = row
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, value)| (name.to_string(), value_json(value)))
        .collect();
    if wanted("_uuid") {
        json.insert("_uuid".to_owned(), value_json(&row.uuid().into()));
    }
    Json::Object(json)
}

pub(super) fn value_json(value: &Value) -> Json {
    serde_json::to_value(value).expect("values have a JSON form")
}

fn text<'b>(operation: &'b Map<String, Json>, member: &str) -> Result<&'b str, Failure> {
    let found = operation.get(member).and_then(Json::as_str);
    found.ok_or_else(|| Failure::syntax(format!("Required '{member}' member is missing.")))
}

fn columns(operation: &Map<String, Json>) -> Result<Option<BTreeSet<String>>, Failure> {
    let read = |json: &Json| {
        serde_json::from_value(json.clone()).map_err(|error| Failure::syntax(error.to_string()))
    };
    operation.get("columns").map(read).transpose()
}

fn no_column(column: &str, table: &TableSchema) -> Failure {
    Failure::new("unknown column", format!("No column {column} in table {}.", table.name))
}
