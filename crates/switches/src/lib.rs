//! Switches without an agent: Open vSwitch that dials its manager and its controller, or listens for
//! them, and knows nothing else of Osier.
//!
//! - [`Doors`] lets switches in, by address, or dials them; each is the node that has its address.
//! - Each node has a task that does what an agent would: it follows the node's view, compiles it, and
//!   lets the reconcilers of `osier-southbound` make the switch so. It owns the switch's sessions.
//! - Which wire is which port of the model is said by `external_ids`, in all forms that COE's plugins
//!   have had. A wire that claims what is not its node's is refused, and that is told.
//!
//! Nothing here knows where the model is kept; see [`Cluster`].

mod board;
mod bridge;
mod claim;
mod database;
mod doors;
mod driver;
mod fence;
mod prepare;
mod stale;
#[doc(hidden)]
pub mod trial;
mod wires;

pub use doors::{BindError, Doors, Options};
pub use osier_answers::{Family, LeaseEvent};
pub use osier_ovsdb::session::TlsFiles;

use osier_model::{Mac, NodeName, PortKey};
use std::net::IpAddr;

/// What nodes without an agent say of their software.
pub const SOFTWARE: &str = "none: the controller drives the switch";

/// What is to be known of the model, and who hears what switches say of it.
pub trait Cluster: Send + Sync + 'static {
    /// The node that has an address.
    fn node_at(&self, address: IpAddr) -> Option<NodeName>;

    /// Whether an agent serves a node. Then nobody else may.
    fn has_agent(&self, node: &NodeName) -> bool;

    /// Where a port is, of whichever node.
    fn place_of(&self, port: &PortKey) -> Option<NodeName>;

    /// A switch has a port, with this Ethernet address if it says one.
    fn attached(&self, node: &NodeName, port: &PortKey, mac: Option<Mac>);

    /// A switch has a port no more.
    fn detached(&self, node: &NodeName, port: &PortKey);

    /// All that a switch has was told. False: it is away, and nothing is known of it.
    fn known(&self, node: &NodeName, is_known: bool);

    /// A client on a switch asked for its addresses: what became of it.
    fn leased(&self, family: Family, event: LeaseEvent);

    /// A switch, or a wire of it, was refused.
    fn refused(&self, node: Option<&NodeName>, why: &str);
}
