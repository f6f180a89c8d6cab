//! What became of a transaction. The reply to `transact` (RFC 7047 section 4.1.3) is decoded to a
//! result for each operation, or to an error that says which operation failed, of which kind, and in
//! which table, column and row.

mod locate;

use std::fmt;

use serde::Deserialize;

use crate::Uuid;
pub use crate::delta::Location;
use crate::op::{Operation, Transaction};
use crate::schema::Schema;
use crate::value::{Atom, Value};

/// What an operation gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The row that was inserted.
    Inserted(Uuid),
    /// How many rows were updated, mutated or deleted.
    Count(u64),
    /// Selected rows.
    Rows(Vec<Vec<(String, Value)>>),
    /// Nothing to say.
    Done,
}

/// A reply that cannot be read, or that says that nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum OutcomeError {
    /// Not the JSON of a reply to `transact`.
    #[error("the reply to a transaction is malformed")]
    Malformed(#[source] serde_json::Error),
    /// Results do not fit the operations.
    #[error("{found} results for {expected} operations, and none is an error")]
    Short {
        /// Operations.
        expected: usize,
        /// Results.
        found: usize,
    },
    /// The database refused.
    #[error(transparent)]
    Failed(#[from] Box<OperationError>),
}

/// The database refused a transaction; nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationError {
    /// The operation that failed; `None` if the commit did.
    pub operation: Option<usize>,
    /// That operation in words, such as "insert Port".
    pub what: String,
    /// The kind of error.
    pub kind: ErrorKind,
    /// Where, as far as the server or the schema tell.
    pub at: Location,
    /// The server's words; may be empty.
    pub details: String,
}

/// `<error>` strings of RFC 7047 and ovsdb-server(7).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words on the wire say it")]
pub enum ErrorKind {
    ConstraintViolation,
    ReferentialIntegrityViolation,
    TimedOut,
    NotOwner,
    Aborted,
    Canceled,
    ResourcesExhausted,
    IoError,
    DuplicateUuidName,
    DuplicateUuid,
    DomainError,
    RangeError,
    NotSupported,
    UnknownDatabase,
    UnknownColumn,
    SyntaxError,
    PermissionError,
    ClusterError,
    Other(String),
}

impl From<&str> for ErrorKind {
    fn from(word: &str) -> Self {
        match word {
            "constraint violation" => Self::ConstraintViolation,
            "referential integrity violation" => Self::ReferentialIntegrityViolation,
            "timed out" => Self::TimedOut,
            "not owner" => Self::NotOwner,
            "aborted" => Self::Aborted,
            "canceled" => Self::Canceled,
            "resources exhausted" => Self::ResourcesExhausted,
            "I/O error" => Self::IoError,
            "duplicate uuid-name" => Self::DuplicateUuidName,
            "duplicate uuid" => Self::DuplicateUuid,
            "domain error" => Self::DomainError,
            "range error" => Self::RangeError,
            "not supported" | "not allowed" => Self::NotSupported,
            "unknown database" => Self::UnknownDatabase,
            "unknown column" => Self::UnknownColumn,
            "syntax error" | "syntax error or unknown column" => Self::SyntaxError,
            "permission error" => Self::PermissionError,
            "cluster error" | "not leader" => Self::ClusterError,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConstraintViolation => "constraint violation",
            Self::ReferentialIntegrityViolation => "referential integrity violation",
            Self::TimedOut => "timed out",
            Self::NotOwner => "not owner",
            Self::Aborted => "aborted",
            Self::Canceled => "canceled",
            Self::ResourcesExhausted => "resources exhausted",
            Self::IoError => "I/O error",
            Self::DuplicateUuidName => "duplicate uuid-name",
            Self::DuplicateUuid => "duplicate uuid",
            Self::DomainError => "domain error",
            Self::RangeError => "range error",
            Self::NotSupported => "not supported",
            Self::UnknownDatabase => "unknown database",
            Self::UnknownColumn => "unknown column",
            Self::SyntaxError => "syntax error",
            Self::PermissionError => "permission error",
            Self::ClusterError => "cluster error",
            Self::Other(word) => word,
        })
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Some(index) => write!(f, "operation {index} ({})", self.what)?,
            None => f.write_str("the commit")?,
        }
        write!(f, " failed: {}", self.kind)?;
        if self.at.table.is_some() {
            write!(f, " in {}", self.at)?;
        }
        if self.details.is_empty() { Ok(()) } else { write!(f, ": {}", self.details) }
    }
}

impl std::error::Error for OperationError {}

#[derive(Deserialize)]
struct RawResult {
    uuid: Option<Atom>,
    count: Option<u64>,
    rows: Option<Vec<std::collections::BTreeMap<String, Value>>>,
    error: Option<String>,
    details: Option<String>,
}

/// Reads the result of a `transact` reply. The schema, if known, helps to name the column.
pub fn outcomes(
    json: &[u8],
    transaction: &Transaction,
    schema: Option<&Schema>,
) -> Result<Vec<Outcome>, OutcomeError> {
    let raw: Vec<Option<RawResult>> =
        serde_json::from_slice(json).map_err(OutcomeError::Malformed)?;
    let operations = transaction.operations();
    let failed = raw.iter().enumerate().find_map(|(index, result)| {
        let result = result.as_ref()?;
        let details = result.details.clone().unwrap_or_default();
        Some(failure(index, result.error.as_deref()?, details, operations, schema))
    });
    if let Some(error) = failed {
        return Err(OutcomeError::Failed(Box::new(error)));
    }
    let short = OutcomeError::Short { expected: operations.len(), found: raw.len() };
    let outcomes: Vec<_> = raw.into_iter().flatten().map(Into::into).collect();
    if outcomes.len() == operations.len() { Ok(outcomes) } else { Err(short) }
}

fn failure(
    index: usize,
    word: &str,
    details: String,
    operations: &[Operation],
    schema: Option<&Schema>,
) -> OperationError {
    let operation = operations.get(index);
    let kind = ErrorKind::from(word);
    let told = locate::from_details(&details);
    let at = match operation {
        Some(operation) => locate::from_operation(operation, &kind, schema, told),
        None => told,
    };
    OperationError {
        operation: operation.map(|_| index),
        what: operation.map_or_else(|| "commit".to_owned(), ToString::to_string),
        kind,
        at,
        details,
    }
}

impl From<RawResult> for Outcome {
    fn from(raw: RawResult) -> Self {
        match raw {
            RawResult { uuid: Some(Atom::Uuid(uuid)), .. } => Self::Inserted(uuid),
            RawResult { count: Some(count), .. } => Self::Count(count),
            RawResult { rows: Some(rows), .. } => {
                Self::Rows(rows.into_iter().map(|row| row.into_iter().collect()).collect())
            }
            _ => Self::Done,
        }
    }
}
