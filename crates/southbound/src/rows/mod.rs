//! The OVSDB half: wanted bridges, ports, interfaces, queues and settings go in; the database
//! becomes equal, and stays equal.
//!
//! The pure part holds what is wanted, by owner, beside a mirror of the rows. Whatever may make the
//! two differ (a new plan, a change of a row, a whole database seen anew) marks the places that it
//! is about, and only marked places are compared, by name. So start, reconnect, a lost database and
//! drift are one path: *mark, compare, send*.
//!
//! [`RowReconciler`] is the task that follows and sends. It changes nothing of others: a row is ours
//! by a mark in its `external_ids`, a column or key by being wanted ([`Ownership`]). [`Restore`]
//! keeps a switch that starts from forwarding before its flows are back.

mod desired;
mod diff;
mod driver;
mod error;
mod fight;
mod handle;
mod item;
mod mirror;
mod ownership;
mod plan;
mod restore;
mod status;
mod tickets;
mod wants;

pub use crate::flows::Closed;
pub use driver::Options;
pub use error::{ChangeError, PutError, Trouble};
pub use handle::{RowReconciler, Settling};
pub use mirror::monitor;
pub use ownership::Ownership;
pub use plan::{
    Bridge, Interface, Owner, Plan, Port, Qos, Queue, Setting, SettingColumn, Strings, Transaction,
    Wait,
};
pub use restore::{Replays, Restore, RestoreOptions};
pub use status::{Stats, Status};
pub use tickets::{Applied, InterfaceState};
