//! Random transactions on the real server and on ours, side by side: the same outcomes and errors,
//! the same rows; and the rows of our cache are those that `ovsdb-client dump` shows, and those that
//! `ovsdb-client monitor` has shown.

use std::collections::BTreeMap;
use std::path::Path;

use osier_ovsdb::error::{ErrorKind, Outcome};
use osier_ovsdb::monitor::Monitor;
use osier_ovsdb::op::{Condition, Function, Mutation, Mutator, Operation};
use osier_ovsdb::schema::Schema;
use osier_ovsdb::server::Server;
use osier_ovsdb::session::{Config, Remote, Session};
use osier_ovsdb::value::Real;
use osier_ovsdb::{Atom, Fields, Transaction, Uuid, Value};
use osier_testbed::{Lab, OvsdbServer, Process, wait_until};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config as Cases, TestRunner};
use serde_json::Value as Json;

use crate::expect::{SOON, within};

/// What both servers must agree on.
type Short = Result<Vec<Outcome>, (ErrorKind, Option<usize>)>;

/// Rows by table and identity, columns by name.
type View = BTreeMap<(String, String), BTreeMap<String, Value>>;

fn schema_path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/model.ovsschema")
}

// === random transactions ===

fn roots() -> impl Strategy<Value = Uuid> {
    (1u128..6).prop_map(Uuid::from_u128)
}

fn kids() -> impl Strategy<Value = Uuid> {
    (11u128..17).prop_map(Uuid::from_u128)
}

fn text() -> impl Strategy<Value = Atom> {
    select(vec!["", "a", "b c", "ü", "\"", "\\\n", "true", "toolong"]).prop_map(Atom::from)
}

fn integer() -> impl Strategy<Value = Atom> {
    select(vec![-1, 0, 1, 7, 100, 101]).prop_map(|n: i64| n.into())
}

fn real() -> impl Strategy<Value = Atom> {
    (-4i8..8).prop_map(|n| Atom::Real(Real::new(f64::from(n) / 2.0).unwrap()))
}

fn set(atoms: impl Strategy<Value = Atom>) -> impl Strategy<Value = Value> {
    prop::collection::vec(atoms, 0..5).prop_map(Value::set)
}

fn map(
    keys: impl Strategy<Value = Atom>,
    values: impl Strategy<Value = Atom>,
) -> impl Strategy<Value = Value> {
    prop::collection::vec((keys, values), 0..4).prop_map(Value::map)
}

/// A column of Root with a value that mostly fits.
fn root_field() -> impl Strategy<Value = (&'static str, Value)> {
    prop_oneof![
        text().prop_map(|v| ("name", Value::Atom(v))),
        integer().prop_map(|v| ("count", Value::Atom(v))),
        real().prop_map(|v| ("ratio", Value::Atom(v))),
        any::<bool>().prop_map(|v| ("flag", v.into())),
        select(vec!["red", "green", "blue"]).prop_map(|v| ("kind", v.into())),
        Just(("kind", Value::empty_set())),
        set(text()).prop_map(|v| ("tags", v)),
        set(integer()).prop_map(|v| ("numbers", v)),
        map(text(), text()).prop_map(|v| ("options", v)),
        map(integer(), real()).prop_map(|v| ("weights", v)),
        set(kids().prop_map(Into::into)).prop_map(|v| ("kids", v)),
        set(roots().prop_map(Into::into)).prop_map(|v| ("friends", v)),
        kids().prop_map(|v| ("favourite", v.into())),
        map(text(), kids().prop_map(Into::into)).prop_map(|v| ("by_name", v)),
        Just(("flag", Value::from("not a boolean"))),
    ]
}

fn fields() -> impl Strategy<Value = Fields> {
    prop::collection::vec(root_field(), 0..5).prop_map(|fields| {
        let by_name: BTreeMap<_, _> = fields.into_iter().collect();
        by_name.into_iter().map(|(column, value)| (column.into(), value)).collect()
    })
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let arithmetic = select(vec![
        Mutator::Add,
        Mutator::Subtract,
        Mutator::Multiply,
        Mutator::Divide,
        Mutator::Remainder,
    ]);
    let composite = select(vec![Mutator::Insert, Mutator::Delete]);
    prop_oneof![
        (arithmetic, integer()).prop_map(|(mutator, v)| ("count", mutator, Value::Atom(v))),
        // Not `*= 0` and its like: ovsdb-server 3.1 dies when two elements become one.
        (select(vec![Mutator::Add, Mutator::Subtract]), integer()).prop_map(|(mutator, v)| (
            "numbers",
            mutator,
            Value::Atom(v)
        )),
        (select(vec![Mutator::Add, Mutator::Multiply]), real()).prop_map(|(mutator, v)| (
            "ratio",
            mutator,
            Value::Atom(v)
        )),
        (composite.clone(), set(text())).prop_map(|(mutator, v)| ("tags", mutator, v)),
        (composite.clone(), set(integer())).prop_map(|(mutator, v)| ("numbers", mutator, v)),
        (composite.clone(), map(text(), text())).prop_map(|(mutator, v)| ("options", mutator, v)),
        set(text()).prop_map(|v| ("options", Mutator::Delete, v)),
        (composite.clone(), set(kids().prop_map(Into::into)))
            .prop_map(|(mutator, v)| ("kids", mutator, v)),
        (composite, set(roots().prop_map(Into::into)))
            .prop_map(|(mutator, v)| ("friends", mutator, v)),
    ]
    .prop_map(|(column, mutator, value)| Mutation { column: column.into(), mutator, value })
}

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    let column = (root_field(), select(Function::ALL.to_vec())).prop_filter_map(
        "functions that fit the column",
        |((column, value), function)| {
            let ordered = !matches!(
                function,
                Function::Equal | Function::NotEqual | Function::Includes | Function::Excludes
            );
            let fits = value != Value::from("not a boolean")
                && (!ordered || matches!(column, "count" | "ratio"));
            fits.then(|| Condition::Column { column: column.into(), function, value })
        },
    );
    prop_oneof![
        3 => roots().prop_map(|uuid| vec![Condition::uuid(uuid)]),
        1 => column.prop_map(|condition| vec![condition]),
        1 => Just(vec![]),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    // Toys are older kids: rows that keep each other alive are a riddle for any server.
    let kid = (11u128..17, text(), set(kids().prop_map(Into::into))).prop_map(|(n, name, toys)| {
        let older = |toy: &&Atom| **toy < Atom::Uuid(Uuid::from_u128(n));
        let toys = Value::set(toys.atoms().iter().filter(older).cloned());
        (Uuid::from_u128(n), name, toys)
    });
    prop_oneof![
        4 => (roots(), fields()).prop_map(|(uuid, row)| Operation::Insert {
            table: "Root".into(), row, name: None, uuid: Some(uuid),
        }),
        3 => kid.prop_map(|(uuid, name, toys)| Operation::Insert {
            table: "Kid".into(),
            row: vec![("name".into(), Value::Atom(name)), ("toys".into(), toys)],
            name: None,
            uuid: Some(uuid),
        }),
        3 => (conditions(), fields()).prop_map(|(conditions, row)| Operation::Update {
            table: "Root".into(), conditions, row,
        }),
        4 => (conditions(), prop::collection::vec(mutation(), 1..3)).prop_map(
            |(conditions, mutations)| Operation::Mutate {
                table: "Root".into(), conditions, mutations,
            }
        ),
        1 => conditions().prop_map(|conditions| Operation::Delete {
            table: "Root".into(), conditions,
        }),
        1 => kids().prop_map(|uuid| Operation::Delete {
            table: "Kid".into(), conditions: vec![Condition::uuid(uuid)],
        }),
        1 => kids().prop_map(|uuid| Operation::Update {
            table: "Kid".into(),
            conditions: vec![Condition::uuid(uuid)],
            row: vec![("name".into(), "immutable".into())],
        }),
    ]
}

// === the servers ===

struct Bench {
    runtime: tokio::runtime::Runtime,
    real: Session,
    memory: Session,
    server: OvsdbServer,
    watcher: Process,
}

impl Bench {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let lab = Lab::new().unwrap();
        let server = OvsdbServer::builder(&lab.host(), "db").start(&schema_path()).unwrap();
        let watcher = lab
            .host()
            .command("ovsdb-client")
            .args(["--format=json", "monitor"])
            .arg(format!("unix:{}", server.socket().display()))
            .args(["Model", "ALL"])
            .spawn()
            .unwrap();
        let config = || Config::new("Model", Monitor::new().all_columns("Root").all_columns("Kid"));
        let schema: Schema = std::fs::read_to_string(schema_path()).unwrap().parse().unwrap();
        let (real, memory) = runtime.block_on(async {
            let remote = Remote::Unix(server.socket());
            let real = Session::connect(vec![remote], config());
            let memory = Session::over(Server::new(schema).connect(), config());
            within("both sessions", async { tokio::try_join!(real.ready(), memory.ready()) })
                .await
                .unwrap();
            (real, memory)
        });
        Self { runtime, real, memory, server, watcher }
    }

    /// Runs a transaction on both; whether it was done.
    fn run(&self, transaction: &Transaction) {
        let (real, memory) = self.runtime.block_on(async {
            tokio::join!(
                self.real.transact(transaction, SOON),
                self.memory.transact(transaction, SOON)
            )
        });
        // Of two bad values in one operation either may be found first.
        let class = |kind: &ErrorKind, operation: Option<usize>| match kind {
            ErrorKind::SyntaxError if operation.is_some() => ErrorKind::ConstraintViolation,
            other => other.clone(),
        };
        let short = |result: Result<_, osier_ovsdb::session::TransactError>| -> Short {
            result.map_err(|error| match error.operation() {
                Some(failed) => (class(&failed.kind, failed.operation), failed.operation),
                None => panic!(
                    "{error:?}; real: {:?}, memory: {:?}; {transaction:?}",
                    self.real.status().last_error,
                    self.memory.status().last_error
                ),
            })
        };
        let text = (format!("{memory:?}"), format!("{real:?}"));
        assert_eq!(short(memory), short(real), "memory, real: {text:#?} for {transaction:?}");
    }

    fn cache(&self, session: &Session) -> View {
        let view = session.query(|cache| {
            let tables = ["Root", "Kid"].into_iter().filter_map(|table| cache.table(table));
            let row = |row: &std::sync::Arc<osier_ovsdb::Row>| {
                let columns = row.iter().map(|(name, value)| (name.to_string(), value.clone()));
                ((row.table().to_string(), row.uuid().to_string()), columns.collect())
            };
            tables.flat_map(|table| table.rows().map(row).collect::<Vec<_>>()).collect()
        });
        self.runtime.block_on(view).unwrap()
    }

    fn dump(&self) -> View {
        let mut view = View::new();
        for table in ["Root", "Kid"] {
            let text = self.server.client("dump", &["Model", table, "--format=json"]).unwrap();
            let json: Json = serde_json::from_str(text.trim()).unwrap();
            for cells in json["data"].as_array().unwrap() {
                let mut row = read_row(&json["headings"], cells.as_array().unwrap());
                let uuid = row.remove("_uuid").unwrap();
                view.insert((table.to_owned(), uuid.atoms()[0].to_string()), row);
            }
        }
        view
    }

    /// What `ovsdb-client monitor` has shown so far, added up.
    fn watched(&self) -> View {
        let mut view = View::new();
        for line in self.watcher.stdout().lines().filter(|line| !line.is_empty()) {
            // The last line may not be whole yet.
            let Ok(json) = serde_json::from_str::<Json>(line) else { continue };
            let table = json["caption"].as_str().unwrap();
            // A "new" row follows its "old" one and does not repeat the identity.
            let mut uuid = "";
            for cells in json["data"].as_array().unwrap() {
                let cells = cells.as_array().unwrap();
                uuid = cells[0].as_str().filter(|cell| !cell.is_empty()).unwrap_or(uuid);
                let key = (table.to_owned(), uuid.to_owned());
                match cells[1].as_str().unwrap() {
                    "delete" => drop(view.remove(&key)),
                    "old" => {}
                    _ => {
                        let mut row = read_row(&json["headings"], cells);
                        row.remove("_version");
                        view.insert(key, row);
                    }
                }
            }
        }
        view
    }
}

/// Columns of a row in the JSON format of tables; cells that are no values are left out.
fn read_row(headings: &Json, cells: &[Json]) -> BTreeMap<String, Value> {
    let schema: Schema = std::fs::read_to_string(schema_path()).unwrap().parse().unwrap();
    let columns = headings.as_array().unwrap().iter().zip(cells);
    columns
        .filter_map(|(name, cell)| {
            let name = name.as_str().unwrap();
            let ty = schema
                .tables
                .values()
                .find_map(|table| table.column_type(name).filter(|_| table.column(name).is_some()));
            let value: Value = serde_json::from_value(cell.clone()).ok()?;
            let value = match ty {
                Some(ty) => ty.conform(value).unwrap(),
                None if name.starts_with('_') => value,
                None => return None,
            };
            Some((name.to_owned(), value))
        })
        .collect()
}

#[test]
fn random_transactions() {
    let bench = Bench::start();
    // `PROPTEST_CASES` for more.
    let default = Cases::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 96 };
    let cases = Cases { cases, failure_persistence: None, ..default };
    let transactions = prop::collection::vec(prop::collection::vec(operation(), 1..5), 1..8);
    TestRunner::new(cases)
        .run(&transactions, |transactions| {
            let mut empty = Transaction::new("begin with nothing");
            for table in ["Root", "Kid"] {
                empty.push(Operation::Delete { table: table.into(), conditions: vec![] });
            }
            let empty = bench.runtime.block_on(async {
                tokio::join!(bench.real.transact(&empty, SOON), bench.memory.transact(&empty, SOON))
            });
            assert!(empty.0.is_ok() && empty.1.is_ok(), "{empty:?}");
            for operations in transactions {
                let mut transaction = Transaction::new("random");
                for operation in operations {
                    transaction.push(operation);
                }
                bench.run(&transaction);
                let real = bench.cache(&bench.real);
                prop_assert_eq!(&bench.cache(&bench.memory), &real);
            }
            prop_assert_eq!(bench.dump(), bench.cache(&bench.real));
            Ok(())
        })
        .unwrap();
    let ours = bench.cache(&bench.real);
    wait_until("ovsdb-client monitor to show the same", SOON, || {
        let watched = bench.watched();
        if watched == ours { Ok(()) } else { Err(format!("{watched:#?} instead of {ours:#?}")) }
    })
    .unwrap();
}
