//! What one monitor of one client sees (RFC 7047 section 4.1.5, ovsdb-server(7) 4.1.12 to 4.1.16).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::condition;
use super::database::Database;
use super::transaction::{Failure, value_json};
use crate::cache::RowChange;
use crate::delta::difference;
use crate::monitor::MonitorMethod;
use crate::op::Condition;
use crate::row::Row;

pub(super) struct Monitor {
    pub(super) database: String,
    pub(super) method: MonitorMethod,
    tables: BTreeMap<Arc<str>, Watched>,
}

struct Watched {
    columns: BTreeSet<String>,
    conditions: Vec<Condition>,
}

impl Monitor {
    /// Reads `<monitor-requests>`.
    pub(super) fn parse(
        database: &Database,
        method: MonitorMethod,
        requests: &Json,
    ) -> Result<Self, Failure> {
        let requests = requests.as_object().ok_or_else(|| Failure::syntax("object expected"))?;
        let mut tables = BTreeMap::new();
        for (name, request) in requests {
            let table = database.schema.table(name);
            let table = table.ok_or_else(|| Failure::syntax(format!("no table named {name}")))?;
            let request = request.get(0).unwrap_or(request);
            let columns: BTreeSet<String> = match request.get("columns").and_then(Json::as_array) {
                Some(list) => list.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
                None => table.columns.keys().map(ToString::to_string).collect(),
            };
            if let Some(unknown) = columns.iter().find(|column| table.column(column).is_none()) {
                return Err(Failure::syntax(format!("{unknown} is not a valid column name")));
            }
            let conditions = condition::parse(table, request.get("where"), &mut |value| value)?;
            tables.insert(Arc::clone(&table.name), Watched { columns, conditions });
        }
        Ok(Self { database: database.schema.name.clone(), method, tables })
    }

    /// All rows there are.
    pub(super) fn initial(&self, database: &Database) -> Json {
        let rows = self.tables.iter().flat_map(|(table, watched)| {
            database.tables[table].values().filter(|row| condition::any(&watched.conditions, row))
        });
        let inserts =
            rows.map(|row| RowChange { old: None, new: Some(Arc::clone(row)) }).collect::<Vec<_>>();
        self.updates(&inserts, true)
    }

    /// What of some changes it sees; `initial` for the words of a first reply.
    pub(super) fn updates(&self, changes: &[RowChange], initial: bool) -> Json {
        let mut tables: Map<String, Json> = Map::new();
        for change in changes {
            let Some(watched) = self.tables.get(change.table()) else { continue };
            if let Some(update) = self.update(watched, change, initial) {
                let table = tables.entry(change.table().to_string()).or_insert_with(|| json!({}));
                table[change.uuid().to_string()] = update;
            }
        }
        Json::Object(tables)
    }

    /// Changes the conditions of some tables; the changes that this means for the client.
    pub(super) fn change_conditions(
        &mut self,
        database: &Database,
        requests: &Json,
    ) -> Result<Json, Failure> {
        let requests = requests.as_object().ok_or_else(|| Failure::syntax("object expected"))?;
        let mut updates: Map<String, Json> = Map::new();
        for (name, request) in requests {
            let table = database.schema.table(name);
            let table = table.ok_or_else(|| Failure::syntax(format!("no table named {name}")))?;
            let Some(watched) = self.tables.get_mut(&table.name) else { continue };
            let request = request.get(0).unwrap_or(request);
            let conditions = condition::parse(table, request.get("where"), &mut |value| value)?;
            let old = std::mem::replace(&mut watched.conditions, conditions);
            let mut rows = Map::new();
            for row in database.tables[&table.name].values() {
                let seen = (condition::any(&old, row), condition::any(&watched.conditions, row));
                let update = match seen {
                    (false, true) => json!({ "insert": columns(watched, row, true) }),
                    (true, false) => json!({ "delete": null }),
                    _ => continue,
                };
                rows.insert(row.uuid().to_string(), update);
            }
            if !rows.is_empty() {
                updates.insert(name.clone(), Json::Object(rows));
            }
        }
        Ok(Json::Object(updates))
    }

    fn update(&self, watched: &Watched, change: &RowChange, initial: bool) -> Option<Json> {
        let sees = |row: &&Arc<Row>| condition::any(&watched.conditions, row);
        let old = change.old.as_ref().filter(sees);
        let new = change.new.as_ref().filter(sees);
        let plain = self.method == MonitorMethod::Monitor;
        match (old, new) {
            (None, None) => None,
            (None, Some(new)) if plain => Some(json!({ "new": columns(watched, new, false) })),
            (None, Some(new)) => {
                let kind = if initial { "initial" } else { "insert" };
                Some(json!({ kind: columns(watched, new, true) }))
            }
            (Some(old), None) if plain => Some(json!({ "old": columns(watched, old, false) })),
            (Some(_), None) => Some(json!({ "delete": null })),
            (Some(old), Some(new)) => {
                let differing = |(_, column): &(usize, &String)| old.get(column) != new.get(column);
                let changed: BTreeSet<_> =
                    watched.columns.iter().enumerate().filter(differing).collect();
                if changed.is_empty() {
                    return None;
                }
                let pick = |row: &Row, diff: bool| -> Json {
                    let value = |column: &String| {
                        let held = row.get(column)?;
                        let ty = &row.layout().columns()[row.layout().index(column)?].1.ty;
                        let diff = if diff {
                            difference(ty, old.get(column)?, held)
                        } else {
                            held.clone()
                        };
                        Some(value_json(&diff))
                    };
                    changed
                        .iter()
                        .filter_map(|(_, c)| Some(((*c).clone(), value(c)?)))
                        .collect::<Map<_, _>>()
                        .into()
                };
                Some(if plain {
                    json!({ "old": pick(old, false), "new": columns(watched, new, false) })
                } else {
                    json!({ "modify": pick(new, true) })
                })
            }
        }
    }
}

/// The watched columns of a row; those at their default may be left out.
fn columns(watched: &Watched, row: &Row, without_defaults: bool) -> Json {
    let mut json = Map::new();
    for (index, (name, column)) in row.layout().columns().iter().enumerate() {
        let value = row.value(index);
        let skipped = without_defaults && *value == column.ty.default_value();
        if watched.columns.contains(&**name) && !skipped {
            json.insert(name.to_string(), value_json(value));
        }
    }
    Json::Object(json)
}
