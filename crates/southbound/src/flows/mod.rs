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
//!
//! ```no_run
//! use osier_openflow::session::{Backoff, Dialer, Options as SessionOptions};
//! use osier_southbound::flows::{CookieClass, FlowReconciler, Options, Ownership, Plan};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let ownership = Ownership {
//!     cookies: CookieClass { value: 0xa5 << 56, mask: 0xff << 56 },
//!     learned: None,
//!     groups: 1000..=1999,
//!     meters: 1000..=1999,
//!     tun_metadata: 0..=7,
//! };
//! let endpoint = "unix:/run/openvswitch/br-int.mgmt".parse()?;
//! let dialer = Dialer::new(endpoint, SessionOptions::default(), Backoff::default());
//! let switch = FlowReconciler::start(dialer, ownership, Options::default());
//! let flow = "cookie=0xa500000000000001,table=0,priority=10,in_port=1,actions=output:2".parse()?;
//! let change = switch.put("a wire", Plan::flows([flow])).await?;
//! // All that is wanted from the start is in: what else of ours is there may go.
//! switch.resume().await?;
//! change.await?;
//! # Ok(()) }
//! ```

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
pub use driver::{Options, Questions, SessionSource};
pub use error::{ChangeError, Closed, PutError, Trouble};
pub use handle::{FlowReconciler, Settling};
pub use owner::{Owner, Plan, Transaction};
pub use ownership::{CookieClass, Ownership};
pub use status::{Stats, Status};
