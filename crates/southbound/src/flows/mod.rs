//! The OpenFlow half: wanted Geneve option maps, meters, groups and flows go in; the switch
//! becomes equal, and stays equal.
//!
//! [`Desired`] is the pure part. It holds what is wanted, by owner, and next to each item what is
//! believed to be on the switch; whatever makes the two differ (a new plan, a read-back, news of
//! somebody else's change) marks that item, and only marked items are sent. So start, reconnect,
//! restart and drift are one path: *read, mark, send*.
//!
//! [`FlowReconciler`] is the task that reads and sends. It changes nothing of others: what is ours
//! is told apart by [`Ownership`].

mod apply;
mod batch;
mod desired;
mod diff;
mod drift;
mod driver;
mod error;
mod handle;
mod item;
mod ledger;
mod owner;
mod ownership;
mod reading;
mod status;
#[cfg(test)]
mod tests;
mod tickets;
mod transact;

pub use apply::SyncError;
pub use batch::{Batch, Change, Changes};
pub use desired::Desired;
pub use driver::{Options, SessionSource};
pub use error::{ChangeError, Closed, PutError, Trouble};
pub use handle::{FlowReconciler, Settling};
pub use owner::{Owner, Plan, Transaction};
pub use ownership::{CookieClass, Ownership};
pub use status::{Stats, Status};
