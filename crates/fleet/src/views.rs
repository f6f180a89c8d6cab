//! What the server needs of the controller: views, tokens, and somebody who hears of the nodes.

use crate::NodeConfiguration;
use crate::report::{Applied, Report};
use crate::token::{JoinRefused, Redemption};
use crate::wire::{Digest, Position};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use osier_model::{Fabric, NodeName};
use osier_span::{Shared, Step};
use std::sync::Arc;
use thiserror::Error;

/// What a follower of a view hears.
#[derive(Debug, Clone)]
pub enum Event {
    /// All of it: the start, or more happened than was kept for it.
    Snapshot {
        /// Of when.
        revision: u64,
        /// What holds for the whole cluster.
        fabric: Arc<Fabric>,
        /// Each object once.
        objects: Vec<Arc<Shared>>,
        /// Of all of it.
        digest: Digest,
    },
    /// What happened since; nothing if it only learns the revision.
    Update {
        /// Up to when.
        revision: u64,
        /// In order; an object may come several times.
        steps: Vec<Step>,
        /// Of the view after it.
        digest: Digest,
    },
}

/// There is no such node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no node {0}")]
pub struct UnknownNode(pub NodeName);

/// Views of nodes.
pub trait Views: Send + Sync + 'static {
    /// Who leads: grows with each leader.
    fn term(&self) -> u64;

    /// Which history of the model revisions are of.
    fn epoch(&self) -> u64;

    /// A node's view, from where the node is. The stream is pulled as fast as the node can hear;
    /// it never holds more than a cursor. It ends when the node is removed.
    fn follow(
        &self,
        node: &NodeName,
        from: Option<Position>,
    ) -> Result<BoxStream<'static, Event>, UnknownNode>;
}

/// Hears of the nodes.
pub trait Reports: Send + Sync + 'static {
    /// A node's stream has begun.
    fn connected(&self, node: &NodeName, agent: &AgentVersion);
    /// A node has made its view real up to a revision.
    fn applied(&self, node: &NodeName, applied: Applied);
    /// A node told of itself.
    fn report(&self, node: &NodeName, report: Report);
    /// It does not follow, for it has seen a leader of a later term: our store may be an old copy.
    fn later_term(&self, _node: &NodeName, _term: u64) {}
    /// Its stream has ended.
    fn disconnected(&self, node: &NodeName, why: &str);
}

/// What an agent says of itself first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentVersion {
    /// The protocol's version that is spoken.
    pub version: u32,
    /// What it can do.
    pub features: u64,
    /// For people.
    pub software: String,
    /// Where it is in the history of its view.
    pub position: Option<Position>,
}

/// Keeps tokens.
pub trait Joins: Send + Sync + 'static {
    /// Redeems a token, once: the store must do it in one transaction, with
    /// [`TokenRecord::redeem`](crate::TokenRecord::redeem). Tells how the node's network is made.
    fn redeem<'a>(
        &'a self,
        redemption: &'a Redemption,
    ) -> BoxFuture<'a, Result<NodeConfiguration, JoinRefused>>;
}
