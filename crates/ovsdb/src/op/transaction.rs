//! A list of operations that happen together or not at all, and how to build one from typed rows.

use std::borrow::Cow;

use super::{Condition, Mutation, Operation};
use crate::Uuid;
use crate::row::{Fields, Name};
use crate::rows::{Ref, TypedRow};

/// Operations to run atomically (RFC 7047 section 4.1.3).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    purpose: Cow<'static, str>,
    operations: Vec<Operation>,
}

impl Transaction {
    /// An empty transaction. The purpose is for people: errors name it; it is not sent.
    pub fn new(purpose: impl Into<Cow<'static, str>>) -> Self {
        Self { purpose: purpose.into(), operations: Vec::new() }
    }

    /// What it is for.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    /// Its operations in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Appends any operation.
    pub fn push(&mut self, operation: Operation) -> &mut Self {
        self.operations.push(operation);
        self
    }

    /// The same, behind operations that must not fail.
    #[must_use]
    pub fn guarded(mut self, guards: &[Operation]) -> Self {
        self.operations.splice(0..0, guards.iter().cloned());
        self
    }

    /// Inserts a row; the result refers to it in later rows of this transaction.
    pub fn insert<T: TypedRow>(&mut self, row: &T) -> Ref<T> {
        let name = self.insert_fields(T::TABLE, row.fields());
        Ref::named(name)
    }

    /// Inserts an untyped row under a name made here, which later operations can refer to.
    pub fn insert_fields(&mut self, table: impl Into<Name>, row: Fields) -> String {
        let name = format!("row{}", self.operations.len());
        self.operations.push(Operation::Insert {
            table: table.into(),
            row,
            name: Some(name.clone().into()),
            uuid: None,
        });
        name
    }

    /// Sets columns of one row.
    pub fn update(&mut self, table: impl Into<Name>, row: Uuid, fields: Fields) -> &mut Self {
        let conditions = vec![Condition::uuid(row)];
        self.push(Operation::Update { table: table.into(), conditions, row: fields })
    }

    /// Sets some columns of one row to what a typed row says, defaults included.
    pub fn update_columns<T: TypedRow>(&mut self, uuid: Uuid, row: &T, columns: &[&'static str]) {
        let value = |column: &&'static str| Some(((*column).into(), row.field(column)?));
        self.update(T::TABLE, uuid, columns.iter().filter_map(value).collect());
    }

    /// Changes columns of one row relative to what they hold.
    pub fn mutate(
        &mut self,
        table: impl Into<Name>,
        row: Uuid,
        mutations: Vec<Mutation>,
    ) -> &mut Self {
        let conditions = vec![Condition::uuid(row)];
        self.push(Operation::Mutate { table: table.into(), conditions, mutations })
    }

    /// Removes one row.
    pub fn delete(&mut self, table: impl Into<Name>, row: Uuid) -> &mut Self {
        self.push(Operation::Delete { table: table.into(), conditions: vec![Condition::uuid(row)] })
    }

    /// Lets the transaction fail unless this session holds the lock.
    pub fn assert(&mut self, lock: impl Into<Name>) -> &mut Self {
        self.push(Operation::Assert { lock: lock.into() })
    }

    /// Adds a comment to the database's log.
    pub fn comment(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Operation::Comment(text.into()))
    }

    /// The `params` of the `transact` request: the database, then the operations.
    pub fn params(&self, database: &str) -> Vec<u8> {
        let mut json = Vec::with_capacity(64 + self.operations.len() * 192);
        json.push(b'[');
        // A value whose keys are strings always has a JSON form, and a Vec takes all bytes.
        let infallible = "operations have a JSON form";
        serde_json::to_writer(&mut json, database).expect(infallible);
        for operation in &self.operations {
            json.push(b',');
            serde_json::to_writer(&mut json, operation).expect(infallible);
        }
        json.push(b']');
        json
    }
}
