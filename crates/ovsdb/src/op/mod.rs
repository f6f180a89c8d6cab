//! Operations of a transaction as values (RFC 7047 section 5.2). They are built anywhere, compared
//! in tests, and written to JSON once, without a tree in between.

mod json;
mod transaction;

use std::fmt;

pub use transaction::Transaction;

use crate::Uuid;
use crate::row::{Fields, Name};
use crate::value::Value;

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a row (section 5.2.1).
    Insert {
        /// Where.
        table: Name,
        /// Columns that differ from their default.
        row: Fields,
        /// A name by which this transaction can refer to the row.
        name: Option<Name>,
        /// The row's identity, chosen by us (Open vSwitch 2.13).
        uuid: Option<Uuid>,
    },
    /// Reads rows (section 5.2.2).
    Select {
        /// Where.
        table: Name,
        /// Rows for which all hold.
        conditions: Vec<Condition>,
        /// These columns, or all.
        columns: Option<Vec<Name>>,
    },
    /// Sets columns of rows (section 5.2.3).
    Update {
        /// Where.
        table: Name,
        /// Rows for which all hold.
        conditions: Vec<Condition>,
        /// New values.
        row: Fields,
    },
    /// Changes columns relative to what they hold (section 5.2.4).
    Mutate {
        /// Where.
        table: Name,
        /// Rows for which all hold.
        conditions: Vec<Condition>,
        /// In order.
        mutations: Vec<Mutation>,
    },
    /// Removes rows (section 5.2.5).
    Delete {
        /// Where.
        table: Name,
        /// Rows for which all hold.
        conditions: Vec<Condition>,
    },
    /// Waits until rows are, or are not, as given; else the transaction fails (section 5.2.6).
    Wait {
        /// Where.
        table: Name,
        /// Milliseconds; 0 tests once, `None` waits for ever.
        timeout: Option<u64>,
        /// Rows for which all hold.
        conditions: Vec<Condition>,
        /// Columns to compare; `None` compares all.
        columns: Option<Vec<Name>>,
        /// Equal or not.
        until: Until,
        /// The rows to compare with.
        rows: Vec<Fields>,
    },
    /// Asks that the transaction be on disk before the reply (section 5.2.7).
    Commit {
        /// On disk.
        durable: bool,
    },
    /// Fails the transaction (section 5.2.8).
    Abort,
    /// Is written to the database's log (section 5.2.9).
    Comment(String),
    /// Fails the transaction unless this session holds the lock (section 5.2.10).
    Assert {
        /// The lock.
        lock: Name,
    },
}

/// What [`Operation::Wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The rows found are the rows given.
    Equal,
    /// They are not.
    NotEqual,
}

/// A test of a row. A list of conditions holds if each does, except in a monitor, where one is
/// enough (ovsdb-server(7) 4.1.12).
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The same for all rows: monitors only.
    Always(bool),
    /// Compares a column.
    Column {
        /// The column, or `_uuid`.
        column: Name,
        /// How.
        function: Function,
        /// With what.
        value: Value,
    },
}

/// `<function>` of RFC 7047 section 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Function {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    Includes,
    Excludes,
}

/// A relative change of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The column.
    pub column: Name,
    /// How.
    pub mutator: Mutator,
    /// By what.
    pub value: Value,
}

/// `<mutator>` of RFC 7047 section 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Insert,
    Delete,
}

// === impl Operation ===

impl Operation {
    /// Its name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Select { .. } => "select",
            Self::Update { .. } => "update",
            Self::Mutate { .. } => "mutate",
            Self::Delete { .. } => "delete",
            Self::Wait { .. } => "wait",
            Self::Commit { .. } => "commit",
            Self::Abort => "abort",
            Self::Comment(_) => "comment",
            Self::Assert { .. } => "assert",
        }
    }

    /// The table it is about.
    pub fn table(&self) -> Option<&Name> {
        match self {
            Self::Insert { table, .. }
            | Self::Select { table, .. }
            | Self::Update { table, .. }
            | Self::Mutate { table, .. }
            | Self::Delete { table, .. }
            | Self::Wait { table, .. } => Some(table),
            Self::Commit { .. } | Self::Abort | Self::Comment(_) | Self::Assert { .. } => None,
        }
    }

    /// The columns it writes, with what it writes.
    pub fn written(&self) -> impl Iterator<Item = (&Name, &Value)> {
        let (row, mutations): (&[_], &[Mutation]) = match self {
            Self::Insert { row, .. } | Self::Update { row, .. } => (row, &[]),
            Self::Mutate { mutations, .. } => (&[], mutations),
            _ => (&[], &[]),
        };
        let fields = row.iter().map(|(column, value)| (column, value));
        fields.chain(mutations.iter().map(|mutation| (&mutation.column, &mutation.value)))
    }

    /// The conditions that choose its rows.
    pub fn conditions(&self) -> &[Condition] {
        match self {
            Self::Select { conditions, .. }
            | Self::Update { conditions, .. }
            | Self::Mutate { conditions, .. }
            | Self::Delete { conditions, .. }
            | Self::Wait { conditions, .. } => conditions,
            _ => &[],
        }
    }

    /// The row it is about, if its conditions or its own identity name one.
    pub fn row(&self) -> Option<Uuid> {
        match self {
            Self::Insert { uuid, .. } => *uuid,
            _ => self.conditions().iter().find_map(Condition::row),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        self.table().map_or(Ok(()), |table| write!(f, " {table}"))
    }
}

// === impl Condition ===

impl Condition {
    /// A column equals a value.
    pub fn equal(column: impl Into<Name>, value: impl Into<Value>) -> Self {
        Self::Column { column: column.into(), function: Function::Equal, value: value.into() }
    }

    /// A column includes a value.
    pub fn includes(column: impl Into<Name>, value: impl Into<Value>) -> Self {
        Self::Column { column: column.into(), function: Function::Includes, value: value.into() }
    }

    /// The row with this identity.
    pub fn uuid(uuid: Uuid) -> Self {
        Self::equal("_uuid", uuid)
    }

    fn row(&self) -> Option<Uuid> {
        match self {
            Self::Column {
                column,
                function: Function::Equal,
                value: Value::Atom(crate::Atom::Uuid(uuid)),
            } if column == "_uuid" => Some(*uuid),
            _ => None,
        }
    }
}

// === impl Mutation ===

impl Mutation {
    /// Adds elements to a set, or pairs to a map whose keys are not there yet.
    pub fn insert(column: impl Into<Name>, value: impl Into<Value>) -> Self {
        Self { column: column.into(), mutator: Mutator::Insert, value: value.into() }
    }

    /// Removes elements of a set, or pairs (a map) or keys (a set) of a map.
    pub fn delete(column: impl Into<Name>, value: impl Into<Value>) -> Self {
        Self { column: column.into(), mutator: Mutator::Delete, value: value.into() }
    }
}
