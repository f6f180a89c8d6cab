//! Transactions: what must hold, and what is then done, whole or not at all.

use crate::change::{Entry, Event};
use crate::error::Conflict;
use crate::key::Key;
use crate::position::Revision;
use bytes::Bytes;
use std::collections::HashSet;
use thiserror::Error;

/// Operations that are made together if all conditions hold, under one revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// What is done then. A key may stand here once.
    pub operations: Vec<Operation>,
}

/// What must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The key is there.
    Exists(Key),
    /// The key is not there.
    Absent(Key),
    /// The key is there, and was changed last by this revision.
    Unchanged(Key, Revision),
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Stores a document, whether there was one or not.
    Put(Key, Bytes),
    /// Deletes a document. One that is not there is no error, and no event.
    Delete(Key),
}

/// A transaction that can never be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransactionError {
    /// One key, two operations.
    #[error("{0} stands in two operations of one transaction")]
    Twice(Key),
    /// Too many conditions or operations.
    #[error("a transaction of {found} conditions and operations is too long: at most {max}")]
    TooLong {
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// A value that is too large.
    #[error("a value of {found} bytes for {key} is too large: at most {max}")]
    ValueTooLarge {
        /// For which key.
        key: Key,
        /// Its size.
        found: usize,
        /// What fits.
        max: usize,
    },
    /// Values that are too large together.
    #[error("values of {found} bytes are too large for one transaction: at most {max}")]
    TooLarge {
        /// Their size.
        found: usize,
        /// What fits.
        max: usize,
    },
}

// === impl Transaction ===

impl Transaction {
    /// The most conditions and operations together.
    pub const MAX_STEPS: usize = 4096;
    /// The largest value.
    pub const MAX_VALUE: usize = 1 << 20;
    /// The most bytes of all values together.
    pub const MAX_BYTES: usize = 8 << 20;

    /// One that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Adds a document to store.
    #[must_use]
    pub fn put(mut self, key: Key, value: impl Into<Bytes>) -> Self {
        self.operations.push(Operation::Put(key, value.into()));
        self
    }

    /// Adds a document to delete.
    #[must_use]
    pub fn delete(mut self, key: Key) -> Self {
        self.operations.push(Operation::Delete(key));
        self
    }

    /// Bytes of all values.
    pub(crate) fn size(&self) -> usize {
        self.operations.iter().map(|o| o.value().map_or(0, Bytes::len)).sum()
    }

    /// Checks what can be checked without a store.
    pub fn validate(&self) -> Result<(), TransactionError> {
        let (found, max) = (self.conditions.len() + self.operations.len(), Self::MAX_STEPS);
        if found > max {
            return Err(TransactionError::TooLong { found, max });
        }
        let mut keys = HashSet::new();
        for operation in &self.operations {
            let key = operation.key();
            if !keys.insert(key) {
                return Err(TransactionError::Twice(key.clone()));
            }
            let (found, max) = (operation.value().map_or(0, Bytes::len), Self::MAX_VALUE);
            if found > max {
                return Err(TransactionError::ValueTooLarge { key: key.clone(), found, max });
            }
        }
        match (self.size(), Self::MAX_BYTES) {
            (found, max) if found > max => Err(TransactionError::TooLarge { found, max }),
            _ => Ok(()),
        }
    }
}

// === impl Condition ===

impl Condition {
    /// Of which key.
    pub fn key(&self) -> &Key {
        match self {
            Self::Exists(key) | Self::Absent(key) | Self::Unchanged(key, _) => key,
        }
    }

    fn holds(&self, current: Option<&Entry>) -> bool {
        match self {
            Self::Exists(_) => current.is_some(),
            Self::Absent(_) => current.is_none(),
            Self::Unchanged(_, revision) => current.is_some_and(|e| e.modified == *revision),
        }
    }
}

// === impl Operation ===

impl Operation {
    /// On which key.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    fn value(&self) -> Option<&Bytes> {
        match self {
            Self::Put(_, value) => Some(value),
            Self::Delete(_) => None,
        }
    }
}

/// Checks documents that are to replace all others.
pub(crate) fn check_documents(documents: &[(Key, Bytes)]) -> Result<(), TransactionError> {
    let mut keys = HashSet::new();
    for (key, value) in documents {
        if !keys.insert(key) {
            return Err(TransactionError::Twice(key.clone()));
        }
        Transaction::new().put(key.clone(), value.clone()).validate()?;
    }
    Ok(())
}

/// The documents of a backend, as a transaction sees and changes them.
pub(crate) trait Objects {
    /// How access fails.
    type Error;
    fn get(&self, key: &Key) -> Result<Option<Entry>, Self::Error>;
    fn put(&mut self, key: &Key, entry: &Entry) -> Result<(), Self::Error>;
    fn remove(&mut self, key: &Key) -> Result<(), Self::Error>;
}

/// Makes a transaction. On a conflict nothing was changed; without events there was nothing to do,
/// and the revision is not used up.
pub(crate) fn apply<O: Objects>(
    objects: &mut O,
    transaction: &Transaction,
    revision: Revision,
) -> Result<Result<Vec<Event>, Conflict>, O::Error> {
    for (index, condition) in transaction.conditions.iter().enumerate() {
        let current = objects.get(condition.key())?;
        if !condition.holds(current.as_ref()) {
            return Ok(Err(Conflict { index, condition: condition.clone(), current }));
        }
    }
    let mut events = Vec::with_capacity(transaction.operations.len());
    for operation in &transaction.operations {
        let key = operation.key().clone();
        let before = objects.get(&key)?;
        let now = operation.value().map(|value| Entry {
            value: value.clone(),
            created: before.as_ref().map_or(revision, |e| e.created),
            modified: revision,
        });
        match &now {
            Some(entry) => objects.put(&key, entry)?,
            None if before.is_some() => objects.remove(&key)?,
            None => continue,
        }
        events.push(Event { key, before, now });
    }
    Ok(Ok(events))
}
