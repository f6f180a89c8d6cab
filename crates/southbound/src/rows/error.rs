//! Why a plan is not accepted, or not in the database.

use super::plan::Owner;
use crate::flows::Closed;
use osier_ovsdb::Uuid;
use osier_ovsdb::error::OperationError;
use std::sync::Arc;
use thiserror::Error;

/// Why plans were not accepted. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PutError {
    /// Two want different things in one place.
    #[error("{owner} and {other} want different things of {place}")]
    Clash {
        /// Who wants it.
        owner: Owner,
        /// Who else does; may be the same.
        other: Owner,
        /// The place.
        place: String,
    },
    /// Two ports want one interface.
    #[error(
        "{owner} wants interface {interface:?} in port {port:?}, but it is wanted in {other:?}"
    )]
    InterfaceClash {
        /// Who wants it.
        owner: Owner,
        /// The interface.
        interface: String,
        /// Where.
        port: String,
        /// Where else.
        other: String,
    },
    /// A port has an interface twice.
    #[error("{owner} wants interface {interface:?} twice in port {port:?}")]
    Twice {
        /// Who wants it.
        owner: Owner,
        /// The port.
        port: String,
        /// The interface.
        interface: String,
    },
    /// A port has no interface.
    #[error("{owner} wants port {port:?} without an interface")]
    NoInterface {
        /// Who wants it.
        owner: Owner,
        /// The port.
        port: String,
    },
    /// Something has an empty name.
    #[error("{owner} wants something without a name: {place}")]
    NoName {
        /// Who wants it.
        owner: Owner,
        /// What.
        place: String,
    },
    /// A key cannot be ours.
    #[error("{owner} wants the key {key:?} in {column} of {place}: {why}")]
    Key {
        /// Who wants it.
        owner: Owner,
        /// The row.
        place: String,
        /// The column.
        column: &'static str,
        /// The key.
        key: String,
        /// Why not.
        why: &'static str,
    },
}

/// Why something wanted is not so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Trouble {
    /// Somebody else's row has its name. It is made when that one goes.
    #[error("{owner} wants {place}, but row {row} of table {table}, named {name:?}, is not ours")]
    Conflict {
        /// Who wants it.
        owner: Owner,
        /// What.
        place: String,
        /// The table of the other's row.
        table: &'static str,
        /// The name of the other's row.
        name: String,
        /// The other's row.
        row: Uuid,
    },
    /// Somebody else set the key to another value. It is set when that one goes.
    #[error(
        "{owner} wants {place} to be {wanted:?}, but somebody else made it {found:?} (row {row})"
    )]
    Taken {
        /// Who wants it.
        owner: Owner,
        /// The setting.
        place: String,
        /// Its value.
        wanted: String,
        /// The other's value.
        found: String,
        /// The row of the switch.
        row: Uuid,
    },
    /// Its bridge is not there. It is made when that one comes.
    #[error("{owner} wants {place} on bridge {bridge:?}, which does not exist")]
    NoBridge {
        /// Who wants it.
        owner: Owner,
        /// The port.
        place: String,
        /// The bridge.
        bridge: String,
    },
    /// Nobody wants the bridge, but a port on it must stay. It goes with that one.
    #[error("{place} is kept: port {port:?} on it (row {row}) is not ours to delete, or is wanted")]
    Kept {
        /// The bridge.
        place: String,
        /// The port.
        port: String,
        /// The port's row.
        row: Uuid,
    },
    /// The database refused it. It is tried again with its owner's next plan, or when its rows
    /// change.
    #[error("the database refused {place} of {owner}")]
    Refused {
        /// Who wants it.
        owner: Owner,
        /// What.
        place: String,
        /// What the database said: table, column and row.
        #[source]
        error: OperationError,
    },
    /// The switch could not make the interface.
    #[error("the switch could not make interface {interface:?} of {owner}: {error}")]
    Interface {
        /// Who wants it.
        owner: Owner,
        /// The interface.
        interface: String,
        /// What the switch said.
        error: String,
    },
}

/// What became of a change that is not done.
#[derive(Debug, Clone, Error)]
pub enum ChangeError {
    /// It was not accepted.
    #[error(transparent)]
    Rejected(#[from] PutError),
    /// It was accepted, and some of it could not be done.
    #[error(transparent)]
    Trouble(#[from] Arc<Trouble>),
    /// The reconciler has ended.
    #[error(transparent)]
    Closed(#[from] Closed),
}
